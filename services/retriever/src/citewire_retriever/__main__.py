"""Starts the retriever: `python -m citewire_retriever [serve | worker | migrate | cluster]`."""

import argparse
import sys
from collections.abc import Sequence

import citewire_retriever.event_engine  # noqa: F401 # pyright: ignore[reportUnusedImport] # before gRPC is loaded
from citewire_kit import telemetry
from citewire_kit.migrate import add_migrate, run_migrate
from citewire_kit.server import run
from citewire_kit.settings import load_settings
from citewire_retriever.citus.commands import add_cluster, run_cluster
from citewire_retriever.migrations import SCHEMA
from citewire_retriever.settings import RetrieverSettings


def main(arguments: Sequence[str]) -> None:
    """Runs the command that the arguments name; `serve` if they name none."""
    parser = argparse.ArgumentParser(prog="citewire_retriever", description="Citewire's retriever.")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("serve", help="serve RetrieverService and CorpusService (the default)")
    commands.add_parser("worker", help="ingest uploaded documents")
    add_migrate(commands, SCHEMA.name)
    add_cluster(commands)
    parsed = parser.parse_args(arguments)
    if parsed.command == "worker":
        # Imported here: the server needs no parsers.
        from citewire_retriever.ingest.app import main as work

        work()
    elif parsed.command == "migrate":
        run_migrate(parsed.phase, SCHEMA)
    elif parsed.command == "cluster":
        run_cluster(parsed)
    else:
        _serve()


def _serve() -> None:
    # Imported here: migrating needs no gRPC.
    from citewire_retriever.app import serve
    from citewire_retriever.ingest.confined.locks import hide

    hide()  # its environment and memory hold the database's address; the processes that read originals are of its user
    settings = load_settings(RetrieverSettings)
    process = telemetry.setup("retriever", settings)
    try:
        run(serve(settings))
    finally:
        process.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
