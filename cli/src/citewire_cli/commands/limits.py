"""`citewire limits`: what the plan allows, and what is used of it."""

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.errors import ExitCode
from citewire_cli.jsonio import JsonObject, get_int, get_objects, get_str, get_texts
from citewire_cli.settings import load_client_settings


@output.async_command
async def limits(url: UrlOption = None, json: JsonOption = False) -> ExitCode:
    """Show what your plan lets your API key, you and your organisation do, and what is used of it."""
    async with Api(load_client_settings(url=url)) as api:
        listing = await api.call("GET", "/v1/limits")
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


def _row(row: JsonObject) -> tuple[str, ...]:
    seconds = get_int(row, "window_seconds")
    figures = (f"{get_int(row, name) or 0:,}" for name in ("used", "limit"))
    return (get_str(row, "measure"), get_str(row, "scope"), *figures, f"{seconds} s" if seconds else "")
