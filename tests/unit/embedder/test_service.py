from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import numpy as np
import pytest
from prometheus_client import REGISTRY

from citewire_embedder.batches import EmbedBatch, EmbedResult
from citewire_embedder.providers.base import Purpose
from citewire_embedder.scheduler import BatchLimits
from citewire_embedder.service import Embedder
from citewire_kit.errors import InvalidArgument, NotFound, ResourceExhausted, Unavailable
from fake_embedding import DIMENSIONS, FakeModel, expected, make_limits, running_embedder, settle, words

QUERY, DOCUMENT = Purpose.QUERY, Purpose.DOCUMENT


def batch(*texts: str, purpose: Purpose = DOCUMENT, org_id: str = "org", truncate: bool = False) -> EmbedBatch:
    return EmbedBatch(texts=texts, purpose=purpose, org_id=org_id, truncate=truncate)


def tokens_recorded() -> tuple[float, float]:
    """The number of operations that recorded tokens, and of their tokens."""
    labels = {
        "gen_ai_provider_name": "citewire-local",
        "gen_ai_request_model": "fake",
        "gen_ai_operation_name": "embeddings",
        "gen_ai_token_type": "input",
    }
    name = "gen_ai_client_token_usage"
    count = REGISTRY.get_sample_value(f"{name}_count", labels) or 0.0
    return count, REGISTRY.get_sample_value(f"{name}_sum", labels) or 0.0


def operations(error_type: str) -> float:
    labels = {
        "gen_ai_provider_name": "citewire-local",
        "gen_ai_request_model": "fake",
        "gen_ai_operation_name": "embeddings",
        "error_type": error_type,
    }
    return REGISTRY.get_sample_value("gen_ai_client_operation_duration_seconds_count", labels) or 0.0


async def test_vectors_come_back_in_order_with_their_space_and_cost() -> None:
    model = FakeModel()
    texts = [words(count) for count in (1, 9, 4, 2, 7)]
    async with running_embedder(model) as embedder:
        result = await embedder.embed(batch(*texts))
    assert np.array_equal(result.vectors, np.stack([expected(text) for text in texts]))
    assert result.space == model.info.space
    assert result.token_counts == (3, 11, 6, 4, 9)
    assert result.input_tokens == 33
    assert result.truncated == ()


async def test_tokens_are_recorded_once_per_operation() -> None:
    async with running_embedder(FakeModel()) as embedder:
        count, total = tokens_recorded()
        done = operations("")
        await embedder.embed(batch(words(3), words(30), truncate=True))
        assert tokens_recorded() == (count + 1, total + 5 + 16), "text that was cut off isn't counted"
        assert operations("") == done + 1


async def test_a_repeated_query_costs_nothing() -> None:
    model = FakeModel()
    async with running_embedder(model) as embedder:
        await embedder.embed(batch("what is this", purpose=QUERY))
        before = tokens_recorded()
        again = await embedder.embed(batch("new one", "what is this", purpose=QUERY))
        assert model.texts_computed == 2
        assert again.input_tokens == 4
        assert again.token_counts == (4, 5)
        assert np.array_equal(again.vectors, np.stack([expected("new one"), expected("what is this")]))
        assert tokens_recorded() == (before[0] + 1, before[1] + 4)
        fully = await embedder.embed(batch("what is this", purpose=QUERY))
        assert fully.input_tokens == 0
        assert tokens_recorded() == (before[0] + 1, before[1] + 4)


async def test_documents_and_other_organisations_are_not_answered_from_the_cache() -> None:
    model = FakeModel()
    async with running_embedder(model) as embedder:
        await embedder.embed(batch("text", purpose=QUERY))
        await embedder.embed(batch("text", purpose=DOCUMENT))
        await embedder.embed(batch("text", purpose=QUERY, org_id="other"))
    assert model.texts_computed == 3


async def test_a_text_over_the_window_is_refused_by_its_index() -> None:
    model = FakeModel()
    async with running_embedder(model) as embedder:
        with pytest.raises(InvalidArgument) as caught:
            await embedder.embed(batch(words(14), words(15), "fine", words(40)))
    error = caught.value
    assert error.reason == "INPUT_TOO_LONG"
    assert error.metadata == {"input": "1", "tokens": "17", "max_input_tokens": "16"}
    assert [violation.field for violation in error.violations] == ["inputs[1]", "inputs[3]"]
    assert model.batches == [], "nothing is computed for a refused request"


