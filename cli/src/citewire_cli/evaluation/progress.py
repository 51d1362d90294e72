"""Progress on stderr: a bar per step."""

from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class Bars:
    """A bar for each step of each data set, made when it is first heard of."""

    def __init__(self, progress: Progress) -> None:
        """Draws on `progress`."""
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}
        self._dataset = ""

    def begin(self, dataset: str) -> None:
        """What follows is about this data set."""
        self._dataset = dataset

    def show(self, step: str, done: int, total: int) -> None:
        """See `gateway.Progress`."""
        name = f"{self._dataset}: {step}"
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=total)
        self._progress.update(self._tasks[name], completed=done, total=total)


@contextmanager
def shown_progress() -> Generator[Bars]:
    """Bars that go when the work is done."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Bars(progress)
