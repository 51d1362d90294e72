"""The Kubernetes component postgres-citus on real servers: its settings, a first start, and more nodes."""

from __future__ import annotations

import asyncio
import configparser
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from psycopg import sql

from certificates import Authority
from citewire_kit.migrate import migrate
from citewire_retriever.citus.cluster import Cluster
from citus_backup import SCRIPTS, give, run_script
from corpus_rows import set_tenant
from databases import Database
from embedded_postgres import EmbeddedPostgres, start_embedded_postgres
from local_ports import free_port
from waiting import wait_until

COMPONENT = SCRIPTS.parent
PASSWORDS = {"OWNER_PASSWORD": "owner", "CORPUS_PASSWORD": "c o'r\\p\"us", "WORKER_PASSWORD": "worker"}
NODE_CONNINFO = "sslmode=require tcp_user_timeout=10000 keepalives_idle=10 keepalives_interval=3 keepalives_count=3"
OVERRIDES = {  # changed for the test: too large for its machine, or files of the pod
    "listen_addresses": "",
    "shared_buffers": "64MB",
    "maintenance_work_mem": "64MB",
    "effective_cache_size": "256MB",
    "max_wal_size": "256MB",
    "wal_compression": "off",
    "archive_command": "",
    "archive_mode": "off",
    "citus.node_conninfo": NODE_CONNINFO.replace("require", "disable"),  # the test's Postgres is built without TLS
    "citus.shard_count": "4",
}
HBA = "local all postgres trust\nlocal all all scram-sha-256\n"


def settings() -> dict[str, str]:
    """Returns the settings in settings/postgresql.conf."""
    text = (COMPONENT / "settings" / "postgresql.conf").read_text()
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return {
        name.strip(): value.strip().strip("'") for name, _, value in (line.partition("=") for line in lines if line)
    }


@pytest.fixture(scope="module")
def nodes(citus_archive: Path) -> Iterator[Sequence[EmbeddedPostgres]]:
    """A coordinator and a worker, started with the component's settings and script; their roles need passwords."""
    with ExitStack() as stack:
        servers: list[EmbeddedPostgres] = []
        for _ in range(2):
            given = {**settings(), **OVERRIDES}
            del given["hba_file"]
            server = stack.enter_context(
                start_embedded_postgres(in_memory=True, settings=given, extensions=citus_archive)
            )
            server.execute(sql.SQL("ALTER SYSTEM SET citus.local_hostname = {}").format(str(server.socket_dir)))
            (server.data / "pg_hba.conf").write_text(HBA)
            server.execute(sql.SQL("SELECT pg_reload_conf()"))
            server.create_database("citewire")
            environment = {
                "POSTGRES_USER": "postgres",
                "POSTGRES_DB": "citewire",
                "PGHOST": str(server.socket_dir),
                **PASSWORDS,
            }
            if not servers:
                environment["COORDINATOR"] = str(server.socket_dir)
            run_script(server, "init.sh", environment=environment)
            servers.append(server)
        yield servers


