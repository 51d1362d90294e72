"""Brings the schemas of several owners up to date: `python -m citewire_kit.migrate_all PACKAGE…`, in this order.

One process for all, because starting Python and importing what each needs takes longer than the migrations. In a
deployment, each owner's own command `migrate` does it with that owner's role.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence

from citewire_kit.migrate import run_migrate


def main(arguments: Sequence[str]) -> None:
    """Migrates the schema of each package that the arguments name; the first failure ends it."""
    parser = argparse.ArgumentParser(prog="citewire_kit.migrate_all", description="Brings schemas up to date.")
    parser.add_argument("packages", nargs="+", metavar="PACKAGE", help="a package that owns a schema")
    packages: list[str] = parser.parse_args(arguments).packages
    for schema in [importlib.import_module(f"{package}.migrations").SCHEMA for package in packages]:
        run_migrate("all", schema)


if __name__ == "__main__":
    main(sys.argv[1:])
