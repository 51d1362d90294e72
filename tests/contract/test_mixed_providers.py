"""Attacks on sealed providers over gRPC: no mixture of two of them sends the key of one to the address of the other."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from itertools import combinations
from typing import Any, Literal

import pytest
from citewire.common.v1 import common_pb2 as common
from citewire.embedder.v1 import embedder_pb2
from citewire.embedder.v1.embedder_pb2_grpc import EmbedderServiceStub
from citewire.generator.v1 import generator_pb2
from citewire.generator.v1.generator_pb2_grpc import GeneratorServiceStub

from callers import KEYED, signed_channel
from citewire_embedder import app as embedder_app
from citewire_embedder.settings import EmbedderSettings
from citewire_generator import app as generator_app
from citewire_generator.settings import GeneratorSettings
from citewire_kit import client
from citewire_kit.errors import CitewireError
from citewire_kit.tenant import Tenant, use_tenant
from citewire_ledger import MemoryLedger
from citewire_remote.kinds import PROVIDER_TYPES
from citewire_remote.sealing import Keyring, Owner, new_master_key
from fake_embedding import FakeModel
from keyed_upstream import KeyedUpstream, keyed_upstream

ANA, BOB, EVE = Tenant("acme", "ana", "pro"), Tenant("acme", "bob", "pro"), Tenant("evil", "eve", "pro")
CANARY, BAIT = "sk-canary-93b1f0", "sk-bait"
KEYS = new_master_key("k1")
CHAT, EMBEDDING, RERANK = (common.PROVIDER_TYPE_CHAT, common.PROVIDER_TYPE_EMBEDDING, common.PROVIDER_TYPE_RERANK)
THIEVES: list[tuple[Tenant, dict[str, Any]]] = [
    (BOB, {}),
    (BOB, {"user_id": "bob", "model": "another"}),
    (EVE, {}),
]
"""Attackers with fields of their own provider: the same owner, another user, another organisation."""
Service = Literal["generator", "embedder"]
Layout = Literal["whole", "apart"]


class Running:
    """A service that opens providers, and calls of its two methods that take them."""

    def __init__(self, stub: GeneratorServiceStub | EmbedderServiceStub, *types: common.ProviderType) -> None:
        self.stub = stub
        self.types = types

    async def seal(self, tenant: Tenant, spec: common.ProviderSpec) -> common.ProviderRef:
        with use_tenant(tenant):
            if isinstance(self.stub, GeneratorServiceStub):
                to_generator = generator_pb2.SealProviderRequest(spec=spec)
                return (await client.unary(self.stub.SealProvider, to_generator, timeout=20)).ref
            to_embedder = embedder_pb2.SealProviderRequest(spec=spec)
            return (await client.unary(self.stub.SealProvider, to_embedder, timeout=20)).ref

    async def rewrap(self, tenant: Tenant, ref: common.ProviderRef) -> common.ProviderRef:
        with use_tenant(tenant):
            if isinstance(self.stub, GeneratorServiceStub):
                to_generator = generator_pb2.RewrapProviderRequest(ref=ref)
                return (await client.unary(self.stub.RewrapProvider, to_generator, timeout=20)).ref
            to_embedder = embedder_pb2.RewrapProviderRequest(ref=ref)
            return (await client.unary(self.stub.RewrapProvider, to_embedder, timeout=20)).ref

    async def call(self, tenant: Tenant, ref: common.ProviderRef) -> None:
        with use_tenant(tenant):
            if isinstance(self.stub, GeneratorServiceStub):
                request = generator_pb2.GenerateRequest(question="How long do refunds take?", provider=ref)
                async with aclosing(client.stream(self.stub.Generate, request, timeout=20)) as events:
                    async for _ in events:
                        pass
            elif ref.type == RERANK:
                rank = embedder_pb2.RerankRequest(query="q", documents=["a"], provider=ref)
                await client.unary(self.stub.Rerank, rank, timeout=20)
            else:
                embed = embedder_pb2.EmbedRequest(inputs=["a"], provider=ref)
                await client.unary(self.stub.Embed, embed, timeout=20)


@asynccontextmanager
async def serve(service: Service, **options: Any) -> AsyncGenerator[Running]:  # noqa: ANN401 # settings of any kind
    values = {
        "port": 0,
        "metrics_port": 0,
        "auth": "keys",
        **KEYED,
        "leave_seconds": 0,
        "drain_seconds": 1,
        "egress_allow": "127.0.0.1",
        "master_keys": KEYS,
        **options,
    }
    async with AsyncExitStack() as stack:
        if service == "generator":
            generator = GeneratorSettings.model_validate({"attempts": 1, **values})
            server = await generator_app.start(stack, generator, ledger=MemoryLedger())
        else:
            server = await embedder_app.start(stack, EmbedderSettings.model_validate(values), FakeModel())
        stack.push_async_callback(server.drain_and_stop)
        channel = signed_channel(f"127.0.0.1:{server.port}", streams=service == "generator")
        stack.push_async_callback(channel.close)
        if service == "generator":
            yield Running(GeneratorServiceStub(channel), CHAT)
        else:
            yield Running(EmbedderServiceStub(channel), EMBEDDING, RERANK)


def spec_of(upstream: KeyedUpstream, key: str, **fields: Any) -> common.ProviderSpec:  # noqa: ANN401 # fields of the message
    values: dict[str, Any] = {
        "provider": "openai-compatible",
        "model": "own",
        "api_base": upstream.base,
        "api_key": key,
        **fields,
    }
    return common.ProviderSpec(**values, skip_test=True)


def seal_apart(tenant: Tenant, spec: common.ProviderSpec) -> common.ProviderRef:
    """Seals as the previous version did: its rows still exist after an upgrade."""
    keyring, type_ = Keyring.parse(KEYS), PROVIDER_TYPES.from_proto(spec.type)
    assert type_ is not None
    owner = (tenant.org_id, spec.user_id, type_.value, spec.provider)
    return common.ProviderRef(
        provider=spec.provider,
        model=spec.model,
        type=spec.type,
        user_id=spec.user_id,
        sealed_api_base=keyring.seal(spec.api_base.encode() + b"/v1", Owner(*owner, "api_base")),
        sealed_key=keyring.seal(spec.api_key.encode(), Owner(*owner, "key")),
    )


def mixtures(victim: common.ProviderRef, bait: common.ProviderRef) -> Iterator[common.ProviderRef]:
    """Yields every message that combines fields of the two."""
    names = [field.name for field in common.ProviderRef.DESCRIPTOR.fields]
    differing = [name for name in names if getattr(victim, name) != getattr(bait, name)]
    for count in range(len(differing) + 1):
        for taken in combinations(differing, count):
            mixed = common.ProviderRef()
            mixed.CopyFrom(victim)
            for name in taken:
                setattr(mixed, name, getattr(bait, name))
            yield mixed


async def reason_of_refusal(attempt: Awaitable[object]) -> str:
    """Returns the reason why an attempt was refused, or "" if it wasn't."""
    try:
        await attempt
    except CitewireError as exc:
        return exc.reason
    return ""


