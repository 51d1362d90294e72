"""Reads lines and JSON, gzipped or not; errors name the file, the place in it and the field."""

import gzip
import json
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from citewire_cli.jsonio import JsonObject
from citewire_eval.datasets.model import DatasetError


class Row:
    """A JSON object, with its place in the file for error messages."""

    def __init__(self, value: object, place: str) -> None:
        """Raises DatasetError if `value` isn't a JSON object."""
        if not isinstance(value, dict):
            raise DatasetError(f"{place.rstrip(': ')}: not a JSON object but {_kind(value)}")
        self.place = place
        """File and line, or file and path within it; ends in a space at the root of a file."""
        self._value = cast("JsonObject", value)

    def __contains__(self, key: str) -> bool:
        """Whether the field exists."""
        return key in self._value

    def text(self, key: str, default: str | None = None) -> str:
        """A text field; a number is converted to text, because ids are often numbers.

        Raises:
            DatasetError: It is absent (without a default) or has another type.
        """
        value = self._value.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise self.wrong(key, "a text", value)

    def filled(self, key: str) -> str:
        """A text field that isn't empty."""
        value = self.text(key)
        if not value.strip():
            raise DatasetError(f"{self.place.rstrip(': ')}: the field {key!r} is empty")
        return value

    def number(self, key: str) -> int:
        """A field that is a whole number."""
        value = self._value.get(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(key, "a whole number", value)
        return value

    def flag(self, key: str, default: bool) -> bool:
        """A field that is true or false."""
        value = self._value.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false", value)
        return value

    def texts(self, key: str) -> list[str]:
        """A field that is a list of texts."""
        members = self._list(key)
        texts = [member for member in members if isinstance(member, str)]
        if len(texts) < len(members):
            raise self.wrong(key, "a list of texts", members)
        return texts

    def rows(self, key: str) -> list["Row"]:
        """A field that is a list of objects."""
        dot = "" if self.place.endswith(" ") else "."
        return [Row(member, f"{self.place}{dot}{key}[{index}]") for index, member in enumerate(self._list(key))]

    def _list(self, key: str) -> list[object]:
        value = self._value.get(key)
        if not isinstance(value, list):
            raise self.wrong(key, "a list", cast("object", value))
        return cast("list[object]", value)

    def wrong(self, key: str, expected: str, value: object) -> DatasetError:
        """The error for a field that is absent or has the wrong type."""
        place = self.place.rstrip(": ")
        if key not in self._value:
            return DatasetError(f"{place}: the field {key!r} is missing")
        return DatasetError(f"{place}: the field {key!r} must be {expected}, not {_kind(value)}")


def find(folder: Path, name: str) -> Path | None:
    """The file with this name in the folder, plain or gzipped."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file with their numbers, from 1, without line endings."""
    with opened(path) as lines:
        try:
            for number, line in enumerate(lines, start=1):
                yield number, _text(line, number, path)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DatasetError(f"{path}: not a complete gzip file ({error})") from error


def read_rows(path: Path) -> Iterator[Row]:
    """The objects of a file with one JSON object per line; empty lines are skipped."""
    for number, line in read_lines(path):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            value: object = json.loads(line)
        except ValueError as error:
            raise DatasetError(f"{place}: not JSON ({error})") from error
        yield Row(value, place)


def read_json(path: Path) -> Row:
    """The JSON object in a file."""
    text = "\n".join(line for _, line in read_lines(path))
    try:
        value: object = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{path}, line {error.lineno}, column {error.colno}"
        raise DatasetError(f"{place}: not JSON ({error.msg})") from error
    return Row(value, f"{path}: ")


def _text(line: bytes, number: int, path: Path) -> str:
    """A line as text, without a byte order mark."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}, line {number}: not UTF-8 (byte {error.start + 1}: {error.reason})") from None


@contextmanager
def opened(path: Path) -> Generator[IO[bytes]]:
    """The file's bytes, decompressed if its name ends in `.gz`."""
    try:
        with path.open("rb") as raw:
            yield cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if path.suffix == ".gz" else raw
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror or error})") from error


def _kind(value: object) -> str:
    names: dict[type, str] = {type(None): "null", bool: "true or false", int: "a number", float: "a number"}
    names |= {str: "a text", list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)
