"""The signed-in user."""

from typing import Literal, Self

from pydantic import Field

from citewire_accounts.tenants.identity import Caller, Scope
from citewire_http.api.reading import time_text
from citewire_http.api.schemas import ResponseModel
from citewire_kit.tenant import Plan


class CallerInfo(ResponseModel):
    """The caller of a request, by key, token or session."""

    org: str = Field(examples=["acme"])
    user: str = Field(examples=["ada"])
    plan: Plan = Field(examples=["pro"])
    roles: list[str] = Field(examples=[["editor"]])
    groups: list[str] = Field(
        description="The groups from the identity provider and the organisation; a key has its own.",
        examples=[["sales"]],
    )
    kind: Literal["key", "token", "session"] = Field(examples=["session"])
    scopes: list[Scope] = Field(examples=[["read", "chat", "write", "admin"]])
    key_id: str | None = Field(description="The id of an API key.", examples=[None])
    expires_at: str | None = Field(
        description="Expiry of the key, token or session; null: never.", examples=["2026-11-22T20:00:00Z"]
    )

    @classmethod
    def of(cls, caller: Caller) -> Self:
        """Describes a caller."""
        tenant = caller.tenant
        return cls(
            org=tenant.org_id,
            user=tenant.user_id,
            plan=tenant.plan,
            roles=list(tenant.roles),
            groups=list(tenant.groups),
            kind=caller.kind,
            scopes=list(caller.scopes),
            key_id=tenant.key_id or None,
            expires_at=None if caller.expires_at is None else time_text(caller.expires_at.replace(microsecond=0)),
        )


class SignedOut(ResponseModel):
    """The session has ended here."""

    end_session_url: str | None = Field(
        description="The identity provider's sign-out URL; null: none.",
        examples=["https://id.example.org/session/end?client_id=citewire"],
    )
