"""Reading SQL: named queries, and statements of migrations."""

from __future__ import annotations

from pathlib import Path

import pytest

from citewire_kit.migrate import split_statements
from citewire_kit.queries import load_queries


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"queries_{tmp_path.name.replace('-', '_')}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType] # untyped in pytest
    return name


def write(package: str, tmp_path: Path, text: str) -> None:
    (tmp_path / package / "queries.sql").write_text(text)


def test_queries_are_read_by_name_with_their_comments(package: str, tmp_path: Path) -> None:
    write(
        package,
        tmp_path,
        "-- What the store asks.\n\n-- name: one\n-- The first.\nSELECT 1;\n\n-- name: two\nSELECT\n  2\n",
    )
    queries = load_queries(package, "queries.sql")
    assert queries == {"one": "-- The first.\nSELECT 1;", "two": "SELECT\n  2"}


def test_a_name_given_twice_is_refused(package: str, tmp_path: Path) -> None:
    write(package, tmp_path, "-- name: one\nSELECT 1\n-- name: one\nSELECT 2\n")
    with pytest.raises(ValueError, match="one is defined twice"):
        load_queries(package, "queries.sql")


def test_sql_without_a_name_is_refused(package: str, tmp_path: Path) -> None:
    write(package, tmp_path, "SELECT 0;\n-- name: one\nSELECT 1\n")
    with pytest.raises(ValueError, match="before the first"):
        load_queries(package, "queries.sql")


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT 1", ["SELECT 1"]),
        (";;\n-- only a comment;\n/* and; another */", []),
        ("SELECT 'a;b', 'it''s;'; SELECT \"c;d\"", ["SELECT 'a;b', 'it''s;'", 'SELECT "c;d"']),
        ("DO $$ BEGIN x; END $$; SELECT 1", ["DO $$ BEGIN x; END $$", "SELECT 1"]),
        ("DO $f$ a; $$ b; $$ c; $f$; SELECT 1", ["DO $f$ a; $$ b; $$ c; $f$", "SELECT 1"]),
        ("SELECT 1 -- one; really\n; SELECT 2", ["SELECT 1 -- one; really", "SELECT 2"]),
        ("SELECT /* a; b */ 1; SELECT 2", ["SELECT /* a; b */ 1", "SELECT 2"]),
        ("-- first\nSELECT 1;\n-- second\nSELECT 2;\n", ["-- first\nSELECT 1", "-- second\nSELECT 2"]),
    ],
)
def test_statements_end_at_their_own_semicolons(text: str, statements: list[str]) -> None:
    assert list(split_statements(text)) == statements
