"""`/v1/providers`: a tenant's own model providers. Keys and addresses are write-only."""

from typing import Annotated

from citewire.common.v1 import common_pb2
from fastapi import APIRouter, Depends, Path, Query

from citewire_accounts.api.dependencies import AccountsDep, TenantDep, authenticate, require_admin
from citewire_accounts.api.schemas import ScopeName
from citewire_accounts.api.schemas.providers import (
    FallbackBody,
    ProviderBody,
    ProviderInfo,
    ProviderList,
    ProviderRulesBody,
)
from citewire_accounts.tenants.providers import ORG, ProviderEntry, ProviderType
from citewire_http.api.openapi import deleted, problems
from citewire_http.api.pages import PagesDep
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.errors import Violations, invalid_field
from citewire_kit.tenant import Tenant

router = APIRouter(route_class=CancellingRoute, tags=["providers"], dependencies=[Depends(authenticate)])

TypeName = Annotated[ProviderType, Path(alias="type", description="The provider's type.")]
SavedName = Annotated[
    str,
    Path(
        pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$", description="The saved name: 1-64 characters of a-z, 0-9, ., _ and -."
    ),
]
OwnScope = Annotated[
    ScopeName,
    Query(description="`user`: the caller's. `org`: the organisation's, which only owners and admins can change."),
]
AnyScope = Annotated[
    ScopeName | None,
    Query(description="The owner; absent: the provider in effect, the caller's or otherwise the organisation's."),
]


@router.get("/v1/providers", summary="List tenant providers")
async def list_providers(tenant: TenantDep, services: AccountsDep, pages: PagesDep) -> ProviderList:
    """Returns the caller's providers and the organisation's, and whether the organisation requires its own.

    Several may be saved per type; one of them is active. `q` searches types, names, providers and models, including
    those of fallbacks.
    """
    entries = await services.providers.load(tenant)
    page, token = pages.page(entries.chains(), key=_place, text=_text)
    return ProviderList(
        require_own=entries.require_own, providers=[ProviderInfo.of(chain) for chain in page], next_page_token=token
    )


@router.patch("/v1/providers", summary="Require tenant providers", responses=problems(403))
async def change_rules(
    tenant: TenantDep, services: AccountsDep, body: Annotated[ProviderRulesBody, Depends(JsonBody(ProviderRulesBody))]
) -> ProviderRulesBody:
    """Sets whether the organisation uses only its own providers. For owners and admins."""
    require_admin(tenant)
    await services.providers.require_own(tenant, body.require_own)
    return body


@router.get("/v1/providers/{type}", summary="Show a tenant provider", responses=problems(404))
async def get_provider(
    type_: TypeName, tenant: TenantDep, services: AccountsDep, scope: AnyScope = None
) -> ProviderInfo:
    """Returns a provider without its key and address."""
    owner = None if scope is None else _owner(tenant, scope)
    return ProviderInfo.of(await services.providers.find(tenant, type_, owner))


@router.put("/v1/providers/{type}", summary="Set a tenant provider", responses=problems(403, 409, 503))
async def put_provider(
    type_: TypeName,
    tenant: TenantDep,
    services: AccountsDep,
    body: Annotated[ProviderBody, Depends(JsonBody(ProviderBody))],
    scope: OwnScope = "user",
) -> ProviderInfo:
    """Tests a provider and saves it, sealed, in place of the active one. It takes effect with the next request.

    It is saved even if the test call fails; `test` has the result.
    """
    owner = _owner(tenant, scope, change=True)
    name = await services.providers.save(tenant, *_specs(type_, body, owner))
    return ProviderInfo.of(await services.providers.find_saved(tenant, type_, owner, name))


@router.delete("/v1/providers/{type}", summary="Delete a tenant provider", **deleted(403, 404))
async def delete_provider(type_: TypeName, tenant: TenantDep, services: AccountsDep, scope: OwnScope = "user") -> None:
    """Deletes the active provider with its key; requests in progress finish with it.

    None of the other saved providers becomes active.
    """
    await services.providers.delete(tenant, type_, _owner(tenant, scope, change=True))


@router.post("/v1/providers/{type}:deactivate", summary="Stop using a tenant provider", responses=problems(403, 404))
async def deactivate_provider(
    type_: TypeName, tenant: TenantDep, services: AccountsDep, scope: OwnScope = "user"
) -> ProviderInfo:
    """Switches back to the organisation's or the server's provider; the deactivated one stays saved."""
    owner = _owner(tenant, scope, change=True)
    name = await services.providers.deactivate(tenant, type_, owner)
    return ProviderInfo.of(await services.providers.find_saved(tenant, type_, owner, name))


