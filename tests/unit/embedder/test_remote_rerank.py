"""Rerank providers over HTTP: the formats of existing servers, faults, and rows of the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from citewire_egress.addresses import EgressPolicy
from citewire_egress.connections import guarded_client
from citewire_embedder.providers.remote_calls import CallLimits, ModelSpec, open_http, provider_test
from citewire_embedder.providers.remote_rerank import RemoteReranker
from citewire_kit.errors import CitewireError
from citewire_ledger import MemoryLedger, Outcome, Purpose
from citewire_remote.catalogue import load_catalogue
from citewire_remote.retry import RetryPolicy
from rerank_upstream import TOKENS, RerankUpstream, Server, rerank_upstream

KEY = "sk-canary-rerank-1"
QUERY = "red apple pie"
DOCUMENTS = ["blue sky", "a red apple pie", "red wine", "apple pie recipes"]
ORDER = [1, 3, 2, 0]
LIMITS = CallLimits(RetryPolicy(attempts=2, first_seconds=0.001), seconds=5)


@asynccontextmanager
async def reranker(
    upstream: RerankUpstream,
    ledger: MemoryLedger | None = None,
    limits: CallLimits = LIMITS,
    **spec: Any,  # noqa: ANN401 # fields of ModelSpec
) -> AsyncGenerator[RemoteReranker]:
    kind = {"cohere": "cohere", "jina": "jina"}.get(upstream.server, "openai-compatible")
    values: dict[str, Any] = {"kind": kind, "model": "ranker", "api_base": upstream.base, "api_key": KEY, **spec}
    model = RemoteReranker(ModelSpec(**values), load_catalogue(), open_http(limits), ledger=ledger, limits=limits)
    try:
        yield model
    finally:
        await model.close()


@pytest.mark.parametrize(
    ("server", "paths", "reported"),
    [
        ("cohere", ["/v2/rerank"], False),
        ("jina", ["/v1/rerank"], True),
        ("vllm", ["/v1/rerank"], True),
        ("litellm", ["/v1/rerank"], True),
        ("infinity", ["/v1/rerank", "/rerank"], True),
        ("tei", ["/v1/rerank", "/rerank", "/rerank"], True),
    ],
)
async def test_every_servers_format(server: Server, paths: list[str], reported: bool) -> None:
    ledger = MemoryLedger()
    async with rerank_upstream(server) as upstream, reranker(upstream, ledger) as model:
        ranking = await model.rerank(QUERY, DOCUMENTS)
        assert [element.index for element in ranking.ranked] == ORDER
        assert [round(entry.score, 3) for entry in ranking.ranked] == [1, 0.667, 0.333, 0]
        assert ranking.estimated is not reported
        assert not reported or ranking.input_tokens == TOKENS
        assert upstream.paths == paths
        best = await model.rerank(QUERY, DOCUMENTS, 2)
        assert [document.index for document in best.ranked] == ORDER[:2]
        assert upstream.paths == [*paths, paths[-1]], "the path that worked is used again"
        assert set(upstream.keys) == {f"Bearer {KEY}"}
    refused, worked = ledger.rows[: len(paths) - 1], ledger.rows[len(paths) - 1 :]
    assert [(row.outcome, row.usage and row.usage.input_tokens) for row in refused] == [(Outcome.FAILED, 0)] * len(
        refused
    )
    assert [row.outcome for row in worked] == [Outcome.DONE] * 2
    assert all(row.new.purpose is Purpose.RERANK and row.usage for row in ledger.rows)
    assert [row.usage.estimated for row in worked if row.usage] == [not reported] * 2


async def test_a_heading_is_a_line_above_its_text() -> None:
    async with rerank_upstream("vllm") as upstream, reranker(upstream) as model:
        ranking = await model.rerank("red apple pie", ["blue sky", "pie"], headings=["", "red apple"])
        assert [entry.index for entry in ranking.ranked] == [1, 0]
        assert upstream.bodies[-1]["documents"] == ["blue sky", "red apple\npie"]


async def test_tei_takes_32_texts_at_a_time() -> None:
    documents = [f"text {number}" for number in range(70)]
    documents[68] = QUERY
    ledger = MemoryLedger()
    async with rerank_upstream("tei") as upstream, reranker(upstream, ledger) as model:
        ranking = await model.rerank(QUERY, documents, 3)
        assert [entry.index for entry in ranking.ranked] == [68, 0, 1]
        assert [len(body["texts"]) for body in upstream.bodies if "texts" in body] == [32, 32, 6]
        assert ranking.input_tokens == 3 * TOKENS
    assert len(ledger.rows) == 2 + 3


async def test_a_server_without_a_key_gets_none() -> None:
    async with rerank_upstream("vllm") as upstream, reranker(upstream, api_key="") as model:
        await model.rerank(QUERY, DOCUMENTS)
        assert upstream.keys == [""]


@pytest.mark.parametrize(
    ("failures", "headers", "reason", "calls"),
    [
        ([503], {}, "", 2),
        ([0], {}, "", 2),
        ([429], {}, "", 2),
        ([503, 529], {}, "PROVIDER_UNAVAILABLE", 2),
        ([429, 429], {}, "PROVIDER_RATE_LIMITED", 2),
        ([429], {"retry-after": "3600"}, "PROVIDER_RATE_LIMITED", 1),
        ([402], {}, "PROVIDER_RATE_LIMITED", 1),
        ([401], {}, "PROVIDER_AUTH", 1),
        ([400], {}, "PROVIDER_REJECTED", 1),
        ([404], {}, "PROVIDER_REJECTED", 1),
        ([302], {"location": "http://127.0.0.1:1/"}, "PROVIDER_REJECTED", 1),
    ],
)
async def test_scripted_faults(failures: list[int], headers: dict[str, str], reason: str, calls: int) -> None:
    ledger = MemoryLedger()
    with capture_logs() as logs:
        async with rerank_upstream() as upstream, reranker(upstream, ledger) as model:
            upstream.failures, upstream.headers = list(failures), headers
            if reason:
                with pytest.raises(CitewireError) as raised:
                    await model.rerank(QUERY, DOCUMENTS)
                assert raised.value.reason == reason
                assert KEY not in raised.value.message + str(raised.value.metadata)
            else:
                assert [entry.index for entry in (await model.rerank(QUERY, DOCUMENTS)).ranked] == ORDER
            assert len(upstream.paths) == calls
    assert KEY not in str(logs)
    assert len(ledger.rows) == calls, "a row for each call that the provider saw"
    assert all(row.outcome is not Outcome.OPEN for row in ledger.rows)
    last = ledger.rows[-1]
    assert last.reason == reason
    assert last.usage is not None
    assert (last.usage.input_tokens == 0) is bool(reason)


@pytest.mark.parametrize(
    "answer",
    [
        "no object",
        {"results": []},
        {"results": [{"index": 4, "relevance_score": 1}]},
        {"results": [{"index": -1, "relevance_score": 1}]},
        {"results": [{"index": True, "relevance_score": 1}]},
        {"results": [{"index": 0, "relevance_score": "high"}]},
        {"results": [{"index": 0, "relevance_score": 1e999}]},
        {"results": [{"index": 0, "relevance_score": 10**400}]},
        {"results": [{"index": 0}]},
        {"results": [{"index": index, "relevance_score": 1} for index in (0, 1, 2, 2)]},
        {"results": [{"index": 0, "relevance_score": 1}]},
    ],
)
async def test_a_senseless_answer_is_an_error(answer: object) -> None:
    ledger = MemoryLedger()
    async with rerank_upstream() as upstream, reranker(upstream, ledger) as model:
        upstream.answer = answer
        with pytest.raises(CitewireError) as raised:
            await model.rerank(QUERY, DOCUMENTS)
        assert raised.value.reason == "PROVIDER_REJECTED"
        assert len(upstream.paths) == 1
    (row,) = ledger.rows
    assert row.outcome is Outcome.FAILED
    assert row.usage is not None
    assert row.usage.estimated, "it answered, so it may cost money"
    assert row.usage.input_tokens > 0


async def test_a_silent_server_times_out() -> None:
    ledger = MemoryLedger()
    async with rerank_upstream() as upstream, reranker(upstream, ledger, replace(LIMITS, seconds=0.2)) as model:
        upstream.stall = True
        with pytest.raises(CitewireError) as raised:
            await model.rerank(QUERY, DOCUMENTS)
        assert raised.value.reason == "PROVIDER_TIMEOUT"
        assert len(upstream.paths) == 1
    assert [row.outcome for row in ledger.rows] == [Outcome.FAILED]


async def test_the_call_of_a_caller_that_leaves_is_settled() -> None:
    ledger = MemoryLedger()
    async with rerank_upstream() as upstream, reranker(upstream, ledger) as model:
        upstream.stall = True
        task = asyncio.create_task(model.rerank(QUERY, DOCUMENTS))
        async with asyncio.timeout(5):
            await upstream.called.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
    assert [row.outcome for row in ledger.rows] == [Outcome.CANCELLED]


async def test_a_provider_that_keeps_failing_is_left_alone() -> None:
    ledger = MemoryLedger()
    async with rerank_upstream() as upstream, reranker(upstream, ledger) as model:
        upstream.failures = [500] * 10
        reasons: list[dict[str, str]] = []
        for _ in range(4):
            with pytest.raises(CitewireError) as raised:
                await model.rerank(QUERY, DOCUMENTS)
            reasons.append(dict(raised.value.metadata))
        assert len(upstream.paths) == 5
        assert reasons[-1].get("breaker") == "open"
    assert len(ledger.rows) == 5


async def test_no_call_is_made_over_a_spent_budget() -> None:
    ledger = MemoryLedger()
    ledger.refuse = CitewireError("spent", reason="BUDGET_EXCEEDED")
    async with rerank_upstream() as upstream, reranker(upstream, ledger) as model:
        with pytest.raises(CitewireError, match="spent"):
            await model.rerank(QUERY, DOCUMENTS)
        assert upstream.paths == []


async def test_a_test_call_is_accounted_as_one_and_not_repeated() -> None:
    ledger = MemoryLedger()
    async with rerank_upstream() as upstream, reranker(upstream, ledger, own=True) as model:
        upstream.failures = [503]
        with provider_test(), pytest.raises(CitewireError):
            await model.rerank(QUERY, DOCUMENTS)
        assert len(upstream.paths) == 1
    assert [(row.new.purpose, row.new.own) for row in ledger.rows] == [(Purpose.PROVIDER_TEST, True)]


async def test_an_internal_address_is_refused() -> None:
    async with rerank_upstream() as upstream:
        http = guarded_client(EgressPolicy.parse(""), timeout=LIMITS.timeout())
        spec = ModelSpec("openai-compatible", "ranker", upstream.base, KEY, own=True)
        model = RemoteReranker(spec, load_catalogue(), http, ledger=MemoryLedger(), limits=LIMITS)
        with pytest.raises(CitewireError) as raised:
            await model.rerank(QUERY, DOCUMENTS)
        assert raised.value.reason == "PROVIDER_ADDRESS"
        assert upstream.paths == []
        await model.close()


async def test_a_server_replaced_at_the_same_address_is_detected() -> None:
    async with rerank_upstream("tei") as upstream, reranker(upstream) as model:
        await model.rerank(QUERY, DOCUMENTS)
        upstream.server = "vllm"
        with pytest.raises(CitewireError):
            await model.rerank(QUERY, DOCUMENTS)
        assert [entry.index for entry in (await model.rerank(QUERY, DOCUMENTS)).ranked] == ORDER
