"""Starts the retriever: `python -m citewire_retriever [serve | worker | migrate]`."""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from citewire_kit import telemetry
from citewire_kit.errors import StartupError
from citewire_kit.migrate import Phase, migrate
from citewire_kit.server import run
from citewire_kit.settings import load_settings
from citewire_retriever.settings import MigrateSettings, RetrieverSettings

_PHASES: dict[str, Phase] = {"pre": "pre", "post": "post", "all": "all"}


def main(arguments: Sequence[str]) -> None:
    """Runs the command that the arguments name; `serve` if they name none."""
    parser = argparse.ArgumentParser(prog="citewire_retriever", description="Citewire's retriever.")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("serve", help="answer RetrieverService and CorpusService (the default)")
    commands.add_parser("worker", help="ingest what was uploaded")
    migrating = commands.add_parser("migrate", help="bring the schema `corpus` up to date, as its owner")
    migrating.add_argument("--phase", choices=sorted(_PHASES), default="all", help="before or after a rollout")
    parsed = parser.parse_args(arguments)
    if parsed.command == "worker":
        # Imported here: the server needs no parsers.
        from citewire_retriever.ingest.app import main as work

        work()
    elif parsed.command == "migrate":
        _migrate(_PHASES[parsed.phase])
    else:
        _serve()


def _serve() -> None:
    # Imported here: migrating needs no gRPC.
    from citewire_retriever.app import serve

    settings = load_settings(RetrieverSettings)
    process = telemetry.setup("retriever", settings)
    try:
        run(serve(settings))
    finally:
        process.shutdown()


def _migrate(phase: Phase) -> None:
    settings = load_settings(MigrateSettings)
    telemetry.configure_logging("retriever-migrate", level=settings.log_level, log_format=settings.log_format)
    dsn = settings.migrate_dsn.get_secret_value()
    try:
        asyncio.run(migrate(dsn, schema="corpus", package="citewire_retriever", phase=phase))
    except StartupError as exc:
        telemetry.get_logger(__name__).error("cannot_migrate", error=str(exc))
        raise SystemExit(1) from None


if __name__ == "__main__":
    main(sys.argv[1:])
