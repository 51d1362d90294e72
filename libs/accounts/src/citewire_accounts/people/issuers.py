"""Identity providers, and how their claims map to organisations, users, groups, roles and plans."""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from citewire_accounts.tenants.identity import Scope
from citewire_kit.settings import is_loopback
from citewire_kit.tenant import Plan, Role, is_token

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_PREFIX: Final = re.compile(r"[A-Za-z0-9_.:@-]{0,32}")
ClaimName = Annotated[str, Field(max_length=200)]
"""A claim, or a path to one such as `realm_access.roles`."""


class Issuer(BaseModel):
    """An identity provider that speaks OpenID Connect."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "default"
    """Its name here: 1-32 of a-z, 0-9 and -."""

    issuer: str
    """Its issuer, as in its tokens and its discovery document; https, except on loopback."""

    client_id: str = ""
    """Citewire's client there; empty to accept only bearer tokens, without sign-in."""

    client_secret: SecretStr | None = None
    """The client's secret; None for a public client, protected only by PKCE."""

    request_scopes: str = "openid profile email offline_access"
    """The scopes of a sign-in. Without a refresh token, a session couldn't follow changes of groups."""

    audience: str = ""
    """The audience of bearer tokens; empty to accept none."""

    bearer_scopes: tuple[Scope, ...] = ("read", "chat", "write")
    """What a bearer token may be used for."""

    org: str = ""
    """The organisation of all its users; empty if `org_claim` names it."""

    org_claim: ClaimName = ""
    """The claim that names the organisation."""

    orgs: tuple[str, ...] = ()
    """The organisations that `org_claim` may name; at least one."""

    user_claim: ClaimName = "sub"
    """The claim that names the user. It must be one that users can't change themselves."""

    user_prefix: str = ""
    """A prefix of this issuer's user names, so that two issuers of one organisation don't name the same user."""

    groups_claim: ClaimName = "groups"
    """The claim with the user's groups; empty for none."""

    roles_claim: ClaimName = ""
    """The claim with the user's roles; empty for those assigned by the organisation."""

    roles: Mapping[str, Role] = Field(default_factory=dict)
    """Our role for each value of `roles_claim`; other values are ignored."""

    default_role: Role = "reader"
    """The role of new users, and of users without a role in the claim."""

    plan_claim: ClaimName = ""
    """The claim with the organisation's plan; if empty, it keeps its plan, and a new one gets `plan`."""

    plan: Plan = "free"
    """The plan of a new organisation."""

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError("must be 1-32 characters of a-z, 0-9 and -")
        return value

    @field_validator("user_prefix")
    @classmethod
    def _is_a_prefix(cls, value: str) -> str:
        if not _PREFIX.fullmatch(value):
            raise ValueError("must be at most 32 characters of A-Z a-z 0-9 _ . : @ -")
        return value

    @field_validator("issuer")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        if not is_safe_url(value) or urlsplit(value).query or urlsplit(value).fragment:
            raise ValueError("must be an https address without query or fragment (http on loopback only)")
        return value

    @model_validator(mode="after")
    def _names_an_organisation(self) -> Self:
        if bool(self.org) == bool(self.org_claim):
            raise ValueError("org or org_claim must be set, and not both")
        if bool(self.org_claim) != bool(self.orgs):
            raise ValueError("orgs must list the organisations that org_claim may name")
        if not all(is_token(org) for org in self.organisations):
            raise ValueError("an organisation must be 1-128 characters of A-Z a-z 0-9 _ . : @ -")
        if not self.client_id and not self.audience:
            raise ValueError("client_id (to sign in) or audience (for bearer tokens) must be set")
        if self.client_id and self.client_id == self.audience:
            raise ValueError("audience must differ from client_id: an ID token gives no access to this API")
        if self.client_id and "openid" not in self.request_scopes.split():
            raise ValueError("request_scopes must contain openid")
        return self

    @property
    def organisations(self) -> tuple[str, ...]:
        """The organisations that it may name."""
        return (self.org,) if self.org else self.orgs


def read_issuers(text: str) -> tuple[Issuer, ...]:
    """Reads identity providers from JSON.

    Raises:
        ValueError: They aren't a list of such objects, or can't be told apart; the message says where, and no value.
    """
    if not text.strip():
        return ()
    try:
        issuers = _ISSUERS.validate_python(json.loads(text))
    except ValidationError as exc:
        error = exc.errors(include_input=False, include_url=False)[0]
        path = ".".join(map(str, error["loc"]))
        message = error["msg"].removeprefix("Value error, ")
        raise ValueError(f"{path}: {message}" if path else message) from None
    except (ValueError, RecursionError):
        raise ValueError("must be a JSON list of identity providers") from None
    check_issuers(issuers)
    return issuers


def check_issuers(issuers: tuple[Issuer, ...]) -> None:
    """Refuses issuers that can't be told apart.

    Raises:
        ValueError: Two have the same name or issuer, or may name the same user.
    """
    for number, issuer in enumerate(issuers):
        for other in issuers[:number]:
            if issuer.name == other.name or issuer.issuer == other.issuer:
                raise ValueError(f"issuer {issuer.name} is configured more than once, by name or by issuer")
            if issuer.user_prefix == other.user_prefix and {*issuer.organisations} & {*other.organisations}:
                raise ValueError(
                    f"issuers {other.name} and {issuer.name} may name the same user of an organisation: "
                    "give one of them a user_prefix"
                )


_ISSUERS = TypeAdapter(tuple[Issuer, ...])


def is_safe_url(url: str) -> bool:
    """Whether secrets may be sent there: https, or http to this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))
