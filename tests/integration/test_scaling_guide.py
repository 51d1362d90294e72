"""docs/how-to/scaling.md says for every table how Citus stores it, and matches the schema."""

from __future__ import annotations

import re
from pathlib import Path
from typing import LiteralString, Protocol

import psycopg
import pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "scaling.md"
_TABLES: LiteralString = """
SELECT n.nspname || '.' || c.relname,
       EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'org_id')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'corpus' AND c.relkind IN ('r', 'p') AND NOT c.relispartition
"""
_KEYS: LiteralString = """
SELECT k.conrelid::regclass::text, k.confrelid::regclass::text FROM pg_constraint k
JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE k.contype = 'f' AND n.nspname = 'corpus' AND NOT c.relispartition
"""


class HasDsn(Protocol):
    @property
    def owner_dsn(self) -> str: ...


def _row(start: str) -> set[str]:
    """Returns the tables in a row of the guide; a name without a schema has that of the previous one."""
    line = next(line for line in GUIDE.read_text().splitlines() if line.startswith(f"| {start}"))
    names: set[str] = set()
    schema = ""
    for name in re.findall(r"`([a-z_.]+)`", line.split("|")[2]):
        schema = name.partition(".")[0] if "." in name else schema
        names.add(name if "." in name else f"{schema}.{name}")
    return names


@pytest.fixture
def rows() -> dict[str, set[str]]:
    return {"distributed": _row("distributed"), "reference": _row("reference"), "local": _row("stays")}


def test_every_table_is_in_it(database: HasDsn, rows: dict[str, set[str]]) -> None:
    with psycopg.connect(database.owner_dsn) as connection:
        tables = {str(name): bool(led) for name, led in connection.execute(_TABLES).fetchall()}
    listed = rows["distributed"] | rows["reference"] | rows["local"]
    # The guide says "each `schema_migrations`" and "the vectors' table of each space".
    ours = {name for name in tables if not name.endswith(".schema_migrations")}
    named = {name for name in listed if not name.endswith(".schema_migrations")}
    assert named == ours
    assert [name for name in rows["distributed"] if not tables[name]] == []


def test_all_foreign_keys_can_be_kept_except_the_one_it_names(database: HasDsn, rows: dict[str, set[str]]) -> None:
    """Citus supports foreign keys within a shard and to reference tables."""
    with psycopg.connect(database.owner_dsn) as connection:
        keys = {(str(source), str(target)) for source, target in connection.execute(_KEYS).fetchall()}

    def place(table: str) -> str:
        return next(name for name, tables in rows.items() if table in tables)

    crossing = {
        (source, target)
        for source, target in keys
        if (place(source), place(target))
        not in {("distributed", "distributed"), ("distributed", "reference"), ("local", "local")}
    }
    assert crossing == {("corpus.ingest_jobs", "corpus.versions")}
    assert "`corpus.ingest_jobs` loses its key to `corpus.versions`" in GUIDE.read_text()
