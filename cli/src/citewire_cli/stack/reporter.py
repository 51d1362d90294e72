"""The output of `citewire up`: a line per step and per log line; colours on a terminal, JSON lines with `--json`."""

import datetime
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress

from rich.console import Console
from rich.text import Text

from citewire_cli.errors import CliError
from citewire_cli.output import clean, print_error
from citewire_cli.stack.logs import LogLine, read_line

COLOURS = {
    "postgres": "blue",
    "embedder": "magenta",
    "retriever": "cyan",
    "worker": "green",
    "generator": "yellow",
    "gateway": "bright_blue",
}
NAME_WIDTH = 9
_TALKATIVE = frozenset({"postgres", "initdb", "database"})
DEBUG = 10
WARNING = 30
ERROR = 40


class Reporter:
    """Writes to stdout. A terminal that has gone away (closed window, `| head`) doesn't stop the stack."""

    def __init__(self, *, as_json: bool, least_level: int) -> None:
        """Prepares.

        Args:
            as_json: JSON lines instead of text.
            least_level: children's lines below this level (as in `logging`) go to the log files only. While the stack
                starts, people see only those from WARNING on, unless they asked for DEBUG.
        """
        self.as_json = as_json
        self._least_level = least_level
        self._starting = True
        self.console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)

    def show_all(self) -> None:
        """The stack is ready: from now on lines are shown from `least_level` on."""
        self._starting = False

    def say(self, text: str, *, event: str = "note", style: str = "", **facts: object) -> None:
        """A line of our own.

        Args:
            text: what people read.
            event: its kind, for `--json`.
            style: a rich style.
            **facts: further members, for `--json`.
        """
        if self.as_json:
            self._write_json({"event": event, "text": text, **facts})
        else:
            self._print(Text(text, style=style))

    def line(self, name: str, raw: bytes) -> None:
        """A child's line."""
        line = read_line(raw)
        quiet = self._starting and not self.as_json and self._least_level > DEBUG
        if line.level < (max(self._least_level, WARNING) if quiet or name in _TALKATIVE else self._least_level):
            return
        if self.as_json:
            self._write_json({"event": "log", "process": name, "line": raw.decode("utf-8", "replace")})
        else:
            self._print(self._log_text(name, line))

    def ready(self, name: str, seconds: float, restarts: int) -> None:
        """A child can be used."""
        again = " again" if restarts else ""
        text = f"ready{again} ({seconds:.1f} s)"
        self._status(name, text, event="process_ready", seconds=round(seconds, 3), restarts=restarts)

    def ended(self, name: str, how: str, tail: Sequence[str], pause: float) -> None:
        """A child has died and will be started again."""
        text = f"{how}; starting it again in {pause:g} s"
        self._status(name, text, event="process_ended", style="bold red", how=how, pause=pause)
        if "SIGKILL" not in how and not self.as_json:
            self.tail(tail)

    def tail(self, lines: Sequence[str]) -> None:
        """A dead child's last lines."""
        for text in _tail_texts(lines[-10:], exception_lines=6):
            self._print(Text(text, style="red"))

    def failure(self, error: CliError, tail: Sequence[str] = ()) -> None:
        """Why the stack ends; on stderr."""
        if self.as_json:
            body = error.as_json() | ({"tail": list(tail)} if tail else {})
            sys.stderr.write(json.dumps(body, ensure_ascii=False) + "\n")
            return
        print_error(error, as_json=False)
        console = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
        for text in _tail_texts(tail):
            console.print(Text(text))

    def _status(self, name: str, text: str, *, event: str, style: str = "", **facts: object) -> None:
        if self.as_json:
            self._write_json({"event": event, "process": name, "text": text, **facts})
        else:
            self._print(Text.assemble(_clock(), " ", _label(name), " ", Text(text, style=style)))

    def _log_text(self, name: str, line: LogLine) -> Text:
        style = "bold red" if line.level >= ERROR else "yellow" if line.level >= WARNING else ""
        text = Text.assemble(_clock(), " ", _label(name), " ", Text(line.text, style=style))
        if line.details:
            text.append(f"  {line.details}", style="dim")
        for row in line.exception.splitlines():
            text.append(f"\n    {row}", style="red")
        return text

    def _print(self, text: Text) -> None:
        with suppress(OSError):
            self.console.print(text)

    def _write_json(self, value: dict[str, object]) -> None:
        stamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        with suppress(OSError):
            sys.stdout.write(json.dumps({"ts": stamp, **value}, ensure_ascii=False) + "\n")
            sys.stdout.flush()


def _tail_texts(lines: Sequence[str], exception_lines: int = 0) -> Iterator[str]:
    """A child's last lines as text, each with at most this many lines of its exception (0: all)."""
    for raw in lines:
        line = read_line(raw.encode("utf-8", "replace"))
        yield f"    {line.text} {line.details}".rstrip()
        yield from (f"      {row}" for row in line.exception.splitlines()[-exception_lines:])


def _clock() -> Text:
    return Text(datetime.datetime.now().astimezone().strftime("%H:%M:%S"), style="dim")


def _label(name: str) -> Text:
    return Text(clean(name).ljust(NAME_WIDTH), style=COLOURS.get(name, ""))
