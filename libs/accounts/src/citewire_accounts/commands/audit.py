"""The command `audit`: checks the audit trail of all organisations, in the database as its owner, or in logs."""

import argparse
import json
import sys
import uuid
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from citewire_accounts.commands.operator import EXIT_USAGE, print_line
from citewire_accounts.settings import DatabaseSettings
from citewire_accounts.tenants.audit import check_trail
from citewire_kit.audit_chain import Head, Report
from citewire_kit.audit_lines import check_lines
from citewire_kit.errors import CitewireError, StartupError
from citewire_kit.settings import load_settings
from citewire_kit.telemetry import configure_logging

if TYPE_CHECKING:
    from citewire_accounts.commands.operator import Commands

EXIT_BROKEN = 1


def add_audit(commands: "Commands") -> None:
    """Adds the command to a parser's commands."""
    parser = commands.add_parser("audit", help="check the audit trail")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    verifying = actions.add_parser("verify", help="verify every chain and report any tampering")
    verifying.add_argument(
        "--heads",
        type=Path,
        metavar="FILE",
        help="heads of chains from an earlier check or from logs, as lines of JSON",
    )
    verifying.add_argument(
        "--lines",
        type=Path,
        action="append",
        metavar="FILE",
        help="verify the chains in a service's JSON log instead of the database; may be repeated",
    )
    verifying.add_argument("--json", action="store_true", help="print JSON")


async def run_audit(options: argparse.Namespace) -> int:
    """Runs the command; returns its exit code: 0 if the trail is whole, 1 if it isn't."""
    configure_logging("gateway", level="ERROR", log_format="console")
    if options.lines:
        return _check_logs(options)
    settings = load_settings(DatabaseSettings)
    dsn = settings.migrate_dsn or settings.dsn
    if dsn is None:
        raise StartupError(f"set {DatabaseSettings.env_name('migrate_dsn')} to the database, as its schema's owner")
    try:
        heads = [] if options.heads is None else read_heads(options.heads.read_text("utf-8"))
    except (OSError, ValueError) as exc:
        sys.stderr.write(f"--heads: {exc}\n")
        return EXIT_USAGE
    try:
        report = await check_trail(dsn, heads)
    except CitewireError as exc:
        sys.stderr.write(f"{exc.message}\n")
        return EXIT_BROKEN
    _print(report, as_json=options.json)
    return EXIT_BROKEN if report.problems else 0


def _check_logs(options: argparse.Namespace) -> int:
    paths: list[Path] = options.lines
    try:
        heads = [] if options.heads is None else read_heads(options.heads.read_text("utf-8"))
        with ExitStack() as stack:
            files = [stack.enter_context(path.open(encoding="utf-8", errors="replace")) for path in paths]
            report = check_lines(chain.from_iterable(files), heads)
    except (OSError, ValueError) as exc:
        sys.stderr.write(f"{exc}\n")
        return EXIT_USAGE
    _print(report, as_json=options.json)
    return EXIT_BROKEN if report.problems else 0


def read_heads(text: str) -> list[Head]:
    """Reads heads from lines of JSON; lines of a log that are about something else are passed over.

    Raises:
        ValueError: A line isn't JSON, or names a head that can't be one.
    """
    heads: list[Head] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            values: dict[str, Any] = dict(json.loads(line)) if line.strip() else {}
            if {"process_id", "seq", "hash"} <= values.keys():
                heads.append(Head(uuid.UUID(values["process_id"]), int(values["seq"]), str(values["hash"])))
        except (ValueError, TypeError, AttributeError) as exc:
            raise ValueError(f"line {number} isn't a line of a log or a head of a chain") from exc
    return heads


def _print(report: Report, *, as_json: bool) -> None:
    if as_json:
        heads = [_head(head) for head in report.heads]
        counts = {name: getattr(report, name) for name in ("chains", "blocks", "events", "cut_events")}
        print_line(json.dumps({"whole": not report.problems, **counts, "problems": report.problems, "heads": heads}))
        return
    for head in report.heads:
        print_line(json.dumps(_head(head)))
    for problem in report.problems:
        sys.stderr.write(f"{problem}\n")
    cut = f", {report.cut_events} more were cut by policy" if report.cut_events else ""
    state = f"{len(report.problems)} problems" if report.problems else "whole"
    sys.stderr.write(
        f"{state}: {report.events} events in {report.blocks} blocks of {report.chains} chains{cut}. "
        "The lines above are the chains' heads: keep them elsewhere, for --heads of a later check.\n"
    )


def _head(head: Head) -> dict[str, object]:
    return {"process_id": str(head.process_id), "seq": head.seq, "hash": head.hash}
