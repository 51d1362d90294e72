"""`citewire audit`: the audit trail."""

from pathlib import Path
from typing import Annotated

import typer

from citewire_cli.commands.options import JsonOption
from citewire_cli.gateway_command import run_gateway

audit_app = typer.Typer(help="Check the audit trail.", no_args_is_help=True)


@audit_app.callback()
def audit() -> None:
    """Check the audit trail."""


@audit_app.command("verify")
def verify(
    heads: Annotated[
        Path | None, typer.Option("--heads", help="Heads of an earlier check, or a log that has them.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check every chain, as the owner of the gateway's database; exits with 1 if something was tampered with.

    Prints the chains' heads: kept elsewhere, they show a later check whether the trail was written anew.
    """
    run_gateway("audit", "verify", *(["--heads", str(heads)] if heads else []), json=json)
