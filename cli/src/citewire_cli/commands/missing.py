"""Placeholders for commands whose packages aren't installed."""

import typer

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.output import print_error


def explain_eval() -> None:
    """Measure search and answers on data sets. Needs the package citewire-eval, which isn't installed here."""
    _explain("citewire-eval")


def explain_mcp() -> None:
    """Serve the documents to models (MCP). Needs the package citewire-mcp, which isn't installed here."""
    _explain("citewire-mcp")


def _explain(package: str) -> None:
    error = CliError(
        f"The package {package} is missing",
        "In a clone of the repository, run `make install`; elsewhere install it alongside citewire-cli.",
        ExitCode.USAGE,
    )
    print_error(error, as_json=False)
    raise typer.Exit(int(error.code))
