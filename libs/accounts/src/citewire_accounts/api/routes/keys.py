"""`/v1/keys`: the caller's API keys; for owners and admins, those of the whole organisation."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from citewire_accounts.api.dependencies import (
    AccountsDep,
    AccountServices,
    CallerDep,
    authenticate,
    is_admin,
    require_admin,
)
from citewire_accounts.api.schemas import ScopeName
from citewire_accounts.api.schemas.keys import ApiKey, ApiKeyList, KeyBody, NewApiKey, RotationBody, future
from citewire_accounts.tenants.identity import Caller, KeyInfo, make_key
from citewire_http.api.openapi import deleted, problems
from citewire_http.api.pages import PagesDep
from citewire_http.api.parameters import Clean
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.audit import touch
from citewire_kit.errors import PermissionDenied, Violations, invalid_field
from citewire_kit.tenant import ROLES, Tenant

router = APIRouter(route_class=CancellingRoute, tags=["keys"], dependencies=[Depends(authenticate)])

OfScope = Annotated[
    ScopeName, Query(description="`user`: the caller's. `org`: the whole organisation's, for owners and admins.")
]
OfUser = Annotated[
    str | None,
    Query(min_length=1, max_length=128, description="Only this user's keys. For owners and admins."),
    Clean,
]


@router.get("/v1/keys", summary="List API keys")
async def list_keys(
    caller: CallerDep, services: AccountsDep, pages: PagesDep, scope: OfScope = "user", user: OfUser = None
) -> ApiKeyList:
    """Returns keys without their secrets, including revoked and expired ones.

    `q` searches ids, names, users and prefixes.
    """
    tenant = caller.tenant
    if scope == "org" or user not in (None, tenant.user_id):
        require_admin(tenant)
    owner = user if scope == "org" else user or tenant.user_id
    keys, token = pages.page(
        await services.identity.list_keys(tenant.org_id, owner),
        key=lambda key: (key.user_id, key.created_at.isoformat(), key.key_id),
        text=lambda key: f"{key.key_id}\n{key.name}\n{key.user_id}\n{key.prefix}",
    )
    return ApiKeyList(keys=[ApiKey.read(key) for key in keys], next_page_token=token)


@router.post("/v1/keys", summary="Create an API key", status_code=201, responses=problems(409))
async def create_key(
    caller: CallerDep, services: AccountsDep, response: Response, body: Annotated[KeyBody, Depends(JsonBody(KeyBody))]
) -> NewApiKey:
    """Creates a key and shows it once. It can't do more than the caller's key or session, or outlive it.

    Named groups apply only as long as its creator is in them.
    """
    tenant, wrong, scopes = caller.tenant, Violations(), body.scopes or caller.scopes
    wrong.require(len(set(scopes)) == len(scopes), "scopes", "must not contain a value twice")
    wrong.require(set(scopes) <= set(caller.scopes), "scopes", f"must be among yours: {', '.join(caller.scopes)}")
    groups = tenant.groups if body.groups is None and caller.limited_groups else body.groups
    _check_groups(wrong, "groups", groups, tenant)
    wrong.raise_if_any()
    expires_at = future(body.expires_at)
    _check_expiry(caller, outlives=expires_at is None or caller.expires_at is None or expires_at > caller.expires_at)
    owner = body.user or tenant.user_id
    await _check_owner(services, tenant, owner)
    key = make_key()
    info = await services.identity.add_key(
        tenant.org_id, owner, body.name, key, scopes=scopes, expires_at=expires_at, groups=groups, by=tenant
    )
    touch(f"key:{info.key_id}", f"user:{owner}")
    response.headers["Location"] = f"/v1/keys/{info.key_id}"
    return _shown_once(response, info, key.text)


@router.get("/v1/keys/{key_id}", summary="Show an API key", responses=problems(404))
async def get_key(key_id: str, caller: CallerDep, services: AccountsDep) -> ApiKey:
    """Returns a key without its secret."""
    return ApiKey.read(await _find(services, caller.tenant, key_id))


@router.post("/v1/keys/{key_id}:rotate", summary="Rotate an API key", responses=problems(404, 409))
async def rotate_key(
    key_id: str,
    caller: CallerDep,
    services: AccountsDep,
    response: Response,
    body: Annotated[RotationBody, Depends(JsonBody(RotationBody))],
) -> NewApiKey:
    """Replaces a key's secret and shows it once; the previous secret works until the overlap ends.

    Id, scopes, budgets and usage stay. A second rotation ends the first overlap.
    """
    key = await _find(services, caller.tenant, key_id)
    wrong = Violations()
    wrong.require(set(key.scopes) <= set(caller.scopes), "key_id", "has scopes that you don't have: revoke it instead")
    _check_groups(wrong, "key_id", key.groups, caller.tenant)
    limited = key.groups is not None or not caller.limited_groups
    wrong.require(limited, "key_id", "isn't restricted to groups, as your key is: revoke it instead")
    wrong.raise_if_any()
    expires_at = future(body.expires_at)
    until = expires_at or key.expires_at
    _check_expiry(caller, outlives=until is None or caller.expires_at is None or until > caller.expires_at)
    await _check_owner(services, caller.tenant, key.user_id)
    new = make_key()
    overlap = timedelta(seconds=body.overlap_seconds)
    return _shown_once(response, await services.identity.rotate_key(key, new, overlap, expires_at), new.text)


@router.delete("/v1/keys/{key_id}", summary="Revoke an API key", **deleted(404))
async def revoke_key(key_id: str, caller: CallerDep, services: AccountsDep) -> None:
    """Revokes a key: it stops working with the next request, but stays in the list."""
    key = await _find(services, caller.tenant, key_id)
    await services.identity.revoke_key(key.org_id, key.key_id)


async def _find(services: AccountServices, tenant: Tenant, key_id: str) -> KeyInfo:
    return await services.identity.find_key(tenant.org_id, key_id, None if is_admin(tenant) else tenant.user_id)


def _check_expiry(caller: Caller, *, outlives: bool) -> None:
    if caller.kind != "session" and caller.expires_at is not None and outlives:
        raise invalid_field(
            "expires_at", f"must be no later than that of the key that creates it: {caller.expires_at.isoformat()}"
        )


def _check_groups(wrong: Violations, field: str, groups: Sequence[str] | None, tenant: Tenant) -> None:
    missing = sorted({*(groups or ())} - {*tenant.groups})
    wrong.require(not missing, field, f"must name groups that you are in; you aren't in {', '.join(missing[:5])}")


async def _check_owner(services: AccountServices, tenant: Tenant, owner: str) -> None:
    """Rejects a key for another user, unless an owner or admin creates it for a user without a higher role."""
    if owner == tenant.user_id:
        return
    require_admin(tenant)
    roles = await services.identity.roles_of(tenant.org_id, owner)
    if roles is None:
        raise invalid_field("user", "must be a user of the organisation")
    other = Tenant(tenant.org_id, owner, tenant.plan, roles)
    if any(other.is_at_least(role) and not tenant.is_at_least(role) for role in ROLES):
        raise PermissionDenied(f"{owner} has a higher role than you", reason="PERMISSION_DENIED")


def _shown_once(response: Response, info: KeyInfo, text: str) -> NewApiKey:
    response.headers["Cache-Control"] = "no-store"
    return NewApiKey.read(info, key=text)
