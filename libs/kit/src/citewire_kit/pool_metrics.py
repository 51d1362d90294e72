"""The series of connection pools, read from the pools at each scrape."""

import weakref
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector


class Pool(Protocol):
    """What is asked of a pool."""

    @property
    def name(self) -> str:
        """What the pool is called in the series' label."""
        ...

    def get_stats(self) -> Mapping[str, int]:
        """Returns psycopg's figures; one that never rose from zero may be missing."""
        ...


_GAUGES: Final = {
    "pool_max": ("citewire_db_pool_limit", "Connections that the pool may have."),
    "pool_size": ("citewire_db_pool_connections", "Connections that the pool has, those it is making included."),
    "pool_available": ("citewire_db_pool_idle", "Connections that nobody uses now."),
    "requests_waiting": ("citewire_db_pool_waiting", "Callers that wait for a connection now."),
}
_COUNTERS: Final = {
    "requests_num": ("citewire_db_pool_requests", "Connections asked for."),
    "requests_errors": ("citewire_db_pool_errors", "Connections asked for in vain: none was free in time."),
    "connections_lost": ("citewire_db_pool_lost", "Connections found broken."),
}
_WAITED: Final = ("citewire_db_pool_wait_seconds", "Seconds that callers have waited for connections, all together.")

_live: weakref.WeakSet[Pool] = weakref.WeakSet()


def watch(pool: Pool) -> None:
    """Adds a pool to the series, for as long as it lives. Pools of one name are counted together."""
    _live.add(pool)


class _Pools(Collector):
    def describe(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        return self._families({})

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        sums: dict[str, Counter[str]] = {}
        for pool in list(_live):
            sums.setdefault(pool.name, Counter()).update(pool.get_stats())
        return self._families(sums)

    @staticmethod
    def _families(sums: Mapping[str, Counter[str]]) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        for key, (name, text) in _GAUGES.items():
            gauge = GaugeMetricFamily(name, text, labels=["pool"])
            for pool, stats in sums.items():
                gauge.add_metric([pool], stats[key])
            yield gauge
        for key, (name, text) in _COUNTERS.items():
            counter = CounterMetricFamily(name, text, labels=["pool"])
            for pool, stats in sums.items():
                counter.add_metric([pool], stats[key])
            yield counter
        waited = CounterMetricFamily(*_WAITED, labels=["pool"])
        for pool, stats in sums.items():
            waited.add_metric([pool], stats["requests_wait_ms"] / 1000)
        yield waited


REGISTRY.register(_Pools())
