"""Searches all that Citewire stores for a text, to show that nothing of it is left: `python -m citewire_kit.canary`.

Every table of a database, found in its catalogue, so that tables to come are searched too, with what the planner's
statistics hold; and every file of a folder with its name. What is compressed or encrypted can't be found by its text.
"""

import argparse
import base64
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psycopg
from psycopg import sql

_PART: Final = 1024 * 1024
_SHORTEST: Final = 6
"""Shorter texts are found anywhere by chance."""

_TABLES: Final = """
SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
   OR c.oid = 'pg_catalog.pg_statistic'::regclass
ORDER BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class Trace:
    """Where the text was found."""

    place: str
    """A table, or a file."""
    count: int
    """Rows of the table; 1 of a file."""


def spellings(text: str) -> list[bytes]:
    """Returns the forms in which bytes may contain a text: UTF-8 and UTF-16, JSON, percent-encoding, base64."""
    data = text.encode()
    spelled = [data, text.lower().encode(), text.encode("utf-16-le"), quote(text, safe="").encode()]
    spelled.append(text.encode("ascii", "backslashreplace").replace(b"\\x", b"\\u00"))
    for shift in range(3):  # its encoding depends on where it begins in a group of three bytes
        whole = base64.b64encode(b"\0" * shift + data)
        spelled.append(whole[(0, 2, 3)[shift] : len(whole) - 4])
    return list(dict.fromkeys(spelling for spelling in spelled if len(spelling) >= _SHORTEST))


def find_in_database(dsn: str, text: str) -> Iterator[Trace]:
    """Yields the tables that contain the text in any column of any type, ignoring case.

    Args:
        dsn: Of a role that bypasses row-level security, because hidden rows would be missed.
        text: The text to search for.

    Raises:
        psycopg.Error: The database can't be read, or the role doesn't see all rows.
    """
    spelled = spellings(text)
    # As text, a row shows bytes in hexadecimal and everything else literally, except that backslashes are doubled.
    needles = [text.lower(), *(spelling.decode("ascii").lower() for spelling in spelled if _is_plain(spelling))]
    needles += [spelling.hex() for spelling in spelled]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET row_security = off")  # an error if rows would be hidden
        connection.execute("SET default_transaction_read_only = on")
        for schema, table in connection.execute(_TABLES).fetchall():
            statement = sql.SQL(
                "SELECT count(*) FROM {} AS r WHERE EXISTS"
                " (SELECT FROM unnest(%s::text[]) AS needle"
                " WHERE strpos(lower(replace(r::text, E'\\\\\\\\', E'\\\\')), needle) > 0)"
            ).format(sql.Identifier(schema, table))
            row = connection.execute(statement, (list(dict.fromkeys(needles)),)).fetchone()
            if row is not None and row[0]:
                yield Trace(f"table {schema}.{table}", row[0])


def find_in_folder(folder: Path, text: str) -> Iterator[Trace]:
    """Yields the files that contain the text, or have it in their name.

    Postgres's own files are skipped: deleted data stays in them until they are vacuumed, and in its log until that is
    recycled. Its tables are searched through the database.

    Raises:
        OSError: A file can't be read.
    """
    spelled = spellings(text)
    for where, folders, files in os.walk(folder, onerror=_raise):
        folders[:] = sorted(name for name in folders if not (Path(where) / name / "PG_VERSION").exists())
        for name in sorted([*folders, *files]):
            path = Path(where) / name
            if text.lower() in name.lower() or (path.is_file() and _holds(path, spelled)):
                yield Trace(f"file {path}", 1)


def _is_plain(spelling: bytes) -> bool:
    return spelling.isascii() and b"\0" not in spelling


def _raise(error: OSError) -> None:
    raise error


def _holds(path: Path, spelled: Sequence[bytes]) -> bool:
    overlap = max(map(len, spelled)) - 1
    tail = b""
    with path.open("rb") as file:
        while part := file.read(_PART):
            window = tail + part
            if any(spelling in window for spelling in spelled):
                return True
            tail = window[-overlap:]
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Searches, prints where the text is, and returns 0 if it wasn't found, 1 if it was, 2 if that isn't known."""
    parser = argparse.ArgumentParser(
        prog="python -m citewire_kit.canary",
        description="Searches every table and file for a text. Prints where it is, but not its surroundings.",
        epilog="Compressed (inside PDF, DOCX and ZIP files) or encrypted text can't be found. Backups "
        "and Postgres's write-ahead log aren't searched.",
    )
    parser.add_argument("text", help="the text to search for; - reads it from standard input")
    parser.add_argument("--dsn", action="append", default=[], help="a database, as a superuser; may be repeated")
    parser.add_argument("--folder", action="append", default=[], type=Path, help="a folder; may be repeated")
    options = parser.parse_args(arguments)
    text = sys.stdin.read().strip() if options.text == "-" else options.text
    if len(text) < _SHORTEST or not (options.dsn or options.folder):
        parser.error(f"name a --dsn or a --folder, and a text of at least {_SHORTEST} characters")
    count = 0
    try:
        for traces in (
            *(find_in_database(dsn, text) for dsn in options.dsn),
            *(find_in_folder(folder, text) for folder in options.folder),
        ):
            for trace in traces:
                count += 1
                sys.stdout.write(f"{trace.place}: {trace.count}\n")
    except (psycopg.Error, OSError) as exc:
        sys.stderr.write(f"not everything could be searched: {exc}\n")
        return 2
    sys.stdout.write(f"found in {count} places\n" if count else "nothing found\n")
    return 1 if count else 0


if __name__ == "__main__":
    raise SystemExit(main())
