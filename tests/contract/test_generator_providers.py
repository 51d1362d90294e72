"""Tenants' own chat providers: sealed and opened by the generator alone, and called only at permitted addresses."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from citewire.common.v1 import common_pb2 as common
from citewire.generator.v1 import generator_pb2 as pb
from citewire.generator.v1.generator_pb2_grpc import GeneratorServiceStub

from callers import KEYED, signed_channel
from citewire_generator.app import start
from citewire_generator.settings import GeneratorSettings
from citewire_kit import client
from citewire_kit.errors import CitewireError
from citewire_kit.tenant import Tenant, use_tenant
from citewire_ledger import MemoryLedger, Purpose
from citewire_remote.sealing import new_master_key
from keyed_upstream import KeyedUpstream, keyed_upstream

CANARY = "sk-canary-8c2f77"
KEYS = new_master_key("k1")
ANA, BOB, EVE = Tenant("acme", "ana", "pro"), Tenant("acme", "bob", "pro"), Tenant("evil", "ana", "pro")


@dataclass(frozen=True)
class Running:
    """A generator, and the ledger that it writes."""

    stub: GeneratorServiceStub
    ledger: MemoryLedger

    async def seal(self, tenant: Tenant, upstream: KeyedUpstream, **fields: Any) -> pb.SealProviderResponse:  # noqa: ANN401 # fields of the message
        spec: dict[str, Any] = {
            "type": common.PROVIDER_TYPE_CHAT,
            "provider": "openai-compatible",
            "model": "own",
            "api_base": upstream.base,
            "api_key": CANARY,
            **fields,
        }
        request = pb.SealProviderRequest(spec=common.ProviderSpec(**spec))
        with use_tenant(tenant):
            return await client.unary(self.stub.SealProvider, request, timeout=20)

    async def rewrap(self, tenant: Tenant, ref: common.ProviderRef) -> pb.RewrapProviderResponse:
        with use_tenant(tenant):
            return await client.unary(self.stub.RewrapProvider, pb.RewrapProviderRequest(ref=ref), timeout=20)

    async def answer(self, tenant: Tenant, ref: common.ProviderRef, *fallbacks: pb.Fallback) -> str:
        request = pb.GenerateRequest(question="How long do refunds take?", provider=ref, fallbacks=fallbacks)
        texts: list[str] = []
        with use_tenant(tenant):
            async with aclosing(client.stream(self.stub.Generate, request, timeout=20)) as events:
                async for event in events:
                    texts += event.delta.texts
        return "".join(texts)


@asynccontextmanager
async def serve(**options: Any) -> AsyncGenerator[Running]:  # noqa: ANN401 # settings of any kind
    values = {
        "port": 0,
        "metrics_port": 0,
        "auth": "keys",
        **KEYED,
        "leave_seconds": 0,
        "drain_seconds": 1,
        "attempts": 1,
        "egress_allow": "127.0.0.1",
        **({} if "master_keys_file" in options else {"master_keys": KEYS}),
        **options,
    }
    async with AsyncExitStack() as stack:
        ledger = MemoryLedger()
        server = await start(stack, GeneratorSettings.model_validate(values), ledger=ledger)
        stack.push_async_callback(server.drain_and_stop)
        channel = signed_channel(f"127.0.0.1:{server.port}", streams=True)
        stack.push_async_callback(channel.close)
        yield Running(GeneratorServiceStub(channel), ledger)


async def test_a_sealed_provider_answers_for_its_organisation() -> None:
    async with keyed_upstream(CANARY) as upstream, serve() as running:
        sealed = await running.seal(ANA, upstream)
        assert (sealed.test.tried, sealed.test.ok) == (True, True)
        assert CANARY.encode() not in sealed.SerializeToString()
        assert str(upstream.port).encode() not in sealed.SerializeToString()
        assert (await running.answer(BOB, sealed.ref)).startswith("Refunds take five days")
        assert upstream.keys == [CANARY, CANARY]
        with use_tenant(ANA):
            again = await client.unary(running.stub.TestProvider, pb.TestProviderRequest(ref=sealed.ref), timeout=20)
        assert (again.test.tried, again.test.ok) == (True, True)
        assert upstream.keys == [CANARY] * 3
        purposes = [(row.new.purpose, row.new.own) for row in running.ledger.rows]
        assert purposes == [(Purpose.PROVIDER_TEST, True), (Purpose.GENERATION, True), (Purpose.PROVIDER_TEST, True)]


async def test_a_ciphertext_of_another_tenants_row_cannot_be_opened() -> None:
    async with keyed_upstream(CANARY) as upstream, serve() as running:
        orgs = (await running.seal(ANA, upstream, skip_test=True)).ref
        anas = (await running.seal(ANA, upstream, skip_test=True, user_id="ana")).ref
        moved = common.ProviderRef()
        moved.CopyFrom(anas)
        moved.user_id = "bob"
        for caller, ref in ((EVE, orgs), (EVE, anas), (BOB, anas), (BOB, moved)):
            with pytest.raises(CitewireError) as raised:
                await running.answer(caller, ref)
            assert raised.value.reason == "PROVIDER_SEAL"
        with pytest.raises(CitewireError):
            await running.rewrap(EVE, orgs)
        assert upstream.calls == []
        assert await running.answer(ANA, anas)


async def test_a_refused_key_is_reported_and_not_repeated() -> None:
    async with keyed_upstream("another") as upstream, serve() as running:
        sealed = await running.seal(ANA, upstream)
        assert (sealed.test.ok, sealed.test.reason, sealed.test.status) == (False, "PROVIDER_AUTH", 401)
        assert CANARY not in str(sealed.test)
        assert sealed.ref.sealed_key
        with pytest.raises(CitewireError) as raised:
            await running.answer(ANA, sealed.ref)
        assert raised.value.reason == "PROVIDER_AUTH"
        assert CANARY not in str(raised.value) + str(raised.value.metadata)


async def test_internal_addresses_are_neither_sealed_nor_called() -> None:
    async with keyed_upstream(CANARY) as upstream:
        async with serve() as running:
            ref = (await running.seal(ANA, upstream)).ref
        calls = len(upstream.calls)
        async with serve(egress_allow="") as running:
            for attempt in (running.seal(ANA, upstream), running.seal(ANA, upstream, skip_test=True)):
                with pytest.raises(CitewireError) as raised:
                    await attempt
                assert raised.value.reason == "PROVIDER_ADDRESS"
            with pytest.raises(CitewireError) as raised:
                await running.answer(ANA, ref)
            assert raised.value.reason == "PROVIDER_ADDRESS"
            assert len(upstream.calls) == calls


async def test_a_tenants_own_fallback_takes_over() -> None:
    async with keyed_upstream("another") as refusing, keyed_upstream(CANARY) as upstream, serve() as running:
        first = (await running.seal(ANA, refusing, skip_test=True)).ref
        second = (await running.seal(ANA, upstream, skip_test=True, model="second")).ref
        assert "five days" in await running.answer(ANA, first, pb.Fallback(provider=second))
        assert len(refusing.calls) == 1


async def test_master_keys_rotate_while_the_process_runs(tmp_path: Path) -> None:
    path, newest = tmp_path / "keys", new_master_key("k2")
    path.write_text(KEYS)
    async with keyed_upstream(CANARY) as upstream, serve(master_keys_file=path) as running:
        old = (await running.seal(ANA, upstream, skip_test=True)).ref
        assert not (await running.rewrap(ANA, old)).changed
        path.write_text(f"{newest}\n{KEYS}\n")
        answer = await running.rewrap(ANA, old)
        assert answer.changed
        path.write_text(newest)
        assert await running.answer(ANA, answer.ref)
        with pytest.raises(CitewireError) as raised:
            await running.answer(ANA, old)
        assert raised.value.reason == "PROVIDER_SEAL"


async def test_without_master_keys_there_are_no_own_providers() -> None:
    async with keyed_upstream(CANARY) as upstream, serve(master_keys=None) as running:
        with pytest.raises(CitewireError, match="no master key") as raised:
            await running.seal(ANA, upstream)
        assert raised.value.reason == "PROVIDER_SEAL"


async def test_a_wrong_spec_names_its_fields() -> None:
    async with keyed_upstream(CANARY) as upstream, serve() as running:
        with pytest.raises(CitewireError) as raised:
            await running.seal(ANA, upstream, provider="cohere", api_base="ftp://x")
        assert {violation.field for violation in raised.value.violations} == {"provider", "api_base"}
        with pytest.raises(CitewireError) as raised:
            await running.answer(ANA, common.ProviderRef(provider="openai"), pb.Fallback())
        assert {violation.field for violation in raised.value.violations} == {"provider.type", "fallbacks[0]"}
