"""The profile `sources`: packed blocks are listed after the answer, with exactly these members."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING

import pytest
from citewire.common.v1.place_pb2 import Place
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2

from gateway_fake_servers import running_fakes
from gateway_fakes import completed, delta, result, started
from gateway_process import Gateway, running_gateway

if TYPE_CHECKING:
    from databases import Database

QUESTION = {"question": "How much did it grow?", "profile": "sources"}
LONG = "Revenue grew. " * 30
SOURCES = [
    {
        "file_name": "report.pdf",
        "ref": "report.pdf § Results",
        "snippet": LONG[:200],
        "page_number": 3,
        "row_number": None,
        "document_id": "7",
        "url": "/v1/documents/7/content?version=1#page=3",
    },
    {
        "file_name": "Sheet",
        "ref": "Sheet",
        "snippet": "Revenue grew by 12 %.",
        "page_number": None,
        "row_number": 12,
        "document_id": "7",
        "url": "/v1/documents/7/content?version=1#row=12",
    },
]


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        fakes.retriever.results = [
            result(1, text=LONG, section="Results", place=Place(page=3)),
            result(2, file_name="", title="Sheet", place=Place(row=12)),
            result(3),
        ]
        fakes.generator.script = _packs_two
        yield running


async def _packs_two(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
    yield started((1, 0), (2, 1))
    yield delta("By 12 % ", "[SOURCE 1].")
    yield completed(cited_numbers=[1])


async def test_sources_are_the_packed_blocks_after_the_last_token(gateway: Gateway) -> None:
    frames = await gateway.stream("/v1/chat", QUESTION)
    assert [frame.event for frame in frames] == [
        "conversation",
        "citations",
        "token",
        "token",
        "sources",
        "usage",
        "done",
    ]
    assert frames[4].data == {"sources": SOURCES}
    assert [row["index"] for row in frames[1].data["citations"]] == [1, 2]


async def test_the_whole_answer_lists_its_sources(gateway: Gateway) -> None:
    body = (await gateway.http.post("/v1/chat", json={**QUESTION, "stream": False})).json()
    assert body["answer"] == "By 12 % [SOURCE 1]."
    assert body["sources"] == SOURCES
    assert set(body) >= {"answer", "sources", "citations", "usage"}


async def test_both_legs_are_fused_and_as_many_are_taken_as_may_fit(gateway: Gateway) -> None:
    await gateway.http.post("/v1/chat", json=QUESTION)
    search = gateway.fakes.retriever.searches[0]
    assert (search.mode, search.top_k) == (retriever_pb2.SEARCH_MODE_HYBRID, 100)
    assert gateway.fakes.embedder.reranked == []
    asked = gateway.fakes.generator.requests[0]
    assert asked.policy.max_context_chars == 24_000
    assert asked.policy.context_format == generator_pb2.CONTEXT_FORMAT_SOURCE_LABELS
