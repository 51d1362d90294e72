"""A Citus cluster whose nodes can be killed, frozen, cut off and slowed down; it keeps acknowledged data."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg

from citewire_retriever.citus.cluster import NodeAddress
from citus_cluster import SETTINGS, name_node
from databases import Database
from embedded_postgres import EmbeddedPostgres, start_embedded_postgres
from node_proxy import PORT, NodeProxy, node_proxy

DATABASE = "faults"
FAULTS_SETTINGS = {
    **SETTINGS,
    "citus.recover_2pc_interval": "5s",  # interval for completing prepared transactions on nodes
    "citus.background_task_queue_interval": "1s",  # when a rebalance begins
}


@dataclass(slots=True)
class FaultyNode:
    """A worker node, behind a proxy."""

    server: EmbeddedPostgres
    proxy: NodeProxy
    _frozen: list[psutil.Process] = field(default_factory=list[psutil.Process])

    @property
    def address(self) -> NodeAddress:
        """Its address in the cluster."""
        return NodeAddress(str(self.proxy.folder), PORT)

    def freeze(self) -> None:
        """Stops all of its processes, like a hanging disk or a paused machine."""
        server = psutil.Process(self.server.pid)
        server.suspend()  # first: then it starts no more
        self._frozen = [server]
        for child in server.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.suspend()
                self._frozen.append(child)

    def thaw(self) -> None:
        """Lets its processes continue as if nothing had happened."""
        frozen, self._frozen = self._frozen, []
        for process in reversed(frozen):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    def heal(self) -> None:
        """Removes all its faults."""
        self.thaw()
        self.proxy.delay = 0.0
        self.proxy.mend()
        if not self.runs:
            self.server.start()

    @property
    def runs(self) -> bool:
        """Whether its server was started and not killed."""
        try:
            return psutil.pid_exists(self.server.pid)
        except RuntimeError:
            return False


@dataclass(frozen=True, slots=True)
class FaultyCluster:
    """A coordinator and nodes, with one database."""

    archive: Path
    coordinator: EmbeddedPostgres
    nodes: list[FaultyNode]

    @property
    def database(self) -> Database:
        """The schema `corpus`, migrated and distributed."""
        return Database(DATABASE, self.coordinator)

    def node_of(self, org: str) -> FaultyNode:
        """The node of an organisation."""
        with psycopg.connect(self.database.owner_dsn) as connection:
            row = connection.execute("SELECT citewire.node_of(%s)", (org,)).fetchone()
        assert row is not None
        return next(node for node in self.nodes if str(node.address) == row[0])

    def organisations(self, node: FaultyNode, count: int, name: str) -> list[str]:
        """Names of organisations that are, or would be, on a node."""
        names: list[str] = []
        number = 0
        with psycopg.connect(self.database.owner_dsn) as connection:
            while len(names) < count:
                number += 1
                org = f"{name}{number}"
                row = connection.execute("SELECT citewire.node_of(%s)", (org,)).fetchone()
                if row is not None and row[0] == str(node.address):
                    names.append(org)
        return names


def accepts(server: EmbeddedPostgres) -> bool:
    """Whether a restarted server accepts connections: it recovers first."""
    try:
        psycopg.connect(server.dsn(database=DATABASE)).close()
    except psycopg.OperationalError:
        return False
    return True


@contextlib.contextmanager
def start_faulty_node(archive: Path) -> Generator[FaultyNode]:
    """Starts a server that can become a node, with an empty database."""
    with (
        start_embedded_postgres(durable=True, in_memory=True, settings=FAULTS_SETTINGS, extensions=archive) as server,
        node_proxy(server.socket_dir) as proxy,
    ):
        name_node(server)
        server.create_database(DATABASE)
        node = FaultyNode(server, proxy)
        try:
            yield node
        finally:
            node.thaw()  # or it couldn't be ended


@contextlib.contextmanager
def start_faulty_cluster(archive: Path, workers: int = 2) -> Generator[FaultyCluster]:
    """Starts a coordinator and a number of nodes with fsync on, and migrates its database."""
    with contextlib.ExitStack() as stack:
        coordinator = stack.enter_context(
            start_embedded_postgres(durable=True, in_memory=True, settings=FAULTS_SETTINGS, extensions=archive)
        )
        name_node(coordinator)
        coordinator.create_database(DATABASE)
        nodes = [stack.enter_context(start_faulty_node(archive)) for _ in range(workers)]
        for server in (coordinator, *(node.server for node in nodes)):
            with psycopg.connect(server.dsn(database=DATABASE), autocommit=True) as connection:
                connection.execute("CREATE EXTENSION citus")
        with psycopg.connect(coordinator.dsn(database=DATABASE), autocommit=True) as connection:
            connection.execute("SELECT citus_set_coordinator_host(%s, %s)", (str(coordinator.socket_dir), PORT))
            for node in nodes:
                connection.execute("SELECT citus_add_node(%s, %s)", (str(node.proxy.folder), PORT))
            connection.execute("CREATE EXTENSION vector")
        cluster = FaultyCluster(archive, coordinator, nodes)
        subprocess.run(
            [sys.executable, "-m", "citewire_retriever", "migrate"],
            env={**os.environ, "CITEWIRE_RETRIEVER_MIGRATE_DSN": cluster.database.owner_dsn},
            check=True,
            capture_output=True,
            timeout=120,
        )
        yield cluster
