"""`/v1/admin`: the view of owners and admins on their organisation, and its settings."""

from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response

from citewire_accounts.api.dependencies import AccountsDep, TenantDep, authenticate, require_admin
from citewire_accounts.api.schemas.admin import (
    AuditEntry,
    AuditPage,
    OrganisationInfo,
    RoleBody,
    UserBody,
    UserDetails,
    UserInfo,
    UserList,
)
from citewire_accounts.tenants.audit import AuditQuery, AuditReader, Position
from citewire_http.api.openapi import problems
from citewire_http.api.pages import PagesDep, read_token, write_token
from citewire_http.api.parameters import Clean, PageSize, PageToken
from citewire_http.api.times import read_moment
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.audit import touch
from citewire_kit.audit_events import Action
from citewire_kit.errors import invalid_field
from citewire_kit.tenant import Tenant, is_token

router = APIRouter(route_class=CancellingRoute, tags=["admin"], dependencies=[Depends(authenticate)])

_DAY = timedelta(days=1)
_DAYS = 30
_PAGE = 1000

EventFilters = tuple[str | None, str | None, str | None, Action | None, str | None]

From = Annotated[
    str | None,
    Query(alias="from", max_length=40, description="A day (UTC) or a time (RFC 3339); absent: 30 days before now."),
]
To = Annotated[str | None, Query(max_length=40, description="A day (inclusive) or a time (exclusive); absent: now.")]
User = Annotated[str | None, Query(max_length=128, description="Only events of this user."), Clean]
ActionName = Annotated[Action | None, Query(description="Only this action.")]
ObjectName = Annotated[
    str | None, Query(alias="object", max_length=300, description="Only events of this object: `document:17`."), Clean
]


@router.get("/v1/admin/audit", summary="Read the audit trail", responses=problems(403))
async def list_audit_events(
    tenant: TenantDep,
    services: AccountsDep,
    from_: From = None,
    to: To = None,
    user: User = None,
    action: ActionName = None,
    object_name: ObjectName = None,
    page_size: PageSize = None,
    page_token: PageToken = None,
) -> AuditPage:
    """Returns the organisation's audit trail, oldest first, up to about a second ago. For owners and admins."""
    require_admin(tenant)
    filters = (from_, to, user, action, object_name)
    return await read_events(services.audit, tenant, filters, page_size or _PAGE, page_token or "")


async def read_events(
    reader: AuditReader, tenant: Tenant, filters: EventFilters, page_size: int, page_token: str
) -> AuditPage:
    """Returns a page of an organisation's events.

    Args:
        reader: Reads the events.
        tenant: The owner of the trail.
        filters: `from`, `to`, user, action and object from the request.
        page_size: Maximum number of events.
        page_token: The token from the previous page; "" for the first page.

    Raises:
        InvalidArgument: A filter or the token is wrong.
    """
    from_, to, user, action, object_name = filters
    now = datetime.now(UTC)
    end = now if to is None else read_moment("to", to, after=_DAY)
    start = end - _DAYS * _DAY if from_ is None else read_moment("from", from_)
    if start >= end:
        raise invalid_field("from", "must be before `to`")
    query = AuditQuery(start, end, user, action, object_name)
    bound = "\n".join(map(str, filters))
    events = await reader.page(tenant, query, _position(read_token(page_token, bound)), page_size + 1)
    token = write_token(bound, _key(events[page_size - 1][0])) if len(events) > page_size else ""
    return AuditPage(events=[AuditEntry.of(event) for _, event in events[:page_size]], next_page_token=token)


@router.get("/v1/admin/organisation", summary="Show your organisation", responses=problems(403))
async def get_organisation(tenant: TenantDep, services: AccountsDep) -> OrganisationInfo:
    """Returns the caller's organisation with its plan, which the operator sets. For owners and admins."""
    require_admin(tenant)
    return OrganisationInfo.of(await services.members.organisation(tenant.org_id))


