"""Tenants' own embedding and rerank providers: sealed by the embedder, tested, and wrapped again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from citewire.common.v1 import common_pb2 as common
from citewire.embedder.v1 import embedder_pb2 as pb
from citewire.embedder.v1.embedder_pb2_grpc import EmbedderServiceStub

from callers import KEYED, signed_channel
from citewire_embedder.app import start
from citewire_embedder.settings import EmbedderSettings
from citewire_kit import client
from citewire_kit.errors import CitewireError, FailedPrecondition
from citewire_kit.tenant import Tenant, use_tenant
from citewire_remote.sealing import new_master_key
from citewire_remote.tenant_providers import TenantProvider
from fake_embedding import DIMENSIONS, FakeModel

CANARY = "sk-canary-55aa10"
ANA, EVE = Tenant("acme", "ana", "pro"), Tenant("evil", "ana", "pro")
SPEC: dict[str, Any] = {
    "type": common.PROVIDER_TYPE_EMBEDDING,
    "provider": "openai-compatible",
    "model": "own",
    "api_base": "http://127.0.0.1:1/v1",
    "api_key": CANARY,
}


@dataclass
class Running:
    """An embedder, and the models that it was asked to build."""

    stub: EmbedderServiceStub
    operators: FakeModel
    opened: list[TenantProvider] = field(default_factory=list[TenantProvider])
    made: list[FakeModel] = field(default_factory=list[FakeModel])
    error: CitewireError | None = None

    def build(self, opened: TenantProvider) -> FakeModel:
        self.opened.append(opened)
        self.made.append(FakeModel())
        self.made[-1].error = self.error
        return self.made[-1]

    async def seal(self, tenant: Tenant = ANA, **fields: Any) -> pb.SealProviderResponse:  # noqa: ANN401 # fields of the message
        request = pb.SealProviderRequest(spec=common.ProviderSpec(**{**SPEC, **fields}))
        with use_tenant(tenant):
            return await client.unary(self.stub.SealProvider, request, timeout=20)

    async def test(self, tenant: Tenant, ref: common.ProviderRef) -> common.ProviderTest:
        with use_tenant(tenant):
            return (await client.unary(self.stub.TestProvider, pb.TestProviderRequest(ref=ref), timeout=20)).test

    async def rewrap(self, tenant: Tenant, ref: common.ProviderRef) -> pb.RewrapProviderResponse:
        with use_tenant(tenant):
            return await client.unary(self.stub.RewrapProvider, pb.RewrapProviderRequest(ref=ref), timeout=20)


@asynccontextmanager
async def serve(**options: Any) -> AsyncGenerator[Running]:  # noqa: ANN401 # settings of any kind
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
    async with AsyncExitStack() as stack:
        running: list[Running] = []
        settings = EmbedderSettings.model_validate(values)
        operators = FakeModel()
        server = await start(stack, settings, operators, lambda opened: running[0].build(opened))
        stack.push_async_callback(server.drain_and_stop)
        channel = signed_channel(f"127.0.0.1:{server.port}")
        stack.push_async_callback(channel.close)
        running.append(Running(EmbedderServiceStub(channel), operators))
        yield running[0]


async def test_a_provider_is_tested_and_sealed_with_its_space() -> None:
    async with serve() as running:
        answer = await running.seal()
        assert (answer.test.tried, answer.test.ok, answer.test.dimensions) == (True, True, DIMENSIONS)
        assert (answer.space.model, answer.space.dimensions) == ("fake", DIMENSIONS)
        assert CANARY.encode() not in answer.SerializeToString()
        (opened,) = running.opened
        assert (opened.api_key, opened.api_base, opened.model) == (CANARY, "http://127.0.0.1:1/v1", "own")
        again = await running.seal(skip_test=True)
        assert not again.test.tried
        assert not again.HasField("space")
        assert again.ref.sealed_key != answer.ref.sealed_key
        assert len(running.made) == 1
    assert running.made[0].closed


async def test_a_providers_model_embeds_and_counts_texts() -> None:
    async with serve() as running:
        ref = (await running.seal()).ref
        texts = ["one two", "three"]
        batch = pb.EmbedRequest(inputs=texts, provider=ref)

        async def batches() -> AsyncGenerator[pb.EmbedStreamRequest]:
            yield pb.EmbedStreamRequest(batch_id=7, batch=batch)

        with use_tenant(ANA):
            answer = await client.unary(running.stub.Embed, batch, timeout=20)
            counts = await client.unary(
                running.stub.CountTokens, pb.CountTokensRequest(inputs=texts, provider=ref), timeout=20
            )
            async with aclosing(client.bidi(running.stub.EmbedStream, batches(), timeout=20)) as stream:
                streamed = [entry async for entry in stream]
        assert answer.space.model == "fake"
        assert list(answer.token_counts) == [4, 3]
        assert list(counts.counts) == [2, 1]
        assert [element.batch_id for element in streamed] == [7]
        assert streamed[0].batch.vectors == answer.vectors
        (own,) = running.made  # one model did all of it, and the operator's did nothing
        assert sum(len(computed) for computed in own.batches) == 1 + 2 + 2
        assert running.operators.batches == []


async def test_another_users_provider_does_not_embed() -> None:
    async with serve() as running:
        ref = (await running.seal()).ref
        for method, request in (
            ("Embed", pb.EmbedRequest(inputs=["a"], provider=ref)),
            ("CountTokens", pb.CountTokensRequest(inputs=["a"], provider=ref)),
        ):
            with use_tenant(EVE), pytest.raises(CitewireError) as raised:
                await client.unary(getattr(running.stub, method), request, timeout=20)
            assert raised.value.reason == "PROVIDER_SEAL"


async def test_a_providers_refusal_is_reported() -> None:
    async with serve() as running:
        running.error = FailedPrecondition("it refused the key", reason="PROVIDER_AUTH", metadata={"status": "401"})
        answer = await running.seal()
        assert (answer.test.ok, answer.test.reason, answer.test.status) == (False, "PROVIDER_AUTH", 401)
        assert not answer.HasField("space")
        assert answer.ref.sealed_key


async def test_a_sealed_provider_is_tested_again() -> None:
    async with serve() as running:
        ref = (await running.seal(skip_test=True)).ref
        test = await running.test(ANA, ref)
        assert (test.tried, test.ok, test.dimensions) == (True, True, DIMENSIONS)
        (own,) = running.made
        assert len(own.batches) == 1, "one small call"
        assert running.operators.batches == []
        own.error = FailedPrecondition("it refused the key", reason="PROVIDER_AUTH", metadata={"status": "401"})
        test = await running.test(ANA, ref)
        assert (test.tried, test.ok, test.reason, test.status) == (True, False, "PROVIDER_AUTH", 401)
        assert CANARY.encode() not in test.SerializeToString()


async def test_a_reranker_is_tested_as_a_reranker() -> None:
    async with serve() as running:
        ref = (await running.seal(type=common.PROVIDER_TYPE_RERANK, skip_test=True)).ref
        test = await running.test(ANA, ref)  # nobody listens at its address
        assert (test.tried, test.ok, test.reason) == (True, False, "PROVIDER_UNAVAILABLE")
        assert CANARY.encode() not in test.SerializeToString()
        assert running.made == [], "no embedding model was built for it"


async def test_foreign_and_altered_references_are_not_tested() -> None:
    async with serve() as running:
        ref = (await running.seal(skip_test=True)).ref
        chat = common.ProviderRef()
        chat.CopyFrom(ref)
        chat.type = common.PROVIDER_TYPE_CHAT
        for tenant, sealed, reason in (
            (EVE, ref, "PROVIDER_SEAL"),
            (ANA, common.ProviderRef(), "INVALID_FIELD"),
            (ANA, chat, "INVALID_FIELD"),
        ):
            with pytest.raises(CitewireError) as raised:
                await running.test(tenant, sealed)
            assert raised.value.reason == reason
        assert running.opened == []


async def test_only_the_owner_rewraps_a_key() -> None:
    async with serve() as running:
        ref = (await running.seal(skip_test=True)).ref
        assert not (await running.rewrap(ANA, ref)).changed
        with pytest.raises(CitewireError) as raised:
            await running.rewrap(EVE, ref)
        assert raised.value.reason == "PROVIDER_SEAL"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"type": common.PROVIDER_TYPE_CHAT}, "INVALID_FIELD"),
        ({"provider": "anthropic"}, "INVALID_FIELD"),
        ({"type": common.PROVIDER_TYPE_RERANK, "provider": "cohere", "api_key": ""}, "INVALID_FIELD"),
        ({"api_base": "http://10.0.0.1/v1"}, "PROVIDER_ADDRESS"),
        ({"user_id": "bob"}, "PROVIDER_SEAL"),
    ],
)
async def test_refusals(fields: dict[str, Any], reason: str) -> None:
    async with serve() as running:
        with pytest.raises(CitewireError) as raised:
            await running.seal(**fields)
        assert raised.value.reason == reason
        assert running.opened == []
