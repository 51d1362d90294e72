"""The two databases of a copy, and what both know of their tables."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql

from citewire_kit.queries import Query, load_queries
from citewire_retriever.citus import cluster
from citewire_retriever.citus.cluster import ClusterError, Connection, connect, limit_connecting, require_cluster

Values = Sequence[Any] | Mapping[str, Any] | None
SQL: Final = load_queries("citewire_retriever.citus.copying", "queries.sql")
ROLES: Final = ("citewire_corpus", "citewire_worker")
"""The services' roles, which write."""
_LOCK: Final = 7_205_181_035
"""Advisory lock for copying from or into a database."""
_LOCK_TRIES: Final = 15
_LOCK_SECONDS: Final = 0.2
# The settings that affect a row's text. Set on all nodes, because each node writes the text of its own rows.
_SETTINGS: Final = (
    "SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL IntervalStyle = 'postgres';"
    " SET LOCAL extra_float_digits = 1; SET LOCAL bytea_output = 'hex'; SET LOCAL statement_timeout = 0"
)
_EVERYWHERE: Final = "SET LOCAL citus.propagate_set_commands = 'local'"


class CopyError(ClusterError):
    """The copy can't continue; the message says why and what would help."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of `corpus` with rows of organisations."""

    name: str
    columns: tuple[str, ...]
    """Columns that aren't generated."""
    definitions: str
    """These columns with their types."""
    key: tuple[str, ...]
    """Columns of the primary key other than org_id; none if an organisation has one row."""
    on_nodes: bool
    """Whether it is distributed."""

    @property
    def identifier(self) -> sql.Identifier:
        """Its name with its schema."""
        return sql.Identifier("corpus", self.name)

    @property
    def column_list(self) -> sql.Composed:
        """Its columns, separated by commas."""
        return sql.SQL(", ").join(map(sql.Identifier, self.columns))


@dataclass(frozen=True, slots=True)
class CopyState:
    """A database's record of a copy."""

    part: str
    """`source`, `target`, or `retired`: it was copied and switched away from."""
    copy_id: str
    """Id of the copy, the same in both databases."""


