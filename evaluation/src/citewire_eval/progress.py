"""Progress on stderr: a bar per step on a terminal, otherwise occasional lines."""

import time
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from citewire_cli.output import stderr

_LINE_SECONDS = 30.0


class StepProgress:
    """The progress of each step of each data set.

    With `bars`, it draws a bar per step when the step begins. Without, for logs, it prints a line for each finished
    step and one every 30 seconds in between.
    """

    def __init__(self, console: Console, bars: Progress | None = None) -> None:
        """Draws `bars`, or writes lines to `console`."""
        self.dataset = ""
        """Sets the data set that the following steps belong to."""
        self._console = console
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}
        self._printed_at = time.monotonic()

    def show(self, step: str, done: int, total: int) -> None:
        """See `client.Progress`."""
        name = f"{self.dataset}: {step}"
        now = time.monotonic()
        if self._bars is not None:
            if name not in self._tasks:
                self._tasks[name] = self._bars.add_task(name, total=total)
            self._bars.update(self._tasks[name], completed=done, total=total)
        elif done >= total or now - self._printed_at >= _LINE_SECONDS:
            self._printed_at = now
            self._console.print(f"{name} {done}/{total}")


@contextmanager
def show_progress() -> Generator[StepProgress]:
    """Shows the progress of the work inside the block; bars disappear at its end."""
    console = stderr()
    if not console.is_terminal:
        yield StepProgress(console)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        yield StepProgress(console, bars)
