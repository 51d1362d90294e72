"""`/v1/providers`: models that a tenant brings. Keys and addresses go in and never come out."""

from typing import Annotated

from citewire.common.v1 import common_pb2
from fastapi import APIRouter, Depends, Path, Query

from citewire_gateway.api.dependencies import ServicesDep, TenantDep, authenticate, require_admin
from citewire_gateway.api.openapi import deleted, problems
from citewire_gateway.api.pages import PagesDep
from citewire_gateway.api.schemas.tenants import (
    FallbackBody,
    ProviderBody,
    ProviderInfo,
    ProviderList,
    ProviderRulesBody,
    ScopeName,
)
from citewire_gateway.http.bodies import JsonBody
from citewire_gateway.tenants.providers import ORG, ProviderEntry, ProviderType
from citewire_kit.errors import Violations, invalid_field
from citewire_kit.tenant import Tenant

router = APIRouter(tags=["providers"], dependencies=[Depends(authenticate)])

TypeName = Annotated[ProviderType, Path(alias="type", description="What the provider is for.")]
OwnScope = Annotated[
    ScopeName, Query(description="`user`: the caller's. `org`: the organisation's, which owners and admins change.")
]
AnyScope = Annotated[
    ScopeName | None, Query(description="Whose; absent: the caller's, or else the organisation's: what counts.")
]


@router.get("/v1/providers", summary="List tenant providers")
async def list_providers(tenant: TenantDep, services: ServicesDep, pages: PagesDep) -> ProviderList:
    """Returns the caller's providers and the organisation's, and whether the organisation demands its own.

    `q` looks into types, providers and models, those of fallbacks too.
    """
    entries = await services.providers.load(tenant)
    owners = dict.fromkeys((tenant.user_id, ORG))
    chains = [chain for type_ in ProviderType for owner in owners if (chain := entries.chain(type_, owner))]
    page, token = pages.page(chains, key=_place, text=_text)
    return ProviderList(
        require_own=entries.require_own, providers=[ProviderInfo.of(chain) for chain in page], next_page_token=token
    )


@router.patch("/v1/providers", summary="Require tenant providers", responses=problems(403))
async def change_rules(
    tenant: TenantDep, services: ServicesDep, body: Annotated[ProviderRulesBody, Depends(JsonBody(ProviderRulesBody))]
) -> ProviderRulesBody:
    """Says whether the organisation uses only its own providers. Owners and admins may."""
    require_admin(tenant)
    await services.providers.require_own(tenant, body.require_own)
    return body


@router.get("/v1/providers/{type}", summary="Show a tenant provider", responses=problems(404))
async def get_provider(
    type_: TypeName, tenant: TenantDep, services: ServicesDep, scope: AnyScope = None
) -> ProviderInfo:
    """Returns a provider without its key and address."""
    owner = None if scope is None else _owner(tenant, scope)
    return ProviderInfo.of(await services.providers.find(tenant, type_, owner))


@router.put("/v1/providers/{type}", summary="Set a tenant provider", responses=problems(403, 409, 503))
async def put_provider(
    type_: TypeName,
    tenant: TenantDep,
    services: ServicesDep,
    body: Annotated[ProviderBody, Depends(JsonBody(ProviderBody))],
    scope: OwnScope = "user",
) -> ProviderInfo:
    """Tries a provider out and keeps it, sealed, in the place of the one before. It counts from the next request on.

    A test call that fails doesn't keep it from being saved: `test` in the answer says what the provider said.
    """
    owner = _owner(tenant, scope, change=True)
    if body.fallbacks and type_ is not ProviderType.CHAT:
        raise invalid_field("fallbacks", "are for chat providers only")
    fallbacks = [_fallback(fallback, number, owner, test=body.test) for number, fallback in enumerate(body.fallbacks)]
    await services.providers.save(tenant, body.spec(type_, owner, test=body.test), fallbacks)
    return ProviderInfo.of(await services.providers.find(tenant, type_, owner))


@router.delete("/v1/providers/{type}", summary="Delete a tenant provider", **deleted(403, 404))
async def delete_provider(type_: TypeName, tenant: TenantDep, services: ServicesDep, scope: OwnScope = "user") -> None:
    """Deletes a provider with its key; requests that are running finish with it."""
    await services.providers.delete(tenant, type_, _owner(tenant, scope, change=True))


def _place(chain: tuple[ProviderEntry, ...]) -> tuple[str, ...]:
    """By type, the caller's before the organisation's."""
    first = chain[0]
    return first.type, "1" if first.user_id == ORG else "0"


def _text(chain: tuple[ProviderEntry, ...]) -> str:
    names = [f"{entry.ref.provider if entry.ref else ''}\n{entry.model}" for entry in chain]
    return "\n".join((chain[0].type, *names))


def _owner(tenant: Tenant, scope: ScopeName, *, change: bool = False) -> str:
    if scope == "user":
        return tenant.user_id
    if change:
        require_admin(tenant)
    return ORG


def _fallback(fallback: FallbackBody, number: int, owner: str, *, test: bool) -> common_pb2.ProviderSpec | str:
    """One who takes over: the tenant's own provider, or a model of the operator's by name."""
    wrong = Violations()
    at = f"fallbacks.{number}"
    if fallback.provider is None:
        wrong.require(
            bool(fallback.model), f"{at}.model", "is required: a model of this server's, or a provider beside it"
        )
        wrong.require(fallback.api_key is None, f"{at}.api_key", "needs a provider beside it")
        wrong.require(fallback.api_base is None, f"{at}.api_base", "needs a provider beside it")
        wrong.raise_if_any()
        return fallback.model or ""
    return fallback.spec(ProviderType.CHAT, owner, test=test)