class Side:
    """An open connection to one of the two databases, as a superuser."""

    def __init__(self, what: str, connection: Connection, *, spread: bool) -> None:
        self.what: Final = what
        """`the source` or `the target`."""
        self.connection: Final = connection
        self.spread: Final = spread
        """Whether it is a Citus cluster."""
        self._distributed: set[str] = set()

    @staticmethod
    @asynccontextmanager
    async def open(dsn: str, what: str, variable: str) -> AsyncGenerator["Side", None]:
        """Connects.

        Args:
            dsn: Connection string of a superuser.
            what: `the source` or `the target`.
            variable: The environment variable that holds the string, for errors.

        Raises:
            CopyError: It can't be reached or isn't set up, the role lacks rights, or a statement in the block
                fails.
        """
        connection = await connect(dsn, f"{what} ({variable})")
        async with connection:
            connection.prepare_threshold = None  # multiple statements can't be prepared
            row = await (await connection.execute(cluster.SQL["engine"])).fetchone()
            version, schema = row or (None, False)
            if not schema:
                raise CopyError(f"{what} has no schema corpus: run `python -m citewire_retriever migrate` there first")
            if version is not None:
                await require_cluster(connection)
                await limit_connecting(connection)
            row = await (await connection.execute(SQL["superuser"])).fetchone()
            if row is None or not row[0]:
                raise CopyError(
                    f"{what}'s role ({variable}) isn't a superuser: a copy reads all organisations, and writes without"
                    " triggers"
                )
            try:
                yield Side(what, connection, spread=version is not None)
            except psycopg.Error as exc:
                why = cluster.describe_error(exc)
                raise CopyError(f"the copy was interrupted, and continues when it is run again: {why}") from exc

    async def rows(self, query: Query, values: Values = None) -> list[tuple[Any, ...]]:
        """Executes a statement, and returns its rows."""
        return await (await self.connection.execute(query, values)).fetchall()

    async def run(self, query: Query, values: Values = None) -> int:
        """Executes a statement, and returns the number of affected rows."""
        return (await self.connection.execute(query, values)).rowcount

    @asynccontextmanager
    async def transaction(
        self, *, snapshot: bool = False, without_triggers: bool = False
    ) -> AsyncGenerator[None, None]:
        """Opens a transaction in which rows have the same text in both databases.

        Args:
            snapshot: One snapshot for all statements.
            without_triggers: Rows are stored as given, without triggers and foreign key checks.
        """
        async with self.connection.transaction():
            parts = ["SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"] if snapshot else []
            if self.spread:
                parts.append(_EVERYWHERE)
            parts.append(_SETTINGS)
            if without_triggers:
                parts.append("SET LOCAL session_replication_role = replica")
            await self.connection.execute("; ".join(parts).encode())
            yield

    async def tables(self) -> dict[str, Table]:
        """Tables with rows of organisations, in alphabetical order."""
        distributed: set[str] = set()
        shards: set[str] = set()
        if self.spread:
            for name, is_shard in await self.rows(SQL["tables_on_nodes"]):
                (shards if is_shard else distributed).add(name)
        self._distributed = distributed
        return {
            name: Table(name, tuple(columns), definitions, tuple(key or ()), name in distributed)
            for name, columns, definitions, key in await self.rows(SQL["tables"])
            if name not in shards
        }

    async def organisations(self, table: Table) -> set[str]:
        """Organisations that have rows in a table."""
        query = "organisations_on_nodes" if table.name in self._distributed else "organisations"
        return {row[0] for row in await self.rows(sql.SQL(SQL[query]).format(table=table.identifier))}

    async def state(self) -> CopyState | None:
        """The database's record of a copy; None if there is none."""
        if (await self.rows(SQL["remembers"]))[0][0] is None:
            return None
        rows = await self.rows(SQL["state"])
        return CopyState(rows[0][0], str(rows[0][1])) if rows else None

    async def has_rows(self, tables: Sequence[Table]) -> str | None:
        """The name of a table that isn't empty; None if all are empty."""
        for table in tables:
            if await self.rows(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(table.identifier)):
                return table.name
        return None

    async def require_nodes(self) -> None:
        """Checks that all nodes of a cluster respond.

        Raises:
            CopyError: One doesn't.
        """
        if self.spread and (silent := (await self.rows(SQL["silent_nodes"]))[0][0]):
            raise CopyError(f"nodes of {self.what} don't answer: {', '.join(silent)}")

    async def close_to_services(self) -> None:
        """Makes new sessions of the services read-only, so that `target_session_attrs=read-write` skips this server."""
        await self._set_roles(sql.SQL("SET default_transaction_read_only = on"))

    async def open_to_services(self) -> None:
        """Undoes `close_to_services`."""
        await self._set_roles(sql.SQL("RESET default_transaction_read_only"))

    async def end_sessions(self) -> None:
        """Ends the services' sessions, which then connect again and notice the change."""
        await self.rows(SQL["end_sessions"], {"roles": list(ROLES)})

    async def _set_roles(self, change: sql.SQL) -> None:
        """Runs in the caller's transaction, if any. Only for this database, because services don't connect to nodes."""
        name = sql.Identifier(self.connection.info.dbname)
        async with self.connection.transaction():
            if self.spread:
                await self.run("SET LOCAL citus.enable_alter_role_set_propagation = off")
            for role in ROLES:
                await self.run(sql.SQL("ALTER ROLE {} IN DATABASE {} {}").format(sql.Identifier(role), name, change))

    async def lock(self) -> bool:
        """Takes the lock for copying until the connection is closed; False if another session holds it.

        It waits a little, because a killed command's session remains until the server notices.
        """
        for _ in range(_LOCK_TRIES):
            if (await self.rows("SELECT pg_try_advisory_lock(%s)", (_LOCK,)))[0][0]:
                return True
            await asyncio.sleep(_LOCK_SECONDS)
        return False
