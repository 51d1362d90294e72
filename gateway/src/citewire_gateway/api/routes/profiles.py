"""`/v1/profiles`: how the pipeline behaves, the server's ways and the organisation's own."""

from datetime import UTC
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from fastapi.responses import JSONResponse

from citewire_gateway.api.dependencies import ServicesDep, TenantDep, authenticate, require_admin
from citewire_gateway.api.operation_docs import deleted_docs
from citewire_gateway.api.profile_docs import profile_body_docs, profile_docs, profiles_docs
from citewire_gateway.api.schemas import ProfileBody
from citewire_gateway.http.bodies import json_body
from citewire_gateway.profiles.builtin import describe
from citewire_gateway.profiles.changes import changes_of
from citewire_gateway.profiles.model import Profile
from citewire_gateway.profiles.store import StoredProfile, build_profile

router = APIRouter(tags=["profiles"], dependencies=[Depends(authenticate)])


@router.get("/v1/profiles", summary="List profiles", **profiles_docs())
async def list_profiles(tenant: TenantDep, services: ServicesDep) -> Response:
    """Returns the profiles that a chat may name: the server's, then the organisation's own."""
    found = await services.profiles.list(tenant)
    return JSONResponse({"profiles": [_shown(profile, stored) for profile, stored in found]})


@router.get("/v1/profiles/{name}", summary="Show a profile", **profile_docs())
async def get_profile(name: str, tenant: TenantDep, services: ServicesDep) -> Response:
    """Returns a profile with all its fields; `name@3` is version 3."""
    return JSONResponse(_shown(await services.profiles.find(tenant, name), None))


@router.put("/v1/profiles/{name}", summary="Keep a profile", **profile_body_docs())
async def put_profile(
    name: str,
    tenant: TenantDep,
    services: ServicesDep,
    body: Annotated[ProfileBody, Depends(json_body(ProfileBody))],
) -> Response:
    """Keeps one of the server's profiles, changed, under a name of its own; each time as a further version."""
    require_admin(tenant)
    changes = changes_of(body.changes.model_dump(exclude_none=True))
    stored = await services.profiles.put(tenant, name, body.base, body.description, changes)
    return JSONResponse(_shown(build_profile(stored), stored))


@router.delete("/v1/profiles/{name}", summary="Delete a profile", status_code=204, **deleted_docs())
async def delete_profile(name: str, tenant: TenantDep, services: ServicesDep) -> Response:
    """Deletes a profile of the organisation's own."""
    require_admin(tenant)
    await services.profiles.delete(tenant, name)
    return Response(status_code=204)


def _shown(profile: Profile, stored: StoredProfile | None) -> dict[str, Any]:
    shown = describe(profile)
    if stored is None:
        return shown
    return shown | {
        "version": stored.version,
        "base": stored.base,
        "changes": stored.changes.given(),
        "created_at": stored.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
    }
