"""Checks of a database at a process's start, before a pool connects to it."""

import re
from typing import Final

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict

from citewire_kit.errors import StartupError

_MISSING: Final = re.compile(r'FATAL:  ?(?:role|database) "[^"]*" does not exist')
_CHECK_SECONDS: Final = 2


def check_dsn(dsn: str, name: str) -> None:
    """Raises StartupError, with `name` and without possible passwords, if libpq can't parse the string."""
    try:
        conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        raise StartupError(f"the connection string of {name} can't be parsed by libpq") from None


async def require_schema(dsn: str, schema: str, *, advice: str) -> None:
    """Distinguishes a database that was never set up from an unreachable one, because only the latter is worth a retry.

    A server that can't be reached within two seconds, or is starting, passes: the pool connects to it later.

    Args:
        dsn: As for `open_pool`, checked.
        schema: The schema that the migrations create.
        advice: What to run, for the error message.

    Raises:
        StartupError: The server responds, but has no such role, database or schema.
    """
    try:
        connection = await AsyncConnection.connect(dsn, autocommit=True, connect_timeout=_CHECK_SECONDS)
    except psycopg.OperationalError as exc:
        if missing := _MISSING.search(str(exc)):
            raise StartupError(f"{missing[0].removeprefix('FATAL:').strip()}: {advice}") from None
        return
    async with connection:
        cursor = await connection.execute("SELECT to_regnamespace(%s) IS NULL", (schema,))
        row = await cursor.fetchone()
    if row is not None and row[0]:
        raise StartupError(f'schema "{schema}" does not exist: {advice}')
