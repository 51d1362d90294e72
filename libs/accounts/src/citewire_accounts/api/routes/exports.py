"""`/v1/users/{user}/export`: the data stored about a user."""

from typing import Any, ClassVar

from fastapi import APIRouter, Depends, Response
from pydantic import Field

from citewire_accounts.api.dependencies import AccountsDep, TenantDep, authenticate, require_admin
from citewire_http.api.openapi import problems
from citewire_http.api.schemas import ResponseModel
from citewire_http.departures import CancellingRoute
from citewire_http.streams import ByteStream
from citewire_kit.errors import invalid_field
from citewire_kit.tenant import is_token

router = APIRouter(route_class=CancellingRoute, tags=["erasures"], dependencies=[Depends(authenticate)])


class ExportLine(ResponseModel):
    """A line of an export."""

    kind: str = Field(
        description="`export` in the first line; `end` in the last, which an incomplete export lacks; else the row's "
        "table.",
        examples=["corpus.documents"],
    )
    record: dict[str, Any] = Field(
        description="For `export`: `organisation`, `user`, `at`. For `end`: `records`, the number of rows. Else the "
        "row, by columns.",
        examples=[{"document_id": 17, "owner": "bob", "title": "Minutes"}],
    )


class JsonLines(ByteStream):
    """JSON values, one per line."""

    media_type: ClassVar[str] = "application/x-ndjson"


@router.get(
    "/v1/users/{user}/export",
    summary="Export a user's data",
    status_code=200,
    response_class=JsonLines,
    response_description="JSON lines.",
    responses={200: {"model": ExportLine}, **problems(403, 503)},
)
async def export_user(user: str, tenant: TenantDep, services: AccountsDep) -> Response:
    """Streams all rows that name a user, except secrets, as JSON lines. If there are only two lines, nothing is stored.

    For owners and admins, and for users about themselves.
    """
    if user != tenant.user_id:
        require_admin(tenant)
        if not is_token(user):
            raise invalid_field("user", "must be 1-128 characters of A-Z a-z 0-9 _ . : @ -")
    headers = {
        "Content-Type": JsonLines.media_type,
        "Content-Disposition": 'attachment; filename="export.jsonl"',
        "Cache-Control": "no-store",
    }
    lines = await services.exports.open(tenant, user)
    return JsonLines(lines, headers=headers, tenant=tenant, rules=services.stream_rules)
