"""Rows from one database into the other, and whether they are alike there."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from psycopg import sql

from citewire_retriever.citus.copying.notes import Key, Notes, key_text, notes_of
from citewire_retriever.citus.copying.side import SQL, CopyError, Side, Table

_KEYS: Final = 500
"""Number of rows per statement."""


@dataclass(frozen=True, slots=True)
class Content:
    """A summary of rows: their number and the sum of their hashes."""

    rows: int
    hashes: int


class DifferenceError(CopyError):
    """Rows of the target differ from those of the source."""

    def __init__(self, table: Table, org: str, source: Content, target: Content) -> None:
        how = "different content" if source.rows == target.rows else f"{target.rows} of them"
        super().__init__(
            f"organisation {org!r}, table corpus.{table.name}: the source has {source.rows} rows, the target {how}"
        )
        self.table: Final = table
        self.org: Final = org


async def copy_pair(source: Side, target: Side, table: Table, org: str) -> int:
    """Replaces an organisation's rows of a table at the target, and records this there; returns their number.

    In one transaction, so that a killed copy has copied all of them or none.
    """
    async with target.transaction(without_triggers=True):
        await target.run(sql.SQL("DELETE FROM {} WHERE {}").format(table.identifier, _where(org)))
        rows = await _copy(source, target, table, _where(org))
        values = {"table": table.name, "org": org, "columns": table.definitions, "rows": rows}
        await target.run(SQL["note_copied"], values)
    return rows


async def copy_changes(source: Side, target: Side, tables: dict[str, Table], org: str, notes: Notes) -> None:
    """Replaces or deletes rows of the target according to the source's current state, and compares them.

    Runs in the caller's open transaction at the source.

    Raises:
        DifferenceError: The target differs afterwards.
        UniqueViolation: Another row of the target conflicts.
    """
    async with target.transaction(without_triggers=True):
        # All deletions first, so that a name that moved from one row to another is free.
        for name, keys in notes.keys.items():
            for condition in _conditions(tables[name], org, keys):
                await target.run(sql.SQL("DELETE FROM {} AS t WHERE {}").format(tables[name].identifier, condition))
        for name, keys in notes.keys.items():
            for condition in _conditions(tables[name], org, keys):
                await _copy(source, target, tables[name], condition)
                expected = await _content(source, tables[name], condition)
                content = await _content(target, tables[name], condition)
                if content != expected:
                    raise DifferenceError(tables[name], org, expected, content)


async def compare_pair(source: Side, target: Side, table: Table, org: str) -> Content:
    """Compares an organisation's rows of a table, except recorded ones, which are compared when they are copied.

    Raises:
        DifferenceError: They differ.
    """
    # In one statement, and so in one snapshot: the recorded rows, and the content of the others.
    query = sql.SQL("""
        WITH noted AS MATERIALIZED (
            SELECT DISTINCT c.key FROM {notes} c WHERE c.org_id = {org} AND c.table_name = {name}
        )
        SELECT (SELECT array_agg(n.key) FROM noted n), count(*), coalesce(sum({hash}), 0)
        FROM {table} t
        WHERE t.org_id = {org} AND {key} NOT IN (SELECT n.key FROM noted n)
    """).format(
        notes=notes_of(source, table),
        org=sql.Literal(org),
        name=sql.Literal(table.name),
        hash=_hash(table),
        table=table.identifier,
        key=key_text(table, sql.SQL("t")),
    )
    async with source.transaction():
        noted, rows, hashes = (await source.rows(query))[0]
    condition = sql.SQL("{where} AND {key} <> ALL ({noted}::text[])").format(
        where=_where(org), key=key_text(table, sql.SQL("t")), noted=sql.Literal(noted or [])
    )
    async with target.transaction():
        content = await _content(target, table, condition)
    expected = Content(rows, int(hashes))
    if content != expected:
        raise DifferenceError(table, org, expected, content)
    return content


async def _copy(source: Side, target: Side, table: Table, condition: sql.Composed) -> int:
    """Streams rows, because a table may not fit into memory."""
    columns = table.column_list
    reading = sql.SQL("COPY (SELECT {} FROM {} AS t WHERE {}) TO STDOUT (FORMAT binary)").format(
        columns, table.identifier, condition
    )
    writing = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(table.identifier, columns)
    async with source.connection.cursor() as read, target.connection.cursor() as written:
        async with read.copy(reading) as blocks, written.copy(writing) as copy:
            async for block in blocks:
                await copy.write(block)
        return written.rowcount


async def _content(side: Side, table: Table, condition: sql.Composed) -> Content:
    query = sql.SQL("SELECT count(*), coalesce(sum({}), 0) FROM {} AS t WHERE {}").format(
        _hash(table), table.identifier, condition
    )
    rows, hashes = (await side.rows(query))[0]
    return Content(rows, int(hashes))


def _hash(table: Table) -> sql.Composed:
    """A 64-bit hash of a row's text (see `Side.transaction`), which detects accidents but not attacks."""
    columns = [sql.SQL("t.{}").format(sql.Identifier(column)) for column in table.columns]
    return sql.SQL("hashtextextended(ROW({})::text, 0)").format(sql.SQL(", ").join(columns))


def _where(org: str) -> sql.Composed:
    return sql.SQL("org_id = {}").format(sql.Literal(org))


def _conditions(table: Table, org: str, keys: set[Key]) -> Iterator[sql.Composed]:
    """Conditions for the rows with these keys, some at a time."""
    if not table.key:
        yield _where(org)
        return
    columns = sql.SQL(", ").join(sql.SQL("t.{}").format(sql.Identifier(column)) for column in table.key)
    # In a fixed order, so that two sessions lock rows in the same order.
    remaining = iter(sorted(keys))
    while batch := list(islice(remaining, _KEYS)):
        values = sql.SQL(", ").join(sql.SQL("({})").format(sql.SQL(", ").join(map(sql.Literal, key))) for key in batch)
        yield sql.SQL("t.org_id = {} AND ({}) IN ({})").format(sql.Literal(org), columns, values)
