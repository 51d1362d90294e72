"""Rows from one database into the other, and whether they are alike there."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from psycopg import sql

from citewire_retriever.citus.copying.notes import Key, Notes, key_text, notes_of
from citewire_retriever.citus.copying.side import SQL, CopyError, Side, Table

_KEYS: Final = 500
"""In one statement."""


@dataclass(frozen=True, slots=True)
class Content:
    """What rows are told by: how many, and the sum of their hashes."""

    rows: int
    hashes: int


class DifferenceError(CopyError):
    """Rows of the target aren't those of the source."""

    def __init__(self, table: Table, org: str, source: Content, target: Content) -> None:
        how = "other content" if source.rows == target.rows else f"{target.rows} of them"
        super().__init__(
            f"organisation {org!r}, table corpus.{table.name}: the source has {source.rows} rows, the target {how}"
        )
        self.table: Final = table
        self.org: Final = org


async def copy_pair(source: Side, target: Side, table: Table, org: str) -> int:
    """Copies an organisation's rows of a table in place of what the target has, and notes that there; returns how many.

    In one transaction: a copy that is killed has copied all of them or none.
    """
    async with target.transaction(without_triggers=True):
        await target.run(sql.SQL("DELETE FROM {} WHERE {}").format(table.identifier, _where(org)))
        rows = await _copy(source, target, table, _where(org))
        await target.run(SQL["note_copied"], {"table": table.name, "org": org, "rows": rows})
    return rows


async def copy_changes(source: Side, target: Side, tables: dict[str, Table], org: str, notes: Notes) -> None:
    """Makes rows of the target what they are at the source now: each is replaced, or deleted. And compares them.

    In the transaction that the caller has open at the source.

    Raises:
        DifferenceError: The target has something else afterwards.
        UniqueViolation: A row of the target that isn't among these is in the way.
    """
    async with target.transaction(without_triggers=True):
        # All deletions first: a name that has moved from row to row is free then.
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
    """Compares an organisation's rows of a table, but those that are noted: these are compared as they are copied.

    Raises:
        DifferenceError: They differ.
    """
    # In one statement, and so of one moment: which rows are noted, and what the others are.
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
    """Streams rows: a table needn't fit into memory."""
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
    """Of a row's text, as `Side.transaction` sets it: 64 bits, which find an accident and not an attack."""
    columns = [sql.SQL("t.{}").format(sql.Identifier(column)) for column in table.columns]
    return sql.SQL("hashtextextended(ROW({})::text, 0)").format(sql.SQL(", ").join(columns))


def _where(org: str) -> sql.Composed:
    return sql.SQL("org_id = {}").format(sql.Literal(org))


def _conditions(table: Table, org: str, keys: set[Key]) -> Iterator[sql.Composed]:
    """Conditions of the rows with these keys, of some at a time."""
    if not table.key:
        yield _where(org)
        return
    columns = sql.SQL(", ").join(sql.SQL("t.{}").format(sql.Identifier(column)) for column in table.key)
    # In one order, in which two would lock rows.
    remaining = iter(sorted(keys))
    while batch := list(islice(remaining, _KEYS)):
        values = sql.SQL(", ").join(sql.SQL("({})").format(sql.SQL(", ").join(map(sql.Literal, key))) for key in batch)
        yield sql.SQL("t.org_id = {} AND ({}) IN ({})").format(sql.Literal(org), columns, values)
