"""`citewire ingest`: files and folders into the library."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.ingest import Outcome, Target, find_sources, ingest
from citewire_cli.jsonio import get_int
from citewire_cli.settings import load_client_settings


@output.async_command
async def ingest_command(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH…", help="Files, and folders with all below them.", show_default=False)
    ],
    collection: Annotated[str | None, typer.Option("--collection", "-c", help="Put them in this collection.")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", "-t", help="Give them this tag; may be repeated.")] = None,
    update: Annotated[
        bool,
        typer.Option(
            "--update", help="A changed file becomes a new version of the document of its name in this collection."
        ),
    ] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Don't wait until they can be asked about.")] = False,
    patience: Annotated[
        float, typer.Option("--patience", min=1, help="Seconds without progress before waiting ends.")
    ] = 600.0,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Upload documents and wait until they are ready. Run it again at any time: nothing is stored twice.

    Exits with 1 if a document failed or isn't ready in time; the others are in the library all the same.
    """
    sources, skipped = find_sources(paths)
    if not sources:
        raise CliError("Nothing to upload", "No file of a known type was found.", ExitCode.USAGE)
    target = Target(collection, tuple(tag or ()), update)
    with IngestProgress(len(sources), wait=not no_wait, quiet=json) as progress:
        async with Api(load_client_settings(url=url)) as api:
            outcomes = await ingest(api, sources, target, progress, wait=not no_wait, patience=patience)
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    late = [] if no_wait else [o for o in outcomes if o.error is None and o.status != "ready"]
    if json:
        output.print_json({"documents": [outcome.as_json() for outcome in outcomes], "skipped": skipped})
    else:
        _report(outcomes, failed, late, skipped)
    return ExitCode.FAILED if failed or late else ExitCode.OK


class IngestProgress:
    """Progress bars on stderr; without a terminal, one line for each document that failed is left to the report."""

    def __init__(self, total: int, *, wait: bool, quiet: bool, console: Console | None = None) -> None:
        """Prepares the bars.

        Args:
            total: how many files.
            wait: whether there is a second bar, for documents that became ready.
            quiet: no bars at all.
            console: where they are drawn; stderr by default. Whoever prints meanwhile should print there.
        """
        console = console or output.stderr()
        self._progress = Progress(
            TextColumn("{task.description:<9}"),
            BarColumn(),
            MofNCompleteColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=quiet or not console.is_terminal,
        )
        self._uploaded = self._progress.add_task("uploaded", total=total)
        self._ready = self._progress.add_task("ready", total=total) if wait else None

    def __enter__(self) -> "IngestProgress":
        """Shows the bars."""
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Leaves the bars as they are."""
        self._progress.stop()

    def uploaded(self, outcome: Outcome) -> None:
        """Advances the first bar; a refused file won't become ready, so it advances the second as well."""
        self._progress.advance(self._uploaded)
        if outcome.error is not None:
            self.settled(outcome)

    def settled(self, outcome: Outcome) -> None:
        """Advances the second bar."""
        del outcome
        if self._ready is not None:
            self._progress.advance(self._ready)


def _report(outcomes: list[Outcome], failed: list[Outcome], late: list[Outcome], skipped: int) -> None:
    console, problems = output.stdout(), output.stderr()
    for outcome in failed:
        problems.print(f"Failed: {output.clean(str(outcome.source.path))}: {output.clean(str(outcome.error))}")
    for outcome in late:
        problems.print(f"Not ready yet ({outcome.status}): {output.clean(str(outcome.source.path))}")
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
        parts.append(f"{skipped} files of other types left out")
    console.print(f"{len(outcomes)} files: {', '.join(parts)}.")
