"""`citewire retention`: how long the organisation keeps conversations and documents."""

from typing import Annotated, Final, Literal

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.errors import ExitCode
from citewire_cli.jsonio import JsonObject
from citewire_cli.settings import load_client_settings

What = Literal["conversations", "documents", "expired-documents"]

_SINCE: Final[dict[What, str]] = {
    "conversations": "their last message",
    "documents": "their last version was stored",
    "expired-documents": "their validity ended",
}
OfOption = Annotated[What, typer.Option("--of", help="What to keep.")]

retention_app = typer.Typer(
    help="Set how long your organisation keeps conversations and documents, as owner or admin.",
    no_args_is_help=True,
)


@retention_app.command("show")
@output.async_command
async def show_retention(url: UrlOption = None, json: JsonOption = False) -> ExitCode:
    """Show how long conversations and documents are kept."""
    async with Api(load_client_settings(url=url)) as api:
        return _print(await api.call("GET", "/v1/admin/retention"), json=json)


@retention_app.command("set")
@output.async_command
async def set_retention(
    days: Annotated[
        int, typer.Argument(min=1, max=36_500, help="Days after the last message or version.", show_default=False)
    ],
    of: OfOption = "conversations",
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask for confirmation. Erasure can't be undone.")] = False,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Keep conversations or documents for N days; older ones are permanently erased within minutes."""
    if not yes:
        typer.confirm(f"Erase {of.replace('-', ' ')} {days} days after {_SINCE[of]}?", abort=True, err=True)
    return await _change(of, days, url=url, json=json)


@retention_app.command("off")
@output.async_command
async def no_retention(of: OfOption = "conversations", url: UrlOption = None, json: JsonOption = False) -> ExitCode:
    """Keep conversations, or documents, until they are deleted."""
    return await _change(of, None, url=url, json=json)


async def _change(of: What, days: int | None, *, url: str | None, json: bool) -> ExitCode:
    async with Api(load_client_settings(url=url)) as api:
        policy = await api.call("PUT", "/v1/admin/retention", body={_member(of): days})
    return _print(policy, json=json)


def _member(of: What) -> str:
    return f"{of.replace('-', '_').removesuffix('s')}_days"


def _print(policy: JsonObject, *, json: bool) -> ExitCode:
    if json:
        output.print_json(policy)
        return ExitCode.OK
    for what, since in _SINCE.items():
        days = policy.get(_member(what))
        duration = "until they are deleted" if days is None else f"for {days} days after {since}"
        output.stdout().print(f"{what.replace('-', ' ')} are kept {duration}")
    return ExitCode.OK
