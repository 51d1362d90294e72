from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from prometheus_client import REGISTRY

from citewire_embedder.admission import Admission
from citewire_embedder.providers.base import Purpose
from citewire_kit.errors import ResourceExhausted
from fake_embedding import settle


def make(capacity: int = 100, rate: float = 50.0) -> Admission:
    return Admission(Purpose.DOCUMENT, capacity, lambda: rate)


def sample(name: str) -> float:
    return REGISTRY.get_sample_value(name, {"purpose": "document"}) or 0.0


async def take(admission: Admission, tokens: int, release: asyncio.Event, order: list[int]) -> None:
    async with admission.admit_in_turn("acme", tokens):
        order.append(tokens)
        await release.wait()


@pytest.fixture
async def release() -> AsyncGenerator[asyncio.Event]:
    event = asyncio.Event()
    yield event
    event.set()
    await settle()


def test_work_that_fits_is_admitted_and_released() -> None:
    admission = make()
    before = sample("citewire_embedder_admitted_tokens")
    with admission.admit("acme", 60), admission.admit("acme", 40):
        assert admission.used == 100
        assert sample("citewire_embedder_admitted_tokens") == before + 100
    assert admission.used == 0
    assert sample("citewire_embedder_admitted_tokens") == before


def test_work_that_does_not_fit_is_refused_with_the_time_for_half_of_the_queue() -> None:
    admission = make(capacity=100, rate=20.0)
    refused = sample("citewire_embedder_refused_total")
    with admission.admit("acme", 100):
        with pytest.raises(ResourceExhausted) as caught, admission.admit("acme", 1):
            pytest.fail("admitted")
        with pytest.raises(ResourceExhausted):
            admission.check("acme")
    assert caught.value.reason == "OVERLOADED"
    assert caught.value.retry_after == pytest.approx(2.5)
    assert sample("citewire_embedder_refused_total") == refused + 2
    admission.check("acme")


@pytest.mark.parametrize(("rate", "seconds"), [(1e9, 0.1), (0.0, 10.0)])
def test_the_retry_time_stays_within_bounds(rate: float, seconds: float) -> None:
    admission = make(rate=rate)
    with admission.admit("acme", 100), pytest.raises(ResourceExhausted) as caught:
        admission.check("acme")
    assert caught.value.retry_after == seconds


def test_permits_are_returned_when_the_work_fails() -> None:
    admission = make()
    with pytest.raises(ValueError, match="broken"), admission.admit("acme", 100):
        raise ValueError("broken")
    assert admission.used == 0


def test_a_request_beyond_the_capacity_is_admitted_when_it_is_alone() -> None:
    admission = make(capacity=10)
    with admission.admit("acme", 500), pytest.raises(ResourceExhausted), admission.admit("acme", 1):
        pytest.fail("admitted")
    with admission.admit("acme", 1), pytest.raises(ResourceExhausted), admission.admit("acme", 500):
        pytest.fail("admitted")


def test_each_organisation_has_its_share_whatever_another_holds() -> None:
    admission = make(capacity=100)
    with admission.admit("flood", 100):
        with pytest.raises(ResourceExhausted):
            admission.check("flood")
        with admission.admit("other", 50):
            with pytest.raises(ResourceExhausted):
                admission.check("other")
    assert admission.used == 0


async def test_waiting_requests_are_admitted_in_their_order(release: asyncio.Event) -> None:
    admission = make(capacity=10)
    order: list[int] = []
    first, rest = asyncio.Event(), release
    tasks = [asyncio.create_task(take(admission, 8, first, order))]
    await settle()
    tasks += [asyncio.create_task(take(admission, tokens, rest, order)) for tokens in (9, 1, 2)]
    await settle()
    assert order == [8], "1 would fit, but 9 asked first"
    with pytest.raises(ResourceExhausted):
        admission.check("acme")
    first.set()
    await settle()
    assert order == [8, 9, 1]
    rest.set()
    await asyncio.gather(*tasks)
    assert order == [8, 9, 1, 2]
    assert admission.used == 0


async def test_leaving_the_queue_lets_the_next_request_in(release: asyncio.Event) -> None:
    admission = make(capacity=10)
    order: list[int] = []
    holder = asyncio.create_task(take(admission, 5, release, order))
    await settle()
    large = asyncio.create_task(take(admission, 10, release, order))
    small = asyncio.create_task(take(admission, 4, release, order))
    await settle()
    large.cancel()
    await settle()
    assert order == [5, 4]
    release.set()
    await asyncio.gather(holder, small)
    assert large.cancelled()
    assert admission.used == 0


async def test_permits_given_to_a_cancelled_request_are_returned() -> None:
    admission = make(capacity=10)
    order: list[int] = []
    release = asyncio.Event()
    with admission.admit("acme", 10):
        waiter = asyncio.create_task(take(admission, 10, release, order))
        await settle()
    # The waiter has the permits but hasn't run yet, so its cancellation reaches it first.
    assert admission.used == 10
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    assert order == []
    assert admission.used == 0
