"""Brings the schema `ledger` up to date: `python -m citewire_ledger migrate`."""

import argparse
import sys
from collections.abc import Sequence

from citewire_kit.migrate import add_migrate, run_migrate


def main(arguments: Sequence[str]) -> None:
    """Runs the command given by the arguments."""
    parser = argparse.ArgumentParser(prog="citewire_ledger", description="Citewire's ledger.")
    add_migrate(parser.add_subparsers(dest="command", required=True), "ledger")
    parsed = parser.parse_args(arguments)
    run_migrate(parsed.phase, "CITEWIRE_LEDGER_", schema="ledger", package="citewire_ledger")


if __name__ == "__main__":
    main(sys.argv[1:])
