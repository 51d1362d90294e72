"""Vectors' graphs of a target are built once all vectors are there: as many insertions take several times as long."""

from psycopg import sql

from citewire_retriever.citus.cluster import Say
from citewire_retriever.citus.copying.notes import change_schema
from citewire_retriever.citus.copying.side import SQL, Side


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
        await change_schema(target, [definition.encode(), forget])