@router.get("/v1/admin/users", summary="List users", responses=problems(403))
async def list_users(tenant: TenantDep, services: AccountsDep, pages: PagesDep) -> UserList:
    """Returns the organisation's users with their roles. For owners and admins; `q` searches ids and roles."""
    require_admin(tenant)
    members, token = pages.page(
        await services.members.members(tenant.org_id),
        key=lambda member: (member.user_id,),
        text=lambda member: f"{member.user_id}\n{member.role}",
    )
    return UserList(users=[UserInfo.of(member) for member in members], next_page_token=token)


@router.post("/v1/admin/users", summary="Create a user", status_code=201, responses=problems(403, 409))
async def create_user(
    tenant: TenantDep,
    services: AccountsDep,
    response: Response,
    body: Annotated[UserBody, Depends(JsonBody(UserBody))],
) -> UserInfo:
    """Creates a user before the first sign-in or key. For owners and admins, with roles up to their own."""
    require_admin(tenant)
    if not is_token(body.user):
        raise invalid_field("user", "must be 1-128 characters of A-Z a-z 0-9 _ . : @ -")
    touch(f"user:{body.user}", f"role:{body.role}")
    member = await services.members.add(tenant.org_id, body.user, body.role, by=tenant)
    response.headers["Location"] = f"/v1/admin/users/{member.user_id}"
    return UserInfo.of(member)


@router.get("/v1/admin/users/{user}", summary="Show a user", responses=problems(403, 404))
async def get_user(user: str, tenant: TenantDep, services: AccountsDep) -> UserDetails:
    """Returns a user with its groups. For owners and admins."""
    require_admin(tenant)
    member, groups = await services.members.member(tenant.org_id, user)
    return UserDetails.of(member, groups=list(groups.own), provider_groups=list(groups.provider))


@router.post("/v1/admin/users/{user}:disable", summary="Disable a user", responses=problems(403, 404, 409))
async def disable_user(user: str, tenant: TenantDep, services: AccountsDep) -> UserInfo:
    """Disables a user. Sessions and keys fail from the next request, an identity provider's tokens within 30 seconds.

    For owners and admins, for users with no role above their own except the last owner. Documents and keys stay.
    """
    require_admin(tenant)
    return UserInfo.of(await services.members.set_disabled(tenant.org_id, user, disabled=True, by=tenant))


@router.post("/v1/admin/users/{user}:enable", summary="Enable a user", responses=problems(403, 404))
async def enable_user(user: str, tenant: TenantDep, services: AccountsDep) -> UserInfo:
    """Enables a disabled user; keys that weren't revoked work again. For owners and admins."""
    require_admin(tenant)
    return UserInfo.of(await services.members.set_disabled(tenant.org_id, user, disabled=False, by=tenant))


@router.put("/v1/admin/users/{user}/role", summary="Change a user's role", responses=problems(403, 404, 409))
async def put_role(
    user: str, tenant: TenantDep, services: AccountsDep, body: Annotated[RoleBody, Depends(JsonBody(RoleBody))]
) -> UserInfo:
    """Changes a user's role, effective from the user's next request. For owners and admins.

    Nobody can grant or revoke a role above their own, and the last owner remains an owner.
    """
    require_admin(tenant)
    touch(f"role:{body.role}")
    return UserInfo.of(await services.members.set_role(tenant.org_id, user, body.role, by=tenant))


def _key(position: Position) -> tuple[str, ...]:
    at, process_id, seq, ordinal = position
    return at.isoformat(), str(process_id), str(seq), str(ordinal)


def _position(key: tuple[str, ...]) -> Position | None:
    if not key:
        return None
    try:
        at, process_id, seq, ordinal = key
        return datetime.fromisoformat(at), UUID(process_id), int(seq), int(ordinal)
    except ValueError as exc:
        raise invalid_field(
            "page_token", "must be the next_page_token of the previous page, with the same filters"
        ) from exc
