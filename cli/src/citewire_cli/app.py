"""The `citewire` command: its sub-commands and its help."""

from importlib.metadata import version
from typing import Annotated

import typer

from citewire_cli.commands import ask, budgets, documents, eval, ingest, keys, search, status, up, usage
from citewire_cli.errors import EXIT_CODE_HELP

app = typer.Typer(
    name="citewire",
    help="Cited answers over your own documents: the local stack, and a client of its HTTP API.",
    epilog=f"{EXIT_CODE_HELP} Settings: CITEWIRE_URL, CITEWIRE_API_KEY, CITEWIRE_DATA_DIR.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

up.register(app)
ingest.register(app)
ask.register(app)
search.register(app)
documents.register(app)
status.register(app)
keys.register(app)
usage.register(app)
budgets.register(app)
eval.register(app)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"citewire {version('citewire-cli')}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Cited answers over your own documents."""