async def test_nodes_started_with_the_component_become_a_cluster(nodes: Sequence[EmbeddedPostgres]) -> None:
    coordinator, worker = nodes
    database = Database("citewire", coordinator)
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "citewire_retriever", "cluster", "add-node", str(worker.socket_dir)],
        env={**os.environ, "CITEWIRE_RETRIEVER_MIGRATE_DSN": database.owner_dsn, "CITEWIRE_MIGRATE_WAIT_SECONDS": "60"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "was added" in done.stdout
    await migrate(database.owner_dsn, schema="corpus", package="citewire_retriever", on_nodes="citus/distribute.sql")
    async with Cluster.open(database.owner_dsn, print) as cluster:
        await cluster.require_nodes()  # checks the settings that a move needs
    # The worker has the coordinator's roles and passwords; the coordinator uses them for its connections.
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(database.dsn("citewire_corpus"), password="wrong")
    with psycopg.connect(database.dsn("citewire_corpus"), password=PASSWORDS["CORPUS_PASSWORD"]) as connection:
        set_tenant(connection, "acme")
        connection.execute("INSERT INTO corpus.collections (org_id, name) VALUES ('acme', 'default')")
        connection.commit()
        set_tenant(connection, "acme")
        assert connection.execute("SELECT name FROM corpus.collections WHERE org_id = 'acme'").fetchall() == [
            ("default",)
        ]
    with psycopg.connect(worker.dsn(database="citewire")) as connection:
        shards = connection.execute("SELECT count(*) FROM pg_dist_placement").fetchone()
        assert shards is not None
        assert shards[0] > 0
        made = connection.execute(
            "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname ~ '^citewire_'"
        ).fetchall()
        assert made == [(False,), (False,)]
    limits = "SELECT current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout')"
    for server in nodes:
        for role, password in (("citewire_corpus", "CORPUS_PASSWORD"), ("citewire_worker", "WORKER_PASSWORD")):
            with psycopg.connect(server.dsn(role, "citewire"), password=PASSWORDS[password]) as connection:
                assert connection.execute(limits).fetchone() == ("1min", "1min")
        with psycopg.connect(server.dsn(database="citewire")) as connection:
            assert connection.execute(limits).fetchone() == ("0", "0")


@pytest.fixture
def pooler(nodes: Sequence[EmbeddedPostgres]) -> Iterator[int]:
    """The component's pooler in front of the coordinator; its port.

    It runs the component's script and settings, except for paths, addresses, and what Debian's PgBouncer doesn't know.
    """
    folder = Path(tempfile.mkdtemp(prefix="cw-bouncer-"))
    port = free_port()
    changes = {
        SCRIPTS / "pooler.sh": {"/tmp/": f"{folder}/", "/etc/pgbouncer/": f"{folder}/"},  # noqa: S108 # the pod's own
        COMPONENT / "settings" / "pgbouncer.ini": {
            "host=citus-coordinator ": f"host={nodes[0].socket_dir} ",
            "listen_addr = *": "listen_addr = 127.0.0.1",
            "listen_port = 5432": f"listen_port = {port}",
            "auth_file = /tmp/": f"auth_file = {folder}/",
            "/etc/pooler-tls/": f"{folder}/tls/",
            "max_prepared_statements = 200\n": "",
        },
    }
    try:
        Authority().issue(folder / "tls", "citus-pooler")
        for path, replacements in changes.items():
            text = path.read_text()
            for old, new in replacements.items():
                assert old in text
                text = text.replace(old, new)
            (folder / path.name).write_text(text)
        give(folder)
        process = subprocess.Popen(
            ["sh", folder / "pooler.sh"],
            env={**PASSWORDS, "PATH": os.environ["PATH"]},
            stderr=subprocess.DEVNULL,
            user="nobody" if os.geteuid() == 0 else None,
        )
        try:
            yield port
        finally:
            process.kill()
            process.wait(10)
    finally:
        shutil.rmtree(folder)


@pytest.mark.system(program="pgbouncer", package="pgbouncer")
async def test_the_pooler_demands_tls_and_passwords_and_has_those_of_the_roles(pooler: int) -> None:
    def ask(role: str, password: str, *, sslmode: str = "require") -> tuple[Any, ...] | None:
        with psycopg.connect(
            host="127.0.0.1", port=pooler, dbname="citewire", user=role, password=password, sslmode=sslmode
        ) as connection:
            assert connection.pgconn.ssl_in_use
            return connection.execute("SELECT current_user::text, current_setting('lock_timeout')").fetchone()

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", pooler)) == 0

    await wait_until(listens)
    for role, key in (("citewire_corpus", "CORPUS_PASSWORD"), ("citewire_worker", "WORKER_PASSWORD")):
        assert ask(role, PASSWORDS[key]) == (role, "1min")
        with pytest.raises(psycopg.OperationalError, match="authentication failed"):
            ask(role, "wrong")
    with pytest.raises(psycopg.OperationalError, match="SSL required"):
        ask("citewire_worker", PASSWORDS["WORKER_PASSWORD"], sslmode="disable")


def test_every_setting_exists_and_none_risks_acknowledged_data(nodes: Sequence[EmbeddedPostgres]) -> None:
    asked = settings()
    with psycopg.connect(nodes[0].dsn()) as connection:
        known = dict(connection.execute("SELECT name, setting FROM pg_settings").fetchall())
        assert set(asked) - set(known) == set()
        # This test's servers run with all of them except the overridden ones.
        assert {name for name in asked if name not in OVERRIDES and known[name] == ""} == set()
    assert (asked["synchronous_commit"], asked["wal_level"]) == ("on", "logical")
    assert int(asked["max_prepared_transactions"]) >= int(asked["max_connections"])
    assert "fsync" not in asked
    assert "full_page_writes" not in asked


def test_nodes_bear_one_that_is_away_and_moves_that_take_long() -> None:
    """What docs/how-to/scaling.md demands of the nodes."""
    asked = settings()
    assert asked["citus.node_conninfo"] == NODE_CONNINFO
    assert asked["citus.recover_2pc_interval"] == "10s"
    pooler = configparser.ConfigParser(strict=True)
    pooler.read(COMPONENT / "settings" / "pgbouncer.ini")
    [deployment] = [entry for entry in load("pooler.yaml") if entry["kind"] == "Deployment"]
    services = 2 * deployment["spec"]["replicas"] * pooler.getint("pgbouncer", "default_pool_size")
    # Citus can't cancel what waits for a frozen node; its limit for clients holds on the coordinator as well. Some of
    # the retrievers' connections go past the poolers.
    assert 1.75 * services + 40 <= int(asked["citus.max_client_connections"]) < int(asked["max_connections"])
    assert services <= int(asked["citus.max_shared_pool_size"])
    # A move has sessions of the owner's that are idle in a transaction for as long as a copy takes.
    assert {"idle_in_transaction_session_timeout", "transaction_timeout", "lock_timeout"} & asked.keys() == set()


def test_each_node_is_added_and_backed_up() -> None:
    """The component's lists of nodes match its StatefulSets."""
    resources = load("coordinator.yaml", "workers.yaml", "operate.yaml")
    names = [
        f"{entry['metadata']['name']}-{number}.{entry['spec']['serviceName']}"
        for entry in resources
        if entry["kind"] == "StatefulSet"
        for number in range(entry["spec"]["replicas"])
    ]
    assert len(names) == 3
    jobs = {entry["metadata"]["name"]: entry["spec"] for entry in resources if entry["kind"] == "CronJob"}
    [base] = jobs["citus-backup"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert int(base["args"][2]) == jobs["citus-backup"]["successfulJobsHistoryLimit"]
    assert [argument.partition("=") for argument in base["args"][3:]] == [
        (name.partition(".")[0], "=", name) for name in names
    ]
    [patch] = load("kustomization.yaml")[0]["patches"]
    [change] = yaml.safe_load(patch["patch"])
    assert change["value"]["args"] == ["cluster", "add-node", *names[1:]]


def test_a_failed_point_is_not_made_again_under_its_name() -> None:
    [point] = [entry["spec"] for entry in load("operate.yaml") if entry["metadata"]["name"] == "citus-point"]
    job = point["jobTemplate"]["spec"]
    [container] = job["template"]["spec"]["containers"]
    assert container["args"] == ["cluster", "restore-point", "$(JOB_NAME)"]
    names = {entry["name"]: entry.get("valueFrom", {}).get("fieldRef") for entry in container["env"]}
    assert names["JOB_NAME"] == {"fieldPath": "metadata.labels['batch.kubernetes.io/job-name']"}
    assert (job["backoffLimit"], job["template"]["spec"]["restartPolicy"]) == (0, "Never")


def test_scripts_are_valid_shell_and_their_files_are_mounted() -> None:
    for script in SCRIPTS.glob("*.sh"):
        subprocess.run(["sh", "-n", script], check=True)
    maps = {entry["name"]: entry.get("files", []) for entry in load("kustomization.yaml")[0]["configMapGenerator"]}
    there = {path.rpartition("/")[2] for path in maps["citus-settings"]}
    text = "".join(
        path.read_text() for path in (*COMPONENT.rglob("*.yaml"), *COMPONENT.rglob("*.conf"), *SCRIPTS.glob("*"))
    )
    named = set(re.findall(r"/etc/citus/([\w.-]+)", text))
    assert named == there
    assert shlex.split(settings()["archive_command"])[:2] == ["sh", "/etc/citus/archive.sh"]


def load(*files: str) -> list[dict[str, Any]]:
    return [entry for file in files for entry in yaml.safe_load_all((COMPONENT / file).read_text())]
