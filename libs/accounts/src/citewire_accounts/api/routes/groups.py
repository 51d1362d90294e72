"""`/v1/admin/groups`: the organisation's own groups, for owners and admins."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Response

from citewire_accounts.api.dependencies import AccountsDep, TenantDep, authenticate, require_admin
from citewire_accounts.api.schemas.admin import GroupBody, GroupInfo, GroupList, GroupMemberList
from citewire_http.api.openapi import deleted, problems
from citewire_http.api.pages import PagesDep
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.audit import touch

router = APIRouter(route_class=CancellingRoute, tags=["admin"], dependencies=[Depends(authenticate)])


@router.get("/v1/admin/groups", summary="List groups", responses=problems(403))
async def list_groups(tenant: TenantDep, services: AccountsDep, pages: PagesDep) -> GroupList:
    """Returns the organisation's own groups. For owners and admins; `q` searches names."""
    require_admin(tenant)
    groups, token = pages.page(
        await services.groups.groups(tenant.org_id), key=lambda group: (group.name,), text=lambda group: group.name
    )
    return GroupList(groups=[GroupInfo.of(group) for group in groups], next_page_token=token)


@router.post("/v1/admin/groups", summary="Create a group", status_code=201, responses=problems(403, 409))
async def create_group(
    tenant: TenantDep,
    services: AccountsDep,
    response: Response,
    body: Annotated[GroupBody, Depends(JsonBody(GroupBody))],
) -> GroupInfo:
    """Creates an empty group. It is the same as an identity provider's group of that name. For owners and admins."""
    require_admin(tenant)
    touch(f"group:{body.name}")
    group = await services.groups.add(tenant.org_id, body.name, by=tenant.user_id)
    response.headers["Location"] = f"/v1/admin/groups/{quote(group.name)}/members"
    return GroupInfo.of(group)


@router.delete("/v1/admin/groups/{name}", summary="Delete a group", **deleted(403, 404))
async def delete_group(name: str, tenant: TenantDep, services: AccountsDep) -> None:
    """Removes all users from a group and deletes it. Its grants apply again to a later group with the same name.

    For owners and admins.
    """
    require_admin(tenant)
    await services.groups.delete(tenant.org_id, name)


@router.get("/v1/admin/groups/{name}/members", summary="List a group's users", responses=problems(403, 404))
async def list_group_members(name: str, tenant: TenantDep, services: AccountsDep, pages: PagesDep) -> GroupMemberList:
    """Returns the users of a group. For owners and admins; `q` searches ids."""
    require_admin(tenant)
    users, token = pages.page(
        await services.groups.members(tenant.org_id, name), key=lambda user: (user,), text=lambda user: user
    )
    return GroupMemberList(users=users, next_page_token=token)


@router.put(
    "/v1/admin/groups/{name}/members/{user}", summary="Add a user to a group", responses=problems(403, 404, 409)
)
async def add_group_member(name: str, user: str, tenant: TenantDep, services: AccountsDep) -> GroupInfo:
    """Adds a user to a group, effective from the next request; with an identity provider's token, within 30 seconds.

    For owners and admins.
    """
    require_admin(tenant)
    touch(f"user:{user}")
    return GroupInfo.of(await services.groups.add_member(tenant.org_id, name, user))


@router.delete("/v1/admin/groups/{name}/members/{user}", summary="Remove a user from a group", **deleted(403, 404))
async def remove_group_member(name: str, user: str, tenant: TenantDep, services: AccountsDep) -> None:
    """Removes a user from a group, from the next request; with an identity provider's token, within 30 seconds.

    For owners and admins.
    """
    require_admin(tenant)
    touch(f"user:{user}")
    await services.groups.remove_member(tenant.org_id, name, user)
