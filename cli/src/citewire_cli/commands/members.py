"""`citewire orgs`, `citewire users` and `citewire groups`: for operators, on the gateway's database."""

import sys
from typing import Annotated, Final, Literal
from urllib.parse import quote

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.limits import MeasureName
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.gateway_command import run_gateway
from citewire_cli.jsonio import get_str, parse_object
from citewire_cli.settings import load_client_settings

orgs_app = typer.Typer(
    help="List organisations, change their plans and limits. Uses the gateway's database.",
    no_args_is_help=True,
)
users_app = typer.Typer(
    help="List, create and disable users, and change their roles. Uses the gateway's database."
    " Export what is held about one, over HTTP.",
    no_args_is_help=True,
)
groups_app = typer.Typer(help="Manage an organisation's own groups. Uses the gateway's database.", no_args_is_help=True)
_LAST_LINE: Final = 200
"""Bytes that the last line of an export has at most."""

RoleName = Literal["reader", "editor", "admin", "owner"]
UserArgument = Annotated[str, typer.Argument(help="The user.", show_default=False)]
GroupArgument = Annotated[str, typer.Argument(help="The group.", show_default=False)]
OrgOption = Annotated[str, typer.Option("--org", help="The organisation.", show_default=False)]


@orgs_app.command("list")
def list_orgs(json: JsonOption = False) -> None:
    """List organisations with their plans, users and keys. Uses the gateway's database as its owner."""
    run_gateway("orgs", "list", json=json)


@orgs_app.command("plan")
def set_plan(
    org: Annotated[str, typer.Argument(help="The organisation.", show_default=False)],
    plan: Annotated[Literal["free", "basic", "pro"], typer.Argument(help="Its new plan.", show_default=False)],
    json: JsonOption = False,
) -> None:
    """Change an organisation's plan, effective from its next request. Exits with 5 if there is none of that id."""
    run_gateway("orgs", "plan", org, plan, json=json)


@orgs_app.command("limit")
def set_limit(
    org: Annotated[str, typer.Argument(help="The organisation.", show_default=False)],
    measure: Annotated[MeasureName, typer.Argument(help="What is limited.", show_default=False)],
    most: Annotated[str, typer.Argument(help="A whole number from 0, or `plan`.", show_default=False)],
    json: JsonOption = False,
) -> None:
    """Override a plan's limit for an organisation, or with `plan` restore it, within 30 seconds."""
    run_gateway("orgs", "limit", org, measure, most, json=json)


@orgs_app.command("audit-days")
def set_audit_days(
    org: Annotated[str, typer.Argument(help="The organisation.", show_default=False)],
    days: Annotated[int, typer.Argument(min=30, max=36_500, help="Number of days.", show_default=False)],
    json: JsonOption = False,
) -> None:
    """Set how many days an organisation's audit trail is kept. Exits with 5 if there is none of that id."""
    run_gateway("orgs", "audit-days", org, str(days), json=json)


@users_app.command("list")
def list_users(org: OrgOption, json: JsonOption = False) -> None:
    """List an organisation's users with their roles."""
    run_gateway("users", "list", "--org", org, json=json)


@users_app.command("role")
def set_role(
    user: UserArgument,
    role: Annotated[RoleName, typer.Argument(help="The new role.", show_default=False)],
    org: OrgOption,
    json: JsonOption = False,
) -> None:
    """Change a user's role, effective from the next request. The last owner can't be changed."""
    run_gateway("users", "role", "--org", org, user, role, json=json)


@users_app.command("create")
def create_user(
    user: UserArgument,
    org: OrgOption,
    role: Annotated[
        RoleName, typer.Option("--role", help="The role, unless the identity provider names one.")
    ] = "reader",
    json: JsonOption = False,
) -> None:
    """Create a user before the first sign-in or key."""
    run_gateway("users", "create", "--org", org, user, "--role", role, json=json)


@users_app.command("disable")
def disable_user(user: UserArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Disable a user: sessions end, keys stop working. The last owner can't be disabled."""
    run_gateway("users", "disable", "--org", org, user, json=json)


@users_app.command("enable")
def enable_user(user: UserArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Enable a disabled user."""
    run_gateway("users", "enable", "--org", org, user, json=json)


@users_app.command("export")
@output.async_command
async def export_user(user: UserArgument, url: UrlOption = None) -> ExitCode:
    """Export all data about a user as JSON lines, as that user or as an owner or admin."""
    path, tail = f"/v1/users/{quote(user, safe='')}/export", b""
    async with Api(load_client_settings(url=url)) as api, api.data(path) as pieces:
        async for piece in pieces:
            sys.stdout.buffer.write(piece)
            tail = (tail + piece)[-_LAST_LINE:]
    sys.stdout.buffer.flush()
    last = parse_object(tail.rstrip(b"\n").rpartition(b"\n")[2])
    if last is None or get_str(last, "kind") != "end":
        raise CliError("The export is incomplete", "It broke off before its last line; try again.", ExitCode.FAILED)
    return ExitCode.OK


@groups_app.command("list")
def list_groups(org: OrgOption, json: JsonOption = False) -> None:
    """List groups with their number of users."""
    run_gateway("groups", "list", "--org", org, json=json)


@groups_app.command("create")
def create_group(group: GroupArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Create an empty group."""
    run_gateway("groups", "create", "--org", org, group, json=json)


@groups_app.command("delete")
def delete_group(group: GroupArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Delete a group, effective from the next request. Exits with 5 if there is none."""
    run_gateway("groups", "delete", "--org", org, group, json=json)


@groups_app.command("members")
def list_group_members(group: GroupArgument, org: OrgOption, json: JsonOption = False) -> None:
    """List a group's users. Exits with 5 if there is no such group."""
    run_gateway("groups", "members", "--org", org, group, json=json)


@groups_app.command("add")
def add_to_group(group: GroupArgument, user: UserArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Add a user to a group. Exits with 5 if there is no such group or user."""
    run_gateway("groups", "add", "--org", org, group, user, json=json)


@groups_app.command("remove")
def remove_from_group(group: GroupArgument, user: UserArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Remove a user from a group. Exits with 5 if the user isn't in it."""
    run_gateway("groups", "remove", "--org", org, group, user, json=json)
