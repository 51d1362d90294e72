"""Statements by name, and rows by the names of their columns."""

import importlib.resources
import re
from collections.abc import Mapping
from typing import Any, LiteralString, cast

from psycopg import AsyncConnection, sql
from psycopg.rows import dict_row

Query = LiteralString | bytes | sql.SQL | sql.Composed


async def fetch_rows(
    connection: AsyncConnection[Any], statement: Query, values: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Executes a statement, and returns its rows by the names of their columns."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement, values)
        return await cursor.fetchall()


async def fetch_row(
    connection: AsyncConnection[Any], statement: Query, values: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """Executes a statement, and returns its first row by the names of its columns; None if there is none."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement, values)
        return await cursor.fetchone()


def load_queries(package: str, file: str) -> Mapping[str, LiteralString]:
    """Reads named queries from a `.sql` file of a package.

    A query starts with a line `-- name: find_document`; the comment lines that follow describe it and stay in it.

    Raises:
        ValueError: A name is given twice, or there is text before the first name.
    """
    text = importlib.resources.files(package).joinpath(file).read_text("utf-8")
    parts = re.split(r"^-- name: *(\w+) *$", text, flags=re.MULTILINE)
    if re.sub(r"^--.*$", "", parts[0], flags=re.MULTILINE).strip():
        raise ValueError(f"{file}: there is SQL before the first '-- name:'")
    queries: dict[str, LiteralString] = {}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        if name in queries:
            raise ValueError(f"{file}: {name} is defined twice")
        # A file of our own package is as literal as a string in the source.
        queries[name] = cast("LiteralString", body.strip())
    return queries
