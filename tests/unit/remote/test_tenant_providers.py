"""Tenants' providers: who opens them, the report of a test call, and clients shared between calls."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from citewire.common.v1 import common_pb2 as pb
from pydantic import ValidationError

from citewire_egress.addresses import EgressPolicy
from citewire_kit.errors import CitewireError, FailedPrecondition, InvalidArgument, Violations
from citewire_kit.tenant import Tenant, use_tenant
from citewire_remote.converters import provider_from_proto, ref_from_proto
from citewire_remote.kinds import ProviderType, normalise_base
from citewire_remote.sealing import Keyring, new_master_key
from citewire_remote.settings import TenantProviderSettings
from citewire_remote.tenant_providers import TenantClients, TenantProvider, TestCall, Vault

ANA, BOB, EVE = Tenant("acme", "ana", "pro"), Tenant("acme", "bob", "pro"), Tenant("evil", "ana", "pro")
CANARY = "sk-canary-0123456789"
KEYS = new_master_key("k1")
SPEC = TenantProvider(ProviderType.CHAT, "openai-compatible", "m", "http://10.0.0.1:8000/v1", CANARY)


def vault(keys: str | None = KEYS) -> Vault:
    return Vault((lambda: Keyring.parse(keys)) if keys else None, EgressPolicy.parse("10.0.0.1"))


async def seal(
    tenant: Tenant, provider: TenantProvider, test: TestCall | None = None
) -> tuple[pb.ProviderRef, pb.ProviderTest]:
    with use_tenant(tenant):
        ref, report, _ = await vault().seal(provider, test)
    return ref, report


def open_as(tenant: Tenant, ref: pb.ProviderRef, keys: str = KEYS) -> TenantProvider:
    with use_tenant(tenant):
        return vault(keys).open(ref)


def rewrap_as(tenant: Tenant, ref: pb.ProviderRef, keys: str) -> tuple[pb.ProviderRef, bool]:
    with use_tenant(tenant):
        return vault(keys).rewrap(ref)


def with_fields(ref: pb.ProviderRef, **fields: object) -> pb.ProviderRef:
    copy = pb.ProviderRef()
    copy.CopyFrom(ref)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


async def test_an_organisations_provider_opens_for_its_users_and_nobody_else() -> None:
    sealed, report = await seal(ANA, SPEC)
    assert not report.tried
    assert CANARY not in repr(SPEC)
    assert CANARY.encode() not in sealed.SerializeToString()
    for caller in (ANA, BOB):
        opened = open_as(caller, sealed)
        assert (opened.api_key, opened.api_base, opened.model) == (CANARY, "http://10.0.0.1:8000/v1", "m")
        assert CANARY not in repr(opened)
    with pytest.raises(FailedPrecondition) as raised:
        open_as(EVE, sealed)
    assert raised.value.reason == "PROVIDER_SEAL"


async def test_a_users_provider_opens_for_that_user_only() -> None:
    sealed, _ = await seal(ANA, replace(SPEC, user_id="ana"))
    assert open_as(ANA, sealed).api_key == CANARY
    for caller, moved in (
        (BOB, sealed),
        (BOB, with_fields(sealed, user_id="bob")),
        (BOB, with_fields(sealed, user_id="")),
    ):
        with pytest.raises(CitewireError) as raised:
            open_as(caller, moved)
        assert raised.value.reason == "PROVIDER_SEAL"
    with pytest.raises(InvalidArgument):
        await seal(BOB, replace(SPEC, user_id="ana"))


async def test_key_and_address_cannot_be_swapped() -> None:
    sealed, _ = await seal(ANA, SPEC)
    swapped = with_fields(sealed, sealed_key=sealed.sealed_api_base, sealed_api_base=sealed.sealed_key)
    with pytest.raises(FailedPrecondition):
        open_as(ANA, swapped)


async def test_a_test_call_reports_the_providers_answer() -> None:
    async def refuse(opened: TenantProvider) -> None:
        assert opened.api_key == CANARY
        raise FailedPrecondition("the provider refused the key", reason="PROVIDER_AUTH", metadata={"status": "401"})

    async def works(_: TenantProvider) -> pb.EmbeddingSpace:
        return pb.EmbeddingSpace(model="m", revision="r", dimensions=1536)

    sealed, report = await seal(ANA, SPEC, refuse)
    assert sealed.sealed_key
    assert (report.tried, report.ok, report.reason, report.status) == (True, False, "PROVIDER_AUTH", 401)
    assert report.text == "The provider refused the key."
    _, report = await seal(ANA, SPEC, works)
    assert (report.ok, report.dimensions) == (True, 1536)


async def test_an_internal_address_is_not_sealed() -> None:
    with pytest.raises(InvalidArgument) as raised:
        await seal(ANA, replace(SPEC, api_base="http://169.254.169.254/v1"))
    assert raised.value.reason == "PROVIDER_ADDRESS"


async def test_without_a_master_key_nothing_is_sealed() -> None:
    with pytest.raises(FailedPrecondition, match="no master key"):
        with use_tenant(ANA):
            await vault(None).seal(SPEC, None)


async def test_rotation() -> None:
    sealed, _ = await seal(ANA, SPEC)
    newest = new_master_key("k2")
    rewrapped, is_new = rewrap_as(BOB, sealed, f"{newest},{KEYS}")
    assert is_new
    assert rewrap_as(BOB, rewrapped, f"{newest},{KEYS}") == (rewrapped, False)
    assert open_as(BOB, rewrapped, newest).api_key == CANARY


def spec(**fields: object) -> pb.ProviderSpec:
    values: dict[str, object] = {"type": pb.PROVIDER_TYPE_CHAT, "provider": "openai", "api_key": "k"}
    return pb.ProviderSpec(**{**values, **fields})  # pyright: ignore[reportArgumentType] # the test's own fields


def test_a_spec_is_read_and_its_base_normalised() -> None:
    read = provider_from_proto(
        spec(api_base="https://llm.example.com/openai/v1/chat/completions/"), (ProviderType.CHAT,)
    )
    assert read == TenantProvider(ProviderType.CHAT, "openai", "", "https://llm.example.com/openai/v1", "k")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"type": pb.PROVIDER_TYPE_EMBEDDING}, "type"),
        ({"type": 0}, "type"),
        ({"provider": "cohere"}, "provider"),
        ({"api_key": ""}, "api_key"),
        ({"api_key": "a\nb"}, "api_key"),
        ({"api_key": "ключ"}, "api_key"),
        ({"api_key": "k" * 5000}, "api_key"),
        ({"model": "a\nb"}, "model"),
        ({"api_base": "ftp://host"}, "api_base"),
        ({"api_base": "https://user:pw@host/v1"}, "api_base"),
        ({"api_base": "https://host/v1?x=1"}, "api_base"),
        ({"api_base": "https://" + "h" * 3000}, "api_base"),
        ({"api_base": "http://0x7f000001/v1"}, "api_base"),
        ({"dimensions": 256}, "dimensions"),
        ({"provider": "openai-compatible", "model": "m"}, "api_base"),
        ({"provider": "openai-compatible", "api_base": "https://host"}, "model"),
    ],
)
def test_a_wrong_spec_names_its_field(fields: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        provider_from_proto(spec(**fields), (ProviderType.CHAT,))
    assert field in {violation.field for violation in raised.value.violations}


async def test_a_sealed_provider_is_checked_by_its_type() -> None:
    sealed, _ = await seal(ANA, replace(SPEC, user_id="ana"))
    v = Violations()
    assert ref_from_proto(v, sealed, "provider", (ProviderType.CHAT,)) == sealed
    assert not v
    ref_from_proto(v, sealed, "provider", (ProviderType.RERANK,))
    assert v


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("http://localhost:11434", "http://localhost:11434/v1"),
        ("https://api.openai.com/v1/", "https://api.openai.com/v1"),
        (" https://host/a/b/v1/embeddings ", "https://host/a/b/v1"),
        ("https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1"),
    ],
)
def test_bases_end_in_v1(given: str, normal: str) -> None:
    assert normalise_base(given) == normal


class Client:
    closed = 0


async def _close(client: Client) -> None:
    client.closed += 1


@asynccontextmanager
async def lease(clients: TenantClients[Client], tenant: Tenant, provider: TenantProvider) -> AsyncGenerator[Client]:
    with use_tenant(tenant):
        async with clients.lease(provider) as client:
            yield client


def make_provider(number: int) -> TenantProvider:
    return TenantProvider(ProviderType.CHAT, "openai", "m", api_key=f"key-{number}")


async def test_clients_are_shared_by_owner_and_key_and_closed_when_unused() -> None:
    made: list[Client] = []

    def build(_: TenantProvider) -> Client:
        made.append(Client())
        return made[-1]

    clients = TenantClients(vault(), build, _close, max_clients=2)
    async with (
        lease(clients, ANA, make_provider(1)) as first,
        lease(clients, ANA, replace(make_provider(1), model="other")) as second,
    ):
        assert first is second
        async with lease(clients, EVE, make_provider(1)) as other:
            assert other is not first
        async with lease(clients, ANA, make_provider(2)), lease(clients, ANA, make_provider(3)):
            pass
        assert first.closed == 0  # dropped, but still in use
    assert [client.closed for client in made] == [1, 1, 0, 0]
    await clients.close()
    assert [client.closed for client in made] == [1, 1, 1, 1]


async def test_each_model_has_its_own_client() -> None:
    clients = TenantClients(vault(), lambda _: Client(), _close, by_model=True)
    async with (
        lease(clients, ANA, make_provider(1)) as first,
        lease(clients, ANA, replace(make_provider(1), model="other")) as second,
    ):
        assert first is not second
    await clients.close()


async def test_a_clients_requirements_are_loaded_once_and_outside_the_loop() -> None:
    loaded: list[int] = []
    made: list[Client] = []

    def load(_: TenantProvider) -> None:
        assert threading.current_thread() is not threading.main_thread()
        loaded.append(len(made))
        both.wait(timeout=10)  # so that both calls find no client, and neither blocks the loop

    def build(_: TenantProvider) -> Client:
        made.append(Client())
        return made[-1]

    async def use() -> None:
        async with lease(clients, ANA, make_provider(1)):
            pass

    both = threading.Barrier(2)
    clients = TenantClients(vault(), build, _close, load=load)
    await asyncio.gather(use(), use())
    assert (loaded, len(made)) == ([0, 0], 1)
    await use()
    assert len(loaded) == 2
    await clients.close()


async def test_an_idle_client_is_closed() -> None:
    clients = TenantClients(vault(), lambda _: Client(), _close, idle_seconds=0)
    async with lease(clients, ANA, make_provider(1)) as first:
        pass
    async with lease(clients, ANA, make_provider(2)):
        assert first.closed == 1
    await clients.close()


def test_settings_read_keys_and_allow_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert TenantProviderSettings().key_source() is None
    monkeypatch.setenv("CITEWIRE_MASTER_KEYS", KEYS)
    monkeypatch.setenv("CITEWIRE_EGRESS_ALLOW", "vllm:8000")
    settings = TenantProviderSettings()
    source = settings.key_source()
    assert source is not None
    assert source().first == "k1"
    assert settings.egress_policy().allows_host("vllm", 8000)
    path = tmp_path / "keys"
    path.write_text(KEYS)
    monkeypatch.setenv("CITEWIRE_MASTER_KEYS_FILE", str(path))
    with pytest.raises(ValidationError, match="only one of"):
        TenantProviderSettings()
    monkeypatch.delenv("CITEWIRE_MASTER_KEYS")
    from_file = TenantProviderSettings().key_source()
    assert from_file is not None
    path.write_text(f"{new_master_key('k2')},{KEYS}")
    assert from_file().first == "k2"
    monkeypatch.setenv("CITEWIRE_EGRESS_ALLOW", "http://vllm")
    with pytest.raises(ValidationError, match="neither a host"):
        TenantProviderSettings()
