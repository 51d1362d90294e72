"""Runs the gateway's own commands on its database, for operators on the gateway's machine."""

import importlib.util
import os
import subprocess
import sys

import typer

from citewire_cli import output
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import get_object, get_str
from citewire_cli.settings import data_dir_from, load_client_settings


@output.async_command
async def run_gateway(command: str, *arguments: str, json: bool) -> ExitCode:
    """Runs a command of the gateway on its database, and exits with its exit code."""
    if importlib.util.find_spec("citewire_gateway") is None:
        raise CliError(
            "The gateway isn't installed here",
            f"`citewire {command}` works where the gateway runs: it needs its package and its database.",
            ExitCode.UNREACHABLE,
        )
    argv = [sys.executable, "-m", "citewire_gateway", command, *arguments, *(["--json"] if json else [])]
    done = subprocess.run(argv, env=_environ(), check=False)  # noqa: S603, ASYNC221 # our own module, nothing else to do meanwhile
    raise typer.Exit(done.returncode)


def _environ() -> dict[str, str]:
    """The environment with the database of the local stack, unless one is given."""
    from citewire_cli.stack.layout import Layout
    from citewire_cli.stack.running import running_stack

    environ = dict(os.environ)
    named = running_stack(load_client_settings(environ)) if environ.get("CITEWIRE_URL") else None
    state = named or Layout(data_dir_from(environ)).read_run()
    if state is not None:
        for variable in ("CITEWIRE_GATEWAY_DSN", "CITEWIRE_GATEWAY_MIGRATE_DSN"):
            environ.setdefault(variable, get_str(get_object(state, "environment"), variable))
    elif "CITEWIRE_GATEWAY_DSN" not in environ and "CITEWIRE_GATEWAY_MIGRATE_DSN" not in environ:
        raise CliError(
            "Which database?",
            "Set CITEWIRE_GATEWAY_DSN to the gateway's, or start the local stack with `citewire up`.",
            ExitCode.UNREACHABLE,
        )
    return environ
