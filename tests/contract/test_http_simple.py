"""`/api/chat/` and `/api/chat/query`: bodies and frames are exactly those of the simple API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING

import pytest
from citewire.common.v1.place_pb2 import Place
from citewire.generator.v1 import generator_pb2

from citewire_kit.errors import Unavailable
from gateway_fake_servers import running_fakes
from gateway_fakes import delta, result, started
from gateway_process import Gateway, frames_of, rows, running_gateway

if TYPE_CHECKING:
    from databases import Database

QUESTION = {"question": "What is the main topic?"}
SOURCES = [
    {"document_id": 7, "filename": "report.pdf", "page": 3, "content": "Revenue grew by 12 %."},
    {"document_id": 7, "filename": "Notes", "page": None, "content": "Revenue grew by 12 %."},
]


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        fakes.retriever.results = [result(1, place=Place(page=3)), result(2, file_name="", title="Notes")]
        yield running


async def test_the_frames_are_data_only(gateway: Gateway) -> None:
    response = await gateway.http.post("/api/chat/", json=QUESTION)
    assert response.text == (
        'data: {"token": "Revenue"}\n\n'
        'data: {"token": " grew"}\n\n'
        'data: {"token": " by \\"12\\" %."}\n\n'
        'data: {"done": true, "sources": ['
        '{"document_id": 7, "filename": "report.pdf", "page": 3, "content": "Revenue grew by 12 %."}, '
        '{"document_id": 7, "filename": "Notes", "page": null, "content": "Revenue grew by 12 %."}]}\n\n'
    )
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"


async def test_the_query_answers_at_once(gateway: Gateway) -> None:
    response = await gateway.http.post("/api/chat/query", json=QUESTION)
    assert response.json() == {"answer": 'Revenue grew by "12" %.', "sources": SOURCES}


async def test_a_fault_is_the_last_frame_and_no_done_follows(gateway: Gateway) -> None:
    async def breaks(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta("Rev")
        raise Unavailable("the model provider went away", reason="PROVIDER_UNAVAILABLE")

    gateway.fakes.generator.script = breaks
    response = await gateway.http.post("/api/chat/", json=QUESTION)
    assert [frame.data for frame in frames_of(response.text)] == [
        {"token": "Rev"},
        {"error": "the model provider went away"},
    ]
    failed = await gateway.http.post("/api/chat/query", json=QUESTION)
    assert failed.status_code == 503
    assert failed.json()["reason"] == "PROVIDER_UNAVAILABLE"


async def test_an_empty_selection_means_no_selection(gateway: Gateway) -> None:
    await gateway.http.post("/api/chat/query", json={**QUESTION, "document_ids": []})
    assert not gateway.fakes.retriever.searches[0].scope.HasField("selection")
    await gateway.http.post("/api/chat/query", json={**QUESTION, "document_ids": [7]})
    assert list(gateway.fakes.retriever.searches[1].scope.selection.document_ids) == [7]


async def test_the_model_is_asked_even_if_nothing_was_found(gateway: Gateway) -> None:
    gateway.fakes.retriever.results = []
    response = await gateway.http.post("/api/chat/query", json=QUESTION)
    assert response.json()["sources"] == []
    asked = gateway.fakes.generator.requests[0]
    assert len(asked.passages) == 0
    assert asked.policy.grounding == generator_pb2.GROUNDING_SAY_SO
    assert asked.policy.marker_style == generator_pb2.MARKER_STYLE_NONE


async def test_the_top_five_are_searched_and_only_the_exchange_is_stored(gateway: Gateway, database: Database) -> None:
    await gateway.http.post("/api/chat/query", json=QUESTION)
    await gateway.http.post("/api/chat/", json=QUESTION)
    assert [request.top_k for request in gateway.fakes.retriever.searches] == [5, 5]
    assert rows(database, "SELECT count(*) FROM chat.conversations") == [(0,)]
    assert rows(database, "SELECT dialect, state FROM chat.exchanges ORDER BY exchange_id") == [
        ("json", "done"),
        ("simple", "done"),
    ]


async def test_an_unknown_member_is_refused(gateway: Gateway) -> None:
    response = await gateway.http.post("/api/chat/query", json={**QUESTION, "temperature": 0.5})
    assert response.status_code == 422
    assert [error["field"] for error in response.json()["errors"]] == ["temperature"]
