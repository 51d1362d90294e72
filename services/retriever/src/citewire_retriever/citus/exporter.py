"""Content and state of a cluster's nodes as metrics: `python -m citewire_retriever cluster watch`.

A process of its own, as only the schema's owner sees the whole; searches pay nothing for it. Labels are nodes, which
are few.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from prometheus_client import REGISTRY
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from pydantic import AliasChoices, Field

from citewire_kit.migrate import MigrateSettings
from citewire_kit.server import stop_signal
from citewire_kit.settings import settings_config
from citewire_kit.telemetry import get_logger, serve_metrics
from citewire_retriever.citus.cluster import Cluster, ClusterError
from citewire_retriever.citus.status import ClusterStatus, NodeStatus, read_status

log = get_logger(__name__)

PREFIX: Final = "CITEWIRE_RETRIEVER_"
_PORT_SETTING: Final = "CITEWIRE_CLUSTER_METRICS_PORT"
_LOOK_SECONDS: Final = 60.0
"""Time limit of a query, after which it is given up."""


class WatchSettings(MigrateSettings):
    """Settings of `cluster watch`: the owner's connection, and the address of the metrics."""

    model_config = settings_config(PREFIX)

    metrics_host: str = Field(default="127.0.0.1", validation_alias=AliasChoices("CITEWIRE_CLUSTER_METRICS_HOST"))
    """Address of the metrics server."""

    metrics_port: int = Field(default=9105, ge=0, le=65535, validation_alias=AliasChoices(_PORT_SETTING))
    """Port of the metrics server; 0 takes a free one (tests)."""

    watch_seconds: float = Field(default=30.0, gt=0, validation_alias=AliasChoices("CITEWIRE_CLUSTER_WATCH_SECONDS"))
    """Seconds between two queries. Each reads every shard of one small table."""


@dataclass(frozen=True, slots=True)
class _Series:
    """A gauge per node; None if unknown."""

    name: str
    says: str
    value: Callable[[NodeStatus], float | None]


def _known(node: NodeStatus, value: int) -> int | None:
    return value if node.answers else None


def _streaming(node: NodeStatus) -> int:
    return sum(replica["state"] == "streaming" for replica in node.replicas)


def _behind(node: NodeStatus) -> float | None:
    return max((float(replica["behind_bytes"] or 0) for replica in node.replicas), default=None)


_OF_NODES: Final = (
    _Series("up", "Whether the node responds and is active.", lambda node: node.answers and node.active),
    _Series("shard_groups", "Groups of shards on the node.", lambda node: node.shard_groups),
    _Series("organisations", "Organisations on the node that have published something.", lambda n: n.organisations),
    _Series("chunks", "Chunks on the node.", lambda node: node.chunks),
    _Series("bytes", "Bytes of the shards on the node.", lambda node: node.bytes),
    _Series("standbys", "Standby servers that stream from the node.", lambda node: _known(node, _streaming(node))),
    _Series("standby_behind_bytes", "How many bytes the slowest of them is behind.", _behind),
    _Series("stuck_transactions", "Prepared for more than a minute.", lambda n: _known(n, n.stuck_transactions)),
    _Series("durable", "Whether the node flushes what it commits; if not, a move loses commits.", lambda n: n.durable),
    _Series(
        "archive_fails",
        "Whether the last attempt to archive the node's log failed; none if it isn't archived.",
        lambda node: None if node.archive in (None, "off") else node.archive == "fails",
    ),
)
_OF_THE_WHOLE: Final = (
    ("up", "Whether the coordinator answered the last query."),
    ("skew", "Chunks of the fullest node divided by the mean; none while a node is unreachable."),
    ("largest_organisation_chunks", "Chunks of the largest organisation."),
    ("moves", "Groups of shards that are being moved or split."),
    ("rebalance_failed", "Whether the last rebalance failed."),
    ("looked_timestamp_seconds", "Time of the last successful query."),
)
NAMES: Final = frozenset(
    {f"citewire_cluster_node_{series.name}" for series in _OF_NODES}
    | {f"citewire_cluster_{name}" for name, _ in _OF_THE_WHOLE}
)
"""All series."""


class ClusterCollector(Collector):
    """The last result as series; removed nodes have none any more."""

    def __init__(self) -> None:
        self._status: ClusterStatus | None = None
        self._answers = False
        self._looked = 0.0

    def take(self, status: ClusterStatus | None) -> None:
        """Sets the result; None if the coordinator didn't answer, so that nodes' values are outdated."""
        self._status, self._answers = status, status is not None
        if status is not None:
            self._looked = time.time()

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Returns nothing, so that the registry doesn't collect at registration."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The series of the last result."""
        values = {"up": float(self._answers), "looked_timestamp_seconds": self._looked, **_whole(self._status)}
        for name, says in _OF_THE_WHOLE:
            family = GaugeMetricFamily(f"citewire_cluster_{name}", says)
            if name in values:
                family.add_metric((), values[name])
            yield family
        nodes = self._status.nodes if self._status is not None else ()
        for series in _OF_NODES:
            family = GaugeMetricFamily(f"citewire_cluster_node_{series.name}", series.says, labels=("node", "role"))
            for node in nodes:
                value = series.value(node)
                if value is not None:
                    family.add_metric((node.node, "coordinator" if node.coordinator else "worker"), float(value))
            yield family


async def watch(settings: WatchSettings, stop: asyncio.Event) -> None:
    """Queries the cluster periodically until `stop` is set, and serves the results.

    Raises:
        StartupError: The port isn't available.
    """
    collector = ClusterCollector()
    REGISTRY.register(collector)
    server = serve_metrics(settings.metrics_host, settings.metrics_port, setting=_PORT_SETTING)
    log.info("watching", port=server.port)
    try:
        while not stop.is_set():
            collector.take(await _look(settings.migrate_dsn.get_secret_value()))
            with suppress(TimeoutError):
                async with asyncio.timeout(settings.watch_seconds):
                    await stop.wait()
    finally:
        server.close()
        REGISTRY.unregister(collector)


async def watch_until_signal(settings: WatchSettings) -> None:
    """Watches until the process is stopped."""
    await watch(settings, stop_signal())


async def _look(dsn: str) -> ClusterStatus | None:
    try:
        async with asyncio.timeout(_LOOK_SECONDS), Cluster.open(dsn, _say_nothing) as cluster:
            return await read_status(cluster)
    except (ClusterError, TimeoutError) as exc:
        log.warning("cannot_look", error=str(exc) or f"no answer for {_LOOK_SECONDS:g} s")
    return None


def _say_nothing(_: str) -> None:
    pass


def _whole(status: ClusterStatus | None) -> dict[str, float]:
    if status is None:
        return {}
    values = {
        "largest_organisation_chunks": float(max((org.chunks for org in status.largest), default=0)),
        "moves": float(len(status.moves)),
        "rebalance_failed": float(status.rebalance is not None and status.rebalance["state"] == "failed"),
    }
    return values if status.skew is None else {**values, "skew": status.skew}