async def test_a_cached_text_over_the_window_is_refused_too() -> None:
    async with running_embedder(FakeModel()) as embedder:
        await embedder.embed(batch(words(40), purpose=QUERY, truncate=True))
        with pytest.raises(InvalidArgument) as caught:
            await embedder.embed(batch(words(40), purpose=QUERY))
        assert caught.value.reason == "INPUT_TOO_LONG"


async def test_a_text_over_the_window_is_cut_and_reported_on_request() -> None:
    async with running_embedder(FakeModel()) as embedder:
        result = await embedder.embed(batch("fine", words(40), truncate=True))
    assert result.truncated == (1,)
    assert result.token_counts == (3, 42)
    assert np.array_equal(result.vectors[1], expected(words(40)))


async def test_the_model_and_its_dimensions_may_be_named_and_no_others() -> None:
    async with running_embedder(FakeModel()) as embedder:
        named = EmbedBatch(("a",), DOCUMENT, "org", model="fake", dimensions=DIMENSIONS)
        assert (await embedder.embed(named)).vectors.shape == (1, DIMENSIONS)
        with pytest.raises(NotFound) as missing:
            await embedder.embed(EmbedBatch(("a",), DOCUMENT, "org", model="other"))
        assert (missing.value.reason, missing.value.metadata) == ("MODEL_NOT_FOUND", {"models": "fake"})
        with pytest.raises(InvalidArgument) as short:
            await embedder.embed(EmbedBatch(("a",), DOCUMENT, "org", dimensions=4))
        assert [violation.field for violation in short.value.violations] == ["dimensions"]
        with pytest.raises(NotFound):
            await embedder.count_tokens(["a"], "other")


async def test_before_the_model_is_loaded_the_answer_is_unavailable() -> None:
    embedder = Embedder(FakeModel(), make_limits())
    with pytest.raises(Unavailable) as caught:
        await embedder.embed(batch("a"))
    assert caught.value.reason == "SERVICE_UNAVAILABLE"
    assert caught.value.retry_after is not None


async def test_a_full_service_refuses_at_once_and_queries_have_room_of_their_own() -> None:
    model = FakeModel()
    model.gate.clear()
    async with running_embedder(model, make_limits(query_tokens=10, document_tokens=10)) as embedder:
        running = asyncio.create_task(embedder.embed(batch(words(8))))
        await model.computing.wait()
        with pytest.raises(ResourceExhausted) as caught:
            await embedder.embed(batch("a"))
        assert caught.value.reason == "OVERLOADED"
        assert caught.value.retry_after is not None
        query = asyncio.create_task(embedder.embed(batch("a", purpose=QUERY)))
        await settle()
        assert not query.done()
        model.gate.set()
        await running
        await query
        await embedder.embed(batch("a"))


async def test_a_caller_that_leaves_cancels_its_queued_work_and_its_spent_tokens_are_recorded() -> None:
    model = FakeModel()
    model.gate.clear()
    limits = make_limits(batch=BatchLimits(tokens=12, texts=1))
    async with running_embedder(model, limits) as embedder:
        count, total = tokens_recorded()
        abandoned = asyncio.create_task(embedder.embed(batch(words(10), words(9), words(8))))
        await model.computing.wait()
        abandoned.cancel()
        await asyncio.gather(abandoned, return_exceptions=True)
        model.gate.set()
        await embedder.embed(batch("after"))
        assert model.texts_computed == 2
        assert tokens_recorded() == (count + 2, total + 12 + 3)
        assert operations("cancelled") >= 1


async def test_stopping_fails_the_callers_and_closes_the_model() -> None:
    model = FakeModel()
    model.gate.clear()
    async with running_embedder(model) as embedder:
        running = asyncio.create_task(embedder.embed(batch("a")))
        await model.computing.wait()
    with pytest.raises(Unavailable) as caught:
        await running
    assert caught.value.reason == "SHUTTING_DOWN"
    assert model.closed


