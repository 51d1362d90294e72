"""Tenants' providers: who opens them, what a test call reports, and what is kept between calls."""

from dataclasses import replace
from pathlib import Path

import pytest
from citewire.common.v1 import common_pb2 as pb
from pydantic import ValidationError

from citewire_kit.errors import CitewireError, FailedPrecondition, InvalidArgument, Violations
from citewire_kit.tenant import Tenant
from citewire_remote.addresses import EgressPolicy
from citewire_remote.converters import from_sealed, to_sealed, to_spec
from citewire_remote.instances import Instances
from citewire_remote.kinds import ProviderType, normalise_base
from citewire_remote.sealing import FixedKeys, KeyFile, Keyring, new_master_key
from citewire_remote.settings import TenantProviderSettings
from citewire_remote.tenants import OpenedProvider, ProviderSpec, Vault

ANA, BOB, EVE = Tenant("acme", "ana", "pro"), Tenant("acme", "bob", "pro"), Tenant("evil", "ana", "pro")
CANARY = "sk-canary-0123456789"
KEYS = new_master_key("k1")
SPEC = ProviderSpec(ProviderType.CHAT, "openai-compatible", "m", "http://10.0.0.1:8000/v1", CANARY)


def vault(keys: str | None = KEYS) -> Vault:
    return Vault(FixedKeys(Keyring.parse(keys)) if keys else None, EgressPolicy.parse("10.0.0.1"))


async def test_an_organisations_provider_opens_for_its_users_and_nobody_else() -> None:
    sealed, report = await vault().seal(ANA, SPEC, None)
    assert not report.tried
    assert CANARY not in repr(sealed) + repr(SPEC)
    for caller in (ANA, BOB):
        opened = vault().open(caller, sealed)
        assert (opened.api_key, opened.api_base, opened.model) == (CANARY, "http://10.0.0.1:8000/v1", "m")
        assert CANARY not in repr(opened)
    with pytest.raises(FailedPrecondition) as raised:
        vault().open(EVE, sealed)
    assert raised.value.reason == "PROVIDER_SEAL"


async def test_a_users_provider_opens_for_that_user_only() -> None:
    sealed, _ = await vault().seal(ANA, replace(SPEC, user_id="ana"), None)
    assert vault().open(ANA, sealed).api_key == CANARY
    for caller, moved in ((BOB, sealed), (BOB, replace(sealed, user_id="bob")), (BOB, replace(sealed, user_id=""))):
        with pytest.raises(CitewireError) as raised:
            vault().open(caller, moved)
        assert raised.value.reason == "PROVIDER_SEAL"
    with pytest.raises(InvalidArgument):
        await vault().seal(BOB, replace(SPEC, user_id="ana"), None)


async def test_key_and_address_cannot_change_places() -> None:
    sealed, _ = await vault().seal(ANA, SPEC, None)
    swapped = replace(sealed, sealed_key=sealed.sealed_api_base, sealed_api_base=sealed.sealed_key)
    with pytest.raises(FailedPrecondition):
        vault().open(ANA, swapped)


async def test_a_test_call_reports_what_the_provider_said() -> None:
    async def refused(opened: OpenedProvider) -> int:
        assert opened.api_key == CANARY
        raise FailedPrecondition("the provider refused the key", reason="PROVIDER_AUTH", metadata={"status": "401"})

    async def works(_: OpenedProvider) -> int:
        return 1536

    sealed, report = await vault().seal(ANA, SPEC, refused)
    assert sealed.sealed_key
    assert (report.tried, report.ok, report.reason, report.status) == (True, False, "PROVIDER_AUTH", 401)
    assert report.text == "The provider refused the key."
    _, report = await vault().seal(ANA, SPEC, works)
    assert (report.ok, report.dimensions) == (True, 1536)


async def test_an_inner_address_is_not_sealed() -> None:
    with pytest.raises(InvalidArgument) as raised:
        await vault().seal(ANA, replace(SPEC, api_base="http://169.254.169.254/v1"), None)
    assert raised.value.reason == "PROVIDER_ADDRESS"


async def test_without_a_master_key_nothing_is_sealed() -> None:
    with pytest.raises(FailedPrecondition, match="no master key"):
        await vault(None).seal(ANA, SPEC, None)


