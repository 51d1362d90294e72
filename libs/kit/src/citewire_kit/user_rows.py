"""Reads what the tables of a schema hold about a user, for an export.

The tables are found in the catalogue, so that those which later versions add are exported as well, unless they are
left out by name. Rows are read in pages, in the order of their primary key: however many they are, little is held at
once, and no connection waits for the reader of the export.
"""

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Final, LiteralString, NamedTuple

from psycopg import sql

from citewire_kit.postgres import Pool, tenant_transaction
from citewire_kit.tenant import Tenant

_PAGE: Final = 200
"""Rows per statement."""
_STATEMENT_SECONDS: Final = 120.0
"""A statement may have to scan all of an organisation's rows for a few."""

_TABLES: Final = """
SELECT c.relname,
       array_agg(a.attname::text ORDER BY a.attnum) FILTER (WHERE a.atttypid <> 'bytea'::regtype),
       (SELECT array_agg(k.attname::text ORDER BY array_position(i.indkey::int2[], k.attnum))
        FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute k ON k.attrelid = c.oid AND k.attnum = ANY (i.indkey)
        WHERE i.indrelid = c.oid AND i.indisprimary)
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname = %(schema)s
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
GROUP BY c.oid, c.relname
HAVING 'org_id' = ANY (array_agg(a.attname::text))
ORDER BY c.relname
"""


@dataclass(frozen=True, slots=True)
class UserTables:
    """How a schema's tables refer to users. Tables without an organisation and binary columns are never exported."""

    schema: str
    columns: tuple[LiteralString, ...]
    """Columns with a user's id, in any table."""
    conditions: Mapping[str, LiteralString]
    """For tables that refer to users in other ways: a condition on the row `t`, with parameters `org` and `user`."""
    left_out: frozenset[str]
    """Tables, and columns as `table.column`, that aren't exported."""


class UserRow(NamedTuple):
    """A row about a user."""

    kind: str
    """Its table, with the schema: `chat.users`."""
    record: dict[str, Any]
    """The row as JSON, by columns."""


class _Table(NamedTuple):
    name: str
    columns: list[str]
    key: list[str]


async def user_rows(pool: Pool, tenant: Tenant, tables: UserTables, user_id: str) -> AsyncGenerator[UserRow, None]:
    """Yields each row that names a user of the tenant's organisation, as far as the tenant may see it.

    Raises:
        psycopg.errors.InsufficientPrivilege: A table can't be read, so the export would be incomplete.
        Unavailable, DeadlineExceeded: As `tenant_transaction`.
    """
    async with tenant_transaction(pool, tenant) as connection:
        cursor = await connection.execute(_TABLES, {"schema": tables.schema})
        user_tables = [_Table(*row) for row in await cursor.fetchall()]
    for table in user_tables:
        if table.name in tables.left_out or (condition := _condition(tables, table)) is None:
            continue
        statement = _statement(tables, table, condition)
        values: dict[str, Any] = {"org": tenant.org_id, "user": user_id, "most": _PAGE, "after": None}
        more = True
        while more:
            async with tenant_transaction(pool, tenant, statement_seconds=_STATEMENT_SECONDS) as connection:
                page = await (await connection.execute(statement, values)).fetchall()
            for (record,) in page:
                yield UserRow(f"{tables.schema}.{table.name}", record)
            more = len(page) == _PAGE
            if more:
                values["after"] = json.dumps({name: page[-1][0][name] for name in table.key})


def _condition(tables: UserTables, table: _Table) -> sql.Composable | None:
    """Condition for a row about the user; None if the table doesn't refer to users."""
    parts: list[sql.Composable] = [
        sql.SQL("t.{} = %(user)s").format(sql.Identifier(name)) for name in tables.columns if name in table.columns
    ]
    if table.name in tables.conditions:
        parts.append(sql.SQL(tables.conditions[table.name]))
    return sql.SQL(" OR ").join(parts) if parts else None


def _statement(tables: UserTables, table: _Table, condition: sql.Composable) -> sql.Composed:
    shown = [name for name in table.columns if f"{table.name}.{name}" not in tables.left_out]
    key = [sql.SQL("{}.{}").format(sql.SQL(of), sql.Identifier(name)) for of in ("t", "k") for name in table.key]
    return sql.SQL(
        "SELECT row_to_json(r) FROM (SELECT {shown} FROM {table} t"
        " WHERE t.org_id = %(org)s AND ({condition})"
        " AND (%(after)s::json IS NULL OR ({here}) >"
        " (SELECT {after} FROM json_populate_record(NULL::{table}, %(after)s::json) k))"
        " ORDER BY {here} LIMIT %(most)s) r"
    ).format(
        shown=sql.SQL(", ").join(sql.Identifier("t", name) for name in shown),
        table=sql.Identifier(tables.schema, table.name),
        condition=condition,
        here=sql.SQL(", ").join(key[: len(table.key)]),
        after=sql.SQL(", ").join(key[len(table.key) :]),
    )
