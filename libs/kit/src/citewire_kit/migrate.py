"""Schema migrations: numbered SQL files, applied once, in order, by whichever process comes first.

Each process that owns a schema offers them as its command `migrate`.

Files are `migrations/NNNN_name.sql` in the owner's package. A file runs in one transaction, which also records that
it was applied. Header comments, before the first statement, change that:

- `-- migrate: no-transaction`: each statement runs by itself, as CREATE INDEX CONCURRENTLY demands. Such a file must
  tolerate a second run after a failure (IF NOT EXISTS, and dropping an index that was left invalid).
- `-- migrate: post`: belongs after the new code's rollout (phase "post"), because the old code would break.
"""

import argparse
import asyncio
import hashlib
import importlib.resources
import re
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, LiteralString, cast

import psycopg
from psycopg import AsyncConnection, sql
from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings

from citewire_kit.errors import StartupError
from citewire_kit.settings import load_settings, settings_config
from citewire_kit.telemetry import configure_logging, get_logger

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]  # it has no public name

Phase = Literal["pre", "post", "all"]
Connection = AsyncConnection[tuple[Any, ...]]

log = get_logger(__name__)

LOCK_SECONDS: Final = 600.0
"""Maximum wait for another process's migration, and for tables in use."""

_TABLE_LOCK_MS: Final = 400
"""Maximum wait for a table's lock. Calls queue behind a waiting migration, and for locks it already holds. It therefore
gives up and starts over before Postgres checks for deadlocks (deadlock_timeout, a second) and ends one of the calls."""
_GIVE_WAY_SECONDS: Final = 0.5

_POLL_SECONDS: Final = 0.2
_CONNECT_AGAIN_SECONDS: Final = 1.0
_BASELINE: Final = "0001_baseline.sql"
"""The first migration of a schema, into which all migrations before the first release were merged."""

_FILE = re.compile(r"\d{4}_[a-z0-9_]+\.sql")


class MigrationError(StartupError):
    """The migrations can't be applied; the message says which file and why."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One migration file."""

    file: str
    text: str
    sha256: str
    transactional: bool
    post: bool


@dataclass(frozen=True, slots=True)
class OwnedSchema:
    """A schema and its owner, declared as `SCHEMA` in the owner's package `migrations`, beside its files."""

    name: str
    package: str
    """The owner's package."""
    prefix: str
    """Prefix of the owner's environment variables."""
    on_nodes: str = ""
    """See `migrate`."""


class MigrateSettings(BaseSettings):
    """Settings of the command `migrate`; `migrate_settings` adds the owner's prefix."""

    migrate_dsn: SecretStr
    """Connection string of the role that owns the schema and may create roles."""

    wait_seconds: float = Field(default=0.0, ge=0, validation_alias=AliasChoices("CITEWIRE_MIGRATE_WAIT_SECONDS"))
    """Maximum wait for a database that doesn't respond yet, for example because both were started at once."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", validation_alias=AliasChoices("CITEWIRE_LOG_LEVEL")
    )
    """Lowest level that is logged."""

    log_format: Literal["json", "console"] = Field(default="json", validation_alias=AliasChoices("CITEWIRE_LOG_FORMAT"))
    """`json` for machines, `console` for people."""


def migrate_settings(prefix: str) -> type[MigrateSettings]:
    """Returns the settings of the owner whose environment variables start with `prefix`."""

    class OwnerSettings(MigrateSettings):
        model_config = settings_config(prefix)

    return OwnerSettings


def add_migrate(commands: "Commands", schema: str) -> None:
    """Adds the command `migrate` to a parser's commands; the chosen phase is then in `phase`."""
    parser = commands.add_parser("migrate", help=f"bring the schema `{schema}` up to date, as its owner")
    parser.add_argument("--phase", choices=("all", "post", "pre"), default="all", help="before or after a rollout")


def run_migrate(phase: Phase, schema: OwnedSchema) -> None:
    """Runs the command `migrate`: applies a schema's missing migrations.

    Raises:
        SystemExit: It failed; the log says why.
    """
    settings = load_settings(migrate_settings(schema.prefix))
    configure_logging(f"{schema.name}-migrate", level=settings.log_level, log_format=settings.log_format)
    work = migrate(
        settings.migrate_dsn.get_secret_value(),
        schema=schema.name,
        package=schema.package,
        phase=phase,
        wait_seconds=settings.wait_seconds,
        on_nodes=schema.on_nodes,
    )
    try:
        asyncio.run(work)
    except StartupError as exc:
        log.error("cannot_migrate", error=str(exc))  # noqa: TRY400 # the message is complete without a traceback
        raise SystemExit(1) from None


