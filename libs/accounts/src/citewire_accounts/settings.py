"""Settings of accounts and of the operator's commands."""

from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings

from citewire_accounts.people.issuers import Issuer, is_safe_url, read_issuers
from citewire_accounts.people.sealer import MIN_SECRET_CHARS
from citewire_accounts.tenants.providers import ProviderType
from citewire_http.settings import ORIGIN
from citewire_kit.plan_limits import PlanLimitSettings
from citewire_kit.settings import ProcessSettings, settings_config

PREFIX = "CITEWIRE_GATEWAY_"
"""Settings of the process that keeps accounts, and of its commands."""


class AccountSettings(ProcessSettings, PlanLimitSettings):
    """Mixed into the settings of the process that keeps accounts."""

    model_config = settings_config("CITEWIRE_")

    offered_providers: str = Field(default="chat,embedding,rerank")
    """Types of the operator's providers that tenants may use, separated by commas; `none`: tenants bring their own."""

    audit_days: int = Field(default=400, ge=30, le=36_500)
    """Days that the audit trail of an organisation without its own policy is kept."""

    oidc_issuers: SecretStr = SecretStr("")
    """Identity providers for sign-in and bearer tokens, as a JSON list."""

    public_url: str = ""
    """This server's URL for browsers, such as https://citewire.example.org; required for sign-in."""

    session_secrets: SecretStr = SecretStr("")
    """Secrets of at least 32 characters each, with white space between: the first seals what sessions hold, all of them
    open it. The same on every gateway; needed where people sign in."""

    session_hours: float = Field(default=12.0, gt=0, le=24 * 30)
    """Hours after which a person must sign in again, however active."""

    @field_validator("oidc_issuers")
    @classmethod
    def _are_issuers(cls, value: SecretStr) -> SecretStr:
        read_issuers(value.get_secret_value())
        return value

    @model_validator(mode="after")
    def _sign_in_is_complete(self) -> Self:
        if not self.signs_in():
            return self
        if self.auth == "off":
            raise ValueError(f"{self.env_name('oidc_issuers')} has no effect while CITEWIRE_AUTH is off")
        if not is_safe_url(self.public_url) or not ORIGIN.fullmatch(self.public_url):
            raise ValueError(
                f"{self.env_name('public_url')}: must be an https origin (http on loopback only), in lower case and "
                "without a path, such as https://citewire.example.org"
            )
        if not self.sealing_secrets() or any(len(secret) < MIN_SECRET_CHARS for secret in self.sealing_secrets()):
            raise ValueError(
                f"{self.env_name('session_secrets')}: each must have {MIN_SECRET_CHARS} characters or more"
            )
        return self

    def signs_in(self) -> bool:
        """Whether people sign in with a browser."""
        return any(issuer.client_id for issuer in self.issuers())

    def issuers(self) -> tuple[Issuer, ...]:
        """Returns the identity providers."""
        return read_issuers(self.oidc_issuers.get_secret_value())

    def sealing_secrets(self) -> tuple[str, ...]:
        """Returns the secrets of sessions, the newest first."""
        return tuple(self.session_secrets.get_secret_value().split())

    @field_validator("offered_providers")
    @classmethod
    def _are_types(cls, value: str) -> str:
        _types_in(value)
        return value

    def offered_types(self) -> frozenset[ProviderType]:
        """Returns the types of the operator's providers that tenants may use."""
        return _types_in(self.offered_providers)


def _types_in(value: str) -> frozenset[ProviderType]:
    names = [] if value.strip() == "none" else [name.strip() for name in value.split(",")]
    unknown = [name for name in names if name not in set(ProviderType)]
    if unknown:
        raise ValueError(f"there is no such type of provider; there are: {', '.join(ProviderType)}")
    return frozenset(ProviderType(name) for name in names)


class DatabaseSettings(BaseSettings):
    """Settings of `keys`; one of the two is required."""

    model_config = settings_config(PREFIX)

    dsn: str | None = None
    """Connection string of the application role `citewire_chat`: keys of one organisation at a time."""

    migrate_dsn: str | None = None
    """Connection string of the role that owns the schema `chat`: keys of all organisations."""

    @classmethod
    def env_name(cls, field: str) -> str:
        """Returns the environment variable that sets `field`."""
        return f"{PREFIX}{field}".upper()
