"""`/v1/budgets`: what an organisation, or one of its API keys, may spend in a day or a month."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from citewire_gateway.api.dependencies import Clean, ServicesDep, TenantDep, authenticate, require_admin
from citewire_gateway.api.openapi import problems
from citewire_gateway.api.schemas.tenants import BudgetBody, BudgetInfo, BudgetList, BudgetScope
from citewire_gateway.http.bodies import JsonBody
from citewire_gateway.tenants.accounts import Period, to_nano
from citewire_kit.errors import invalid_field

router = APIRouter(tags=["accounting"], dependencies=[Depends(authenticate)])

OfScope = Annotated[BudgetScope, Query(description="`org`: the organisation's budget. `key`: an API key's.")]
KeyId = Annotated[str | None, Query(max_length=128, description="The API key's id, for `key`."), Clean]
OfPeriod = Annotated[Period, Query(description="Which of its budgets: by day or by month, in UTC.")]


@router.get("/v1/budgets", summary="List budgets", responses=problems(403, 409))
async def list_budgets(tenant: TenantDep, services: ServicesDep) -> BudgetList:
    """Returns the organisation's budgets and those of its keys, as they are now. Owners and admins may."""
    require_admin(tenant)
    return BudgetList(budgets=[BudgetInfo.of(budget) for budget in await services.accounts.budgets(tenant)])


@router.put("/v1/budgets", summary="Set a budget", responses=problems(403, 409))
async def put_budget(
    tenant: TenantDep, services: ServicesDep, body: Annotated[BudgetBody, Depends(JsonBody(BudgetBody))]
) -> BudgetInfo:
    """Makes a budget or changes its limit. It counts from the next call on, and what was spent before counts too.

    Owners and admins may.
    """
    require_admin(tenant)
    key_id = _key_id(body.scope, body.key_id)
    limit = to_nano(body.limit_usd)
    return BudgetInfo.of(await services.accounts.put_budget(tenant, key_id, body.period, limit))


@router.delete(
    "/v1/budgets",
    summary="Delete a budget",
    status_code=204,
    response_class=Response,
    response_description="It is gone.",
    responses=problems(403, 404),
)
async def delete_budget(
    tenant: TenantDep, services: ServicesDep, period: OfPeriod, scope: OfScope = "org", key_id: KeyId = None
) -> None:
    """Deletes a budget: from the next call on there is no limit of that kind. Owners and admins may."""
    require_admin(tenant)
    await services.accounts.delete_budget(tenant, _key_id(scope, key_id), period)


def _key_id(scope: BudgetScope, key_id: str | None) -> str:
    """The key's id; "" for the organisation."""
    if scope == "org" and key_id:
        raise invalid_field("key_id", "must be absent for the organisation's budget")
    if scope == "key" and not key_id:
        raise invalid_field("key_id", "is required for a key's budget")
    return key_id or ""
