"""`citewire erasures`: erases a user, or the whole organisation, with all their data."""

from typing import Annotated, Literal

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.errors import ExitCode
from citewire_cli.jsonio import JsonObject, get_objects, get_str
from citewire_cli.settings import load_client_settings

erasures_app = typer.Typer(
    help="Erase a user or the organisation, as owner or admin. Runs in the background.",
    no_args_is_help=True,
)

YesOption = Annotated[bool, typer.Option("--yes", help="Don't ask for confirmation. Erasure can't be undone.")]


@erasures_app.command("user")
@output.async_command
async def erase_user(
    user: Annotated[str, typer.Argument(help="The user's id.", show_default=False)],
    documents: Annotated[
        Literal["delete", "keep"], typer.Option(help="Whether to delete or keep the documents they saved.")
    ] = "delete",
    yes: YesOption = False,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Erase a user's keys, conversations and providers, and their documents unless kept."""
    return await _erase({"user": user, "documents": documents}, f"the user {user}", yes=yes, url=url, json=json)


@erasures_app.command("organisation")
@output.async_command
async def erase_organisation(
    organisation: Annotated[str, typer.Argument(help="Your organisation's id.", show_default=False)],
    yes: YesOption = False,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Erase your organisation with all its data."""
    return await _erase({"organisation": organisation}, f"everything of {organisation}", yes=yes, url=url, json=json)


@erasures_app.command("list")
@output.async_command
async def list_erasures(url: UrlOption = None, json: JsonOption = False) -> ExitCode:
    """List erasures with their progress."""
    async with Api(load_client_settings(url=url)) as api:
        listing = await api.call("GET", "/v1/erasures")
    if json:
        output.print_json(listing)
        return ExitCode.OK
    for erasure in get_objects(listing, "erasures"):
        _print(erasure)
    return ExitCode.OK


async def _erase(body: JsonObject, what: str, *, yes: bool, url: str | None, json: bool) -> ExitCode:
    if not yes:
        typer.confirm(f"Erase {what}, for good?", abort=True, err=True)
    async with Api(load_client_settings(url=url)) as api:
        erasure = await api.call("POST", "/v1/erasures", body=body)
    if json:
        output.print_json(erasure)
    else:
        _print(erasure)
    return ExitCode.OK


def _print(erasure: JsonObject) -> None:
    whom = get_str(erasure, "user") or get_str(erasure, "successor")
    what = "organisation" if get_str(erasure, "kind") == "organisation" else f"user {whom}"
    output.stdout().print(f"{get_str(erasure, 'id')}  {what}  {get_str(erasure, 'state')}")