class Feed:
    """The batches of a stream, and how many of them have been read."""

    def __init__(self, batches: Sequence[EmbedBatch]) -> None:
        self._batches = batches
        self.read = 0
        self.closed = False

    async def __call__(self) -> AsyncGenerator[EmbedBatch]:
        try:
            for entry in self._batches:
                self.read += 1
                yield entry
        finally:
            self.closed = True


async def test_a_stream_is_answered_in_order() -> None:
    feed = Feed([batch(words(count)) for count in (9, 1, 5, 2, 7)])
    async with running_embedder(FakeModel()) as embedder:
        async with aclosing(embedder.embed_stream(feed())) as results:
            counts = [result.token_counts async for result in results]
    assert counts == [(11,), (3,), (7,), (4,), (9,)]
    assert feed.closed


async def test_a_stream_reads_only_a_little_ahead_of_its_work() -> None:
    model = FakeModel()
    feed = Feed([batch(words(3)) for _ in range(10)])
    async with running_embedder(model, make_limits(stream_ahead=2)) as embedder:
        async with aclosing(embedder.embed_stream(feed())) as results:
            model.gate.clear()
            first = asyncio.ensure_future(anext(results))
            await settle()
            assert feed.read == 2
            model.gate.set()
            await first
            await settle()
            assert feed.read <= 5, "the reader waits until results are taken"
            assert len([result async for result in results]) == 9


async def test_a_stream_answers_before_the_next_batch_is_sent() -> None:
    sent: asyncio.Queue[EmbedBatch | None] = asyncio.Queue()

    async def lockstep() -> AsyncGenerator[EmbedBatch]:
        while (request := await sent.get()) is not None:
            yield request

    async with running_embedder(FakeModel()) as embedder:
        async with aclosing(embedder.embed_stream(lockstep())) as results:
            for count in (2, 3):
                sent.put_nowait(batch(words(count)))
                assert (await anext(results)).token_counts == (count + 2,)
            sent.put_nowait(None)
            assert [result async for result in results] == []


async def test_a_stream_waits_where_a_request_would_be_refused() -> None:
    model = FakeModel()
    feed = Feed([batch(words(8)) for _ in range(4)])
    async with running_embedder(model, make_limits(document_tokens=10)) as embedder:
        async with aclosing(embedder.embed_stream(feed())) as results:
            assert len([result async for result in results]) == 4


async def test_a_bad_batch_ends_the_stream_after_the_results_before_it() -> None:
    feed = Feed([batch("fine"), batch(words(99)), batch("never")])
    async with running_embedder(FakeModel()) as embedder:
        async with aclosing(embedder.embed_stream(feed())) as results:
            assert (await anext(results)).token_counts == (3,)
            with pytest.raises(InvalidArgument) as caught:
                await anext(results)
    assert caught.value.reason == "INPUT_TOO_LONG"
    assert feed.closed


async def test_closing_a_stream_cancels_its_queued_work() -> None:
    model = FakeModel()
    feed = Feed([batch(words(3), words(4)) for _ in range(10)])
    async with running_embedder(model, make_limits(batch=BatchLimits(tokens=16, texts=1))) as embedder:
        model.gate.clear()
        results: AsyncGenerator[EmbedResult] = embedder.embed_stream(feed())
        first = asyncio.ensure_future(anext(results))
        await model.computing.wait()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await results.aclose()
        model.gate.set()
        await embedder.embed(batch("after"))
    assert model.texts_computed == 2, "the text being computed, and the one after it"
    assert feed.closed


async def test_health_follows_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("citewire_embedder.service._PROBE_SECONDS", 0.0)
    model = FakeModel()
    async with running_embedder(model) as embedder:
        async with aclosing(embedder.health()) as states:
            assert await anext(states) is True
            changed = asyncio.ensure_future(anext(states))
            await settle()
            assert not changed.done()
            model.error = RuntimeError("broken")
            await asyncio.gather(embedder.embed(batch("a")), return_exceptions=True)
            assert await changed is False
            recovered = asyncio.ensure_future(anext(states))
            await settle()
            assert not recovered.done()
            model.error = None
            assert await recovered is True
