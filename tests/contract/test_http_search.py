"""`/v1/search` and `/v1/chunks` over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
from citewire.common.v1.place_pb2 import Place
from citewire.retriever.v1 import retriever_pb2

from citewire_kit.errors import DeadlineExceeded, Unavailable
from gateway_fake_servers import running_fakes
from gateway_fakes import result
from gateway_process import Gateway, running_gateway

if TYPE_CHECKING:
    from databases import Database


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        yield running


async def test_metadata_is_returned_on_request(gateway: Gateway) -> None:
    described = result(1, tags=["finance"])
    described.chunk.metadata.update({"author": "Kim", "year": 2024, "nested": {"a": [1, None]}})
    gateway.fakes.retriever.results = [described, result(2)]
    plain = (await gateway.http.post("/v1/search", json={"query": "revenue"})).json()["results"]
    assert not any({"metadata", "tags"} & row.keys() for row in plain)
    body = {"query": "revenue", "include": ["metadata"]}
    first, second = (await gateway.http.post("/v1/search", json=body)).json()["results"]
    assert first["metadata"] == {"author": "Kim", "year": 2024, "nested": {"a": [1, None]}}
    assert (first["tags"], second["tags"]) == (["finance"], [])
    assert "metadata" not in second
    refused = await gateway.http.post("/v1/search", json={"query": "revenue", "include": ["vectors"]})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "include.0")


async def test_a_search_gives_hits_with_their_place(gateway: Gateway) -> None:
    gateway.fakes.retriever.results = [result(1, 0.81, section="A", place=Place(page=2)), result(2, 0.5)]
    body = {"query": "revenue", "top_k": 2, "min_score": 0.1, "group_by": "document", "document_ids": [7]}
    response = await gateway.http.post("/v1/search", json=body)
    assert response.json() == {
        "results": [
            {
                "chunk_id": 1,
                "document_id": 7,
                "version": 1,
                "chunk_index": 1,
                "content": "Revenue grew by 12 %.",
                "score": 0.81,
                "rank_score": 0.81,
                "similarity": 0.81,
                "title": "Annual report",
                "file_name": "report.pdf",
                "section": "A",
                "page_number": 2,
            },
            {
                "chunk_id": 2,
                "document_id": 7,
                "version": 1,
                "chunk_index": 2,
                "content": "Revenue grew by 12 %.",
                "score": 0.5,
                "rank_score": 0.5,
                "similarity": 0.5,
                "title": "Annual report",
                "file_name": "report.pdf",
            },
        ],
        "off_topic": False,
        "mode": "hybrid",
        "usage": {"embedding_tokens": 9},
    }
    asked = gateway.fakes.retriever.searches[0]
    assert (asked.mode, asked.top_k, asked.min_score, asked.group_by) == (
        retriever_pb2.SEARCH_MODE_HYBRID,
        2,
        0.1,
        retriever_pb2.GROUP_BY_DOCUMENT,
    )


async def test_the_query_of_a_lexical_search_is_embedded_too(gateway: Gateway) -> None:
    await gateway.http.post("/v1/search", json={"query": "revenue", "mode": "lexical"})
    await gateway.http.post("/v1/search", json={"query": "revenue", "mode": "hybrid"})
    lexical, hybrid = gateway.fakes.retriever.searches
    assert lexical.query == hybrid.query == "revenue"
    assert len(lexical.vector) == len(hybrid.vector) == 16


async def test_a_lexical_search_without_a_minimum_score_needs_no_embedder(gateway: Gateway) -> None:
    gateway.fakes.embedder.log.errors["embed"] = Unavailable("no model", reason="SERVICE_UNAVAILABLE")
    gateway.fakes.retriever.results = [result(1)]
    gateway.fakes.retriever.results[0].ClearField("score")
    body = {"query": "revenue", "mode": "lexical"}
    response = await gateway.http.post("/v1/search", json=body)
    (match,) = response.json()["results"]
    assert (match["score"], match["rank_score"], "similarity" in match) == (None, 0.8, False)
    assert gateway.fakes.retriever.searches[-1].vector == b""
    assert (await gateway.http.post("/v1/search", json={**body, "min_score": 0.5})).status_code == 503


async def test_a_search_says_whether_its_results_are_off_topic(gateway: Gateway) -> None:
    body = (await gateway.http.post("/v1/search", json={"query": "revenue"})).json()
    assert body["off_topic"] is False
    assert gateway.fakes.retriever.searches[0].query == "revenue"  # sent besides the vector
    gateway.fakes.retriever.results = [result(1, 0.0)]
    assert (await gateway.http.post("/v1/search", json={"query": "revenue"})).json()["off_topic"] is True


async def test_a_rerank_model_orders_more_candidates(gateway: Gateway) -> None:
    gateway.fakes.retriever.results = [result(number, 0.9 - number / 100) for number in range(1, 6)]
    response = await gateway.http.post("/v1/search", json={"query": "x", "top_k": 2, "rerank": True})
    assert gateway.fakes.retriever.searches[0].top_k == 40
    asked = gateway.fakes.embedder.reranked[0]
    assert list(asked.first_scores) == pytest.approx([0.89, 0.88, 0.87, 0.86, 0.85])
    assert asked.headings[0].startswith("Annual report")
    assert not asked.documents[0].startswith("Annual report")
    results = response.json()["results"]
    assert [(entry["chunk_id"], entry["rerank_score"]) for entry in results] == [(5, 5.0), (4, 4.0)]
    assert results[0]["similarity"] == pytest.approx(0.85)
    assert response.json()["rerank"] == {"candidates": 5, "ranked": 5}


async def test_a_rerank_has_a_time_limit_unless_it_is_the_request_itself(gateway: Gateway) -> None:
    gateway.fakes.retriever.results = [result(number, 0.9) for number in range(1, 6)]
    await gateway.http.post("/v1/search", json={"query": "x", "rerank": True})
    await gateway.http.post("/v1/search", json={"query": "x", "rerank": True, "rerank_seconds": 1.25})
    await gateway.http.post("/v1/chat", json={"question": "x", "options": {"rerank": True}})
    await gateway.http.post("/v1/chat", json={"question": "x", "options": {"rerank": True, "rerank_seconds": 2}})
    await gateway.http.post("/v1/rerank", json={"model": "", "query": "x", "documents": ["a", "b"]})
    embedder = gateway.fakes.embedder
    budgets = [request.budget.ToMilliseconds() for request in embedder.reranked]
    assert budgets == [3000, 1250, 300, 2000, 0]
    assert not embedder.reranked[-1].HasField("budget")
    assert all(
        budget / 1000 < left <= budget / 1000 + 0.51
        for budget, left in zip(budgets[:4], embedder.rerank_seconds, strict=False)
    )
    assert embedder.rerank_seconds[-1] > 10


async def test_results_not_reranked_in_time_follow_in_the_order_of_the_search(gateway: Gateway) -> None:
    gateway.fakes.retriever.results = [result(number, 0.9 - number / 100) for number in range(1, 6)]
    gateway.fakes.embedder.scored = 2
    response = (await gateway.http.post("/v1/search", json={"query": "x", "top_k": 4, "rerank": True})).json()
    assert [(entry["chunk_id"], entry.get("rerank_score")) for entry in response["results"]] == [
        (2, 2.0),
        (1, 1.0),
        (3, None),
        (4, None),
    ]
    assert response["rerank"] == {"candidates": 5, "ranked": 2}
    plain = await gateway.http.post("/v1/search", json={"query": "x"})
    assert "rerank" not in plain.json()


async def test_a_rerank_that_does_not_answer_leaves_the_order_of_the_search(gateway: Gateway) -> None:
    gateway.fakes.retriever.results = [result(number, 0.9 - number / 100) for number in range(1, 6)]
    gateway.fakes.embedder.log.errors["rerank"] = DeadlineExceeded("too late", reason="DEADLINE")
    response = await gateway.http.post("/v1/search", json={"query": "x", "top_k": 2, "rerank": True})
    assert response.json()["rerank"] == {"candidates": 5, "ranked": 0}
    assert [entry["chunk_id"] for entry in response.json()["results"]] == [1, 2]
    gateway.fakes.embedder.log.errors["rerank"] = Unavailable("away", reason="SERVICE_UNAVAILABLE")
    refused = await gateway.http.post("/v1/search", json={"query": "x", "rerank": True})
    assert refused.status_code == 503


async def test_near_duplicates_and_diversity_reach_the_retriever(gateway: Gateway) -> None:
    match = result(1, 0.81)
    match.duplicate_chunk_ids.extend([5, 6])
    gateway.fakes.retriever.results = [match]
    response = await gateway.http.post("/v1/search", json={"query": "x"})
    assert response.json()["results"][0]["duplicate_chunk_ids"] == [5, 6]
    await gateway.http.post("/v1/search", json={"query": "x", "diversity": 0.3, "keep_duplicates": True})
    plain, diverse = gateway.fakes.retriever.searches
    assert (plain.HasField("diversity"), plain.keep_duplicates) == (False, False)
    assert (diverse.diversity, diverse.keep_duplicates) == (0.3, True)


BAD_SEARCHES: list[tuple[dict[str, Any], int, str | None]] = [
    ({}, 422, "query"),
    ({"query": " "}, 422, "query"),
    ({"query": "x" * 32769}, 422, "query"),
    ({"query": "x", "top_k": 0}, 422, "top_k"),
    ({"query": "x", "top_k": 201}, 422, "top_k"),
    ({"query": "x", "mode": "nonsense"}, 422, "mode"),
    ({"query": "x", "group_by": "nonsense"}, 422, "group_by"),
    ({"query": "x", "min_score": 2}, 422, "min_score"),
    ({"query": "x", "diversity": 1.5}, 422, "diversity"),
    ({"query": "x", "diversity": "much"}, 422, "diversity"),
    ({"query": "x", "diversity": 0.5, "mode": "lexical"}, 422, "diversity"),
    ({"query": "x", "diversity": 0.5, "rerank": True}, 422, "diversity"),
    ({"query": "x", "rerank": True, "rerank_seconds": 0}, 422, "rerank_seconds"),
    ({"query": "x", "rerank": True, "rerank_seconds": 21}, 422, "rerank_seconds"),
    ({"query": "x", "rerank_seconds": 1}, 422, "rerank_seconds"),
    ({"query": "x", "keep_duplicates": 1}, 422, "keep_duplicates"),
    ({"query": "x", "document_ids": [404]}, 404, None),
    ({"query": "x", "filter": {}}, 422, "filter"),
]


async def test_bad_searches(gateway: Gateway, subtests: pytest.Subtests) -> None:
    for body, status, field in BAD_SEARCHES:
        with subtests.test(body=str(body)[:60]):
            response = await gateway.http.post("/v1/search", json=body)
            assert response.status_code == status, response.text
            assert field in [None, *(error["field"] for error in response.json()["errors"])]


async def test_an_empty_selection_finds_nothing_without_any_call(gateway: Gateway) -> None:
    response = await gateway.http.post("/v1/search", json={"query": "x", "document_ids": []})
    assert response.json() == {"results": [], "off_topic": False, "mode": "hybrid", "usage": {"embedding_tokens": 0}}
    assert gateway.fakes.embedder.requests == []


async def test_a_full_embedder_is_reported_with_retry_after(gateway: Gateway) -> None:
    gateway.fakes.embedder.log.errors["embed"] = Unavailable("the queue is full", reason="OVERLOADED", retry_after=3.2)
    response = await gateway.http.post("/v1/search", json={"query": "x"})
    assert (response.status_code, response.headers["retry-after"]) == (503, "4")


async def test_a_citation_opens_its_exact_place(gateway: Gateway) -> None:
    response = await gateway.http.get("/v1/chunks/1")
    chunk = response.json()
    assert (chunk["chunk_id"], chunk["document_id"], chunk["version"], chunk["live"]) == (1, 7, 1, True)
    assert (chunk["section"], chunk["page_number"], chunk["char_start"], chunk["char_end"]) == (
        "Results > 2025",
        3,
        10,
        31,
    )
    assert chunk["ref"] == "report.pdf § Results > 2025"
