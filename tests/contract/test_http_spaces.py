"""`/v1/spaces` over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
from citewire.common.v1 import common_pb2
from citewire.embedder.v1 import embedder_pb2
from citewire.retriever.v1 import corpus_pb2
from citewire.retriever.v1.calibration_pb2 import SpaceScale

from citewire_accounts.tenants.identity import IdentityStore, make_key
from citewire_kit.postgres import open_pool
from gateway_fake_servers import running_fakes
from gateway_process import Gateway, running_gateway

if TYPE_CHECKING:
    from databases import Database


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        yield running


async def test_spaces_report_their_progress(gateway: Gateway) -> None:
    space = common_pb2.EmbeddingSpace(model="new", revision="r2", dimensions=768)
    gateway.fakes.corpus.spaces = [
        corpus_pb2.SpaceInfo(
            space=space,
            role=corpus_pb2.SPACE_ROLE_NEXT,
            documents=10,
            documents_filled=7,
            documents_failed=1,
            chunks=40,
            chunks_filled=33,
        )
    ]
    response = await gateway.http.get("/v1/spaces")
    assert response.status_code == 200
    assert response.json() == {
        "spaces": [
            {
                "model": "new",
                "revision": "r2",
                "dimensions": 768,
                "role": "next",
                "items": 10,
                "with_vectors": 7,
                "missing": 3,
                "given_up": 1,
                "chunks": 40,
                "chunks_with_vectors": 33,
                "calibration": None,
                "scale": None,
            }
        ],
        "next_page_token": "",
    }


async def test_an_organisation_without_documents_has_none(gateway: Gateway) -> None:
    response = await gateway.http.get("/v1/spaces")
    assert response.json() == {"spaces": [], "next_page_token": ""}


SPACE = {"model": "new", "revision": "r2", "dimensions": 768}


def one_space(gateway: Gateway) -> None:
    space = common_pb2.EmbeddingSpace(model="new", revision="r2", dimensions=768)
    gateway.fakes.corpus.spaces = [corpus_pb2.SpaceInfo(space=space, role=corpus_pb2.SPACE_ROLE_LIVE)]


async def test_the_similarity_scale_is_shown_once_it_is_measured(gateway: Gateway) -> None:
    one_space(gateway)
    assert (await gateway.http.get("/v1/spaces")).json()["spaces"][0]["scale"] is None
    scale = SpaceScale(unrelated=0.5, deviation=0.25, related=6.5)
    gateway.fakes.corpus.spaces[0].scale.CopyFrom(scale)
    shown = (await gateway.http.get("/v1/spaces")).json()["spaces"][0]["scale"]
    assert shown == {"unrelated": 0.5, "deviation": 0.25, "related": 6.5}


async def test_a_calibration_is_stored_shown_and_removed(gateway: Gateway) -> None:
    one_space(gateway)
    expected = {"relevance_threshold": 0.21, "dense_weight": 0, "report": {"questions": 1200, "sets": ["mine"]}}
    response = await gateway.http.put("/v1/spaces/calibration", json={"space": SPACE, "calibration": expected})
    assert response.status_code == 200
    assert response.json()["calibration"] == {
        "relevance_threshold": 0.21,
        "answerable_threshold": None,
        "dense_weight": 0.0,
        "off_topic_threshold": None,
        "measured_at": "2026-01-02T03:04:05Z",
        "report": {"questions": 1200, "sets": ["mine"]},
    }
    assert (await gateway.http.get("/v1/spaces")).json()["spaces"] == [response.json()]
    removed = await gateway.http.put("/v1/spaces/calibration", json={"space": SPACE, "calibration": None})
    assert (removed.status_code, removed.json()["calibration"]) == (200, None)
    assert not gateway.fakes.corpus.spaces[0].HasField("calibration")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"space": SPACE}, "calibration"),
        ({"calibration": None}, "space"),
        ({"space": SPACE | {"dimensions": 0}, "calibration": None}, "space.dimensions"),
        ({"space": SPACE | {"model": ""}, "calibration": None}, "space.model"),
        ({"space": SPACE, "calibration": {"relevance_threshold": 1.5}}, "calibration.relevance_threshold"),
        ({"space": SPACE, "calibration": {"answerable_threshold": "0.5"}}, "calibration.answerable_threshold"),
        ({"space": SPACE, "calibration": {"dense_weight": -0.1}}, "calibration.dense_weight"),
        ({"space": SPACE, "calibration": {"report": []}}, "calibration.report"),
        ({"space": SPACE, "calibration": {"threshold": 0.1}}, "calibration.threshold"),
    ],
)
async def test_wrong_calibrations_name_the_field(gateway: Gateway, body: dict[str, object], field: str) -> None:
    one_space(gateway)
    response = await gateway.http.put("/v1/spaces/calibration", json=body)
    assert response.status_code == 422
    assert [error["field"] for error in response.json()["errors"]] == [field]


async def test_an_unknown_space_cannot_be_calibrated(gateway: Gateway) -> None:
    response = await gateway.http.put("/v1/spaces/calibration", json={"space": SPACE, "calibration": {}})
    assert (response.status_code, response.json()["reason"]) == (404, "SPACE_NOT_FOUND")


async def test_members_may_not_calibrate(database: Database) -> None:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as gateway:
        one_space(gateway)
        pool = await open_pool(database.dsn("citewire_chat"), max_size=1, name="test")
        store = IdentityStore(pool)
        # The first user of an organisation owns it.
        for user, status in (("ana", 200), ("bob", 403)):
            key = make_key()
            await store.ensure_user("acme", user, "pro")
            await store.add_key("acme", user, "test", key)
            headers = {"Authorization": f"Bearer {key.text}"}
            body = {"space": SPACE, "calibration": {"relevance_threshold": 0.3}}
            response = await gateway.http.put("/v1/spaces/calibration", json=body, headers=headers)
            assert response.status_code == status, user
            listed = (await gateway.http.get("/v1/spaces", headers=headers)).json()["spaces"]
            assert listed[0]["calibration"]["relevance_threshold"] == 0.3
        await pool.close()


OLD = common_pb2.EmbeddingSpace(model="old", revision="r1", dimensions=384)
NEW = common_pb2.EmbeddingSpace(model="new", revision="r2", dimensions=768)
SMALL = common_pb2.EmbeddingSpace(model="new", revision="r2", dimensions=256)


def offer(gateway: Gateway, *spaces: common_pb2.EmbeddingSpace) -> None:
    """Gives the embedder a rerank model, and embedding models with these spaces."""
    rerank = common_pb2.EmbeddingSpace(model="rerank", revision="1")
    gateway.fakes.embedder.models = [
        embedder_pb2.Model(space=rerank, capability=embedder_pb2.CAPABILITY_RERANK),
        *(embedder_pb2.Model(space=space, capability=embedder_pb2.CAPABILITY_EMBED) for space in spaces),
    ]


async def test_a_space_is_prepared_by_its_models_name(gateway: Gateway) -> None:
    offer(gateway, OLD, NEW)
    response = await gateway.http.post("/v1/spaces:prepare", json={"space": {"model": "new"}})
    assert response.status_code == 200, response.text
    body = response.json()
    assert (body["model"], body["revision"], body["dimensions"], body["role"]) == ("new", "r2", 768, "next")
    assert body["missing"] == 10
    assert gateway.fakes.corpus.prepared == [NEW]


async def test_a_space_named_in_full_is_not_looked_up(gateway: Gateway) -> None:
    """It may belong to the organisation's own provider, which isn't in the embedder's list."""
    assert (await gateway.http.post("/v1/spaces:prepare", json={"space": SPACE})).status_code == 200
    assert gateway.fakes.corpus.prepared == [NEW]


