"""Thresholds from an embedding space's calibration, and the profiles that use them, over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2
from citewire.retriever.v1.calibration_pb2 import Calibration

from gateway_fake_servers import running_fakes
from gateway_fakes import completed, delta, started
from gateway_process import Gateway, running_gateway

if TYPE_CHECKING:
    from databases import Database

QUESTION: dict[str, Any] = {"question": "How much did revenue grow?", "document_ids": [7], "stream": False}


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        yield running


async def ask(gateway: Gateway, **more: object) -> dict[str, Any]:
    response = await gateway.http.post("/v1/chat", json=QUESTION | more)
    assert response.status_code == 200, response.text
    return response.json()


async def test_the_library_uses_the_spaces_threshold_by_default(gateway: Gateway) -> None:
    await ask(gateway, profile="library")
    await ask(gateway, profile="library", min_score=0.4)
    await ask(gateway, profile="documents")
    asked = [(request.min_score, request.min_score_calibrated) for request in gateway.fakes.retriever.searches]
    assert asked == [(0.15, True), (0.4, False), (0.0, False)]
    shown = (await gateway.http.get("/v1/profiles")).json()["profiles"]
    assert [entry["name"] for entry in shown if entry["min_score_calibrated"]] == ["library"]


async def test_an_own_profile_with_a_minimum_score_uses_it(gateway: Gateway) -> None:
    for name, changes in (("as-it-is", {"top_k": 5}), ("strict", {"min_score": 0.5})):
        stored = await gateway.http.put(f"/v1/profiles/{name}", json={"base": "library", "changes": changes})
        assert stored.status_code == 200
        await ask(gateway, profile=name)
    asked = [(request.min_score, request.min_score_calibrated) for request in gateway.fakes.retriever.searches]
    assert asked == [(0.15, True), (0.5, False)]


async def test_the_generator_gets_the_threshold_of_the_searched_space(gateway: Gateway) -> None:
    retriever = gateway.fakes.retriever
    policies = gateway.fakes.generator.requests
    await ask(gateway)
    assert not policies[-1].policy.HasField("answerable_threshold")
    retriever.calibration = Calibration(relevance_threshold=0.2)
    await ask(gateway)
    assert not policies[-1].policy.HasField("answerable_threshold")
    retriever.calibration = Calibration(answerable_threshold=0.0)
    await ask(gateway)
    assert policies[-1].policy.HasField("answerable_threshold")
    retriever.calibration = Calibration(answerable_threshold=0.61)
    await ask(gateway)
    assert policies[-1].policy.answerable_threshold == 0.61
    # Whole items come without similarities, to which the threshold applies.
    retriever.path = retriever_pb2.CONTEXT_PATH_FOCUSED
    await ask(gateway, profile="library")
    assert not policies[-1].policy.HasField("answerable_threshold")


async def test_a_model_of_the_profiles_own_has_another_space(database: Database) -> None:
    async with (
        running_fakes() as fakes,
        running_gateway(database, fakes, simple_embedding_model="other") as gateway,
    ):
        fakes.retriever.calibration = Calibration(answerable_threshold=0.61)
        await ask(gateway, profile="simple")
        assert fakes.retriever.searches[-1].space.model == "other"
        assert not fakes.generator.requests[-1].policy.HasField("answerable_threshold")


@pytest.mark.parametrize(("score", "shown"), [(0.73, {"answerable_score": 0.73}), (None, {})])
async def test_the_answers_score_is_shown(gateway: Gateway, score: float | None, shown: dict[str, float]) -> None:
    async def script(request: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started(*((index + 1, index) for index in range(len(request.passages))))
        yield delta("Nothing.")
        yield completed(not_found=True, answerable_score=score)

    gateway.fakes.generator.script = script
    body = await ask(gateway)
    assert {name: value for name, value in body.items() if name == "answerable_score"} == shown
    assert body["not_found"] is True