async def attack(running: Running, caller: Tenant, victim: common.ProviderRef, bait: common.ProviderRef) -> None:
    """Calls and rewraps every mixture."""
    for mixed in mixtures(victim, bait):
        await reason_of_refusal(running.call(caller, mixed))
        try:
            rewrapped = await running.rewrap(caller, mixed)
        except CitewireError:
            continue
        await reason_of_refusal(running.call(caller, rewrapped))


@pytest.mark.parametrize("layout", ["whole", "apart"])
@pytest.mark.parametrize("service", ["generator", "embedder"])
async def test_no_mixture_sends_a_key_to_another_address(service: Service, layout: Layout) -> None:
    """The thief has the victim's sealed provider, from a backup for instance, and seals one of their own.

    `apart`: the thief's is from before the upgrade, and the victim's may be.
    """
    async with keyed_upstream(CANARY) as victims, keyed_upstream(BAIT) as thiefs, serve(service) as running:
        for type_ in running.types:
            spec = spec_of(victims, CANARY, type=type_)
            victim = await running.seal(ANA, spec)
            baits = [spec_of(thiefs, BAIT, **{"type": type_, **fields}) for _, fields in THIEVES]
            baits += [spec_of(thiefs, BAIT, type=other) for other in running.types if other != type_]
            for (thief, _), bait_spec in zip([*THIEVES, (BOB, {})], baits, strict=False):
                if layout == "whole":
                    await attack(running, thief, victim, await running.seal(thief, bait_spec))
                else:
                    for old_victim in (victim, seal_apart(ANA, spec)):
                        await attack(running, thief, old_victim, seal_apart(thief, bait_spec))
        assert CANARY not in thiefs.keys
        if layout == "whole":  # otherwise the absence of the key would prove nothing
            assert CANARY in victims.keys
            assert BAIT in thiefs.keys


@pytest.mark.parametrize("service", ["generator", "embedder"])
async def test_rows_of_the_previous_version_are_resealed_as_a_whole(service: Service) -> None:
    async with keyed_upstream(CANARY) as upstream:
        async with serve(service, sealed_apart=True) as running:
            rows: list[tuple[common.ProviderRef, common.ProviderRef]] = []
            for type_ in running.types:
                apart = seal_apart(ANA, spec_of(upstream, CANARY, type=type_))
                assert await reason_of_refusal(running.call(ANA, apart)) == ""
                whole = await running.rewrap(ANA, apart)
                assert (whole.sealed_api_base, whole.model, whole.type) == (b"", apart.model, type_)
                assert await reason_of_refusal(running.call(BOB, whole)) == ""
                assert await running.rewrap(ANA, whole) == whole
                rows.append((apart, whole))
        async with serve(service) as running:
            for apart, whole in rows:
                calls = len(upstream.calls)
                for attempt in (running.call(ANA, apart), running.rewrap(ANA, apart)):
                    assert await reason_of_refusal(attempt) == "PROVIDER_SEAL"
                assert len(upstream.calls) == calls
                assert await reason_of_refusal(running.call(ANA, whole)) == ""


async def test_an_old_key_without_an_address_is_resealed() -> None:
    async with serve("generator") as running:
        spec = common.ProviderSpec(type=CHAT, provider="openai", model="m", api_key=CANARY)
        apart = seal_apart(ANA, spec)
        apart.ClearField("sealed_api_base")
        whole = await running.rewrap(ANA, apart)
        assert whole.sealed_key != apart.sealed_key
        assert await running.rewrap(ANA, whole) == whole


async def test_a_changed_dimension_is_refused() -> None:
    async with keyed_upstream(CANARY) as upstream, serve("embedder") as running:
        whole = await running.seal(ANA, spec_of(upstream, CANARY, type=EMBEDDING, dimensions=8))
        whole.dimensions = 4
        assert await reason_of_refusal(running.call(ANA, whole)) == "PROVIDER_SEAL"
        assert upstream.calls == []
        whole.dimensions = 0
        assert await reason_of_refusal(running.call(ANA, whole)) == ""
