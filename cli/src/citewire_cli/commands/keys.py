"""`citewire keys`: API keys. They live in the gateway's database, so the gateway's own command does the work."""

import importlib.util
import os
import subprocess
import sys
from typing import Annotated, Literal

import typer

from citewire_cli import output
from citewire_cli.commands.options import JsonOption
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import get_object, get_str
from citewire_cli.settings import data_dir_from, load_client_settings

keys_app = typer.Typer(
    help="Create, list and revoke API keys. Runs beside the gateway, on its database: CITEWIRE_GATEWAY_DSN, or that of "
    "the local stack at CITEWIRE_URL or on CITEWIRE_DATA_DIR.",
    no_args_is_help=True,
)


@keys_app.command("create")
def create(
    org: Annotated[str, typer.Option("--org", help="The organisation, made if it is new.", show_default=False)],
    user: Annotated[str, typer.Option("--user", help="The user, made if new.", show_default=False)],
    plan: Annotated[
        Literal["free", "basic", "pro"] | None, typer.Option("--plan", help="The organisation's plan.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="What the key is for.")] = None,
    json: JsonOption = False,
) -> None:
    """Create a key and print it; it is shown only this once."""
    arguments = ["create", "--org", org, "--user", user]
    arguments += ["--plan", plan] if plan else []
    arguments += ["--name", name] if name else []
    _run(arguments, json=json)


@keys_app.command("list")
def list_keys(
    org: Annotated[str | None, typer.Option("--org", help="Only this organisation's.")] = None,
    json: JsonOption = False,
) -> None:
    """List keys, without the secrets."""
    _run(["list", *(["--org", org] if org else [])], json=json)


@keys_app.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id.", show_default=False)],
    json: JsonOption = False,
) -> None:
    """Revoke a key; it stops working at once. Exits with 5 if there is none."""
    _run(["revoke", key_id], json=json)


@output.async_command
async def _run(arguments: list[str], *, json: bool) -> ExitCode:
    if importlib.util.find_spec("citewire_gateway") is None:
        raise CliError(
            "The gateway isn't installed here",
            "Keys are managed where the gateway runs: `citewire keys` needs its package and its database.",
            ExitCode.UNREACHABLE,
        )
    command = [sys.executable, "-m", "citewire_gateway", "keys", *arguments, *(["--json"] if json else [])]
    done = subprocess.run(command, env=_environ(), check=False)  # noqa: S603, ASYNC221 # our own module, nothing else to do meanwhile
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
