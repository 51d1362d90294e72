"""Rerank over a real gRPC server: the local model, the operator's provider, tenants' own, refusals, the ledger."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from citewire.common.v1 import common_pb2 as common
from citewire.embedder.v1 import embedder_pb2 as pb
from citewire.embedder.v1.embedder_pb2_grpc import EmbedderServiceStub
from google.protobuf.duration_pb2 import Duration

from callers import KEYED, signed_channel
from citewire_embedder.app import start
from citewire_embedder.providers.base import EmbeddingModel, Precision
from citewire_embedder.providers.local import LocalModel
from citewire_embedder.providers.model_directory import read_directory
from citewire_embedder.settings import EmbedderSettings
from citewire_kit import client
from citewire_kit.errors import CitewireError
from citewire_kit.tenant import Tenant, use_tenant
from citewire_ledger import MemoryLedger, Outcome, Purpose
from citewire_remote.sealing import new_master_key
from fake_embedding import FakeModel
from rerank_upstream import TOKENS, RerankUpstream, rerank_upstream
from tiny_models import TinyModel, write_model

ANA, EVE = Tenant("acme", "ana", "pro"), Tenant("evil", "ana", "pro")
KEY = "sk-canary-rerank-2"
QUERY = "red apple pie"
DOCUMENTS = ["blue sky", "a red apple pie", "red wine", "apple pie recipes"]
ASKED = pb.RerankRequest(query=QUERY, documents=DOCUMENTS, top_n=3)


class Running:
    """An embedder, and its ledger."""

    def __init__(self, stub: EmbedderServiceStub, ledger: MemoryLedger) -> None:
        self.stub = stub
        self.ledger = ledger

    async def rerank(self, request: pb.RerankRequest, tenant: Tenant = ANA) -> pb.RerankResponse:
        with use_tenant(tenant):
            return await client.unary(self.stub.Rerank, request, timeout=10)

    async def seal(self, upstream: RerankUpstream, **fields: Any) -> pb.SealProviderResponse:  # noqa: ANN401 # fields of the message
        values: dict[str, Any] = {
            "type": common.PROVIDER_TYPE_RERANK,
            "provider": "openai-compatible",
            "model": "own",
            "api_base": upstream.base,
            "api_key": KEY,
        }
        request = pb.SealProviderRequest(spec=common.ProviderSpec(**{**values, **fields}))
        with use_tenant(ANA):
            return await client.unary(self.stub.SealProvider, request, timeout=10)

    async def models(self) -> pb.ListModelsResponse:
        with use_tenant(ANA):
            return await client.unary(self.stub.ListModels, pb.ListModelsRequest(), timeout=5)

    async def refusal(self, request: pb.RerankRequest, tenant: Tenant = ANA) -> CitewireError:
        with pytest.raises(CitewireError) as raised:
            await self.rerank(request, tenant)
        return raised.value


@asynccontextmanager
async def serve(model: EmbeddingModel | None = None, **options: Any) -> AsyncGenerator[Running]:  # noqa: ANN401 # settings of any kind
    values = {
        "port": 0,
        "metrics_port": 0,
        "auth": "keys",
        **KEYED,
        "leave_seconds": 0,
        "drain_seconds": 1,
        "egress_allow": "127.0.0.1",
        "master_keys": new_master_key("k1"),
        **options,
    }
    ledger = MemoryLedger()
    async with AsyncExitStack() as stack:
        server = await start(stack, EmbedderSettings.model_validate(values), model or FakeModel(), ledger=ledger)
        stack.push_async_callback(server.drain_and_stop)
        channel = signed_channel(f"127.0.0.1:{server.port}")
        stack.push_async_callback(channel.close)
        yield Running(EmbedderServiceStub(channel), ledger)


async def test_a_tenants_own_provider_is_tested_sealed_and_used() -> None:
    async with serve() as running, rerank_upstream("vllm") as upstream:
        answer = await running.seal(upstream)
        assert (answer.test.tried, answer.test.ok, answer.test.dimensions) == (True, True, 0)
        assert not answer.HasField("space")
        assert KEY.encode() not in answer.SerializeToString()
        response = await running.rerank(pb.RerankRequest(query=QUERY, documents=DOCUMENTS, provider=answer.ref))
        assert [result.index for result in response.results] == [1, 3, 2, 0]
        assert (response.model, response.usage.input_tokens) == ("own", TOKENS)
        assert set(upstream.keys) == {f"Bearer {KEY}"}
        refusal = await running.refusal(pb.RerankRequest(query=QUERY, documents=DOCUMENTS, provider=answer.ref), EVE)
        assert refusal.reason == "PROVIDER_SEAL"
        assert len(upstream.paths) == 2
    rows = running.ledger.rows
    assert [(row.new.purpose, row.outcome) for row in rows] == [
        (Purpose.PROVIDER_TEST, Outcome.DONE),
        (Purpose.RERANK, Outcome.DONE),
    ]
    assert all(row.new.own and row.usage and row.usage.input_tokens == TOKENS for row in rows)


async def test_a_failed_test_call_is_reported() -> None:
    async with serve() as running, rerank_upstream("vllm") as upstream:
        upstream.failures = [401, 503]
        refused = await running.seal(upstream)
        assert (refused.test.ok, refused.test.reason, refused.test.status) == (False, "PROVIDER_AUTH", 401)
        assert refused.ref.sealed_key
        failed = await running.seal(upstream)
        assert (failed.test.reason, failed.test.status) == ("PROVIDER_UNAVAILABLE", 503)
        assert len(upstream.paths) == 2, "a test call isn't repeated"


async def test_an_internal_address_is_refused_when_connecting() -> None:
    keys = new_master_key("k1")
    async with rerank_upstream("vllm") as upstream:
        async with serve(master_keys=keys) as running:
            sealed = await running.seal(upstream, skip_test=True)
        async with serve(master_keys=keys, egress_allow="") as strict:
            asked = pb.RerankRequest(query=QUERY, documents=DOCUMENTS, provider=sealed.ref)
            assert (await strict.refusal(asked)).reason == "PROVIDER_ADDRESS"
        assert upstream.paths == []


async def test_the_operators_provider() -> None:
    async with rerank_upstream("tei") as upstream:
        options: dict[str, Any] = {
            "rerank_provider": "openai-compatible",
            "rerank_api_base": upstream.base,
            "rerank_model": "bge",
        }
        async with serve(**options) as running:
            response = await running.rerank(ASKED)
            assert [result.index for result in response.results] == [1, 3, 2]
            assert response.model == "bge"
            named = pb.RerankRequest(query=QUERY, documents=DOCUMENTS, model="other")
            refusal = await running.refusal(named)
            assert (refusal.reason, refusal.metadata["models"]) == ("MODEL_NOT_FOUND", "bge")
            models = await running.models()
        assert upstream.keys[0] == ""
    (listed,) = [model for model in models.models if model.capability == pb.CAPABILITY_RERANK]
    assert (listed.space.model, listed.space.dimensions, listed.is_default) == ("bge", 0, True)
    assert (listed.provider, listed.precision) == ("openai-compatible", "")
    assert [row.new.own for row in running.ledger.rows] == [False] * 3


async def test_the_local_model_costs_nothing_and_needs_no_provider(tmp_path: Path) -> None:
    write_model(tmp_path / "tiny", TinyModel())
    model = LocalModel("tiny", read_directory(tmp_path / "tiny"), precision=Precision.FP32, threads=1)
    async with serve(model) as running:
        request = pb.RerankRequest(query="the cat sat", documents=["a dog ran far", "the cat sat"], top_n=1)
        response = await running.rerank(request)
        assert [result.index for result in response.results] == [1]
        assert response.model == "tiny-late-interaction"
        assert response.usage.input_tokens == 5 + 6 + 5
        assert response.scored == 2
        models = await running.models()
        assert [(entry.space.model, entry.capability, entry.provider) for entry in models.models] == [
            ("tiny", pb.CAPABILITY_EMBED, "local"),
            ("tiny-late-interaction", pb.CAPABILITY_RERANK, "local"),
        ]
    assert running.ledger.rows == []
    model = LocalModel("tiny", read_directory(tmp_path / "tiny"), precision=Precision.FP32, threads=1)
    async with serve(model, rerank_provider="none") as running:
        assert (await running.refusal(ASKED)).reason == "NOT_IMPLEMENTED"


async def test_texts_are_read_once_for_each_organisation(tmp_path: Path) -> None:
    write_model(tmp_path / "tiny", TinyModel())
    model = LocalModel("tiny", read_directory(tmp_path / "tiny"), precision=Precision.FP32, threads=1)
    request = pb.RerankRequest(query="the cat sat", documents=["a dog ran far", "the cat sat"])
    request.budget.FromMilliseconds(5000)
    async with serve(model) as running:
        responses = [await running.rerank(request, tenant) for tenant in (ANA, ANA, EVE)]
    assert [response.usage.input_tokens for response in responses] == [16, 5, 16]
    assert [response.scored for response in responses] == [2, 2, 2]
    assert responses[0].results == responses[1].results


async def test_a_provider_that_takes_too_long_leaves_the_order_unchanged() -> None:
    async with serve() as running, rerank_upstream("vllm") as upstream:
        sealed = await running.seal(upstream)
        upstream.stall = True
        request = pb.RerankRequest(query=QUERY, documents=DOCUMENTS, top_n=3, provider=sealed.ref)
        request.budget.FromMilliseconds(200)
        response = await running.rerank(request)
        assert [(result.index, result.score) for result in response.results] == [(0, 0), (1, 0), (2, 0)]
        assert (response.scored, response.usage.input_tokens) == (0, 0)
        upstream.stall = False
        request.budget.FromSeconds(10)
        response = await running.rerank(request)
        assert ([result.index for result in response.results], response.scored) == ([1, 3, 2], 4)
    assert [row.outcome for row in running.ledger.rows] == [Outcome.DONE, Outcome.CANCELLED, Outcome.DONE]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"query": ""}, ["query"]),
        ({"query": "q" * ((32 << 10) + 1)}, ["query"]),
        ({"documents": []}, ["documents"]),
        ({"documents": ["d"] * 1001}, ["documents"]),
        ({"documents": ["d", "", "e"]}, ["documents[1]"]),
        ({"top_n": 0}, ["top_n"]),
        ({"first_scores": [0.5]}, ["first_scores"]),
        ({"first_scores": [float("nan")] * len(DOCUMENTS)}, ["first_scores"]),
        ({"headings": ["Cats"]}, ["headings"]),
        ({"budget": Duration()}, ["budget"]),
        ({"budget": Duration(seconds=-1)}, ["budget"]),
        ({"budget": Duration(seconds=3601)}, ["budget"]),
        ({"query": "", "documents": [""]}, ["documents[0]", "query"]),
        ({"provider": common.ProviderRef(type=common.PROVIDER_TYPE_CHAT, provider="openai")}, ["provider.type"]),
    ],
)
async def test_requests_that_are_refused(fields: dict[str, Any], named: list[str]) -> None:
    values: dict[str, Any] = {"query": QUERY, "documents": DOCUMENTS, **fields}
    async with serve() as running:
        refusal = await running.refusal(pb.RerankRequest(**values))
    assert refusal.reason == "INVALID_FIELD"
    assert sorted(violation.field for violation in refusal.violations) == named
