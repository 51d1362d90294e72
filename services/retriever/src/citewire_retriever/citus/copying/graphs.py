"""Vectors' graphs of a target are built once all vectors are there: as many insertions take several times as long."""

from typing import Final

from psycopg import sql

from citewire_kit.queries import Query
from citewire_retriever.citus.cluster import Say
from citewire_retriever.citus.copying.notes import change_schema
from citewire_retriever.citus.copying.side import SQL, Side

_ONE_BY_ONE: Final = "SET LOCAL citus.max_adaptive_executor_pool_size = 1"
"""Each node builds the graphs of its shards in turn: each takes up to `maintenance_work_mem` of its memory."""


async def drop_graphs(target: Side) -> None:
    """Drops the graphs of tables into which nothing was copied yet, and records their definitions."""
    for name, definition in await target.rows(SQL["graphs"]):
        # For all partitions: the index of their table only shows that they have one.
        whole = definition.replace(" ON ONLY ", " ON ", 1)
        note = sql.SQL("INSERT INTO citewire_copy.graphs (name, definition) VALUES ({}, {})").format(name, whole)
        await change_schema(target, [note, sql.SQL("DROP INDEX {}").format(sql.Identifier("corpus", name))])


async def build_graphs(target: Side, say: Say) -> None:
    """Builds the dropped graphs."""
    for name, definition in await target.rows(SQL["dropped_graphs"]):
        say(f"building the index {name}")
        forget = sql.SQL("DELETE FROM citewire_copy.graphs WHERE name = {}").format(name)
        statements: list[Query] = [definition.encode(), forget]
        await change_schema(target, [_ONE_BY_ONE, *statements] if target.spread else statements)