async def migrate(
    dsn: str,
    *,
    schema: str,
    package: str,
    phase: Phase = "all",
    lock_seconds: float = LOCK_SECONDS,
    wait_seconds: float = 0.0,
    on_nodes: str = "",
) -> list[str]:
    """Applies the migrations of `package` that haven't been applied to `schema`.

    Any number of processes may call this at the same time: one migrates, and the others wait until it is done.

    Args:
        dsn: Connection string of the owner's role.
        schema: The owner's schema; it is created if it doesn't exist, and contains the list of applied files.
        package: Package with the folder `migrations`.
        phase: "pre": what the new code needs. "post": what the old code couldn't run with. "all": both, in file order.
        lock_seconds: Maximum wait for another process's migration.
        wait_seconds: Maximum wait for a database that doesn't respond yet.
        on_nodes: File of `package` that is executed after the migrations, each time, if the database has the
            extension Citus: it distributes tables over the nodes.

    Returns:
        The names of the files that were applied by this call.

    Raises:
        MigrationError: The database can't be reached, the schema is from before the first release, an applied file
            has changed, or a file failed.
    """
    migrations = read_migrations(package)
    connection = await _connect(dsn, schema, wait_seconds)
    async with connection:
        async with _locked(connection, schema, lock_seconds):
            applied = await _applied(connection, schema)
            _verify(migrations, applied, schema)
            due = [m for m in migrations if m.file not in applied and (phase == "all" or m.post == (phase == "post"))]
            for migration in due:
                await _apply(connection, schema, migration, lock_seconds)
            if on_nodes and await _has_nodes(connection):
                text = importlib.resources.files(package).joinpath(on_nodes).read_text("utf-8")
                await _spread(connection, schema, on_nodes, text, lock_seconds)
    return [migration.file for migration in due]


def read_migrations(package: str) -> list[Migration]:
    """Reads the migration files of `package`, in order.

    Raises:
        MigrationError: A file's name isn't NNNN_name.sql, or two files have the same number.
    """
    folder = importlib.resources.files(package).joinpath("migrations")
    results: dict[str, Migration] = {}
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not entry.name.endswith(".sql"):
            continue
        number = entry.name[:4]
        if not _FILE.fullmatch(entry.name) or number in results:
            raise MigrationError(f"migration {entry.name}: names must be NNNN_name.sql, each number once")
        results[number] = _parse(entry.name, entry.read_text("utf-8"))
    return list(results.values())


def split_statements(text: str) -> Iterator[str]:
    """Splits SQL at the semicolons that end statements; those in strings, dollar quotes and comments don't."""
    start = 0
    for match in _LEXEME.finditer(text):
        if match.group() == ";":
            yield from _statement(text[start : match.start()])
            start = match.end()
    yield from _statement(text[start:])


_LEXEME = re.compile(
    r"""
      '(?:[^']|'')*'                          # string
    | "(?:[^"]|"")*"                          # quoted name
    | (?P<tag>\$(?:[A-Za-z_]\w*)?\$).*?(?P=tag)  # dollar-quoted string
    | --[^\n]*                                # comment
    | /\*.*?\*/                               # comment
    | ;
    """,
    re.VERBOSE | re.DOTALL,
)


