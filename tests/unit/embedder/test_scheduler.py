from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from citewire_embedder.providers.base import Purpose, TokenisedText
from citewire_embedder.scheduler import BatchLimits, Job, Scheduler
from citewire_kit.errors import Internal, Unavailable
from fake_embedding import FakeModel, settle, vector_of

LIMITS = BatchLimits(tokens=64, texts=4)
QUERY, DOCUMENT = Purpose.QUERY, Purpose.DOCUMENT


def text(first: int, length: int) -> TokenisedText:
    return TokenisedText((first, *range(length - 1)), length)


@asynccontextmanager
async def running(model: FakeModel, limits: BatchLimits = LIMITS) -> AsyncGenerator[Scheduler]:
    scheduler = Scheduler(model, limits)
    task = asyncio.create_task(scheduler.run())
    try:
        yield scheduler
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def hold(model: FakeModel, scheduler: Scheduler) -> Job:
    """Occupies the model with one text until its gate is opened."""
    model.gate.clear()
    job = scheduler.submit([text(999, 3)], DOCUMENT)
    await model.computing.wait()
    return job


def first_tokens(batches: Sequence[Sequence[tuple[int, ...]]]) -> list[list[int]]:
    """The first token of each text, batch by batch, which identifies the text."""
    return [[ids[0] for ids in batch] for batch in batches]


async def test_a_query_to_an_idle_model_is_computed_at_once_and_alone() -> None:
    model = FakeModel()
    async with running(model) as scheduler:
        vectors = await scheduler.submit([text(1, 5)], QUERY).result()
    assert first_tokens(model.batches) == [[1]]
    assert np.array_equal(vectors[0], vector_of(text(1, 5).ids))


async def test_queries_that_wait_together_are_computed_together() -> None:
    model = FakeModel()
    async with running(model) as scheduler:
        await hold(model, scheduler)
        jobs = [scheduler.submit([text(number, 3)], QUERY) for number in range(1, 4)]
        model.gate.set()
        vectors = [await job.result() for job in jobs]
    assert first_tokens(model.batches) == [[999], [1, 2, 3]]
    assert np.array_equal(vectors[2][0], vector_of(text(3, 3).ids))


async def test_queries_go_before_documents_that_came_first() -> None:
    model = FakeModel()
    async with running(model) as scheduler:
        await hold(model, scheduler)
        documents = scheduler.submit([text(10 + number, 60) for number in range(3)], DOCUMENT)
        query = scheduler.submit([text(1, 3)], QUERY)
        model.gate.set()
        await query.result()
        assert first_tokens(model.batches)[:2] == [[999], [1]]
        await documents.result()


async def test_a_query_waits_for_one_batch_of_a_bulk_request_at_most() -> None:
    model = FakeModel()
    async with running(model) as scheduler:
        model.gate.clear()
        documents = scheduler.submit([text(10 + number, 60) for number in range(5)], DOCUMENT)
        await model.computing.wait()
        query = scheduler.submit([text(1, 3)], QUERY)
        model.gate.set()
        await query.result()
        assert first_tokens(model.batches)[1] == [1]
        await documents.result()


async def test_a_flood_of_queries_slows_documents_down_and_does_not_stop_them() -> None:
    model = FakeModel()
    async with running(model, BatchLimits(tokens=64, texts=1)) as scheduler:
        await hold(model, scheduler)
        documents = scheduler.submit([text(500, 60)], DOCUMENT)
        queries = [scheduler.submit([text(number, 3)], QUERY) for number in range(12)]
        model.gate.set()
        await documents.result()
        assert first_tokens(model.batches)[:10] == [[999], *([number] for number in range(8)), [500]]
        await asyncio.gather(*(query.result() for query in queries))


