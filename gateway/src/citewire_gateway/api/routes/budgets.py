"""`/v1/budgets`: what an organisation, or one of its API keys, may spend in a day or a month."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import JSONResponse

from citewire_gateway.api.account_docs import budget_body_docs, budgets_docs, no_budget_docs
from citewire_gateway.api.dependencies import ServicesDep, TenantDep, authenticate, require_admin
from citewire_gateway.api.queries import Clean
from citewire_gateway.api.schemas import BudgetBody
from citewire_gateway.http.bodies import json_body
from citewire_gateway.tenants.accounts import Budget, Period, to_nano, to_usd
from citewire_kit.errors import invalid_field

router = APIRouter(tags=["accounting"], dependencies=[Depends(authenticate)])

Scope = Literal["org", "key"]
OfScope = Annotated[Scope, Query(description="`org`: the organisation's budget. `key`: an API key's.")]
KeyId = Annotated[str | None, Query(max_length=128, description="The API key's id, for `key`."), Clean]
OfPeriod = Annotated[Period, Query(description="Which of its budgets: by day or by month, in UTC.")]


@router.get("/v1/budgets", summary="List budgets", **budgets_docs())
async def list_budgets(tenant: TenantDep, services: ServicesDep) -> Response:
    """Returns the organisation's budgets and those of its keys, as they are now. Owners and admins may."""
    require_admin(tenant)
    return JSONResponse({"budgets": [_shown(one) for one in await services.accounts.budgets(tenant)]})


@router.put("/v1/budgets", summary="Set a budget", **budget_body_docs())
async def put_budget(
    tenant: TenantDep, services: ServicesDep, body: Annotated[BudgetBody, Depends(json_body(BudgetBody))]
) -> Response:
    """Makes a budget or changes its limit. It counts from the next call on, and what was spent before counts too.

    Owners and admins may.
    """
    require_admin(tenant)
    key_id = _key_id(body.scope, body.key_id)
    limit = to_nano(body.limit_usd)
    return JSONResponse(_shown(await services.accounts.put_budget(tenant, key_id, body.period, limit)))


@router.delete("/v1/budgets", summary="Delete a budget", status_code=204, **no_budget_docs())
async def delete_budget(
    tenant: TenantDep, services: ServicesDep, period: OfPeriod, scope: OfScope = "org", key_id: KeyId = None
) -> Response:
    """Deletes a budget: from the next call on there is no limit of that kind. Owners and admins may."""
    require_admin(tenant)
    await services.accounts.delete_budget(tenant, _key_id(scope, key_id), period)
    return Response(status_code=204)


def _key_id(scope: Scope, key_id: str | None) -> str:
    """The key's id; "" for the organisation."""
    if scope == "org" and key_id:
        raise invalid_field("key_id", "must be absent for the organisation's budget")
    if scope == "key" and not key_id:
        raise invalid_field("key_id", "is required for a key's budget")
    return key_id or ""


def _shown(budget: Budget) -> dict[str, Any]:
    head = {"scope": "key", "key_id": budget.key_id} if budget.key_id else {"scope": "org"}
    return head | {
        "period": budget.period,
        "limit_usd": to_usd(budget.limit_nano),
        "spent_usd": to_usd(budget.spent_nano),
        "reserved_usd": to_usd(budget.reserved_nano),
        "left_usd": to_usd(max(0, budget.left_nano)),
        "period_start": _time(budget.period_start),
        "resets_at": _time(budget.resets_at),
        "updated_by": budget.updated_by,
        "updated_at": _time(budget.updated_at),
    }


def _time(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
