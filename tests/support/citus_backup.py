"""A cluster's backup and restore, with the scripts of the Kubernetes component."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from psycopg import sql

from citus_cluster import SETTINGS, CitusCluster, start_citus_cluster
from embedded_postgres import EmbeddedPostgres, memory_folder, start_embedded_postgres

SCRIPTS = Path(__file__).resolve().parents[2] / "deploy" / "k8s" / "components" / "postgres-citus" / "scripts"


@dataclass(frozen=True, slots=True)
class Backup:
    """A cluster that archives its log, and the folder of its archives and base backups."""

    cluster: CitusCluster
    folder: Path

    def named(self) -> Iterator[tuple[str, EmbeddedPostgres]]:
        """The servers, by the names of their folders."""
        yield from zip(("coordinator", "worker-0", "worker-1"), self.cluster.servers, strict=True)

    def take(self, label: str, *, keep: int = 2) -> None:
        """Takes a base backup of each server."""
        nodes = [f"{name}={server.socket_dir}" for name, server in self.named()]
        self._run("backup.sh", str(self.folder), label, str(keep), *nodes)

    def restore(self, label: str, point: str, name: str, home: Path) -> None:
        """Creates the data folder of one server in `home`."""
        self._run("restore.sh", str(self.folder / name), label, point, str(home / "data"))
        give(home)

    def _run(self, script: str, *arguments: str) -> None:
        run_script(self.cluster.coordinator, script, *arguments)


def run_script(
    server: EmbeddedPostgres, script: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> None:
    """Runs one of the scripts with the programs of a server's installation; fails with its output."""
    run_program(server, "sh", str(SCRIPTS / script), *arguments, environment=environment)


def run_program(
    server: EmbeddedPostgres, program: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> None:
    """Runs a program, preferably from a server's installation, as its superuser; fails with its output."""
    path = f"{server.binaries}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [program, *arguments],
        env={"PATH": path, "PGUSER": "postgres", **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


@contextmanager
def archiving_cluster(extension: Path) -> Generator[Backup]:
    """Starts a cluster whose servers archive their logs."""
    folder = Path(tempfile.mkdtemp(prefix="cw-backup-", dir=memory_folder()))
    try:
        # The servers may run as another user, who can't enter the repository.
        script = Path(shutil.copy(SCRIPTS / "archive.sh", folder))
        give(folder)
        with start_citus_cluster(extension, {"archive_mode": "on"}) as cluster:
            backup = Backup(cluster, folder)
            for name, server in backup.named():
                command = f'sh {script} "%p" "%f" {folder / name}'
                server.execute(sql.SQL("ALTER SYSTEM SET archive_command = {}").format(command))
                server.execute(sql.SQL("SELECT pg_reload_conf()"))
            yield backup
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def restored_servers(backup: Backup, label: str, point: str) -> Generator[Sequence[EmbeddedPostgres]]:
    """Restores each server into a separate folder and starts it beside the original servers."""
    with ExitStack() as stack:
        servers: list[EmbeddedPostgres] = []
        for name, _ in backup.named():
            home = Path(tempfile.mkdtemp(prefix="cw-pg-", dir=memory_folder()))
            stack.callback(shutil.rmtree, home, ignore_errors=True)
            backup.restore(label, point, name, home)
            settings = {**SETTINGS, "citus.local_hostname": str(home)}
            server = start_embedded_postgres(keep=home, settings=settings, extensions=backup.cluster.archive)
            servers.append(stack.enter_context(server))
        yield servers


def give(folder: Path) -> None:
    """Lets the account that servers run as write a folder."""
    for path in (folder, *folder.rglob("*")):
        if os.geteuid() == 0:
            shutil.chown(path, "nobody")
