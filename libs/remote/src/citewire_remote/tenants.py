"""Tenants' own providers: sealed for their owner, opened for the caller alone, tried out before they are kept."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from citewire_kit.errors import CitewireError, FailedPrecondition, InvalidArgument
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant
from citewire_remote.addresses import EgressPolicy
from citewire_remote.egress import check_base
from citewire_remote.kinds import KINDS, ProviderType
from citewire_remote.sealing import KeySource, Owner

log = get_logger(__name__)

_KEY, _BASE = "key", "api_base"


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """A provider in plain, as its owner gives it. Converters have checked every field.

    Attributes:
        model: "" is the kind's default.
        api_base: Normalised; "" is the kind's own.
        api_key: "" if it needs none.
        user_id: Whose it is; "" is the organisation's.
        dimensions: Length of an embedding model's vectors; 0 is the model's own.
    """

    type: ProviderType
    provider: str
    model: str = ""
    api_base: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    user_id: str = ""
    dimensions: int = 0


@dataclass(frozen=True, slots=True)
class SealedProvider:
    """A provider as the gateway keeps it and hands it back with calls."""

    type: ProviderType
    provider: str
    model: str
    sealed_api_base: bytes = field(default=b"", repr=False)
    sealed_key: bytes = field(default=b"", repr=False)
    user_id: str = ""
    dimensions: int = 0


@dataclass(frozen=True, slots=True)
class OpenedProvider:
    """A provider as the process that calls it needs it. It lives in memory only."""

    type: ProviderType
    provider: str
    model: str
    api_base: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    dimensions: int = 0


@dataclass(frozen=True, slots=True)
class TrialReport:
    """How the test call went.

    Attributes:
        tried: Whether a call was made.
        reason: Name of an ErrorReason where it failed.
        text: One sentence, without any text of the provider's.
        status: HTTP status of the provider's answer; 0 if there was none.
        dimensions: Length of the vectors that an embedding model gave.
    """

    tried: bool = False
    ok: bool = False
    reason: str = ""
    text: str = ""
    status: int = 0
    dimensions: int = 0


TryOut = Callable[[OpenedProvider], Awaitable[int]]
"""Makes one small call; returns the dimensions of an embedding model, else 0. Raises CitewireError."""


class Vault:
    """Seals and opens tenants' providers.

    Args:
        keys: The master keys; None if the process has none.
        policy: Where tenants' providers may be.
    """

    def __init__(self, keys: KeySource | None, policy: EgressPolicy) -> None:
        self._keys = keys
        self.policy = policy

    async def seal(
        self, tenant: Tenant, spec: ProviderSpec, try_out: TryOut | None
    ) -> tuple[SealedProvider, TrialReport]:
        """Tries a provider out, unless `try_out` is None, and seals its key and address.

        Raises:
            InvalidArgument: Its address may not be connected to (`PROVIDER_ADDRESS`).
            FailedPrecondition: The process has no master key (`PROVIDER_SEAL`).
        """
        keyring = self._source().keyring()
        _check_owner(tenant, spec.user_id)
        spec = replace(spec, model=spec.model or KINDS[spec.type][spec.provider].model)
        if spec.api_base:
            await check_base(self.policy, spec.api_base)
        report = TrialReport(text="No test call was made.")
        if try_out is not None:
            opened = OpenedProvider(spec.type, spec.provider, spec.model, spec.api_base, spec.api_key, spec.dimensions)
            report = await _report(opened, try_out)
        owner = _owner(tenant, spec)
        sealed = SealedProvider(
            type=spec.type,
            provider=spec.provider,
            model=spec.model,
            sealed_api_base=keyring.seal(spec.api_base, owner(_BASE)) if spec.api_base else b"",
            sealed_key=keyring.seal(spec.api_key, owner(_KEY)) if spec.api_key else b"",
            user_id=spec.user_id,
            dimensions=spec.dimensions,
        )
        return sealed, report

    def open(self, tenant: Tenant, sealed: SealedProvider) -> OpenedProvider:
        """Opens a provider for the caller whose it is.

        Raises:
            InvalidArgument: It is another user's.
            FailedPrecondition: It was sealed for somebody else, or its master key isn't here (`PROVIDER_SEAL`).
        """
        _check_owner(tenant, sealed.user_id)
        base, key = "", ""
        if sealed.sealed_api_base or sealed.sealed_key:
            keyring, owner = self._source().keyring(), _owner(tenant, sealed)
            base = keyring.open(sealed.sealed_api_base, owner(_BASE)) if sealed.sealed_api_base else ""
            key = keyring.open(sealed.sealed_key, owner(_KEY)) if sealed.sealed_key else ""
        return OpenedProvider(sealed.type, sealed.provider, sealed.model, base, key, sealed.dimensions)

    def rewrap(self, tenant: Tenant, sealed: SealedProvider) -> tuple[SealedProvider, bool]:
        """Seals the same under the newest master key; False if it already was.

        Raises:
            FailedPrecondition: As `open`.
        """
        keyring, owner = self._source().keyring(), _owner(tenant, sealed)
        base = keyring.rewrap(sealed.sealed_api_base, owner(_BASE)) if sealed.sealed_api_base else None
        key = keyring.rewrap(sealed.sealed_key, owner(_KEY)) if sealed.sealed_key else None
        if base is None and key is None:
            return sealed, False
        return (
            replace(
                sealed,
                sealed_api_base=sealed.sealed_api_base if base is None else base,
                sealed_key=sealed.sealed_key if key is None else key,
            ),
            True,
        )

    def _source(self) -> KeySource:
        if self._keys is None:
            raise FailedPrecondition(
                "this server keeps no providers of its tenants' own: it was given no master key",
                reason="PROVIDER_SEAL",
            )
        return self._keys


async def _report(opened: OpenedProvider, try_out: TryOut) -> TrialReport:
    try:
        dimensions = await try_out(opened)
    except CitewireError as exc:
        if exc.reason == "PROVIDER_ADDRESS":
            raise
        log.info("provider_test_failed", provider=opened.provider, reason=exc.reason)
        status = exc.metadata.get("status", "")
        return TrialReport(
            tried=True, reason=exc.reason, text=_sentence(exc.message), status=int(status) if status.isdecimal() else 0
        )
    return TrialReport(tried=True, ok=True, text="The provider answered.", status=200, dimensions=dimensions)


def _sentence(message: str) -> str:
    text = message[:1].upper() + message[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _check_owner(tenant: Tenant, user_id: str) -> None:
    if user_id not in ("", tenant.user_id):
        raise InvalidArgument("the provider is another user's", reason="PROVIDER_SEAL")


def _owner(tenant: Tenant, provider: ProviderSpec | SealedProvider) -> Callable[[str], Owner]:
    def owner(secret: str) -> Owner:
        return Owner(tenant.org_id, provider.user_id, provider.type.value, provider.provider, secret)

    return owner