def _statement(text: str) -> Iterator[str]:
    if re.sub(r"--[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL).strip():
        yield text.strip()


def _parse(file: str, text: str) -> Migration:
    options: set[str] = set()
    for line in text.splitlines():
        if line.strip() and not line.startswith("--"):
            break
        if line.startswith("-- migrate:"):
            options.add(line.removeprefix("-- migrate:").strip())
    unknown = options - {"no-transaction", "post"}
    if unknown:
        raise MigrationError(f"migration {file}: unknown option {sorted(unknown)[0]!r}")
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Migration(file, text, digest, "no-transaction" not in options, "post" in options)


async def _connect(dsn: str, schema: str, wait_seconds: float) -> Connection:
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            return await AsyncConnection.connect(dsn, autocommit=True, connect_timeout=10)
        except psycopg.OperationalError as exc:
            if time.monotonic() >= deadline:
                raise MigrationError(f"cannot connect to migrate {schema}: {str(exc).strip()}") from exc
        await asyncio.sleep(_CONNECT_AGAIN_SECONDS)


@asynccontextmanager
async def _locked(connection: Connection, schema: str, seconds: float) -> AsyncGenerator[None, None]:
    """Holds the schema's advisory lock.

    The lock is polled: a session waiting in pg_advisory_lock holds a snapshot, for which CREATE INDEX CONCURRENTLY in
    the session with the lock would wait.
    """
    key = int.from_bytes(hashlib.sha256(f"citewire-migrate:{schema}".encode()).digest()[:8], "big", signed=True)
    until = time.monotonic() + seconds
    while True:
        row = await (await connection.execute("SELECT pg_try_advisory_lock(%s)", (key,))).fetchone()
        if row is not None and row[0]:
            break
        if time.monotonic() > until:
            raise MigrationError(f"another process has been migrating {schema} for more than {seconds:.0f} s")
        await asyncio.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        if not connection.closed:
            await connection.execute("SELECT pg_advisory_unlock(%s)", (key,))


async def _applied(connection: Connection, schema: str) -> dict[str, str]:
    name = sql.Identifier(schema)
    await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
    await connection.execute(
        sql.SQL(
            "CREATE TABLE IF NOT EXISTS {}.schema_migrations"
            " (file text PRIMARY KEY, sha256 text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
        ).format(name)
    )
    rows = await connection.execute(sql.SQL("SELECT file, sha256 FROM {}.schema_migrations").format(name))
    return {str(file): str(digest) for file, digest in await rows.fetchall()}


def _verify(migrations: list[Migration], applied: dict[str, str], schema: str) -> None:
    for migration in migrations:
        if migration.file in applied and applied[migration.file] != migration.sha256:
            raise MigrationError(
                f"migration {migration.file} was changed after it was applied to {schema}: restore the file, and "
                "put the change into a new one"
            )
    if applied and _BASELINE not in applied and any(migration.file == _BASELINE for migration in migrations):
        raise MigrationError(
            f"schema {schema} was created by a version before the first release, which can't be upgraded. Nothing "
            "was changed: start with an empty database (for `citewire up`, an empty data folder) and add the documents "
            "again, or keep using the version that created it. See docs/upgrading.md"
        )
    unknown = applied.keys() - {migration.file for migration in migrations}
    if unknown:
        log.warning("schema_is_newer_than_code", schema=schema, files=sorted(unknown))


async def _apply(connection: Connection, schema: str, migration: Migration, lock_seconds: float) -> None:
    log.info("migration_started", schema=schema, file=migration.file)
    started = time.monotonic()
    try:
        if migration.transactional:
            await _apply_whole(connection, schema, migration.file, migration.text, migration, lock_seconds)
        else:
            for statement in split_statements(migration.text):
                await connection.execute(_literal(statement), prepare=False)
            await _note(connection, schema, migration)
    except psycopg.Error as exc:
        raise MigrationError(f"migration {migration.file} of {schema} failed: {str(exc).strip()}") from exc
    log.info("migration_applied", schema=schema, file=migration.file, seconds=round(time.monotonic() - started, 3))


async def _apply_whole(
    connection: Connection, schema: str, file: str, text: str, noted: Migration | None, lock_seconds: float
) -> None:
    """Applies a file in one transaction; gives way while a table is in use, for so many seconds."""
    until = time.monotonic() + lock_seconds
    while True:
        last = time.monotonic() > until
        try:
            async with connection.transaction():
                await connection.execute(_literal(f"SET LOCAL lock_timeout = {_TABLE_LOCK_MS}"))
                await connection.execute(_literal(text), prepare=False)
                if noted is not None:
                    await _note(connection, schema, noted)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as exc:
            if last:
                raise
            log.info("migration_gives_way", schema=schema, file=file, error=str(exc).strip())
            await asyncio.sleep(_GIVE_WAY_SECONDS)
        else:
            return


async def _has_nodes(connection: Connection) -> bool:
    cursor = await connection.execute("SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')")
    row = await cursor.fetchone()
    return row is not None and bool(row[0])


async def _spread(connection: Connection, schema: str, file: str, text: str, lock_seconds: float) -> None:
    started = time.monotonic()
    try:
        await _apply_whole(connection, schema, file, text, None, lock_seconds)
    except psycopg.Error as exc:
        raise MigrationError(f"the tables of {schema} can't be distributed over nodes: {str(exc).strip()}") from exc
    log.info("schema_spread", schema=schema, seconds=round(time.monotonic() - started, 3))


async def _note(connection: Connection, schema: str, migration: Migration) -> None:
    await connection.execute(
        sql.SQL("INSERT INTO {}.schema_migrations (file, sha256) VALUES (%s, %s)").format(sql.Identifier(schema)),
        (migration.file, migration.sha256),
    )


def _literal(text: str) -> LiteralString:
    return cast("LiteralString", text)  # a file of our own package is as literal as a string in the source
