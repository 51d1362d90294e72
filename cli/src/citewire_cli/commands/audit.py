"""`citewire audit`: the audit trail."""

from pathlib import Path
from typing import Annotated

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.errors import ExitCode
from citewire_cli.gateway_command import run_gateway
from citewire_cli.jsonio import get_objects, get_str
from citewire_cli.settings import load_client_settings

audit_app = typer.Typer(help="Export your organisation's audit trail, or verify all trails.", no_args_is_help=True)


@audit_app.command("export")
@output.async_command
async def export(
    since: Annotated[str | None, typer.Option("--from", help="A day (UTC) or a time; default: 30 days ago.")] = None,
    until: Annotated[str | None, typer.Option("--to", help="A day (inclusive) or a time; default: now.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only this user's events.")] = None,
    action: Annotated[str | None, typer.Option("--action", help="Only this action: `document.read`.")] = None,
    object_name: Annotated[str | None, typer.Option("--object", help="Only this object: `document:17`.")] = None,
    url: UrlOption = None,
) -> ExitCode:
    """Print your organisation's audit trail as JSON lines, oldest first, as owner or admin."""
    names = {"from": since, "to": until, "user": user, "action": action, "object": object_name}
    params: dict[str, str | int] = {name: value for name, value in names.items() if value is not None}
    token = ""
    async with Api(load_client_settings(url=url)) as api:
        while True:
            page = await api.call("GET", "/v1/admin/audit", params=params | ({"page_token": token} if token else {}))
            for event in get_objects(page, "events"):
                output.print_json(event)
            token = get_str(page, "next_page_token")
            if not token:
                return ExitCode.OK


@audit_app.command("verify")
def verify(
    heads: Annotated[
        Path | None, typer.Option("--heads", help="Chain heads from an earlier check, or a log that contains them.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Verify every chain, as the owner of the gateway's database. Exits with 1 if something was tampered with.

    Prints the chains' heads: kept elsewhere, they show a later check whether the trail was written anew.
    """
    run_gateway("audit", "verify", *(["--heads", str(heads)] if heads else []), json=json)
