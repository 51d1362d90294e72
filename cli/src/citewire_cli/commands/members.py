"""`citewire orgs` and `citewire users`: what an operator administrates, on the gateway's database."""

from typing import Annotated, Literal

import typer

from citewire_cli.commands.options import JsonOption
from citewire_cli.gateway_command import run_gateway

orgs_app = typer.Typer(
    help="List organisations and change their plans. Runs beside the gateway, on its database.", no_args_is_help=True
)
users_app = typer.Typer(
    help="List users and change their roles. Runs beside the gateway, on its database.", no_args_is_help=True
)
OrgOption = Annotated[str, typer.Option("--org", help="The organisation.", show_default=False)]


@orgs_app.command("list")
def list_orgs(json: JsonOption = False) -> None:
    """List organisations with their plans, users and keys, as the owner of the gateway's database."""
    run_gateway("orgs", "list", json=json)


@orgs_app.command("plan")
def set_plan(
    org: Annotated[str, typer.Argument(help="The organisation.", show_default=False)],
    plan: Annotated[Literal["free", "basic", "pro"], typer.Argument(help="Its new plan.", show_default=False)],
    json: JsonOption = False,
) -> None:
    """Put an organisation on a plan, from its next request on. Exits with 5 if there is none of that id."""
    run_gateway("orgs", "plan", org, plan, json=json)


@orgs_app.command("audit-days")
def set_audit_days(
    org: Annotated[str, typer.Argument(help="The organisation.", show_default=False)],
    days: Annotated[int, typer.Argument(min=30, max=36_500, help="How many.", show_default=False)],
    json: JsonOption = False,
) -> None:
    """Say for how many days an organisation's audit trail is kept. Exits with 5 if there is none of that id."""
    run_gateway("orgs", "audit-days", org, str(days), json=json)


@users_app.command("list")
def list_users(org: OrgOption, json: JsonOption = False) -> None:
    """List an organisation's users with their roles."""
    run_gateway("users", "list", "--org", org, json=json)


@users_app.command("role")
def set_role(
    user: Annotated[str, typer.Argument(help="The user.", show_default=False)],
    role: Annotated[
        Literal["reader", "editor", "admin", "owner"], typer.Argument(help="The new role.", show_default=False)
    ],
    org: OrgOption,
    json: JsonOption = False,
) -> None:
    """Give a user a role, from the user's next request on. The last owner stays one."""
    run_gateway("users", "role", "--org", org, user, role, json=json)
