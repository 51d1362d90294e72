"""Bodies for creating, rotating and showing API keys."""

from datetime import UTC, datetime
from typing import Annotated, ClassVar

from pydantic import AwareDatetime, Field, StrictInt, StrictStr

from citewire_accounts.tenants.identity import SCOPES, Scope
from citewire_http.api.reading import Names
from citewire_http.api.schemas import RequestModel, ResponseModel, Second
from citewire_kit.errors import invalid_field
from citewire_kit.tenant import MAX_GROUP_CHARS, MAX_GROUPS

MAX_OVERLAP_SECONDS = 30 * 86_400

ExpiresAt = Annotated[
    AwareDatetime | None,
    Field(description="When it stops working (RFC 3339); absent: never.", examples=["2027-06-30T00:00:00Z"]),
]
GroupName = Annotated[StrictStr, Field(min_length=1, max_length=MAX_GROUP_CHARS)]
KeyName = Annotated[StrictStr, Field(min_length=1, max_length=100)]


class KeyBody(RequestModel):
    """A new key."""

    name: KeyName = Field(default="key", description="The key's purpose.", examples=["nightly import"])
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(SCOPES))] | None = Field(
        default=None,
        description="The key's scopes, among its creator's; absent: all of these. `read`: read documents, "
        "conversations and search; `chat`; `write`: change documents, collections and conversations; `admin`: "
        "everything that only owners and admins may do, and keys.",
        examples=[["read", "chat"]],
    )
    expires_at: ExpiresAt = None
    groups: Annotated[list[GroupName], Field(max_length=MAX_GROUPS)] | None = Field(
        default=None,
        description="Groups that it acts for, among its creator's, as long as the creator is in them; absent: the "
        "organisation's own groups that its user is in, or those named by the key that creates it.",
        examples=[["sales"]],
    )
    user: Annotated[StrictStr, Field(min_length=1, max_length=128)] | None = Field(
        default=None, description="Its user; absent: the caller. Owners and admins may name others."
    )


class RotationBody(RequestModel):
    """Options for rotating a key."""

    overlap_seconds: Annotated[StrictInt, Field(ge=0, le=MAX_OVERLAP_SECONDS)] = Field(
        default=86_400, description="How long the key's previous secret still works."
    )
    expires_at: ExpiresAt = None


class ApiKey(ResponseModel):
    """A key, without its secret."""

    names: ClassVar[Names] = {"id": "key_id", "user": "user_id"}

    id: str = Field(description="It stays the same when the key is rotated.", examples=["key_0123456789abcdef"])
    user: str = Field(examples=["ada"])
    name: str = Field(examples=["nightly import"])
    prefix: str = Field(description="Its first characters, to recognise it by.", examples=["cw_Q2hhbmdl"])
    scopes: list[Scope] = Field(examples=[["read", "chat"]])
    created_at: Second = Field(examples=["2026-11-22T08:00:00Z"])
    expires_at: Second | None = Field(description="null: never.", examples=[None])
    revoked_at: Second | None = Field(examples=[None])
    last_used_at: Second | None = Field(description="Updated about once a minute.", examples=["2026-11-22T09:00:00Z"])
    previous_until: Second | None = Field(
        description="Time until which the secret from before the last rotation works.", examples=[None]
    )
    groups: list[str] | None = Field(
        description="The groups that it names; null: the organisation's own groups that its user is in.",
        examples=[None],
    )


class NewApiKey(ApiKey):
    """A key that was just created or rotated; its secret is shown only once."""

    key: str = Field(examples=["cw_Q2hhbmdlIG1lIGJlZm9yZSB5b3UgdXNlIG1lLCB5ZXM"])


class ApiKeyList(ResponseModel):
    """Keys, sorted by user, oldest first."""

    keys: list[ApiKey]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


def future(expires_at: datetime | None) -> datetime | None:
    """Checks an expiry and returns it.

    Raises:
        InvalidArgument: It is in the past.
    """
    if expires_at is not None and expires_at <= datetime.now(UTC):
        raise invalid_field("expires_at", "must be in the future")
    return expires_at
