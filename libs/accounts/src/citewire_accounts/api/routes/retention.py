"""`/v1/admin/retention`: how long the organisation keeps conversations."""

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import Field, StrictInt

from citewire_accounts.api.dependencies import AccountsDep, TenantDep, authenticate, require_admin
from citewire_http.api.openapi import problems
from citewire_http.api.schemas import RequestModel, ResponseModel
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.audit import touch

router = APIRouter(route_class=CancellingRoute, tags=["admin"], dependencies=[Depends(authenticate)])

_DAYS = "For how many days after its last message a conversation is kept; null: until it is deleted."


class RetentionBody(RequestModel):
    """How long the organisation keeps what it stores."""

    conversation_days: Annotated[StrictInt, Field(ge=1, le=36_500)] | None = Field(description=_DAYS, examples=[90])


class RetentionInfo(ResponseModel):
    """How long the organisation keeps what it stores."""

    conversation_days: int | None = Field(description=_DAYS, examples=[90])


@router.get("/v1/admin/retention", summary="Show how long conversations are kept", responses=problems(403))
async def get_retention(tenant: TenantDep, services: AccountsDep) -> RetentionInfo:
    """Returns the organisation's policy. Owners and admins may."""
    require_admin(tenant)
    return RetentionInfo(conversation_days=await services.retention.conversation_days(tenant))


@router.put("/v1/admin/retention", summary="Say how long conversations are kept", responses=problems(403))
async def put_retention(
    tenant: TenantDep, services: AccountsDep, body: Annotated[RetentionBody, Depends(JsonBody(RetentionBody))]
) -> RetentionInfo:
    """Sets the organisation's policy. Owners and admins may; what is older is erased within minutes, for good."""
    require_admin(tenant)
    touch(f"conversation_days:{body.conversation_days or 'none'}")
    await services.retention.set_conversation_days(tenant, body.conversation_days)
    return RetentionInfo(conversation_days=body.conversation_days)
