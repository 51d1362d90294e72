"""Brings the schema `ledger` up to date: `python -m citewire_ledger migrate`."""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from citewire_kit import telemetry
from citewire_kit.errors import StartupError
from citewire_kit.migrate import Phase, migrate
from citewire_kit.settings import load_settings
from citewire_ledger.settings import MigrateSettings

_PHASES: dict[str, Phase] = {"pre": "pre", "post": "post", "all": "all"}


def main(arguments: Sequence[str]) -> None:
    """Runs the command that the arguments name."""
    parser = argparse.ArgumentParser(prog="citewire_ledger", description="Citewire's ledger.")
    commands = parser.add_subparsers(dest="command", required=True)
    migrating = commands.add_parser("migrate", help="bring the schema `ledger` up to date, as its owner")
    migrating.add_argument("--phase", choices=sorted(_PHASES), default="all", help="before or after a rollout")
    _migrate(_PHASES[parser.parse_args(arguments).phase])


def _migrate(phase: Phase) -> None:
    settings = load_settings(MigrateSettings)
    telemetry.configure_logging("ledger-migrate", level=settings.log_level, log_format=settings.log_format)
    dsn = settings.migrate_dsn.get_secret_value()
    try:
        asyncio.run(migrate(dsn, schema="ledger", package="citewire_ledger", phase=phase))
    except StartupError as exc:
        telemetry.get_logger(__name__).error("cannot_migrate", error=str(exc))
        raise SystemExit(1) from None


if __name__ == "__main__":
    main(sys.argv[1:])
