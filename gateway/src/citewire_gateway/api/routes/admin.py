"""`/v1/admin`: what owners and admins see and change of their organisation."""

from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from citewire_gateway.api.dependencies import (
    Clean,
    PageSize,
    PageToken,
    ServicesDep,
    TenantDep,
    authenticate,
    require_admin,
)
from citewire_gateway.api.openapi import problems
from citewire_gateway.api.pages import read_token, write_token
from citewire_gateway.api.schemas.admin import AuditEntry, AuditPage
from citewire_gateway.api.times import read_moment
from citewire_gateway.tenants.audit import AuditQuery, Position
from citewire_kit.audit_events import Action
from citewire_kit.errors import invalid_field

router = APIRouter(tags=["admin"], dependencies=[Depends(authenticate)])

_DAY = timedelta(days=1)
_DAYS = 30
_PAGE = 1000

From = Annotated[
    str | None,
    Query(alias="from", max_length=40, description="A day (UTC) or a time (RFC 3339); absent: 30 days before now."),
]
To = Annotated[
    str | None, Query(max_length=40, description="A day, which is included, or a time, which is not; absent: now.")
]
User = Annotated[str | None, Query(max_length=128, description="Only this user's."), Clean]
ActionName = Annotated[Action | None, Query(description="Only this action.")]
ObjectName = Annotated[
    str | None, Query(alias="object", max_length=300, description="Only what names this object: `document:17`."), Clean
]


@router.get("/v1/admin/audit", summary="Read the audit trail", responses=problems(403))
async def list_audit_events(
    tenant: TenantDep,
    services: ServicesDep,
    from_: From = None,
    to: To = None,
    user: User = None,
    action: ActionName = None,
    object_name: ObjectName = None,
    page_size: PageSize = None,
    page_token: PageToken = None,
) -> AuditPage:
    """Returns what was done in the organisation, oldest first, about a second after it ended. Owners and admins may."""
    require_admin(tenant)
    now = datetime.now(UTC)
    end = now if to is None else read_moment("to", to, after=_DAY)
    start = end - _DAYS * _DAY if from_ is None else read_moment("from", from_)
    if start >= end:
        raise invalid_field("from", "must be before `to`")
    query = AuditQuery(start, end, user, action, object_name)
    bound = f"{from_}\n{to}\n{user}\n{action}\n{object_name}"
    size = page_size or _PAGE
    events = await services.audit.page(tenant, query, _position(read_token(page_token or "", bound)), size + 1)
    token = write_token(bound, _key(events[size - 1][0])) if len(events) > size else ""
    return AuditPage(events=[AuditEntry.of(event) for _, event in events[:size]], next_page_token=token)


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
            "page_token", "must be the next_page_token of the page before, with the same filters"
        ) from exc
