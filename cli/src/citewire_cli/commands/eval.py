"""Stands in for `citewire eval`, which the package citewire-eval brings."""

import typer

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.output import print_error


def explain_eval() -> None:
    """Measure search and answers on data sets. Needs the package citewire-eval, which isn't installed here."""
    error = CliError(
        "The package citewire-eval is missing",
        "In a clone of the repository, `make install` brings it; elsewhere install it beside citewire-cli.",
        ExitCode.USAGE,
    )
    print_error(error, as_json=False)
    raise typer.Exit(int(error.code))