async def test_rotation() -> None:
    sealed, _ = await vault().seal(ANA, SPEC, None)
    newest = new_master_key("k2")
    rewrapped, changed = vault(f"{newest},{KEYS}").rewrap(BOB, sealed)
    assert changed
    assert vault(f"{newest},{KEYS}").rewrap(BOB, rewrapped) == (rewrapped, False)
    assert vault(newest).open(BOB, rewrapped).api_key == CANARY


def spec(**fields: object) -> pb.ProviderSpec:
    values: dict[str, object] = {"type": pb.PROVIDER_TYPE_CHAT, "provider": "openai", "api_key": "k"}
    return pb.ProviderSpec(**{**values, **fields})  # pyright: ignore[reportArgumentType] # the test's own fields


def test_a_spec_is_read_and_its_base_normalised() -> None:
    read = to_spec(spec(api_base="https://llm.example.com/openai/v1/chat/completions/"), (ProviderType.CHAT,))
    assert read == ProviderSpec(ProviderType.CHAT, "openai", "", "https://llm.example.com/openai/v1", "k")


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
        ({"dimensions": 256}, "dimensions"),
        ({"provider": "openai-compatible", "model": "m"}, "api_base"),
        ({"provider": "openai-compatible", "api_base": "https://host"}, "model"),
    ],
)
def test_a_wrong_spec_names_its_field(fields: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        to_spec(spec(**fields), (ProviderType.CHAT,))
    assert field in {violation.field for violation in raised.value.violations}


async def test_a_sealed_provider_travels() -> None:
    sealed, _ = await vault().seal(ANA, replace(SPEC, user_id="ana"), None)
    v = Violations()
    assert to_sealed(v, from_sealed(sealed), "provider", (ProviderType.CHAT,)) == sealed
    assert not v
    assert to_sealed(v, from_sealed(sealed), "provider", (ProviderType.RERANK,)) is None
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


def opened(number: int) -> OpenedProvider:
    return OpenedProvider(ProviderType.CHAT, "openai", "m", api_key=f"key-{number}")


async def test_instances_are_shared_by_owner_and_key_and_closed_when_unused() -> None:
    made: list[Client] = []

    def build(_: OpenedProvider) -> Client:
        made.append(Client())
        return made[-1]

    kept = Instances(build, _close, most=2)
    async with kept.lease(ANA, opened(1)) as first, kept.lease(ANA, replace(opened(1), model="other")) as second:
        assert first is second
        async with kept.lease(EVE, opened(1)) as other:
            assert other is not first
        async with kept.lease(ANA, opened(2)), kept.lease(ANA, opened(3)):
            pass
        assert first.closed == 0  # dropped, and still in use
    assert [client.closed for client in made] == [1, 1, 0, 0]
    await kept.close()
    assert [client.closed for client in made] == [1, 1, 1, 1]


async def test_instances_of_one_model_each() -> None:
    kept = Instances(lambda _: Client(), _close, by_model=True)
    async with kept.lease(ANA, opened(1)) as first, kept.lease(ANA, replace(opened(1), model="other")) as second:
        assert first is not second
    await kept.close()


async def test_an_idle_instance_goes() -> None:
    kept = Instances(lambda _: Client(), _close, idle_seconds=0)
    async with kept.lease(ANA, opened(1)) as first:
        pass
    async with kept.lease(ANA, opened(2)):
        assert first.closed == 1
    await kept.close()


def test_settings_read_keys_and_allow_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert TenantProviderSettings().key_source() is None
    monkeypatch.setenv("CITEWIRE_MASTER_KEYS", KEYS)
    monkeypatch.setenv("CITEWIRE_EGRESS_ALLOW", "vllm:8000")
    settings = TenantProviderSettings()
    source = settings.key_source()
    assert isinstance(source, FixedKeys)
    assert source.keyring().first == "k1"
    assert settings.egress_policy().allows_host("vllm", 8000)
    path = tmp_path / "keys"
    path.write_text(KEYS)
    monkeypatch.setenv("CITEWIRE_MASTER_KEYS_FILE", str(path))
    with pytest.raises(ValidationError, match="only one of"):
        TenantProviderSettings()
    monkeypatch.delenv("CITEWIRE_MASTER_KEYS")
    assert isinstance(TenantProviderSettings().key_source(), KeyFile)
    monkeypatch.setenv("CITEWIRE_EGRESS_ALLOW", "http://vllm")
    with pytest.raises(ValidationError, match="neither a host"):
        TenantProviderSettings()
