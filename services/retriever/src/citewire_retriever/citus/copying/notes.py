"""Keys of rows that change while a database is copied: triggers note them, and the copy forgets what it has copied."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql

from citewire_kit.queries import Query
from citewire_retriever.citus.copying.side import SQL, CopyError, Side, Table

_LOCK_MS: Final = 400
"""Maximum wait for a table's lock, because other calls queue behind the waiting session."""
_TRIES: Final = 100
_PAUSE_SECONDS: Final = 0.2
REFUSAL: Final = "this database was copied: it is no longer written to"
OLD, NEW = sql.SQL("OLD"), sql.SQL("NEW")

Key = tuple[Any, ...]
"""Values of a table's key other than org_id."""


@dataclass(frozen=True, slots=True)
class Notes:
    """Notes of an organisation that were read together."""

    keys: Mapping[str, set[Key]]
    """Keys by table."""
    ids: tuple[list[Any], ...]
    """Ids of the notes, by the table that contains them."""

    def __len__(self) -> int:
        return sum(map(len, self.ids))


def notes_of(side: Side, table: Table) -> sql.Identifier:
    """Returns the table that records the changes of a table."""
    local = side.spread and not table.on_nodes
    return sql.Identifier("citewire_copy", "local_changes" if local else "changes")


def key_text(table: Table, row: sql.SQL) -> sql.Composed:
    """An expression for the key of a row as text, which `parse_key` reads."""
    columns = [sql.SQL("{}.{}").format(row, sql.Identifier(column)) for column in table.key]
    return sql.SQL("jsonb_build_array({})::text").format(sql.SQL(", ").join(columns))


def parse_key(text: str) -> Key:
    """Reads a key written by `key_text`."""
    return tuple(json.loads(text))


async def start_noting(side: Side, tables: Iterable[Table]) -> None:
    """Records changes of these tables from now on.

    Everything committed after a trigger exists is recorded, because nobody can write to the table while it is created.
    """
    noting = {row[0] for row in await side.rows(SQL["noting_tables"])}
    for table in tables:
        if table.name in noting:
            continue
        trigger = sql.SQL(
            "CREATE TRIGGER note_for_copy AFTER INSERT OR UPDATE OR DELETE ON {} FOR EACH ROW EXECUTE FUNCTION {}()"
        ).format(table.identifier, _function_name(table))
        await change_schema(side, [_noting(side, table), trigger])


async def refuse(side: Side, tables: Iterable[Table]) -> None:
    """Makes the recording triggers reject every change, in the caller's open transaction."""
    bodies = [
        _function(side, table, sql.SQL("RAISE read_only_sql_transaction USING MESSAGE = {};").format(REFUSAL))
        for table in tables
    ]
    await side.run(sql.SQL("; ").join(bodies))


async def drop_triggers(side: Side) -> None:
    """Stops recording and rejecting changes."""
    for (name,) in await side.rows(SQL["noting_tables"]):
        drop = sql.SQL("DROP TRIGGER IF EXISTS note_for_copy ON {}").format(sql.Identifier("corpus", name))
        await change_schema(side, [drop])


async def forget_all(side: Side) -> None:
    """Removes the triggers and everything else that a copy created, except rows of `corpus`."""
    await drop_triggers(side)
    await change_schema(side, [SQL["forget"]])


async def change_schema(side: Side, statements: Iterable[Query]) -> None:
    """Executes statements in one transaction, retrying while tables are in use.

    Raises:
        CopyError: They were in use at each attempt.
    """
    for _ in range(_TRIES):
        try:
            async with side.connection.transaction():
                if side.spread:
                    await side.run("SET LOCAL citus.enable_unsafe_triggers = on")
                await side.run(sql.SQL("SET LOCAL lock_timeout = {}").format(_LOCK_MS))
                for statement in statements:
                    await side.run(statement)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return
    raise CopyError(f"tables of {side.what} were in use each time: look for long transactions, and run this again")


async def changed_organisations(side: Side) -> dict[str, int]:
    """Organisations with notes, and the number of notes."""
    counts: dict[str, int] = {}
    for notes in _note_tables(side):
        query = sql.SQL("SELECT org_id, count(*) FROM {} GROUP BY org_id").format(notes)
        for org, count in await side.rows(query):
            counts[org] = counts.get(org, 0) + count
    return counts


async def read_notes(side: Side, org: str) -> Notes:
    """All notes of an organisation."""
    keys: dict[str, set[Key]] = {}
    ids: list[list[Any]] = []
    for notes in _note_tables(side):
        query = sql.SQL("SELECT table_name, key, note_id FROM {} WHERE org_id = {}").format(notes, sql.Literal(org))
        rows = await side.rows(query)
        for table, key, _ in rows:
            keys.setdefault(table, set()).add(parse_key(key))
        ids.append([note for _, _, note in rows])
    return Notes(keys, tuple(ids))


async def forget_notes(side: Side, org: str, notes: Notes) -> None:
    """Deletes the notes of copied rows; later notes of the same rows stay."""
    for table, ids in zip(_note_tables(side), notes.ids, strict=True):
        if ids:
            query = sql.SQL("DELETE FROM {} WHERE org_id = %s AND note_id = ANY (%s::uuid[])").format(table)
            await side.run(query, (org, ids))


def _note_tables(side: Side) -> list[sql.Identifier]:
    names = ("changes", "local_changes") if side.spread else ("changes",)
    return [sql.Identifier("citewire_copy", name) for name in names]


def _noting(side: Side, table: Table) -> sql.Composed:
    """The function of a table's trigger. If a key changes, the old and the new one are recorded."""
    note = sql.SQL("INSERT INTO {} (org_id, note_id, table_name, key) VALUES ({}.org_id, gen_random_uuid(), {}, {});")
    notes = notes_of(side, table)
    name = sql.Literal(table.name)
    old = note.format(notes, OLD, name, key_text(table, OLD))
    new = note.format(notes, NEW, name, key_text(table, NEW))
    body = sql.SQL("""
        IF TG_OP = 'DELETE' THEN
            {old}
        ELSIF TG_OP = 'UPDATE' AND OLD.org_id || {old_key} <> NEW.org_id || {new_key} THEN
            {old}
            {new}
        ELSE
            {new}
        END IF;
        RETURN NULL;""")
    return _function(
        side,
        table,
        body.format(old=old, new=new, old_key=key_text(table, OLD), new_key=key_text(table, NEW)),
    )


def _function(side: Side, table: Table, body: sql.Composed) -> sql.Composed:
    """Runs as the owner, because the role that changes a row needn't be allowed to write notes."""
    nested = sql.SQL("SET citus.allow_nested_distributed_execution = on" if side.spread else "")
    return sql.SQL("""
        CREATE OR REPLACE FUNCTION {name}() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp {nested}
        AS $note$
        BEGIN
            {body}
        END
        $note$""").format(name=_function_name(table), nested=nested, body=body)


def _function_name(table: Table) -> sql.Identifier:
    return sql.Identifier("citewire_copy", f"note_{table.name}")
