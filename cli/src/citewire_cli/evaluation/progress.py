"""Progress on stderr: a bar per step on a terminal, else a line now and then."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from citewire_cli.output import stderr

_LINE_SECONDS = 30.0


class Shown(Protocol):
    """Whoever is told how far the work is."""

    def begin(self, dataset: str) -> None:
        """What follows is about this data set."""
        ...

    def show(self, step: str, done: int, total: int) -> None:
        """See `gateway.Progress`."""
        ...


class Bars:
    """A bar for each step of each data set, made when it is first heard of."""

    def __init__(self, progress: Progress) -> None:
        """Draws on `progress`."""
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}
        self._dataset = ""

    def begin(self, dataset: str) -> None:
        """See `Shown.begin`."""
        self._dataset = dataset

    def show(self, step: str, done: int, total: int) -> None:
        """See `Shown.show`."""
        name = f"{self._dataset}: {step}"
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=total)
        self._progress.update(self._tasks[name], completed=done, total=total)


class Lines:
    """A line for each step that is done, and one every half minute in between: for logs."""

    def __init__(self, console: Console) -> None:
        """Writes to `console`."""
        self._console = console
        self._dataset = ""
        self._last = time.monotonic()

    def begin(self, dataset: str) -> None:
        """See `Shown.begin`."""
        self._dataset = dataset

    def show(self, step: str, done: int, total: int) -> None:
        """See `Shown.show`."""
        now = time.monotonic()
        if done >= total or now - self._last >= _LINE_SECONDS:
            self._last = now
            self._console.print(f"{self._dataset}: {step} {done}/{total}")


@contextmanager
def shown_progress() -> Generator[Shown]:
    """Progress of the work inside; bars go when it is done."""
    console = stderr()
    if not console.is_terminal:
        yield Lines(console)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bars(progress)