async def test_documents_of_two_requests_take_turns() -> None:
    model = FakeModel()
    async with running(model, BatchLimits(tokens=60, texts=4)) as scheduler:
        await hold(model, scheduler)
        bulk = scheduler.submit([text(10 + number, 60) for number in range(3)], DOCUMENT)
        small = scheduler.submit([text(20, 60)], DOCUMENT)
        model.gate.set()
        await small.result()
        await bulk.result()
    assert first_tokens(model.batches) == [[999], [10], [20], [11], [12]]


@pytest.mark.parametrize("purpose", list(Purpose))
async def test_a_flood_of_one_organisation_leaves_another_its_turn(purpose: Purpose) -> None:
    model = FakeModel()
    async with running(model, BatchLimits(tokens=60, texts=1)) as scheduler:
        await hold(model, scheduler)
        flood = [scheduler.submit([text(10 + number, 30)], purpose, "flood") for number in range(50)]
        other = [scheduler.submit([text(90 + number, 30)], purpose, "other") for number in range(3)]
        model.gate.set()
        await asyncio.gather(*(job.result() for job in other))
        served = [first for (first,) in first_tokens(model.batches)[1:]]
        assert served.index(92) <= 6, served  # they alternate three times
        await asyncio.gather(*(job.result() for job in flood))


async def test_batches_are_half_as_large_while_several_organisations_are_active() -> None:
    model = FakeModel()
    async with running(model) as scheduler:
        await scheduler.submit([text(number, 16) for number in range(8)], DOCUMENT, "bulk").result()
        assert first_tokens(model.batches) == [[0, 1, 2, 3], [4, 5, 6, 7]], "a single organisation gets large batches"
        await scheduler.submit([text(99, 16)], QUERY, "other").result()
        model.batches.clear()
        await scheduler.submit([text(number, 16) for number in range(4)], DOCUMENT, "bulk").result()
        assert first_tokens(model.batches) == [[0, 1], [2, 3]], "the other organisation may come again"


async def test_an_organisation_that_has_left_does_not_make_batches_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("citewire_embedder.scheduler._PRESENT_SECONDS", 0.0)
    model = FakeModel()
    async with running(model) as scheduler:
        await scheduler.submit([text(99, 16)], DOCUMENT, "other").result()
        await asyncio.sleep(0.001)
        await scheduler.submit([text(number, 16) for number in range(4)], DOCUMENT, "bulk").result()
    assert first_tokens(model.batches) == [[99], [0, 1, 2, 3]]


async def test_shares_are_measured_in_tokens_not_texts() -> None:
    model = FakeModel()
    async with running(model, BatchLimits(tokens=60, texts=1)) as scheduler:
        await hold(model, scheduler)
        long = [scheduler.submit([text(10 + number, 60)], DOCUMENT, "long") for number in range(6)]
        short = [scheduler.submit([text(90 + number, 20)], DOCUMENT, "short") for number in range(9)]
        model.gate.set()
        await asyncio.gather(*(job.result() for job in (*long, *short)))
    served = [first >= 90 for (first,) in first_tokens(model.batches)[1:]]
    assert 8 <= served[:12].count(True) <= 9  # three short texts for each long one


async def test_texts_of_similar_length_share_a_batch_and_vectors_come_back_in_order() -> None:
    model = FakeModel()
    lengths = [3, 30, 4, 29]
    async with running(model) as scheduler:
        vectors = await scheduler.submit([text(n, length) for n, length in enumerate(lengths)], DOCUMENT).result()
    assert first_tokens(model.batches) == [[1, 3], [2, 0]]
    assert np.array_equal(vectors, np.stack([vector_of(text(n, length).ids) for n, length in enumerate(lengths)]))


async def test_a_text_larger_than_a_batch_is_computed_alone() -> None:
    model = FakeModel()
    async with running(model, BatchLimits(tokens=10, texts=4)) as scheduler:
        await scheduler.submit([text(0, 50), text(1, 5), text(2, 5)], DOCUMENT).result()
    assert first_tokens(model.batches) == [[0], [1, 2]]


