"""Metrics of connection pools, read from the pools at each scrape."""

import time
import weakref
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector


class Pool(Protocol):
    """The part of a pool that the metrics use."""

    @property
    def name(self) -> str:
        """Value of the series' label."""
        ...

    def get_stats(self) -> Mapping[str, int]:
        """Returns psycopg's figures; zero ones may be missing."""
        ...


_SERIES: Final = {
    "pool_max": (GaugeMetricFamily, "citewire_db_pool_limit", "Connections that the pool may have.", 1),
    "pool_size": (GaugeMetricFamily, "citewire_db_pool_connections", "Connections that the pool has or is opening.", 1),
    "pool_available": (GaugeMetricFamily, "citewire_db_pool_idle", "Connections that are free now.", 1),
    "requests_waiting": (GaugeMetricFamily, "citewire_db_pool_waiting", "Callers waiting for a connection now.", 1),
    "requests_num": (CounterMetricFamily, "citewire_db_pool_requests", "Connections requested.", 1),
    "requests_errors": (CounterMetricFamily, "citewire_db_pool_errors", "Requests that got no connection in time.", 1),
    "connections_lost": (CounterMetricFamily, "citewire_db_pool_lost", "Connections found broken.", 1),
    "requests_wait_ms": (
        CounterMetricFamily,
        "citewire_db_pool_wait_seconds",
        "Seconds that callers have waited for connections, in total.",
        0.001,
    ),
}
"""By psycopg's name of a figure: kind, name and help of the series, and its unit's factor."""

_live: weakref.WeakSet[Pool] = weakref.WeakSet()
_in_turn: dict[str, Counter[str]] = {}


def watch(pool: Pool) -> None:
    """Adds a pool to the series for its lifetime. Pools with the same name are summed."""
    _live.add(pool)


@contextmanager
def waiting_in_turn(pool: Pool) -> Generator[None]:
    """Counts a caller that waits for its organisation's turn, during the block, as waiting for a connection."""
    began, sums = time.monotonic(), _in_turn.setdefault(pool.name, Counter())
    sums["requests_waiting"] += 1
    try:
        yield
    except TimeoutError:
        sums["requests_errors"] += 1
        raise
    finally:
        sums["requests_waiting"] -= 1
        sums["requests_wait_ms"] += round((time.monotonic() - began) * 1000)


class _Pools(Collector):
    def describe(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        return self._families({})

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        sums: dict[str, Counter[str]] = {}
        for pool in list(_live):
            sums.setdefault(pool.name, Counter(_in_turn.get(pool.name, ()))).update(pool.get_stats())
        return self._families(sums)

    @staticmethod
    def _families(sums: Mapping[str, Counter[str]]) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        for key, (kind, name, text, factor) in _SERIES.items():
            family = kind(name, text, labels=["pool"])
            for pool, stats in sums.items():
                family.add_metric([pool], stats[key] * factor)
            yield family


REGISTRY.register(_Pools())
