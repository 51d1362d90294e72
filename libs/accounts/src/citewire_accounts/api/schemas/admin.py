"""The bodies of the administration routes."""

from typing import Annotated, Literal, Self

from pydantic import Field, StrictStr

from citewire_accounts.tenants.groups import Group
from citewire_accounts.tenants.members import Member, Organisation
from citewire_http.api.reading import time_text
from citewire_http.api.schemas import RequestModel, ResponseModel, Time
from citewire_kit.audit_events import AuditEvent

RoleName = Literal["reader", "editor", "admin", "owner"]
PlanName = Literal["free", "basic", "pro"]


class AuditEntry(ResponseModel):
    """An event of the audit trail."""

    at: Time = Field(description="Time at which it ended.", examples=["2026-01-15T09:31:02Z"])
    user: str = Field(description='"" if the caller is unknown.', examples=["ada"])
    key_id: str = Field(description='Id of the API key; "" without one.', examples=["key_5f0c2a6b7e119d3e"])
    issuer: str = Field(
        description='The issuer that identified the caller; "" if it was the server itself.', examples=[""]
    )
    action: str = Field(examples=["document.read"])
    objects: list[str] = Field(description="Each as `kind:id`, at most 50.", examples=[["document:17"]])
    outcome: Literal["ok", "refused", "failed"] = Field(examples=["ok"])
    reason: str = Field(description='The error\'s reason; "" if it succeeded.', examples=[""])
    address: str = Field(description="The client's.", examples=["192.0.2.7"])
    agent: str = Field(description="The client's user agent.", examples=["curl/8.14.1"])
    request_id: str = Field(examples=["5bd0b8ab6a4f4b0c8a1e6d6f3f6f4f0e"])

    @classmethod
    def of(cls, event: AuditEvent) -> "AuditEntry":
        """Returns an event without its organisation, which is the caller's."""
        return cls.model_validate(
            {
                "at": time_text(event.at),
                "user": event.user_id,
                "key_id": event.key_id,
                "issuer": event.issuer,
                "action": event.action,
                "objects": list(event.objects),
                "outcome": event.outcome,
                "reason": event.reason,
                "address": event.address,
                "agent": event.agent,
                "request_id": event.request_id,
            }
        )


class OrganisationInfo(ResponseModel):
    """The caller's organisation."""

    id: str = Field(examples=["acme"])
    plan: PlanName = Field(examples=["pro"])
    users: int = Field(examples=[12])
    keys: int = Field(description="API keys that aren't revoked.", examples=[15])
    created_at: Time = Field(examples=["2026-01-15T09:31:02Z"])

    @classmethod
    def of(cls, org: Organisation) -> "OrganisationInfo":
        """Converts an organisation to JSON."""
        return cls.model_validate(
            {
                "id": org.org_id,
                "plan": org.plan,
                "users": org.users,
                "keys": org.keys,
                "created_at": time_text(org.created_at),
            }
        )


class UserInfo(ResponseModel):
    """A user of the organisation."""

    user: str = Field(examples=["ada"])
    role: RoleName = Field(description="The highest of the user's roles.", examples=["editor"])
    disabled: bool = Field(description="Whether the user is disabled.", examples=[False])
    keys: int = Field(description="API keys that aren't revoked.", examples=[1])
    created_at: Time = Field(examples=["2026-01-15T09:31:02Z"])

    @classmethod
    def of(cls, member: Member, **more: object) -> Self:
        """Converts a user to JSON."""
        return cls.model_validate(
            {
                "user": member.user_id,
                "role": member.role,
                "disabled": member.disabled_at is not None,
                "keys": member.keys,
                "created_at": time_text(member.created_at),
                **more,
            }
        )


class UserDetails(UserInfo):
    """A user with its groups."""

    groups: list[str] = Field(description="Groups of the organisation's own.", examples=[["legal"]])
    provider_groups: list[str] = Field(description="As last reported by the identity provider.", examples=[["sales"]])


class UserList(ResponseModel):
    """A page of users, sorted by id."""

    users: list[UserInfo]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


class UserBody(RequestModel):
    """A new user."""

    user: Annotated[StrictStr, Field(min_length=1, max_length=128)] = Field(
        description="The user's name at the identity provider, with the issuer's `user_prefix`.", examples=["ada"]
    )
    role: RoleName = Field(default="reader", description="The role, unless the identity provider gives another.")


class GroupBody(RequestModel):
    """A new group."""

    name: StrictStr = Field(description="1-200 printable characters without a slash.", examples=["legal"])


class GroupInfo(ResponseModel):
    """One of the organisation's own groups."""

    name: str = Field(examples=["legal"])
    users: int = Field(description="Number of users in it.", examples=[3])
    created_by: str = Field(examples=["ada"])
    created_at: Time = Field(examples=["2026-01-15T09:31:02Z"])

    @classmethod
    def of(cls, group: Group) -> Self:
        """Converts a group to JSON."""
        return cls(
            name=group.name,
            users=group.users,
            created_by=group.created_by,
            created_at=time_text(group.created_at),
        )


class GroupList(ResponseModel):
    """A page of groups, sorted by name."""

    groups: list[GroupInfo]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


class GroupMemberList(ResponseModel):
    """A page of a group's users, sorted by id."""

    users: list[str] = Field(examples=[["ada", "bob"]])
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


class RoleBody(RequestModel):
    """A user's new role."""

    role: RoleName = Field(description="The new role; it replaces all previous ones.", examples=["admin"])


class AuditPage(ResponseModel):
    """A page of the audit trail, oldest first."""

    events: list[AuditEntry]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])