@settings(max_examples=50, deadline=None)
@given(
    lengths=st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=8), min_size=1, max_size=6),
    purposes=st.lists(st.sampled_from(list(Purpose)), min_size=6, max_size=6),
)
def test_each_text_is_computed_once_within_the_limits(lengths: list[list[int]], purposes: list[Purpose]) -> None:
    limits = BatchLimits(tokens=48, texts=3)

    async def go() -> None:
        model = FakeModel()
        async with running(model, limits) as scheduler:
            requests = [
                [text(1000 * number + place, length) for place, length in enumerate(sizes)]
                for number, sizes in enumerate(lengths)
            ]
            jobs = [scheduler.submit(texts, purposes[number]) for number, texts in enumerate(requests)]
            for texts, job in zip(requests, jobs, strict=True):
                assert np.array_equal(await job.result(), np.stack([vector_of(entry.ids) for entry in texts]))
                assert job.tokens_read == sum(len(element.ids) for element in texts)
        assert model.texts_computed == sum(map(len, lengths))
        for batch in model.batches:
            assert len(batch) <= limits.texts
            assert len(batch) == 1 or len(batch) * max(map(len, batch)) <= limits.tokens

    asyncio.run(go())


async def test_a_withdrawn_request_leaves_the_queue_and_others_stay() -> None:
    model = FakeModel()
    async with running(model) as scheduler:
        await hold(model, scheduler)
        gone = scheduler.submit([text(10, 60), text(11, 60)], DOCUMENT)
        stays = scheduler.submit([text(20, 5)], DOCUMENT)
        scheduler.withdraw(gone)
        model.gate.set()
        await stays.result()
        await settle()
    assert first_tokens(model.batches) == [[999], [20]]


async def test_a_request_withdrawn_in_the_middle_stops_after_the_running_batch() -> None:
    model = FakeModel()
    async with running(model) as scheduler:
        model.gate.clear()
        job = scheduler.submit([text(number, 60) for number in range(3)], DOCUMENT)
        await model.computing.wait()
        scheduler.withdraw(job)
        model.gate.set()
        await scheduler.submit([text(20, 5)], DOCUMENT).result()
    assert first_tokens(model.batches) == [[0], [20]]
    assert job.tokens_read == 60, "computed tokens are spent, even if nobody takes the result"


async def test_a_failing_model_fails_its_callers_and_the_next_batch_is_tried() -> None:
    model = FakeModel()
    async with running(model) as scheduler:
        model.error = RuntimeError("out of memory at 0xdeadbeef")
        with capture_logs() as logs, pytest.raises(Internal) as caught:
            await scheduler.submit([text(0, 60), text(1, 60)], DOCUMENT).result()
        assert "0xdeadbeef" not in caught.value.message
        assert [line["event"] for line in logs] == ["batch_failed"]
        assert scheduler.failing.is_set()
        model.error = None
        await scheduler.submit([text(2, 5)], DOCUMENT).result()
        assert not scheduler.failing.is_set()
    assert first_tokens(model.batches) == [[0], [2]], "the failed request's other text isn't computed"


async def test_stopping_fails_all_waiting_and_running_work_and_accepts_nothing_new() -> None:
    model = FakeModel()
    async with running(model) as scheduler:
        computed = await hold(model, scheduler)
        waiting = scheduler.submit([text(1, 5)], QUERY)
    for job in (computed, waiting):
        with pytest.raises(Unavailable) as caught:
            await job.result()
        assert caught.value.reason == "SHUTTING_DOWN"
    with pytest.raises(Unavailable):
        scheduler.submit([text(1, 5)], QUERY)


async def test_the_rate_follows_the_measurements() -> None:
    model = FakeModel()
    async with running(model) as scheduler:
        before = scheduler.tokens_per_second()
        for _ in range(30):
            await scheduler.submit([text(1, 60)], DOCUMENT).result()
        assert scheduler.tokens_per_second() > before, "the fake model is faster than any real one"
