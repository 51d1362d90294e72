"""`citewire usage`: tokens and cost of model calls and chats."""

import sys
from typing import Annotated, Literal

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject, get_float, get_int, get_object, get_objects, get_str
from citewire_cli.settings import load_client_settings

_GROUPS = ("org", "user", "key", "day", "provider", "model", "profile", "purpose")
_SHORT = {
    "calls": "calls",
    "exchanges": "chats",
    "embedding_tokens": "embedding",
    "prompt_tokens": "prompt",
    "cached_input_tokens": "cached",
    "cache_write_tokens": "written",
    "completion_tokens": "completion",
}
"""Figures of the table and their headings; `--json` and `--csv` have all of them."""

StartOption = Annotated[
    str | None, typer.Option("--from", help="First day (UTC) or time; default: 29 days ago.", show_default=False)
]
EndOption = Annotated[str | None, typer.Option("--to", help="Last day, or a time; default: today.", show_default=False)]


@output.async_command
async def usage(
    start: StartOption = None,
    end: EndOption = None,
    by: Annotated[
        str, typer.Option("--by", help="Comma-separated groups: org, user, key, day, model, profile, purpose.")
    ] = "day,model",
    source: Annotated[
        Literal["calls", "exchanges"] | None,
        typer.Option(
            "--source",
            help="Only calls to providers, or only chats with what ran in the services; default: both.",
            show_default=False,
        ),
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only this user's usage.", show_default=False)] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Only calls of this API key, by its id.", show_default=False)
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the gateway's CSV.")] = False,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Show tokens and cost of provider calls and chats. Owners and admins see their organisation's.

    Chats count whatever model answered them, calls only if a provider was called. `--json` is the calls' report, with
    the chats' in `exchanges`, unless --source names one of them; `--csv` is one of the two, the calls by default.
    """
    if as_csv and json:
        raise CliError("Choose one of --csv and --json", "", ExitCode.USAGE)
    source = source or ("calls" if key else None)  # chats have no key
    params: dict[str, str | int] = {"group_by": by, "source": source or "calls"}
    named = (("from", start), ("to", end), ("user", user), ("key_id", key))
    params |= {name: value for name, value in named if value is not None}
    async with Api(load_client_settings(url=url)) as api:
        if as_csv:
            text = await api.text("/v1/usage", params={**params, "format": "csv"})
            sys.stdout.write(text)
            sys.stdout.flush()
            return ExitCode.OK
        report = await api.call("GET", "/v1/usage", params={**params, "format": "json"})
        if source is None:
            chats = {**params, "source": "exchanges", "format": "json"}
            report["exchanges"] = await api.call("GET", "/v1/usage", params=chats)
    if json:
        output.print_json(report)
    else:
        _print(report)
    return ExitCode.OK


def _print(report: JsonObject) -> None:
    whose = "the organisation" if get_str(report, "scope") == "org" else "you"
    console = output.stdout()
    console.print(f"Usage of {whose} from {get_str(report, 'from')} until {get_str(report, 'to')}")
    if "exchanges" not in report:
        print_rows(report, "Nothing was used.")
        return
    console.print()
    console.print("Chats:")
    print_rows(get_object(report, "exchanges"), "None.")
    console.print()
    console.print("Calls to providers, as billed:")
    print_rows(report, "None: everything ran on models of this stack.")


def print_rows(report: JsonObject, nothing: str) -> None:
    """Prints a report's rows as a table, with the total if it has one; without rows, a message."""
    rows, total = get_objects(report, "rows"), get_object(report, "total")
    console = output.stdout()
    if not rows:
        console.print(nothing)
        return
    groups = [name for name in _GROUPS if name in rows[0]]
    figures = [name for name in _SHORT if name in rows[0]]
    lines = [[*(get_str(row, name) or "–" for name in groups), *_figures(row, figures)] for row in rows]
    if groups and total:
        lines.append(["total", *[""] * (len(groups) - 1), *_figures(total, figures)])
    output.print_table((*groups, *(_SHORT[name] for name in figures), "USD"), lines)
    unpriced = get_int(total, "unpriced_calls")
    if unpriced:
        console.print(f"{unpriced} calls went to models whose price the catalogue doesn't know: they count as 0 USD.")


def _figures(row: JsonObject, names: list[str]) -> list[str]:
    counts = [f"{get_int(row, name) or 0:,}" for name in names]
    return [*counts, f"{get_float(row, 'cost_usd') or 0:.6f}"]
