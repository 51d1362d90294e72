"""`/v1/profiles`: the built-in profiles and the organisation's own."""

from typing import Annotated

from fastapi import APIRouter, Depends

from citewire_accounts.api.dependencies import TenantDep, authenticate, require_admin
from citewire_gateway.api.dependencies import ServicesDep
from citewire_gateway.api.schemas.profiles import ProfileBody, ProfileInfo, ProfileList
from citewire_gateway.profiles.store import build_profile, profile_key
from citewire_http.api.openapi import deleted, problems
from citewire_http.api.pages import PagesDep
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute

router = APIRouter(route_class=CancellingRoute, tags=["profiles"], dependencies=[Depends(authenticate)])


@router.get("/v1/profiles", summary="List profiles")
async def list_profiles(tenant: TenantDep, services: ServicesDep, pages: PagesDep) -> ProfileList:
    """Returns the available profiles: the built-in ones, then the organisation's own, by name.

    `q` searches names and descriptions.
    """
    profiles, token = pages.page(
        await services.profiles.list(tenant),
        key=lambda listed: profile_key(listed[0]),
        text=lambda listed: f"{listed[0].name}\n{listed[0].description}",
    )
    return ProfileList(
        profiles=[ProfileInfo.of(profile, stored) for profile, stored in profiles], next_page_token=token
    )


@router.get("/v1/profiles/{name}", summary="Show a profile", responses=problems(404))
async def get_profile(name: str, tenant: TenantDep, services: ServicesDep) -> ProfileInfo:
    """Returns a profile with all its fields; `name@3` is version 3."""
    return ProfileInfo.of(await services.profiles.find(tenant, name))


@router.put("/v1/profiles/{name}", summary="Store a profile", responses=problems(403, 409))
async def put_profile(
    name: str, tenant: TenantDep, services: ServicesDep, body: Annotated[ProfileBody, Depends(JsonBody(ProfileBody))]
) -> ProfileInfo:
    """Stores a modified built-in profile under its own name, each time as a new version."""
    require_admin(tenant)
    stored = await services.profiles.put(tenant, name, body.base, body.description, body.changes)
    return ProfileInfo.of(build_profile(stored), stored)


@router.delete("/v1/profiles/{name}", summary="Delete a profile", **deleted(403, 404))
async def delete_profile(name: str, tenant: TenantDep, services: ServicesDep) -> None:
    """Deletes one of the organisation's own profiles."""
    require_admin(tenant)
    await services.profiles.delete(tenant, name)
