"""A real Citus cluster for tests: a coordinator and two workers, connected only by Unix sockets.

The extension is built for the embedded Postgres and is beside the repository, like the reference data.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from databases import Database
from embedded_postgres import EmbeddedPostgres, start_embedded_postgres

SETTINGS = {
    "shared_preload_libraries": "citus",
    "wal_level": "logical",  # shards are moved by logical replication
    "synchronous_commit": "on",  # a move loses commits that aren't flushed
    "max_prepared_transactions": "100",
    "max_worker_processes": "32",  # one maintenance worker per database, besides those of moves
    "shared_buffers": "64MB",
    "citus.node_conninfo": "sslmode=disable",
    "citus.enable_statistics_collection": "off",
    "citus.shard_count": "4",  # two per worker: each test creates a database, and each shard is a set of files
}
_PORT = 5432
"""Part of each socket's name; the folders differ."""


@dataclass(frozen=True, slots=True)
class CitusCluster:
    """Three running servers."""

    archive: Path
    """The extension's archive."""
    coordinator: EmbeddedPostgres
    workers: tuple[EmbeddedPostgres, ...]

    @property
    def servers(self) -> tuple[EmbeddedPostgres, ...]:
        """All of them."""
        return (self.coordinator, *self.workers)

    def create_database(self, name: str) -> None:
        """Creates an empty database with the extensions on each server, and joins these to a cluster.

        Extensions are created first, by a superuser, as the documentation asks administrators to do.
        """
        for server in self.servers:
            server.create_database(name)
            with psycopg.connect(server.dsn(database=name), autocommit=True) as connection:
                connection.execute("CREATE EXTENSION citus")
        with psycopg.connect(self.coordinator.dsn(database=name), autocommit=True) as connection:
            connection.execute("SELECT citus_set_coordinator_host(%s, %s)", (str(self.coordinator.socket_dir), _PORT))
            for worker in self.workers:
                connection.execute("SELECT citus_add_node(%s, %s)", (str(worker.socket_dir), _PORT))
            connection.execute("CREATE EXTENSION vector")

    def copy_database(self, template: str, name: str) -> None:
        """Copies a cluster's database on each server; the nodes and shards in its catalogues are valid in the copy."""
        for server in self.servers:
            server.create_database(name, template=template)

    def close_database(self, name: str) -> None:
        """Blocks connections to a database, as a copy requires."""
        for server in self.servers:
            server.close_database(name)

    def drop_database(self, name: str) -> None:
        """Drops a database on each server, the coordinator's first."""
        for server in self.servers:
            for _ in range(4):  # Citus's background workers may take longer to end than Postgres waits
                with contextlib.suppress(psycopg.errors.ObjectInUse):
                    server.drop_database(name)
                    break
            else:
                server.drop_database(name)


@contextlib.contextmanager
def start_citus_cluster(archive: Path, settings: Mapping[str, str] | None = None) -> Generator[CitusCluster]:
    """Starts a new, empty cluster, which is removed afterwards; `settings` are additional ones of each server."""
    together = {**SETTINGS, **(settings or {})}
    with contextlib.ExitStack() as stack:
        coordinator, *workers = (
            stack.enter_context(start_embedded_postgres(in_memory=True, settings=together, extensions=archive))
            for _ in range(3)
        )
        for server in (coordinator, *workers):
            name_node(server)
        yield CitusCluster(archive, coordinator, tuple(workers))


@contextlib.contextmanager
def start_citus_node(archive: Path) -> Generator[EmbeddedPostgres]:
    """Starts one more server that can become a node."""
    with start_embedded_postgres(in_memory=True, settings=SETTINGS, extensions=archive) as server:
        name_node(server)
        yield server


def name_node(server: EmbeddedPostgres) -> None:
    """Sets the address at which a server reaches itself: shard splits connect to their own node."""
    server.execute(sql.SQL("ALTER SYSTEM SET citus.local_hostname = {}").format(str(server.socket_dir)))
    server.execute(sql.SQL("SELECT pg_reload_conf()"))


def temporary_database(cluster: CitusCluster, template: str) -> Iterator[Database]:
    """A copy of a cluster's database, dropped afterwards."""
    name = f"test_{uuid.uuid4().hex}"
    cluster.copy_database(template, name)
    try:
        yield Database(name, cluster.coordinator)
    finally:
        cluster.drop_database(name)
