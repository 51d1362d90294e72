"""Brings the schema `ledger` up to date: `python -m citewire_ledger migrate`."""

import argparse
import sys
from collections.abc import Sequence

from citewire_kit.migrate import add_migrate, run_migrate
from citewire_ledger.migrations import SCHEMA


def main(arguments: Sequence[str]) -> None:
    """Runs the command given by the arguments."""
    parser = argparse.ArgumentParser(prog="citewire_ledger", description="Citewire's ledger.")
    add_migrate(parser.add_subparsers(dest="command", required=True), SCHEMA.name)
    parsed = parser.parse_args(arguments)
    run_migrate(parsed.phase, SCHEMA)


if __name__ == "__main__":
    main(sys.argv[1:])