@router.get("/v1/providers/{type}/{name}", summary="Show a saved provider", responses=problems(404))
async def get_saved_provider(
    type_: TypeName, name: SavedName, tenant: TenantDep, services: AccountsDep, scope: OwnScope = "user"
) -> ProviderInfo:
    """Returns a provider saved under a name, active or not, without its key and address."""
    return ProviderInfo.of(await services.providers.find_saved(tenant, type_, _owner(tenant, scope), name))


@router.put("/v1/providers/{type}/{name}", summary="Save a provider under a name", responses=problems(403, 409, 503))
async def put_saved_provider(
    type_: TypeName,
    name: SavedName,
    tenant: TenantDep,
    services: AccountsDep,
    body: Annotated[ProviderBody, Depends(JsonBody(ProviderBody))],
    scope: OwnScope = "user",
    activate: Annotated[bool, Query(description="Also makes it the active one.")] = False,
) -> ProviderInfo:
    """Tests a provider and saves it, sealed, in addition to the active one, replacing any with that name.

    An owner can save 20 per type.
    """
    owner = _owner(tenant, scope, change=True)
    await services.providers.save(tenant, *_specs(type_, body, owner), name, activate=activate)
    return ProviderInfo.of(await services.providers.find_saved(tenant, type_, owner, name))


@router.post("/v1/providers/{type}/{name}:activate", summary="Activate a saved provider", responses=problems(403, 404))
async def activate_provider(
    type_: TypeName, name: SavedName, tenant: TenantDep, services: AccountsDep, scope: OwnScope = "user"
) -> ProviderInfo:
    """Activates another saved provider from the next request on; the previously active one stays saved."""
    owner = _owner(tenant, scope, change=True)
    await services.providers.activate(tenant, type_, owner, name)
    return ProviderInfo.of(await services.providers.find_saved(tenant, type_, owner, name))


@router.post(
    "/v1/providers/{type}/{name}:test", summary="Test a saved provider", responses=problems(403, 404, 409, 503)
)
async def try_provider(
    type_: TypeName, name: SavedName, tenant: TenantDep, services: AccountsDep, scope: OwnScope = "user"
) -> ProviderInfo:
    """Tests a saved provider, active or not, with a small call; `test` has the result.

    The call counts as usage; fallbacks aren't called.
    """
    owner = _owner(tenant, scope, change=True)
    await services.providers.test(tenant, type_, owner, name)
    return ProviderInfo.of(await services.providers.find_saved(tenant, type_, owner, name))


@router.delete("/v1/providers/{type}/{name}", summary="Delete a saved provider", **deleted(403, 404))
async def delete_saved_provider(
    type_: TypeName, name: SavedName, tenant: TenantDep, services: AccountsDep, scope: OwnScope = "user"
) -> None:
    """Deletes a provider with its key, active or not; none of the others becomes active."""
    await services.providers.delete(tenant, type_, _owner(tenant, scope, change=True), name)


def _place(chain: tuple[ProviderEntry, ...]) -> tuple[str, ...]:
    """Sort key: by type, the caller's before the organisation's, the active one before the others."""
    first = chain[0]
    return first.type, "1" if first.user_id == ORG else "0", "0" if first.active else "1", first.name


def _text(chain: tuple[ProviderEntry, ...]) -> str:
    names = [f"{entry.ref.provider if entry.ref else ''}\n{entry.model}" for entry in chain]
    return "\n".join((chain[0].type, chain[0].name, *names))


def _owner(tenant: Tenant, scope: ScopeName, *, change: bool = False) -> str:
    if scope == "user":
        return tenant.user_id
    if change:
        require_admin(tenant)
    return ORG


def _specs(
    type_: ProviderType, body: ProviderBody, owner: str
) -> tuple[common_pb2.ProviderSpec, list[common_pb2.ProviderSpec | str]]:
    """The provider with its fallbacks."""
    if body.fallbacks and type_ is not ProviderType.CHAT:
        raise invalid_field("fallbacks", "are for chat providers only")
    fallbacks = [_fallback(fallback, number, owner, test=body.test) for number, fallback in enumerate(body.fallbacks)]
    return body.spec(type_, owner, test=body.test), fallbacks


def _fallback(fallback: FallbackBody, number: int, owner: str, *, test: bool) -> common_pb2.ProviderSpec | str:
    """A fallback: the tenant's own provider, or one of the operator's models by name."""
    wrong = Violations()
    at = f"fallbacks.{number}"
    if fallback.provider is None:
        wrong.require(
            bool(fallback.model), f"{at}.model", "is required: a model of this server, or a model with a provider"
        )
        wrong.require(fallback.api_key is None, f"{at}.api_key", "must be absent unless provider is given")
        wrong.require(fallback.api_base is None, f"{at}.api_base", "must be absent unless provider is given")
        wrong.raise_if_any()
        return fallback.model or ""
    return fallback.spec(ProviderType.CHAT, owner, test=test)
