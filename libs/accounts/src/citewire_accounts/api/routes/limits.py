"""`/v1/admin/limits`: limits that owners and admins set for users and API keys of their organisation."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from citewire_accounts.api.dependencies import AccountsDep, TenantDep, authenticate, require_admin
from citewire_accounts.api.owners import check_owner
from citewire_accounts.api.schemas.limits import LimitBody, MeasureName, OwnLimitInfo, OwnLimitList, OwnScope
from citewire_http.api.openapi import deleted, problems
from citewire_http.api.pages import PagesDep
from citewire_http.api.parameters import Clean
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.audit import touch
from citewire_kit.plan_limits import LimitScope, Measure

router = APIRouter(route_class=CancellingRoute, tags=["admin"], dependencies=[Depends(authenticate)])

OfScope = Annotated[OwnScope, Query(description="The owner of the limit: a user or an API key.")]
OfMeasure = Annotated[MeasureName, Query(description="The measure that it limits.")]
OfUser = Annotated[str | None, Query(max_length=128, description="The user, for `user`."), Clean]
OfKey = Annotated[str | None, Query(max_length=128, description="The API key's id, for `key`."), Clean]


@router.get("/v1/admin/limits", summary="List limits of users and keys", responses=problems(403))
async def list_own_limits(tenant: TenantDep, services: AccountsDep, pages: PagesDep) -> OwnLimitList:
    """Returns the limits that override the plan's. For owners and admins.

    `q` searches users, ids of keys and measures.
    """
    require_admin(tenant)
    limits, token = pages.page(
        await services.own_limits.limits(tenant.org_id),
        key=lambda limit: (limit.scope, limit.subject, limit.measure),
        text=lambda limit: f"{limit.subject}\n{limit.measure}",
    )
    return OwnLimitList(limits=[OwnLimitInfo.of(limit) for limit in limits], next_page_token=token)


@router.put("/v1/admin/limits", summary="Limit a user or a key", responses=problems(403))
async def put_own_limit(
    tenant: TenantDep, services: AccountsDep, body: Annotated[LimitBody, Depends(JsonBody(LimitBody))]
) -> OwnLimitInfo:
    """Sets a limit, effective within 30 seconds on every gateway. It never allows more than the plan.

    For owners and admins.
    """
    require_admin(tenant)
    scope, measure = LimitScope(body.scope), Measure(body.measure)
    subject = _subject(body.scope, body.user, body.key_id)
    touch(f"limit:{measure}-{scope}/{subject}")
    limit = await services.own_limits.put(tenant.org_id, scope, subject, measure, body.limit, by=tenant.user_id)
    return OwnLimitInfo.of(limit)


@router.delete("/v1/admin/limits", summary="Delete a limit of a user or a key", **deleted(403, 404))
async def delete_own_limit(
    tenant: TenantDep,
    services: AccountsDep,
    scope: OfScope,
    measure: OfMeasure,
    user: OfUser = None,
    key_id: OfKey = None,
) -> None:
    """Deletes a limit; the plan's applies again within 30 seconds on every gateway. For owners and admins."""
    require_admin(tenant)
    subject = _subject(scope, user, key_id)
    touch(f"limit:{measure}-{scope}/{subject}")
    await services.own_limits.delete(tenant.org_id, LimitScope(scope), subject, Measure(measure))


def _subject(scope: OwnScope, user: str | None, key_id: str | None) -> str:
    """The owner of the limit."""
    check_owner(scope, "limit", {"user": ("user", user), "key_id": ("key", key_id)})
    return user or key_id or ""
