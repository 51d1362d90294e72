"""`citewire ingest`: files and folders into the library."""

import threading
from contextlib import suppress
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.options import ImagesOption, JsonOption, UrlOption
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.files import LeftOut, find_sources, inspect, split_addresses
from citewire_cli.ingest import Target, ingest
from citewire_cli.jsonio import get_int
from citewire_cli.outcomes import Outcome
from citewire_cli.settings import load_client_settings
from citewire_cli.validity import read_validity

LINE_SECONDS = 10.0


@output.async_command
async def ingest_command(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH…",
            help="Files, folders (recursively), and http(s):// URLs of files, which the server fetches.",
            show_default=False,
        ),
    ],
    collection: Annotated[str | None, typer.Option("--collection", "-c", help="Put them in this collection.")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", "-t", help="Give them this tag; may be repeated.")] = None,
    update: Annotated[
        bool,
        typer.Option("--update", help="Upload changed files as new versions of the documents with their paths."),
    ] = False,
    valid_from: Annotated[
        str | None, typer.Option(help="Start of validity: a day (2027-01-31) or a time in ISO 8601.")
    ] = None,
    valid_until: Annotated[str | None, typer.Option(help="End of validity; a day is included.")] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="DURATION", help="End of validity from now: 12h, 30d, 8w.")
    ] = None,
    images: ImagesOption = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Don't wait until they are ready.")] = False,
    patience: Annotated[
        float, typer.Option("--patience", min=1, help="Seconds without progress before giving up.")
    ] = 600.0,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Upload documents and wait until they are ready. It is safe to repeat: nothing is stored twice.

    Of a folder, every file that holds text or is a PDF is taken, whatever its name; what is left out is listed. A
    document is known by its path, which begins with the repository's or the folder's name. A file at an address is
    fetched by the gateway, and again only with --update; it must be public unless the operator allows more.

    Exits with 1 if a document failed or isn't ready in time; the others are in the library all the same.
    """
    fields = read_validity(valid_from, valid_until, expires)
    paths, addresses = split_addresses(places)
    files, left_out = find_sources(paths, why_not_taken=partial(inspect, images=images))
    sources = [*files, *addresses]
    if not json:
        _list_left_out(left_out)
    if not sources:
        raise CliError("Nothing to upload", "No file with text and no PDF was found.", ExitCode.USAGE)
    target = Target(collection, tuple(tag or ()), update, fields)
    with IngestProgress(len(sources), wait=not no_wait, quiet=json) as progress:
        async with Api(load_client_settings(url=url)) as api:
            outcomes = await ingest(api, sources, target, progress, wait=not no_wait, patience=patience)
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    late = [] if no_wait else [o for o in outcomes if o.error is None and o.status != "ready"]
    if json:
        listing = [entry.as_json() for entry in left_out]
        documents = [outcome.as_json() for outcome in outcomes]
        output.print_json({"documents": documents, "skipped": len(left_out), "left_out": listing})
    else:
        _report(outcomes, failed, late, len(left_out))
    return ExitCode.FAILED if failed or late else ExitCode.OK


class IngestProgress:
    """Progress on stderr: bars on a terminal, without one a line every ten seconds."""

    def __init__(
        self, total: int, *, wait: bool, quiet: bool, console: Console | None = None, every: float = LINE_SECONDS
    ) -> None:
        """Prepares the bars.

        Args:
            total: how many files.
            wait: whether there is a second bar, for documents that became ready.
            quiet: no progress at all.
            console: where it is shown; stderr by default. Other output during the upload should go there too.
            every: seconds between two lines where there is no terminal.
        """
        self._console = console or output.stderr()
        self._total = total
        self._counts = {"uploaded": 0, "ready": 0} if wait else {"uploaded": 0}
        self._progress = Progress(
            TextColumn("{task.description:<9}"),
            BarColumn(),
            MofNCompleteColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            _Pace(),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
        )
        self._bars = {name: self._progress.add_task(name, total=total) for name in self._counts}
        self._every = every
        self._ended = threading.Event()
        self._lines = threading.Thread(target=self._print_lines, name="progress", daemon=True)
        self._has_lines = not quiet and not self._console.is_terminal

    def __enter__(self) -> "IngestProgress":
        """Shows the bars."""
        self._progress.start()
        if self._has_lines:
            self._lines.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Leaves the bars as they are."""
        self._ended.set()
        if self._has_lines:
            self._lines.join()
        self._progress.stop()

    def uploaded(self, outcome: Outcome) -> None:
        """Advances the first bar; a refused file won't become ready, so it advances the second as well."""
        self._advance("uploaded")
        if outcome.error is not None:
            self.settled(outcome)

    def settled(self, outcome: Outcome) -> None:
        """Advances the second bar."""
        del outcome
        if "ready" in self._counts:
            self._advance("ready")

    def _advance(self, name: str) -> None:
        self._counts[name] += 1
        self._progress.advance(self._bars[name])

    def _print_lines(self) -> None:
        while not self._ended.wait(self._every):
            counts = ", ".join(f"{count} {name}" for name, count in self._counts.items())
            pace = _pace_of(self._progress.tasks[-1])
            with suppress(OSError):
                self._console.print(", ".join(filter(None, [f"{counts} of {self._total}", pace])))


class _Pace(ProgressColumn):
    """Files per second, and the estimated remaining time."""

    def render(self, task: Task) -> Text:
        return Text(_pace_of(task))


def _pace_of(task: Task) -> str:
    """The pace of the last half minute; empty while unknown, and at the end."""
    if not task.speed or task.finished or task.time_remaining is None:
        return ""
    minutes, seconds = divmod(round(task.time_remaining), 60)
    hours, minutes = divmod(minutes, 60)
    left = f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{seconds} s"
    return f"{task.speed:.1f} a second, {left} left"


def _list_left_out(left_out: list[LeftOut]) -> None:
    console = output.stderr()
    for entry in left_out:
        console.print(f"Left out: {output.clean_path(entry.path)}: {entry.reason}")


def _report(outcomes: list[Outcome], failed: list[Outcome], late: list[Outcome], skipped: int) -> None:
    console, problems = output.stdout(), output.stderr()
    for outcome in failed:
        problems.print(f"Failed: {output.clean(str(outcome.source.path))}: {output.clean(str(outcome.error))}")
    for outcome in late:
        problems.print(f"Not ready yet ({outcome.status}): {output.clean(str(outcome.source.path))}")
    for outcome in (outcome for outcome in outcomes if outcome.beside):
        name = output.clean(outcome.source.name)
        problems.print(f"Also in the library in another version, which --update would have replaced: {name}")
    ready = [outcome for outcome in outcomes if outcome.status == "ready"]
    chunks = sum(get_int(outcome.document, "chunks") or 0 for outcome in ready)
    accepted = len(outcomes) - len(failed) - len(late) - len(ready)
    parts = [f"{len(ready)} ready ({chunks} chunks)"] if ready or not accepted else []
    if accepted:
        parts.append(f"{accepted} accepted")
    if late:
        parts.append(f"{len(late)} not ready yet")
    if failed:
        parts.append(f"{len(failed)} failed")
    if skipped:
        parts.append(f"{skipped} left out")
    files = "1 file" if len(outcomes) == 1 else f"{len(outcomes)} files"
    console.print(f"{files}: {', '.join(parts)}.")
