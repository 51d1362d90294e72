"""`citewire limits`: limits with their current usage, and limits of users and API keys."""

from typing import Annotated, Literal

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject, get_int, get_objects, get_str, get_texts
from citewire_cli.settings import load_client_settings

limits_app = typer.Typer(
    help="Show the limits of your API key, you and your organisation, with the current usage; as owner or "
    "admin, limit users and API keys further.",
    invoke_without_command=True,
)

MeasureName = Literal["requests", "tokens", "streams", "uploads", "upload-bytes"]
MeasureArgument = Annotated[MeasureName, typer.Argument(help="What is limited.", show_default=False)]
UserOption = Annotated[str | None, typer.Option("--user", help="A user, for the user's limit.", show_default=False)]
KeyOption = Annotated[str | None, typer.Option("--key", help="An API key's id, for its limit.", show_default=False)]


@limits_app.callback()
def limits(
    context: typer.Context,
    user: Annotated[str | None, typer.Option("--user", help="Another user, as owner or admin.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="An API key by its id, as owner or admin.")] = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Show limits with the current usage."""
    if context.invoked_subcommand is None:
        show(user=user, key=key, url=url, json=json)


@output.async_command
async def show(user: str | None, key: str | None, url: str | None, json: bool) -> ExitCode:
    """Prints the limits of the caller, or of another user or key."""
    params: dict[str, str | int] = {
        name: value for name, value in (("user", user), ("key_id", key)) if value is not None
    }
    async with Api(load_client_settings(url=url)) as api:
        listing = await api.call("GET", "/v1/limits", params=params)
    if json:
        output.print_json(listing)
    elif rows := get_objects(listing, "limits"):
        output.stdout().print(f"Plan {get_str(listing, 'plan')}")
        output.print_table(("what", "whose", "used", "limit", "in"), [_row(row) for row in rows])
    else:
        output.stdout().print("There are no limits: this server runs without authentication.")
    if not json and (unknown := get_texts(listing, "unknown")):
        output.stderr().print(f"Not known at the moment: {', '.join(unknown)}")
    return ExitCode.OK


@limits_app.command("list")
@output.async_command
async def list_limits(url: UrlOption = None, json: JsonOption = False) -> ExitCode:
    """List the limits that override the plan's, of the organisation, its users and keys."""
    async with Api(load_client_settings(url=url)) as api:
        listing = await api.call("GET", "/v1/admin/limits")
    if json:
        output.print_json(listing)
    elif limits := get_objects(listing, "limits"):
        _print(limits)
    else:
        output.stdout().print("There are none: the plan's limits apply.")
    return ExitCode.OK


@limits_app.command("set")
@output.async_command
async def set_limit(
    measure: MeasureArgument,
    most: Annotated[int, typer.Argument(min=0, help="The limit; a lower limit of the plan takes precedence.")],
    user: UserOption = None,
    key: KeyOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Set a limit of a user or an API key, effective within 30 seconds."""
    body: JsonObject = {"measure": measure, "limit": most, **_owner(user, key)}
    async with Api(load_client_settings(url=url)) as api:
        limit = await api.call("PUT", "/v1/admin/limits", body=body)
    if json:
        output.print_json(limit)
    else:
        _print([limit])
    return ExitCode.OK


@limits_app.command("delete")
@output.async_command
async def delete_limit(
    measure: MeasureArgument,
    user: UserOption = None,
    key: KeyOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Delete a limit of a user or an API key; the plan's applies again. Exits with 5 if there is none."""
    params: dict[str, str | int] = {"measure": measure, **_owner(user, key)}
    async with Api(load_client_settings(url=url)) as api:
        await api.call("DELETE", "/v1/admin/limits", params=params)
    if json:
        output.print_json({"deleted": params})
    else:
        output.stdout().print("Deleted.")
    return ExitCode.OK


def _owner(user: str | None, key: str | None) -> dict[str, str]:
    if bool(user) == bool(key):
        raise CliError("Give one of --user and --key", "A limit is a user's or a key's.", ExitCode.USAGE)
    return {"scope": "user", "user": user} if user else {"scope": "key", "key_id": key or ""}


def _print(limits: list[JsonObject]) -> None:
    rows = [
        (
            get_str(limit, "user") or get_str(limit, "key_id") or "organisation",
            get_str(limit, "measure"),
            f"{get_int(limit, 'limit') or 0:,}",
            get_str(limit, "updated_by"),
        )
        for limit in limits
    ]
    output.print_table(("for", "what", "limit", "set by"), rows)


def _row(row: JsonObject) -> tuple[str, ...]:
    seconds = get_int(row, "window_seconds")
    figures = (f"{get_int(row, name) or 0:,}" for name in ("used", "limit"))
    return (get_str(row, "measure"), get_str(row, "scope"), *figures, f"{seconds} s" if seconds else "")
