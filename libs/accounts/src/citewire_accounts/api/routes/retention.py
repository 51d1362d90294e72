"""`/v1/admin/retention`: the organisation's retention of conversations and documents."""

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import Field, StrictInt

from citewire_accounts.api.dependencies import AccountsDep, TenantDep, authenticate, require_admin
from citewire_http.api.openapi import problems
from citewire_http.api.schemas import RequestModel, ResponseModel
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.audit import touch
from citewire_kit.errors import invalid_field

router = APIRouter(route_class=CancellingRoute, tags=["admin"], dependencies=[Depends(authenticate)])

_CONVERSATIONS = "Days that a conversation is kept after its last message; null: until it is deleted."
_DOCUMENTS = "Days that a document is kept after its last version was stored; null: until it is deleted."
_EXPIRED = "Days that a document is kept after its `valid_until`; null: until it is deleted."

Days = Annotated[StrictInt, Field(ge=1, le=36_500)] | None


class RetentionBody(RequestModel):
    """The organisation's retention policy. Absent fields stay unchanged."""

    conversation_days: Days = Field(default=None, description=_CONVERSATIONS, examples=[90])
    document_days: Days = Field(default=None, description=_DOCUMENTS, examples=[365])
    expired_document_days: Days = Field(default=None, description=_EXPIRED, examples=[30])


class RetentionInfo(ResponseModel):
    """The organisation's retention policy."""

    conversation_days: int | None = Field(description=_CONVERSATIONS, examples=[90])
    document_days: int | None = Field(description=_DOCUMENTS, examples=[365])
    expired_document_days: int | None = Field(description=_EXPIRED, examples=[30])


@router.get("/v1/admin/retention", summary="Show the retention policy", responses=problems(403))
async def get_retention(tenant: TenantDep, services: AccountsDep) -> RetentionInfo:
    """Returns the organisation's policy. For owners and admins."""
    require_admin(tenant)
    return RetentionInfo(**(await services.retention.days(tenant))._asdict())


@router.put("/v1/admin/retention", summary="Change the retention policy", responses=problems(403))
async def put_retention(
    tenant: TenantDep, services: AccountsDep, body: Annotated[RetentionBody, Depends(JsonBody(RetentionBody))]
) -> RetentionInfo:
    """Changes the organisation's policy. Older data is permanently erased within minutes. For owners and admins."""
    require_admin(tenant)
    days = body.model_dump(exclude_unset=True)
    if not days:
        raise invalid_field("conversation_days", "is required unless document_days or expired_document_days is given")
    touch(*(f"{name}:{value or 'none'}" for name, value in days.items()))
    return RetentionInfo(**(await services.retention.set_days(tenant, days))._asdict())
