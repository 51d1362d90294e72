"""The metrics of a cluster's nodes, as `cluster watch` serves them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from psycopg import sql

from citewire_retriever.citus.exporter import NAMES
from citus_backup import give, run_program
from citus_cluster import SETTINGS, temporary_database
from embedded_postgres import EmbeddedPostgres, memory_folder, start_embedded_postgres
from local_ports import free_port
from monitoring_files import expressions
from promql import selectors
from tests.e2e.test_watch import complaint
from tests.integration.test_citus_cluster import ORGS, fill
from waiting import wait_until

if TYPE_CHECKING:
    from citus_cluster import CitusCluster
    from databases import Database

Samples = Mapping[str, Mapping[str, float]]
"""Values by series and node; "" stands for the whole cluster."""


@pytest.fixture(scope="module")
def filled_database(citus_cluster: CitusCluster, citus_template: str) -> Iterator[Database]:
    for database in temporary_database(citus_cluster, citus_template):
        fill(database.owner_dsn)
        yield database


@dataclass(frozen=True, slots=True)
class Watch:
    """The running command."""

    port: int

    def labels(self) -> dict[str, list[dict[str, str]]]:
        """Returns the labels of every sample by series, as a Prometheus stores them."""
        series: dict[str, list[dict[str, str]]] = defaultdict(list)
        for family in text_string_to_metric_families(self._text()):
            for sample in family.samples:
                series[sample.name].append({**sample.labels, "job": "citewire-cluster", "instance": "cluster:9105"})
        return series

    def samples(self) -> Samples:
        """Returns the samples that it serves now."""
        samples: dict[str, dict[str, float]] = {name: {} for name in NAMES}
        for family in text_string_to_metric_families(self._text()):
            for sample in family.samples:
                if sample.name in NAMES:
                    samples[sample.name][sample.labels.get("node", "")] = sample.value
        return samples

    def is_watching(self) -> bool:
        """Whether its last check was successful."""
        try:
            return self.samples()["citewire_cluster_up"][""] == 1
        except httpx.TransportError:
            return False

    def _text(self) -> str:
        return httpx.get(f"http://127.0.0.1:{self.port}/metrics", trust_env=False).text


@contextmanager
def watching(dsn: str) -> Generator[Watch]:
    port = free_port()
    settings = {
        "CITEWIRE_RETRIEVER_MIGRATE_DSN": dsn,
        "CITEWIRE_CLUSTER_METRICS_PORT": str(port),
        "CITEWIRE_CLUSTER_WATCH_SECONDS": "0.2",
        "CITEWIRE_LOG_LEVEL": "ERROR",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "citewire_retriever", "cluster", "watch"], env={**os.environ, **settings}
    )
    try:
        yield Watch(port)
    finally:
        process.terminate()
        assert process.wait(20) == 0


@contextmanager
def standby_of(server: EmbeddedPostgres, archive: Path) -> Generator[EmbeddedPostgres]:
    """Runs a server that follows another."""
    home = Path(tempfile.mkdtemp(prefix="cw-pg-", dir=memory_folder()))
    try:
        run_program(server, "pg_basebackup", "-h", str(server.socket_dir), "-D", str(home / "data"), "-R", "-c", "fast")
        give(home)
        with start_embedded_postgres(keep=home, settings=SETTINGS, extensions=archive) as standby:
            yield standby
    finally:
        shutil.rmtree(home, ignore_errors=True)


def name(server: EmbeddedPostgres) -> str:
    return f"{server.socket_dir}:5432"


async def test_each_node_is_reported_with_its_contents_and_problems(
    citus_cluster: CitusCluster, filled_database: Database
) -> None:
    nodes = {name(server) for server in citus_cluster.servers}
    first, second = citus_cluster.workers
    with watching(filled_database.owner_dsn) as watch:
        await wait_until(watch.is_watching)
        samples = watch.samples()
        for series in ("up", "shard_groups", "organisations", "chunks", "standbys", "stuck_transactions", "durable"):
            assert set(samples[f"citewire_cluster_node_{series}"]) == nodes, series
        assert set(samples["citewire_cluster_node_up"].values()) == {1}
        assert sum(samples["citewire_cluster_node_organisations"].values()) == len(ORGS)
        assert sum(samples["citewire_cluster_node_chunks"].values()) == len(ORGS) * 60
        assert samples["citewire_cluster_largest_organisation_chunks"] == {"": 60}
        assert samples["citewire_cluster_skew"][""] >= 1
        assert samples["citewire_cluster_moves"] == {"": 0}
        assert samples["citewire_cluster_node_archive_fails"] == {}  # this cluster archives nothing
        assert samples["citewire_cluster_node_standby_behind_bytes"] == {}

        with standby_of(first, citus_cluster.archive):
            standbys = "citewire_cluster_node_standbys"
            await wait_until(lambda: watch.samples()[standbys] == {node: float(node == name(first)) for node in nodes})
            assert watch.samples()["citewire_cluster_node_standby_behind_bytes"][name(first)] < 2**24
            _check_expressions(watch)
        await wait_until(lambda: watch.samples()[standbys][name(first)] == 0)

        setting = sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(sql.Identifier(filled_database.name))
        second.execute(setting)
        durable = "citewire_cluster_node_durable"
        await wait_until(lambda: watch.samples()[durable] == {node: float(node != name(second)) for node in nodes})
        second.execute(sql.SQL("ALTER DATABASE {} RESET ALL").format(sql.Identifier(filled_database.name)))

        second.kill()
        try:
            await wait_until(lambda: watch.samples()["citewire_cluster_node_up"][name(second)] == 0)
            away = watch.samples()
            assert set(away["citewire_cluster_node_chunks"]) == nodes - {name(second)}
            assert away["citewire_cluster_skew"] == {}
        finally:
            second.start()
        await wait_until(lambda: watch.samples()["citewire_cluster_node_up"][name(second)] == 1)


def _check_expressions(watch: Watch) -> None:
    """Checks that the series of the rules and the dashboard exist, with the labels that they group by."""
    series = watch.labels()
    # A cluster that archives nothing has none of these; test_citus_restore.py covers archives.
    series["citewire_cluster_node_archive_fails"] = series["citewire_cluster_node_up"]
    asked = [
        (expression.where, selector)
        for expression in expressions()
        for selector in selectors(expression.text)
        if selector.name.startswith("citewire_cluster_")
    ]
    assert {selector.name for _, selector in asked} >= NAMES - {"citewire_cluster_node_shard_groups"}
    assert [f"{where}: {selector.name} {complaint(selector, series)}" for where, selector in asked
            if complaint(selector, series)] == []  # fmt: skip


async def test_an_unreachable_coordinator_is_reported_and_retried(filled_database: Database) -> None:
    coordinator = filled_database.server
    with watching(filled_database.owner_dsn) as watch:
        await wait_until(watch.is_watching)
        coordinator.kill()
        try:
            await wait_until(lambda: not watch.is_watching())
            assert watch.samples()["citewire_cluster_node_up"] == {}
        finally:
            coordinator.start()
        await wait_until(watch.is_watching)
    with psycopg.connect(filled_database.owner_dsn) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
