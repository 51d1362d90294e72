"""The command line: settings, signals and exit codes of each sub-command."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack

from citewire_accounts.commands.audit import add_audit, run_audit
from citewire_accounts.commands.keys import add_keys, run_keys
from citewire_accounts.commands.members import add_members, run_members
from citewire_accounts.commands.operator import EXIT_FAILED, print_line
from citewire_accounts.commands.operator_keys import add_operator_keys, run_operator_keys
from citewire_accounts.tenants.provider_service import rotate
from citewire_accounts.tenants.providers import ProviderStore
from citewire_gateway.clients.embedder import ProviderSealer
from citewire_gateway.migrations import SCHEMA
from citewire_gateway.settings import RotateSettings
from citewire_kit.channel import open_channel
from citewire_kit.errors import CitewireError
from citewire_kit.migrate import add_migrate, run_migrate
from citewire_kit.postgres import open_pool
from citewire_kit.server import run
from citewire_kit.settings import load_settings
from citewire_kit.telemetry import configure_logging

_REWRAP_SECONDS = 10.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a sub-command."""
    options = _parser().parse_args(arguments)
    match options.command:
        case "migrate":
            run_migrate(options.phase, SCHEMA)
        case "keys":
            raise SystemExit(run(run_keys(options)))
        case "rotate":
            raise SystemExit(run(_rotate()))
        case "orgs" | "users" | "groups":
            raise SystemExit(run(run_members(options)))
        case "operator":
            raise SystemExit(run(run_operator_keys(options)))
        case "audit":
            raise SystemExit(run(run_audit(options)))
        case _:
            # Imported here, because other commands don't need the HTTP application, whose import is slow.
            from citewire_gateway.serving import main as serve

            serve()


async def _rotate() -> int:
    """Rewraps all tenants' sealed providers under the newest master key."""
    configure_logging("gateway", level="INFO", log_format="console")
    settings = load_settings(RotateSettings)
    async with AsyncExitStack() as stack:
        pool = await open_pool(settings.dsn, max_size=1, name="citewire-rotate")
        stack.push_async_callback(pool.close)
        tls, signer = settings.tls(), settings.signer()
        embedder = open_channel(settings.embedder_target, tls=tls, signer=signer)
        generator = open_channel(settings.generator_target, tls=tls, signer=signer)
        for channel in (embedder, generator):
            stack.push_async_callback(channel.close, None)
        try:
            rotation = await rotate(ProviderStore(pool), ProviderSealer(embedder, generator, seconds=_REWRAP_SECONDS))
        except CitewireError as exc:
            sys.stderr.write(f"{exc.message}\n")
            return EXIT_FAILED
    print_line(
        f"{rotation.wrapped} rewrapped, {rotation.current} already under the newest master key, "
        f"{rotation.gone} deleted meanwhile, {rotation.failed} failed"
    )
    if rotation.failed:
        sys.stderr.write("Keep the older master keys until this has run without a failure.\n")
    return EXIT_FAILED if rotation.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m citewire_gateway", description="Citewire's HTTP gateway.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("serve", help="serve HTTP until a signal (the default)")
    add_migrate(commands, SCHEMA.name)
    commands.add_parser("rotate", help="rewrap tenants' sealed providers under the newest master key")
    add_audit(commands)
    add_members(commands)
    add_keys(commands)
    add_operator_keys(commands)
    return parser
