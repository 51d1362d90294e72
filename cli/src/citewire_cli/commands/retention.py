"""`citewire retention`: how long the organisation keeps conversations."""

from typing import Annotated

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.errors import ExitCode
from citewire_cli.jsonio import JsonObject
from citewire_cli.settings import load_client_settings

retention_app = typer.Typer(
    help="Say how long your organisation keeps conversations, as its owner or admin.", no_args_is_help=True
)


@retention_app.command("show")
@output.async_command
async def show_retention(url: UrlOption = None, json: JsonOption = False) -> ExitCode:
    """Show how long conversations are kept."""
    async with Api(load_client_settings(url=url)) as api:
        return _print(await api.call("GET", "/v1/admin/retention"), json=json)


@retention_app.command("set")
@output.async_command
async def set_retention(
    days: Annotated[
        int, typer.Argument(min=1, max=36_500, help="Days after a conversation's last message.", show_default=False)
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask. What is erased can't be brought back.")] = False,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Keep conversations for so many days; older ones are erased within minutes, for good."""
    if not yes:
        typer.confirm(f"Erase conversations {days} days after their last message?", abort=True, err=True)
    async with Api(load_client_settings(url=url)) as api:
        policy = await api.call("PUT", "/v1/admin/retention", body={"conversation_days": days})
    return _print(policy, json=json)


@retention_app.command("off")
@output.async_command
async def no_retention(url: UrlOption = None, json: JsonOption = False) -> ExitCode:
    """Keep conversations until they are deleted."""
    async with Api(load_client_settings(url=url)) as api:
        return _print(await api.call("PUT", "/v1/admin/retention", body={"conversation_days": None}), json=json)


def _print(policy: JsonObject, *, json: bool) -> ExitCode:
    days = policy.get("conversation_days")
    if json:
        output.print_json(policy)
    else:
        duration = "until they are deleted" if days is None else f"for {days} days after their last message"
        output.stdout().print(f"conversations are kept {duration}")
    return ExitCode.OK
