"""`citewire budgets`: what the organisation, one of its users or one of its API keys, may spend in a day or a month."""

from typing import Annotated, Literal

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject, get_float, get_objects, get_str
from citewire_cli.settings import load_client_settings

budgets_app = typer.Typer(
    help="List, set and delete budgets of your organisation, its users and API keys, as its owner or admin. A call "
    "that may cost more than what is left is refused (HTTP 402).",
    no_args_is_help=True,
)

KeyOption = Annotated[
    str | None, typer.Option("--key", help="An API key's id; default: the organisation's budget.", show_default=False)
]
UserOption = Annotated[str | None, typer.Option("--user", help="A user, for the user's budget.", show_default=False)]


PeriodArgument = Annotated[
    Literal["day", "month"], typer.Argument(help="The budget's period, in UTC.", show_default=False)
]


@budgets_app.command("list")
@output.async_command
async def list_budgets(url: UrlOption = None, json: JsonOption = False) -> ExitCode:
    """List budgets with the amounts spent, reserved and left."""
    async with Api(load_client_settings(url=url)) as api:
        listing = await api.call("GET", "/v1/budgets")
    if json:
        output.print_json(listing)
    elif budgets := get_objects(listing, "budgets"):
        _print(budgets)
    else:
        output.stdout().print("There are no budgets: spending isn't limited.")
    return ExitCode.OK


@budgets_app.command("set")
@output.async_command
async def set_budget(
    period: PeriodArgument,
    usd: Annotated[float, typer.Argument(min=0, help="Limit in USD; 0 blocks every call that costs anything.")],
    key: KeyOption = None,
    user: UserOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Set a budget's limit; the current period's spending counts."""
    body: JsonObject = {"period": period, "limit_usd": usd, **_owner(key, user)}
    async with Api(load_client_settings(url=url)) as api:
        budget = await api.call("PUT", "/v1/budgets", body=body)
    if json:
        output.print_json(budget)
    else:
        _print([budget])
    return ExitCode.OK


@budgets_app.command("delete")
@output.async_command
async def delete_budget(
    period: PeriodArgument,
    key: KeyOption = None,
    user: UserOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Delete a budget. Exits with 5 if there is none."""
    params: dict[str, str | int] = {"period": period, **_owner(key, user)}
    async with Api(load_client_settings(url=url)) as api:
        await api.call("DELETE", "/v1/budgets", params=params)
    if json:
        output.print_json({"deleted": params})
    else:
        output.stdout().print("Deleted.")
    return ExitCode.OK


def _owner(key: str | None, user: str | None) -> dict[str, str]:
    if key and user:
        raise CliError(
            "Choose one of --key and --user", "A budget is a key's, a user's or the organisation's.", ExitCode.USAGE
        )
    if key:
        return {"scope": "key", "key_id": key}
    return {"scope": "user", "user": user} if user else {"scope": "org"}


def _print(budgets: list[JsonObject]) -> None:
    amounts = ("limit_usd", "spent_usd", "reserved_usd", "left_usd")
    rows = [
        (
            get_str(budget, "key_id") or get_str(budget, "user") or "organisation",
            get_str(budget, "period"),
            *(f"{get_float(budget, name) or 0:.6f}" for name in amounts),
            get_str(budget, "resets_at"),
        )
        for budget in budgets
    ]
    output.print_table(("for", "period", "limit USD", "spent", "held back", "left", "resets at"), rows)
