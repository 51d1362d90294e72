"""Children's output: whole into rotated files, readable on the terminal."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from citewire_cli.jsonio import as_object, get_str
from citewire_cli.output import clean

FILE_BYTES = 10 * 1024 * 1024
BACKUPS = 3
SHOWN_CHARACTERS = 2000

LEVELS = {"debug": 10, "info": 20, "notice": 20, "log": 20, "warning": 30, "warn": 30, "error": 40, "critical": 50}
_POSTGRES_LEVELS = {"FATAL": 40, "PANIC": 50, "ERROR": 40, "WARNING": 30}
_OMITTED_FIELDS = {
    *("ts", "timestamp", "level", "event", "service", "logger", "exception", "exc_info", "color_message"),
    *("request_id", "trace_id", "span_id"),
}
"""Fields that are shown elsewhere on the line, or that only help to follow a request through the files."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One displayed line: its level (as in `logging`), the event, and its fields."""

    level: int
    text: str
    details: str = ""
    exception: str = ""


_EXPECTED = (
    "the database system is starting up",
    "the database system is shutting down",
    "the database system is in recovery mode",
    "the database system is not yet accepting connections",
    "terminating connection due to administrator command",
)
"""Messages that Postgres logs as FATAL at every start and end: its clients retry."""


class RotatingFile:
    """Appends bytes to a file; at FILE_BYTES it becomes `NAME.1`, that one `NAME.2`, and the oldest goes."""

    def __init__(self, path: Path, *, limit: int = FILE_BYTES, backups: int = BACKUPS) -> None:
        """Opens the file for appending.

        Args:
            path: the newest file.
            limit: bytes after which it is rotated.
            backups: how many older files stay.
        """
        self._path = path
        self._limit = limit
        self._backups = backups
        self._file = path.open("ab", buffering=0)
        self._size = os.fstat(self._file.fileno()).st_size
        self._failing = False

    def write(self, data: bytes) -> str | None:
        """Appends `data`, which should be whole lines.

        A full disk must not stop the child whose output this is: its lines are dropped until there is room again.

        Returns:
            What is wrong, at the first failure of a row; else None.
        """
        try:
            if self._size and self._size + len(data) > self._limit:
                self._rotate()
            self._file.write(data)
        except OSError as error:
            first, self._failing = not self._failing, True
            return (error.strerror or str(error)) if first else None
        self._failing = False
        self._size += len(data)
        return None

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _rotate(self) -> None:
        for number in range(self._backups, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            newer = self._path.with_name(f"{self._path.name}.{number - 1}") if number > 1 else self._path
            if newer.exists():
                newer.replace(older)
        fresh = self._path.open("ab", buffering=0)
        self._file.close()
        self._file, self._size = fresh, 0


class LineSplitter:
    """Cuts a byte stream into lines; a line longer than `longest` bytes is cut there, so memory stays bounded."""

    def __init__(self, longest: int = 256 * 1024) -> None:
        self._longest = longest
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their line ends."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > self._longest:
            lines.append(self._rest)
            self._rest = b""
        return lines

    def end(self) -> list[bytes]:
        """The rest when the stream ends."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []


def read_line(raw: bytes) -> LogLine:
    """A child's line: our JSON logs become event and `key=value`; Postgres' and any other text stays as it is."""
    text = raw.decode("utf-8", "replace").rstrip("\r\n")
    if text.startswith("{"):
        try:
            record = as_object(json.loads(text))
        except (ValueError, RecursionError):
            record = None
        if record is not None and "event" in record:
            details = " ".join(f"{key}={_value(value)}" for key, value in record.items() if key not in _OMITTED_FIELDS)
            level = LEVELS.get(get_str(record, "level", "info").lower(), 20)
            if record.get("event") == "http_request" and record.get("method") == "GET" and record.get("status") == 200:
                level = min(level, 10)  # what waits for an upload, or watches health, would drown the rest
            event, exception = get_str(record, "event"), get_str(record, "exception")
            return LogLine(level, _shown(event), _shown(details), clean(exception))
    if any(phrase in text for phrase in _EXPECTED):
        return LogLine(20, _shown(text))
    level = next((level for word, level in _POSTGRES_LEVELS.items() if f"{word}:  " in text), 20)
    return LogLine(level, _shown(text))


def _value(value: object) -> str:
    if isinstance(value, str):
        return value if value and " " not in value else json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)


def _shown(text: str) -> str:
    text = clean(text).replace("\n", " ")
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
