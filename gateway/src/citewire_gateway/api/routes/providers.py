"""`/v1/providers`: models that a tenant brings. Keys and addresses go in and never come out."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from citewire.common.v1 import common_pb2
from fastapi import APIRouter, Depends, Path, Query, Response
from fastapi.responses import JSONResponse

from citewire_gateway.api.dependencies import ServicesDep, TenantDep, authenticate, require_admin
from citewire_gateway.api.operation_docs import deleted_docs
from citewire_gateway.api.profile_docs import provider_body_docs, provider_docs, providers_docs, rules_docs
from citewire_gateway.api.schemas import FallbackBody, ProviderBody, ProviderRulesBody
from citewire_gateway.http.bodies import json_body
from citewire_gateway.tenants.providers import ORG, PROVIDER_TYPES, ProviderEntry, ProviderType
from citewire_kit.errors import Violations, invalid_field
from citewire_kit.tenant import Tenant

router = APIRouter(tags=["providers"], dependencies=[Depends(authenticate)])

TypeName = Annotated[ProviderType, Path(alias="type", description="What the provider is for.")]
ScopeName = Literal["org", "user"]
OwnScope = Annotated[
    ScopeName, Query(description="`user`: the caller's. `org`: the organisation's, which owners and admins change.")
]
AnyScope = Annotated[
    ScopeName | None, Query(description="Whose; absent: the caller's, or else the organisation's: what counts.")
]


@router.get("/v1/providers", summary="List own providers", **providers_docs())
async def list_providers(tenant: TenantDep, services: ServicesDep) -> Response:
    """Returns the caller's providers and the organisation's, and whether the organisation demands its own."""
    found = await services.providers.load(tenant)
    owners = dict.fromkeys((tenant.user_id, ORG))
    chains = [chain for type_ in ProviderType for owner in owners if (chain := found.chain(type_, owner))]
    return JSONResponse({"require_own": found.require_own, "providers": [_shown(chain) for chain in chains]})


@router.patch("/v1/providers", summary="Demand own providers", **rules_docs())
async def change_rules(
    tenant: TenantDep, services: ServicesDep, body: Annotated[ProviderRulesBody, Depends(json_body(ProviderRulesBody))]
) -> Response:
    """Says whether the organisation uses only its own providers. Owners and admins may."""
    require_admin(tenant)
    await services.providers.require_own(tenant, body.require_own)
    return JSONResponse({"require_own": body.require_own})


@router.get("/v1/providers/{type}", summary="Show an own provider", **provider_docs())
async def get_provider(type_: TypeName, tenant: TenantDep, services: ServicesDep, scope: AnyScope = None) -> Response:
    """Returns a provider without its key and address."""
    owner = None if scope is None else _owner(tenant, scope)
    return JSONResponse(_shown(await services.providers.find(tenant, type_, owner)))


@router.put("/v1/providers/{type}", summary="Set an own provider", **provider_body_docs())
async def put_provider(
    type_: TypeName,
    tenant: TenantDep,
    services: ServicesDep,
    body: Annotated[ProviderBody, Depends(json_body(ProviderBody))],
    scope: OwnScope = "user",
) -> Response:
    """Tries a provider out and keeps it, sealed, in the place of the one before. It counts from the next request on.

    A test call that fails doesn't keep it from being saved: `test` in the answer says what the provider said.
    """
    owner = _owner(tenant, scope, change=True)
    if body.fallbacks and type_ is not ProviderType.CHAT:
        raise invalid_field("fallbacks", "are for chat providers only")
    fallbacks = [_fallback(one, number, owner, body) for number, one in enumerate(body.fallbacks)]
    first = common_pb2.ProviderSpec(
        type=PROVIDER_TYPES.to_proto(type_),
        provider=body.provider,
        user_id=owner,
        model=body.model or "",
        api_base=body.api_base or "",
        api_key=body.api_key.get_secret_value() if body.api_key else "",
        dimensions=body.dimensions or 0,
        skip_test=not body.test,
    )
    await services.providers.save(tenant, first, fallbacks)
    return JSONResponse(_shown(await services.providers.find(tenant, type_, owner)))


@router.delete("/v1/providers/{type}", summary="Delete an own provider", status_code=204, **deleted_docs())
async def delete_provider(
    type_: TypeName, tenant: TenantDep, services: ServicesDep, scope: OwnScope = "user"
) -> Response:
    """Deletes a provider with its key; requests that are running finish with it."""
    await services.providers.delete(tenant, type_, _owner(tenant, scope, change=True))
    return Response(status_code=204)


def _owner(tenant: Tenant, scope: ScopeName, *, change: bool = False) -> str:
    if scope == "user":
        return tenant.user_id
    if change:
        require_admin(tenant)
    return ORG


def _fallback(one: FallbackBody, number: int, owner: str, body: ProviderBody) -> common_pb2.ProviderSpec | str:
    """One who takes over: the tenant's own provider, or a model of the operator's by name."""
    wrong = Violations()
    at = f"fallbacks.{number}"
    if one.provider is None:
        wrong.require(bool(one.model), f"{at}.model", "is required: a model of this server's, or a provider beside it")
        wrong.require(one.api_key is None, f"{at}.api_key", "needs a provider beside it")
        wrong.require(one.api_base is None, f"{at}.api_base", "needs a provider beside it")
        wrong.raise_if_any()
        return one.model or ""
    return common_pb2.ProviderSpec(
        type=common_pb2.PROVIDER_TYPE_CHAT,
        provider=one.provider,
        user_id=owner,
        model=one.model or "",
        api_base=one.api_base or "",
        api_key=one.api_key.get_secret_value() if one.api_key else "",
        skip_test=not body.test,
    )


def _shown(chain: tuple[ProviderEntry, ...]) -> dict[str, Any]:
    first = chain[0]
    shown: dict[str, Any] = {"type": first.type, "scope": "user" if first.user_id else "org", **_one(first)}
    if first.type is ProviderType.CHAT:
        shown["fallbacks"] = [_one(one) for one in chain[1:]]
    return shown | {"updated_at": _time(first.updated_at)}


def _one(entry: ProviderEntry) -> dict[str, Any]:
    if entry.ref is None:
        return {"model": entry.model}
    ref = entry.ref
    return {
        "provider": ref.provider,
        "model": entry.model,
        "has_key": bool(ref.sealed_key),
        "has_api_base": bool(ref.sealed_api_base),
        **({"dimensions": ref.dimensions} if ref.dimensions else {}),
        "test": _test(entry.test),
    }


def _test(test: common_pb2.ProviderTest | None) -> dict[str, Any]:
    if test is None or not test.tried:
        return {"tried": False}
    shown: dict[str, Any] = {"tried": True, "ok": test.ok, "text": test.text}
    optional = {"reason": test.reason, "status": test.status, "dimensions": test.dimensions}
    return shown | {name: value for name, value in optional.items() if value}


def _time(value: datetime | None) -> str | None:
    return None if value is None else value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
