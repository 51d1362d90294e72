"""Output of `citewire sync`: lines for people, JSON for scripts."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from citewire_cli import output
from citewire_cli.errors import CliError
from citewire_cli.jsonio import JsonObject, get_str
from citewire_cli.sync.engine import Failure, SyncReport
from citewire_cli.sync.folder import Listing
from citewire_cli.sync.plan import Plan


def print_plan(plan: Plan, failures: list[Failure], listing: Listing, *, as_json: bool) -> None:
    """Prints what would be done: `+` new, `~` changed, `>` moved, `=` described anew, `!` tried again, `-` gone.

    And what couldn't be fetched, as one table on stderr.
    """
    if as_json:
        left_out = [entry.as_json() for entry in listing.left_out]
        failed = [failure.as_json() for failure in failures]
        output.print_json({**_plan_json(plan), "failures": failed, "left_out": left_out})
        return
    print_left_out(listing)
    for line in _lines(plan):
        output.stdout().print(output.clean(line))
    failed = f", {len(failures)} failed" if failures else ""
    output.stdout().print(f"{_summary(plan)}{failed}. Nothing was done.")
    if failures:
        _print_failures(failures)


def print_left_out(listing: Listing) -> None:
    """Prints which files are no documents, and why."""
    for entry in listing.left_out:
        output.stderr().print(f"Left out: {output.clean_path(entry.path)}: {entry.reason}")


def print_report(plan: Plan, report: SyncReport, listing: Listing, *, as_json: bool) -> None:
    """Prints what was done, and what failed as one table on stderr."""
    if as_json:
        failures = [failure.as_json() for failure in report.failures]
        left_out = [entry.as_json() for entry in listing.left_out]
        output.print_json({**_plan_json(plan), "failures": failures, "left_out": left_out})
        return
    failed = f", {len(report.failures)} failed" if report.failures else ""
    output.stdout().print(f"{_summary(plan)}{failed}.")
    if report.failures:
        _print_failures(report.failures)


class Teller:
    """Reports the result of each change, one line each; see `Tell`."""

    def __init__(self, *, as_json: bool) -> None:
        """Takes how it is said."""
        self._as_json = as_json
        self._last_error = ""

    def done(self, report: SyncReport) -> None:
        """See `Tell`."""
        self._last_error = ""
        for old, new in report.moved:
            self._say("moved", new, f"{old} → {new}")
        for path in report.redescribed:
            self._say("described", path, path)
        for path in report.deleted:
            self._say("deleted", path, path)
        for failure in report.failures:
            self.failed(failure)

    def ready(self, path: str) -> None:
        """See `Tell`."""
        self._say("ready", path, path)

    def failed(self, failure: Failure) -> None:
        """See `Tell`."""
        if self._as_json:
            output.print_json({"event": "failed", **failure.as_json()})
        else:
            output.stderr().print(output.clean(f"failed to {failure.action} {failure.path}: {failure.error}"))

    def waiting(self, error: CliError) -> None:
        """See `Tell`. The same error is said once."""
        if str(error) != self._last_error:
            output.print_error(error, as_json=self._as_json)
        self._last_error = str(error)

    def _say(self, event: str, path: str, text: str) -> None:
        if self._as_json:
            output.print_json({"event": event, "path": path})
        else:
            output.stdout().print(output.clean(f"{event} {text}"))


def _plan_json(plan: Plan) -> JsonObject:
    return {
        "new": [file.source.name for file in plan.new],
        "changed": [file.source.name for file in plan.changed],
        "moved": [{"from": get_str(document, "file_name"), "to": file.source.name} for file, document in plan.moved],
        "described": [file.source.name for file, _ in plan.redescribed],
        "retried": [file.source.name for file in plan.failed],
        "deleted": [get_str(document, "file_name") for document in plan.vanished],
        "unchanged": plan.unchanged,
    }


def _lines(plan: Plan) -> Iterator[str]:
    yield from (f"+ {file.source.name}" for file in plan.new)
    yield from (f"~ {file.source.name}" for file in plan.changed)
    yield from (f"> {get_str(document, 'file_name')} → {file.source.name}" for file, document in plan.moved)
    yield from (f"= {file.source.name}" for file, _ in plan.redescribed)
    yield from (f"! {file.source.name}" for file in plan.failed)
    yield from (f"- {get_str(document, 'file_name')}" for document in plan.vanished)


def _summary(plan: Plan) -> str:
    counts = {
        "new": len(plan.new),
        "changed": len(plan.changed),
        "moved": len(plan.moved),
        "described anew": len(plan.redescribed),
        "tried again": len(plan.failed),
        "deleted": len(plan.vanished),
    }
    parts = [f"{count} {what}" for what, count in counts.items() if count]
    return ", ".join([*parts, f"{plan.unchanged} unchanged"])


def _print_failures(failures: list[Failure]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("failed", "file", "why"):
        table.add_column(column, overflow="fold")
    for failure in failures:
        cells = (failure.action, failure.path, str(failure.error))
        table.add_row(*(Text(output.clean(cell)) for cell in cells))
    console = output.stderr()
    if not console.is_terminal:
        console.width = 1000
    console.print(table)
