"""`citewire eval`: retrieval quality through the running services."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from citewire_cli import output
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.commands.search import Mode
from citewire_cli.errors import CliError
from citewire_cli.evaluation.command import EvalOptions, run_command
from citewire_cli.settings import load_client_settings


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("eval")(eval_command)


def eval_command(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER…", help="Data sets in BEIR form.", show_default=False)
    ],
    split: Annotated[str, typer.Option("--split", help="Which judgements: qrels/SPLIT.tsv.")] = "test",
    mode: Annotated[
        list[Mode] | None,
        typer.Option("--mode", help="How to search; may be repeated. Default: dense."),
    ] = None,
    top_k: Annotated[int, typer.Option("--top-k", min=1, max=200, help="Documents asked for per query.")] = 100,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, max=64, help="Requests in flight.")] = 8,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Measure retrieval (nDCG, recall, latency) on data sets in BEIR form, through the HTTP API.

    The corpus is ingested into a collection of its own on the first run. Needs the extra `eval`.
    """
    try:
        settings = load_client_settings(url=url)
    except CliError as error:
        output.print_error(error, as_json=json)
        raise typer.Exit(int(error.code)) from None
    headers = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
    modes: list[Literal["dense", "lexical", "hybrid"]] = [one.value for one in mode or [Mode.DENSE]]
    options = EvalOptions(settings.url, headers, split, tuple(modes), top_k, concurrency, json)
    raise typer.Exit(run_command(folders, options))
