"""Settings shared by the embedder and the generator: addresses of providers, master keys, the egress policy."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self, TypeAlias

from pydantic import AfterValidator, AliasChoices, Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings

from citewire_egress.addresses import EgressPolicy
from citewire_kit.settings import ProcessSettings, settings_config
from citewire_remote.kinds import normalise_base
from citewire_remote.sealing import KeyFile, Keyring, KeySource
from citewire_remote.tenant_providers import Vault


def _base(value: str) -> str:
    return normalise_base(value) if value.strip() else ""


ApiBase: TypeAlias = Annotated[str, AfterValidator(_base)]
"""A provider's base URL, which ends in `/v1`; "" is the provider's own."""


def text_of(value: str | SecretStr | None) -> str:
    """Returns a setting without surrounding white space; "" if it isn't set."""
    return (value.get_secret_value() if isinstance(value, SecretStr) else value or "").strip()


def require(settings: ProcessSettings, provider: str, needed: Mapping[str, tuple[str, ...]]) -> None:
    """Checks that everything the provider needs is set.

    Args:
        settings: They have a field `provider`.
        provider: The selected provider.
        needed: Names of required fields, by provider.

    Raises:
        ValueError: Something isn't set.
    """
    for name in needed.get(provider, ()):
        if not text_of(getattr(settings, name)):
            raise ValueError(
                f"{settings.env_name(name)} is required when {settings.env_name('provider')} is {provider}"
            )


class TenantProviderSettings(BaseSettings):
    """Mixed into a process's settings."""

    model_config = settings_config("CITEWIRE_")

    master_keys: SecretStr | None = Field(default=None, validation_alias=AliasChoices("CITEWIRE_MASTER_KEYS"))
    """Master keys `id:base64url(32 bytes)`, separated by commas: the first seals tenants' keys, and all of them open.
    Without them and without a file, tenants can't save providers."""

    master_keys_file: Path | None = Field(default=None, validation_alias=AliasChoices("CITEWIRE_MASTER_KEYS_FILE"))
    """File with the same content, read again when it changes, so that a rotation needs no restart."""

    egress_allow: str = Field(default="", validation_alias=AliasChoices("CITEWIRE_EGRESS_ALLOW"))
    """Private addresses allowed for tenant providers, separated by commas: hosts, `host:port`, addresses, CIDR
    ranges. Public addresses are always allowed."""

    sealed_apart: bool = Field(default=False, validation_alias=AliasChoices("CITEWIRE_SEALED_APART"))
    """Whether keys and addresses that an earlier version sealed separately are still opened: only from an upgrade until
    `rotate` has sealed them together, because meanwhile a stolen sealed key could be sent to another address."""

    @field_validator("master_keys")
    @classmethod
    def _are_keys(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            Keyring.parse(value.get_secret_value())
        return value

    @field_validator("egress_allow")
    @classmethod
    def _is_a_list(cls, value: str) -> str:
        EgressPolicy.parse(value)
        return value

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.master_keys is not None and self.master_keys_file is not None:
            raise ValueError("only one of CITEWIRE_MASTER_KEYS and CITEWIRE_MASTER_KEYS_FILE may be set")
        return self

    def key_source(self) -> KeySource | None:
        """Returns the master keys; None without any.

        Raises:
            StartupError: The file can't be read.
        """
        if self.master_keys_file is not None:
            return KeyFile(self.master_keys_file).keyring
        if self.master_keys is None:
            return None
        keyring = Keyring.parse(self.master_keys.get_secret_value())
        return lambda: keyring

    def vault(self) -> Vault:
        """Returns the vault, which seals and opens tenants' providers.

        Raises:
            StartupError: The file of master keys can't be read.
        """
        return Vault(self.key_source(), self.egress_policy(), sealed_apart=self.sealed_apart)

    def egress_policy(self) -> EgressPolicy:
        """Returns the policy for the addresses of tenant providers."""
        return EgressPolicy.parse(self.egress_allow)
