"""Sampling of recall: which searches are sampled, that it never delays or fails a search, and how it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from prometheus_client import REGISTRY

from citewire_kit.errors import Unavailable
from citewire_kit.tenant import Tenant
from citewire_retriever.filters import Operator, comparison
from citewire_retriever.model import Scope, SearchQuery
from citewire_retriever.store.sampling import RecallSampler, Sample, Sampling
from citewire_retriever.tuning import IndexSearch

TENANT = Tenant("acme", "user", "pro")
WHOLE = SearchQuery(Scope())
NARROWED = SearchQuery(Scope(filter=comparison("filter", "tags", Operator.CONTAINS, "x")))


def sample(query: SearchQuery = WHOLE) -> Sample:
    return Sample(TENANT, query, "vectors_1", IndexSearch(64, 64))


def value(name: str, **labels: str) -> float:
    sample_value = REGISTRY.get_sample_value(name, labels)
    assert sample_value is not None
    return sample_value


def outcomes() -> dict[str, float]:
    return {
        outcome: value("citewire_search_recall_samples_total", outcome=outcome)
        for outcome in ("taken", "dropped", "changed", "failed")
    }


@pytest.fixture
def samples() -> Callable[[], dict[str, float]]:
    """Returns how much each outcome's count has grown since the test began."""
    before = outcomes()
    return lambda: {outcome: now - before[outcome] for outcome, now in outcomes().items() if now != before[outcome]}


async def gives(recall: float | None) -> float | None:
    await asyncio.sleep(0)
    return recall


@pytest.mark.parametrize(("query", "scope"), [(WHOLE, "whole"), (NARROWED, "narrowed")])
async def test_the_configured_share_is_measured(
    query: SearchQuery, scope: str, samples: Callable[[], dict[str, float]]
) -> None:
    numbers = iter([0.2, 0.9, 0.5, 0.49999, 0.0])
    sampler = RecallSampler(lambda _: gives(0.9), Sampling(rate=0.5), chance=lambda: next(numbers))
    total = value("citewire_search_sampled_recall_sum", scope=scope)
    count = value("citewire_search_sampled_recall_count", scope=scope)
    async with sampler.running():
        for _ in range(5):
            sampler.offer(sample(query))
        await sampler.drained()
    assert samples() == {"taken": 3}
    assert value("citewire_search_sampled_recall_count", scope=scope) == count + 3
    assert value("citewire_search_sampled_recall_sum", scope=scope) == pytest.approx(total + 2.7)


async def test_rate_zero_samples_nothing_and_rate_one_everything(samples: Callable[[], dict[str, float]]) -> None:
    for rate, chance, expected in ((0.0, 0.0, {}), (1.0, 0.999999, {"taken": 1})):
        sampler = RecallSampler(lambda _: gives(1.0), Sampling(rate=rate), chance=lambda chance=chance: chance)
        async with sampler.running():
            sampler.offer(sample())
            await sampler.drained()
        assert samples() == expected


async def test_simultaneous_samples_are_limited_and_excess_ones_dropped(
    samples: Callable[[], dict[str, float]],
) -> None:
    running = most = 0
    free = asyncio.Event()
    busy = asyncio.Semaphore(0)

    async def measure(_: Sample) -> float:
        nonlocal running, most
        running += 1
        most = max(most, running)
        busy.release()
        await free.wait()
        running -= 1
        return 1.0

    sampler = RecallSampler(measure, Sampling(rate=1, at_once=2, waiting=3), chance=lambda: 0.0)
    async with sampler.running():
        for _ in range(2):
            sampler.offer(sample())
        for _ in range(2):
            await busy.acquire()
        for _ in range(10):
            sampler.offer(sample())
        assert samples() == {"dropped": 7}
        free.set()
        await sampler.drained()
    assert most == 2
    assert samples() == {"dropped": 7, "taken": 5}


async def test_stopping_cancels_running_samples_and_drops_waiting_ones(samples: Callable[[], dict[str, float]]) -> None:
    begun = asyncio.Event()
    cancelled = asyncio.Event()

    async def measure(_: Sample) -> float:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return 1.0

    sampler = RecallSampler(measure, Sampling(rate=1), chance=lambda: 0.0)
    async with asyncio.timeout(5):
        async with sampler.running():
            for _ in range(3):
                sampler.offer(sample())
            await begun.wait()
    assert cancelled.is_set()
    assert samples() == {"dropped": 2}


@pytest.mark.parametrize(
    "error", [Unavailable("away", reason="DATABASE_UNAVAILABLE"), TimeoutError(), RuntimeError("bug")]
)
async def test_a_failure_is_counted_and_the_next_is_measured(
    error: Exception, samples: Callable[[], dict[str, float]]
) -> None:
    results: list[Any] = [error, 1.0]

    async def measure(_: Sample) -> float:
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    sampler = RecallSampler(measure, Sampling(rate=1), chance=lambda: 0.0)
    async with sampler.running():
        sampler.offer(sample())
        sampler.offer(sample())
        await sampler.drained()
    assert samples() == {"failed": 1, "taken": 1}


async def test_a_sample_that_takes_too_long_is_given_up(samples: Callable[[], dict[str, float]]) -> None:
    async def measure(_: Sample) -> float:
        await asyncio.Event().wait()
        return 1.0

    sampler = RecallSampler(measure, Sampling(rate=1, seconds=0.01), chance=lambda: 0.0)
    async with asyncio.timeout(5):
        async with sampler.running():
            sampler.offer(sample())
            await sampler.drained()
    assert samples() == {"failed": 1}


async def test_low_recall_is_logged_and_a_changed_search_is_not_measured(
    samples: Callable[[], dict[str, float]],
) -> None:
    results = [0.5, 0.9, None]
    sampler = RecallSampler(lambda _: gives(results.pop(0)), Sampling(rate=1, low=0.8), chance=lambda: 0.0)
    with structlog.testing.capture_logs() as logs:
        async with sampler.running():
            for _ in range(3):
                sampler.offer(sample())
            await sampler.drained()
    assert [(entry["event"], entry["recall"], entry["org_id"]) for entry in logs] == [
        ("sampled_recall_low", 0.5, "acme")
    ]
    assert samples() == {"taken": 2, "changed": 1}
