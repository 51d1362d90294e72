"""The search for a canary finds it everywhere: in any table, type of column or file, in several encodings."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING

import psycopg
import pytest

from citewire_kit import canary

if TYPE_CHECKING:
    from pathlib import Path

    from databases import Database

CANARY = "Zebräfinch4711"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("text", f"before {CANARY} after"),
        ("text", CANARY.upper()),
        ("text[]", ["x", f"{CANARY}."]),
        ("jsonb", '{"deep": [{"er": "' + CANARY + '"}]}'),
        ("json", '{"a": "Zebr\\u00e4finch4711"}'),
        ("bytea", b"\0\xff" + CANARY.encode() + b"\xff"),
        ("bytea", CANARY.encode("utf-16-le")),
        *(("text", base64.b64encode(b"x" * shift + CANARY.encode() + b"tail").decode()) for shift in range(3)),
    ],
)
def test_it_is_found_in_an_unknown_table(database: Database, kind: str, value: object) -> None:
    assert list(canary.find_in_database(database.owner_dsn, CANARY)) == []
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA later")
        connection.execute(f'CREATE TABLE later."New one" (id int, held {kind})'.encode())
        connection.execute(b'INSERT INTO later."New one" VALUES (1, %s), (2, NULL)', (value,))
    assert list(canary.find_in_database(database.owner_dsn, CANARY)) == [canary.Trace("table later.New one", 1)]


def test_it_is_found_in_the_planners_statistics_after_the_rows_are_deleted(database: Database) -> None:
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE public.held (value text)")
        connection.execute(b"INSERT INTO public.held SELECT %s FROM generate_series(1, 50)", (CANARY,))
        connection.execute("ANALYZE public.held")
        connection.execute("DELETE FROM public.held")
        places = [trace.place for trace in canary.find_in_database(database.owner_dsn, CANARY)]
        assert places == ["table pg_catalog.pg_statistic"]
        connection.execute("DROP TABLE public.held")
    assert list(canary.find_in_database(database.owner_dsn, CANARY)) == []


def test_a_role_that_cannot_see_all_rows_gets_an_error(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    assert canary.main([CANARY, "--dsn", database.dsn("citewire_chat")]) == 2
    assert "not everything could be searched" in capsys.readouterr().err


def test_it_is_found_in_files_and_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "log").write_bytes(b"x" * (1024 * 1024 - 5) + CANARY.encode() + b"y")  # across two blocks
    (tmp_path / f"{CANARY}.txt").write_bytes(b"")
    (tmp_path / "zipped").write_bytes(zlib.compress(CANARY.encode() * 100))
    (tmp_path / "database").mkdir()
    (tmp_path / "database" / "PG_VERSION").write_text("18")
    (tmp_path / "database" / "heap").write_text(CANARY)
    assert [trace.place for trace in canary.find_in_folder(tmp_path, CANARY)] == [
        f"file {tmp_path / f'{CANARY}.txt'}",
        f"file {tmp_path / 'deep' / 'log'}",
    ]
    assert canary.main([CANARY, "--folder", str(tmp_path)]) == 1
    assert canary.main(["nowhere-at-all", "--folder", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith("found in 2 places\nnothing found\n")
