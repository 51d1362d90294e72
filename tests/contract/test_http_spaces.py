"""`/v1/spaces` over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
from citewire.common.v1 import common_pb2
from citewire.retriever.v1 import corpus_pb2

from gateway_fakes import running_fakes
from gateway_process import Gateway, running_gateway

if TYPE_CHECKING:
    from conftest import Database


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        yield running


async def test_spaces_tell_how_far_they_are(gateway: Gateway) -> None:
    space = common_pb2.EmbeddingSpace(model="new", revision="r2", dimensions=768)
    gateway.fakes.corpus.spaces = [
        corpus_pb2.SpaceInfo(
            space=space,
            role=corpus_pb2.SPACE_ROLE_NEXT,
            items=10,
            items_filled=7,
            items_failed=1,
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
            }
        ]
    }


async def test_an_organisation_without_documents_has_none(gateway: Gateway) -> None:
    response = await gateway.http.get("/v1/spaces")
    assert response.json() == {"spaces": []}
