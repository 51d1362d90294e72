"""`/v1/profiles`: an organisation's own profiles, and single fields that a request changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2

from gateway_fake_servers import running_fakes
from gateway_process import Gateway, frames_of, rows, running_gateway

if TYPE_CHECKING:
    from databases import Database

QUESTION = {"question": "What?"}
OWN: dict[str, Any] = {
    "base": "grounded",
    "description": "For our support team.",
    "changes": {"top_k": 4, "mode": "dense", "rerank": False, "answer_language": "Spanish", "min_score": 0.2},
}


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        yield running


async def test_an_own_profile_is_stored_listed_and_used(gateway: Gateway, database: Database) -> None:
    put = await gateway.http.put("/v1/profiles/support", json=OWN)
    assert put.status_code == 200
    assert (put.json()["name"], put.json()["version"], put.json()["changes"]) == ("support", 1, OWN["changes"])
    listed = (await gateway.http.get("/v1/profiles")).json()["profiles"]
    assert [entry["name"] for entry in listed][-2:] == ["grounded", "support"]
    shown = (await gateway.http.get("/v1/profiles/support")).json()
    assert (shown["top_k"]["default"], shown["mode"], shown["rerank_candidates"]) == (4, "dense", None)

    await gateway.http.post("/v1/chat", json={**QUESTION, "profile": "support"})
    search = gateway.fakes.retriever.searches[0]
    assert (search.mode, search.top_k, search.min_score) == (retriever_pb2.SEARCH_MODE_DENSE, 4, 0.2)
    assert gateway.fakes.embedder.reranked == []
    assert gateway.fakes.generator.requests[0].policy.answer_language == "Spanish"
    assert rows(database, "SELECT profile FROM chat.exchanges") == [("support",)]


async def test_each_change_is_a_version_and_earlier_ones_can_be_named(gateway: Gateway) -> None:
    await gateway.http.put("/v1/profiles/support", json=OWN)
    second = await gateway.http.put("/v1/profiles/support", json={"base": "documents"})
    assert second.json()["version"] == 2
    assert (await gateway.http.get("/v1/profiles/support")).json()["context_format"] == "numbered"
    assert (await gateway.http.get("/v1/profiles/support@1")).json()["answer_language"] == "Spanish"
    assert (await gateway.http.get("/v1/profiles/support@9")).status_code == 404
    assert (await gateway.http.delete("/v1/profiles/support")).status_code == 204
    assert (await gateway.http.get("/v1/profiles/support")).status_code == 404
    assert (await gateway.http.delete("/v1/profiles/support")).status_code == 404
    assert (await gateway.http.put("/v1/profiles/support", json=OWN)).json()["version"] == 4


async def test_a_built_in_profile_cannot_be_deleted(gateway: Gateway) -> None:
    refused = await gateway.http.delete("/v1/profiles/documents")
    assert refused.status_code == 404
    assert refused.json()["detail"] == "the organisation has no profile 'documents' of its own; it has: none"
    assert (await gateway.http.get("/v1/profiles/documents")).status_code == 200


async def test_simultaneous_changes_all_become_versions(gateway: Gateway) -> None:
    made = await asyncio.gather(*(gateway.http.put("/v1/profiles/busy", json=OWN) for _ in range(3)))
    assert sorted(entry.json()["version"] for entry in made) == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "body", "status", "field"),
    [
        ("documents", OWN, 409, None),
        ("Support", OWN, 422, "name"),
        ("support", {"base": "nonsense"}, 422, "base"),
        ("support", {}, 422, "base"),
        ("support", {"base": "grounded", "changes": {"top_k": 51}}, 422, "changes.top_k"),
        ("support", {"base": "documents", "changes": {"condense": True}}, 422, "changes.condense"),
        ("support", {"base": "documents", "changes": {"speculate": True}}, 422, "changes.speculate"),
        ("support", {"base": "grounded", "changes": {"min_score": 2}}, 422, "changes.min_score"),
        ("support", {"base": "grounded", "changes": {"strategy": "guess"}}, 422, "changes.strategy"),
        (
            "support",
            {"base": "library", "changes": {"input_tokens": {"pro": 150_001}}},
            422,
            "changes.input_tokens.pro",
        ),
        (
            "support",
            {"base": "grounded", "changes": {"min_score_calibrated": True}},
            422,
            "changes.min_score_calibrated",
        ),
        ("support", {"base": "grounded", "changes": {"instructions": "简" * 6_000}}, 422, "changes.instructions"),
        ("support", {"base": "grounded", "changes": {"answer_language": "a\nb"}}, 422, "changes.answer_language"),
    ],
)
async def test_invalid_profiles_are_refused(
    gateway: Gateway, name: str, body: dict[str, Any], status: int, field: str | None
) -> None:
    response = await gateway.http.put(f"/v1/profiles/{name}", json=body)
    assert response.status_code == status
    assert [entry["field"] for entry in response.json()["errors"]] == ([field] if field else [])
    assert len((await gateway.http.get("/v1/profiles")).json()["profiles"]) == 6


async def test_a_request_changes_single_fields(gateway: Gateway) -> None:
    options = {"mode": "hybrid", "assess": True, "marker_style": "ref", "instructions": "Be brief."}
    frames = frames_of((await gateway.http.post("/v1/chat", json={**QUESTION, "options": options})).text)
    assert gateway.fakes.retriever.searches[0].mode == retriever_pb2.SEARCH_MODE_HYBRID
    policy = gateway.fakes.generator.requests[0].policy
    assert policy.marker_style == generator_pb2.MARKER_STYLE_REF
    assert policy.instructions == "Be brief."
    assert len(gateway.fakes.generator.assessed) == 1
    # This profile doesn't show the assessment: it is only stored with the message.
    assert "assessment" not in [frame.event for frame in frames]
    wrong = await gateway.http.post("/v1/chat", json={**QUESTION, "options": {"top_k": 31}})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "options.top_k")


async def test_a_profile_that_can_only_fail_is_refused_when_it_is_saved(gateway: Gateway) -> None:
    body = {"base": "library", "changes": {"mode": "lexical"}}
    response = await gateway.http.put("/v1/profiles/words", json=body)
    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "changes.mode")
    asked = {"question": "x", "profile": "library", "options": {"mode": "lexical"}}
    response = await gateway.http.post("/v1/chat", json=asked)
    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "options.mode")


async def test_a_library_of_a_tenants_own_is_read_whole_within_its_budget(gateway: Gateway) -> None:
    changes = {"strategy": "library", "input_tokens": {"pro": 20_000}, "min_score": 0.2, "min_score_calibrated": True}
    put = await gateway.http.put("/v1/profiles/small", json={"base": "grounded", "changes": changes})
    assert (put.status_code, put.json()["changes"]) == (200, changes)
    assert put.json()["input_tokens"]["pro"] == 20_000
    gateway.fakes.retriever.path = retriever_pb2.CONTEXT_PATH_LONG_CONTEXT
    response = await gateway.http.post("/v1/chat", json={**QUESTION, "profile": "small", "stream": False})
    assert response.status_code == 200, response.text
    assert gateway.fakes.retriever.plans[-1].strategy == retriever_pb2.STRATEGY_LIBRARY
    assert gateway.fakes.retriever.plans[-1].max_tokens == 18_500 - 2_500  # minus the budget for history
    assert not gateway.fakes.retriever.searches
    gateway.fakes.retriever.path = retriever_pb2.CONTEXT_PATH_SEMANTIC
    await gateway.http.post("/v1/chat", json={**QUESTION, "profile": "small", "stream": False})
    search = gateway.fakes.retriever.searches[-1]
    assert (search.min_score, search.min_score_calibrated) == (0.2, True)