async def test_an_ambiguous_model_must_be_named_in_full(gateway: Gateway) -> None:
    offer(gateway, NEW, SMALL)
    response = await gateway.http.post("/v1/spaces:prepare", json={"space": {"model": "new"}})
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "space"
    assert "768" in response.json()["detail"]
    assert "256" in response.json()["detail"]
    exact = {"space": {"model": "new", "dimensions": 256}}
    assert (await gateway.http.post("/v1/spaces:prepare", json=exact)).status_code == 200
    assert gateway.fakes.corpus.prepared == [SMALL]


@pytest.mark.parametrize("model", ["unknown", "rerank"])
async def test_a_model_without_a_space_is_not_found_and_the_others_are_named(gateway: Gateway, model: str) -> None:
    offer(gateway, OLD, NEW)
    response = await gateway.http.post("/v1/spaces:prepare", json={"space": {"model": model}})
    assert (response.status_code, response.json()["reason"]) == (404, "SPACE_NOT_FOUND")
    assert "old, new" in response.json()["detail"]
    assert gateway.fakes.corpus.prepared == []


async def test_a_filled_space_can_be_made_live_and_others_only_by_force(gateway: Gateway) -> None:
    info = corpus_pb2.SpaceInfo(space=NEW, role=corpus_pb2.SPACE_ROLE_NEXT, documents=3, documents_filled=2)
    gateway.fakes.corpus.spaces = [info]
    refused = await gateway.http.post("/v1/spaces:switch", json={"space": {"model": "new"}})
    assert (refused.status_code, refused.json()["reason"]) == (409, "WRONG_STATE")
    forced = await gateway.http.post("/v1/spaces:switch", json={"space": {"model": "new"}, "force": True})
    assert (forced.status_code, forced.json()["role"]) == (200, "live")
    assert [request.force for request in gateway.fakes.corpus.switches] == [False, True]
    missing = await gateway.http.post("/v1/spaces:switch", json={"space": {"model": "old"}})
    assert (missing.status_code, missing.json()["reason"]) == (404, "SPACE_NOT_FOUND")


@pytest.mark.parametrize("path", ["/v1/spaces:prepare", "/v1/spaces:switch"])
async def test_members_may_not_change_spaces(database: Database, path: str) -> None:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as gateway:
        offer(gateway, NEW)
        fakes.corpus.spaces = [corpus_pb2.SpaceInfo(space=NEW, role=corpus_pb2.SPACE_ROLE_NEXT)]
        pool = await open_pool(database.dsn("citewire_chat"), max_size=1, name="test")
        store = IdentityStore(pool)
        for user, status in (("ana", 200), ("bob", 403)):
            key = make_key()
            await store.ensure_user("acme", user, "pro")
            await store.add_key("acme", user, "test", key)
            headers = {"Authorization": f"Bearer {key.text}"}
            response = await gateway.http.post(path, json={"space": {"model": "new"}}, headers=headers)
            assert response.status_code == status, user
        await pool.close()
