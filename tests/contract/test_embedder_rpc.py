"""EmbedderService over a real gRPC server, with a deterministic model: every RPC, errors and their reasons."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import numpy as np
import pytest
from citewire.common.v1.common_pb2 import PROVIDER_TYPE_CHAT, EmbeddingSpace, ProviderRef
from citewire.embedder.v1 import embedder_pb2 as pb
from numpy.typing import NDArray

from citewire_kit import client
from citewire_kit.errors import CitewireError, Code
from citewire_kit.tenant import Tenant, use_tenant
from embedder_server import RunningEmbedder, refusal, running_embedder_server
from fake_embedding import DIMENSIONS, FakeModel, expected, words
from waiting import wait_until

SPACE = EmbeddingSpace(model="fake", revision="r1", dimensions=DIMENSIONS)


@pytest.fixture
async def running() -> AsyncGenerator[RunningEmbedder]:
    async with running_embedder_server(FakeModel()) as server:
        yield server


def vectors_of(response: pb.EmbedResponse) -> NDArray[np.float32]:
    return np.frombuffer(response.vectors, "<f4").reshape(-1, response.space.dimensions)


def expected_of(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.stack([expected(text) for text in texts])


async def test_embed(running: RunningEmbedder) -> None:
    texts = [words(4), "one", words(20)]
    response = await running.embed(pb.EmbedRequest(inputs=texts, overflow=pb.OVERFLOW_TRUNCATE))
    assert np.array_equal(vectors_of(response), expected_of(texts))
    assert response.space == SPACE
    assert response.usage.input_tokens == 6 + 3 + 16
    assert list(response.token_counts) == [6, 3, 22]
    assert list(response.truncated) == [2]


async def test_embed_answers_a_query_from_the_cache_the_second_time(running: RunningEmbedder) -> None:
    request = pb.EmbedRequest(inputs=["what is this"], purpose=pb.PURPOSE_QUERY)
    first, second = await running.embed(request), await running.embed(request)
    assert (first.usage.input_tokens, second.usage.input_tokens) == (5, 0)
    assert first.vectors == second.vectors


async def test_embed_takes_256_inputs(running: RunningEmbedder) -> None:
    texts = [words(1, f"n{number}") for number in range(256)]
    response = await running.embed(pb.EmbedRequest(inputs=texts, model="fake", dimensions=DIMENSIONS))
    assert np.array_equal(vectors_of(response), expected_of(texts))


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        (pb.EmbedRequest(), ["inputs"]),
        (pb.EmbedRequest(inputs=["a"] * 257), ["inputs"]),
        (pb.EmbedRequest(inputs=["a", "", "b", ""]), ["inputs[1]", "inputs[3]"]),
        (pb.EmbedRequest(inputs=["é" * (1 << 19), "a"]), ["inputs"]),
        (pb.EmbedRequest(inputs=["a"], dimensions=0), ["dimensions"]),
        (pb.EmbedRequest(inputs=["a"], dimensions=4), ["dimensions"]),
        (pb.EmbedRequest(inputs=["a"], purpose=99, overflow=98), ["purpose", "overflow"]),  # type: ignore[arg-type] # unknown on purpose
    ],
)
async def test_embed_names_every_wrong_field(
    running: RunningEmbedder, request_: pb.EmbedRequest, fields: list[str]
) -> None:
    error = await refusal(running, request_)
    assert (error.code, error.reason) == (Code.INVALID_ARGUMENT, "INVALID_FIELD")
    assert [violation.field for violation in error.violations] == fields
    assert running.model.batches == []


async def test_embed_refuses_a_text_over_the_window_by_its_index(running: RunningEmbedder) -> None:
    error = await refusal(running, pb.EmbedRequest(inputs=["fine", words(20)]))
    assert (error.code, error.reason) == (Code.INVALID_ARGUMENT, "INPUT_TOO_LONG")
    assert error.metadata == {"input": "1", "tokens": "22", "max_input_tokens": "16"}
    assert [violation.field for violation in error.violations] == ["inputs[1]"]


async def test_embed_refuses_256_texts_over_the_window_within_the_limit_of_details(running: RunningEmbedder) -> None:
    error = await refusal(running, pb.EmbedRequest(inputs=[words(40)] * 256))
    assert (error.reason, error.metadata["input"]) == ("INPUT_TOO_LONG", "0")
    assert 1 <= len(error.violations) <= 16


async def test_embed_refuses_an_unknown_model(running: RunningEmbedder) -> None:
    error = await refusal(running, pb.EmbedRequest(inputs=["a"], model="other"))
    assert (error.code, error.reason) == (Code.NOT_FOUND, "MODEL_NOT_FOUND")
    assert error.metadata == {"models": "fake"}


async def test_a_tenants_own_provider_must_be_one_for_embedding(running: RunningEmbedder) -> None:
    for request in (
        pb.EmbedRequest(inputs=["a"], provider=ProviderRef(provider="openai", sealed_key=b"x")),
        pb.EmbedRequest(inputs=["a"], provider=ProviderRef(provider="openai", type=PROVIDER_TYPE_CHAT)),
    ):
        with pytest.raises(CitewireError) as caught:
            await running.embed(request)
        assert (caught.value.code, caught.value.reason) == (Code.INVALID_ARGUMENT, "INVALID_FIELD")
        assert [violation.field for violation in caught.value.violations] == ["provider.type"]


async def test_embed_refuses_at_once_when_it_is_full() -> None:
    model = FakeModel()
    async with running_embedder_server(model, document_tokens=10) as running:
        model.gate.clear()
        held = asyncio.create_task(running.embed(pb.EmbedRequest(inputs=[words(8)])))
        await model.computing.wait()
        error = await refusal(running, pb.EmbedRequest(inputs=["a"]))
        assert (error.code, error.reason) == (Code.RESOURCE_EXHAUSTED, "OVERLOADED")
        assert error.retry_after is not None
        assert error.retry_after > 0
        model.gate.set()
        await held


async def test_a_client_that_leaves_cancels_its_queued_work() -> None:
    model = FakeModel()
    async with running_embedder_server(model, batch_texts=1) as running:
        model.gate.clear()
        abandoned = asyncio.create_task(running.embed(pb.EmbedRequest(inputs=[words(2), words(3), words(4)])))
        await model.computing.wait()
        abandoned.cancel()
        await asyncio.gather(abandoned, return_exceptions=True)
        await wait_until(lambda: running.server.in_flight == 0)
        model.gate.set()
        await running.embed(pb.EmbedRequest(inputs=["after"]))
        assert model.texts_computed == 2, "the text being computed, and the one after it"


async def test_a_deadline_cancels_the_queued_work() -> None:
    model = FakeModel()
    async with running_embedder_server(model, batch_texts=1) as running:
        model.gate.clear()
        with pytest.raises(CitewireError) as caught:
            await running.embed(pb.EmbedRequest(inputs=[words(2), words(3)]), timeout=0.3)
        assert caught.value.code is Code.DEADLINE_EXCEEDED
        await wait_until(lambda: running.server.in_flight == 0)
        model.gate.set()
        await running.embed(pb.EmbedRequest(inputs=["after"]))
        assert model.texts_computed == 2


async def requests(*batches: pb.EmbedRequest) -> AsyncGenerator[pb.EmbedStreamRequest]:
    for number, batch in enumerate(batches):
        yield pb.EmbedStreamRequest(batch_id=100 - number, batch=batch)


async def test_embed_stream_answers_in_order_with_the_callers_numbers(running: RunningEmbedder) -> None:
    texts = [[words(count), "x"] for count in (9, 1, 5, 3)]
    batches = [pb.EmbedRequest(inputs=inputs) for inputs in texts]
    async with aclosing(client.bidi(running.stub.EmbedStream, requests(*batches), timeout=10)) as answers:
        results = [answer async for answer in answers]
    assert [answer.batch_id for answer in results] == [100, 99, 98, 97]
    for answer, inputs in zip(results, texts, strict=True):
        assert np.array_equal(vectors_of(answer.batch), expected_of(inputs))


async def test_embed_stream_answers_before_the_client_has_sent_everything(running: RunningEmbedder) -> None:
    sent: asyncio.Queue[pb.EmbedStreamRequest | None] = asyncio.Queue()

    async def lockstep() -> AsyncGenerator[pb.EmbedStreamRequest]:
        while (request := await sent.get()) is not None:
            yield request

    async with aclosing(client.bidi(running.stub.EmbedStream, lockstep(), timeout=10)) as answers:
        for number in (1, 2):
            sent.put_nowait(pb.EmbedStreamRequest(batch_id=number, batch=pb.EmbedRequest(inputs=["a"])))
            assert (await anext(answers)).batch_id == number
        sent.put_nowait(None)
        assert [answer async for answer in answers] == []


async def test_embed_stream_waits_where_embed_would_be_refused() -> None:
    async with running_embedder_server(FakeModel(), document_tokens=10) as running:
        batches = [pb.EmbedRequest(inputs=[words(8)])] * 5
        async with aclosing(client.bidi(running.stub.EmbedStream, requests(*batches), timeout=10)) as answers:
            assert len([answer async for answer in answers]) == 5


async def test_embed_stream_reads_no_further_ahead_than_it_can_work() -> None:
    model = FakeModel()
    async with running_embedder_server(model, stream_ahead=2, batch_texts=1) as running:
        model.gate.clear()
        big = "x" * 100_000  # one word: one token, but many bytes
        sent = 0

        async def flood() -> AsyncGenerator[pb.EmbedStreamRequest]:
            nonlocal sent
            for number in range(1000):
                sent = number
                yield pb.EmbedStreamRequest(batch_id=number, batch=pb.EmbedRequest(inputs=[big]))

        async with aclosing(client.bidi(running.stub.EmbedStream, flood(), timeout=30)) as answers:
            first = asyncio.ensure_future(anext(answers))
            await model.computing.wait()
            for _ in range(20):  # until the sender is stuck: 100 MB are to be sent, gRPC buffers some
                before = sent
                await asyncio.sleep(0.05)
                if before == sent:
                    break
            assert sent < 500
            model.gate.set()
            assert (await first).batch_id == 0


async def test_embed_stream_ends_with_the_error_of_a_bad_batch(running: RunningEmbedder) -> None:
    batches = [pb.EmbedRequest(inputs=["fine"]), pb.EmbedRequest(inputs=["a", ""])]
    async with aclosing(client.bidi(running.stub.EmbedStream, requests(*batches), timeout=10)) as answers:
        assert (await anext(answers)).batch_id == 100
        with pytest.raises(CitewireError) as caught:
            await anext(answers)
    assert caught.value.reason == "INVALID_FIELD"
    assert [violation.field for violation in caught.value.violations] == ["batch.inputs[1]"]


async def test_a_client_that_leaves_a_stream_cancels_its_queued_work() -> None:
    model = FakeModel()
    async with running_embedder_server(model, batch_texts=1) as running:
        model.gate.clear()
        batches = [pb.EmbedRequest(inputs=[words(2), words(3), words(4)])] * 5
        answers = client.bidi(running.stub.EmbedStream, requests(*batches), timeout=10)
        first = asyncio.ensure_future(anext(answers))
        await model.computing.wait()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await answers.aclose()
        await wait_until(lambda: running.server.in_flight == 0)
        model.gate.set()
        await running.embed(pb.EmbedRequest(inputs=["after"]))
        assert model.texts_computed == 2


async def test_rerank_without_a_model_is_refused(running: RunningEmbedder) -> None:
    with pytest.raises(CitewireError) as caught:
        await client.unary(running.stub.Rerank, pb.RerankRequest(query="q", documents=["d"]), timeout=5)
    assert (caught.value.code, caught.value.reason) == (Code.UNIMPLEMENTED, "NOT_IMPLEMENTED")


async def test_count_tokens(running: RunningEmbedder) -> None:
    request = pb.CountTokensRequest(inputs=["", "one two", words(40)])
    response = await client.unary(running.stub.CountTokens, request, timeout=5)
    assert list(response.counts) == [0, 2, 40]
    assert (response.special_tokens, response.max_input_tokens) == (2, 16)
    assert response.space == SPACE


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (pb.CountTokensRequest(), "INVALID_FIELD"),
        (pb.CountTokensRequest(inputs=["a"] * 257), "INVALID_FIELD"),
        (pb.CountTokensRequest(inputs=["a" * ((1 << 20) + 1)]), "INVALID_FIELD"),
        (pb.CountTokensRequest(inputs=["a"], model="other"), "MODEL_NOT_FOUND"),
    ],
)
async def test_count_tokens_refuses(running: RunningEmbedder, request_: pb.CountTokensRequest, reason: str) -> None:
    with pytest.raises(CitewireError) as caught:
        await client.unary(running.stub.CountTokens, request_, timeout=5)
    assert caught.value.reason == reason


async def test_list_models(running: RunningEmbedder) -> None:
    response = await client.unary(running.stub.ListModels, pb.ListModelsRequest(), timeout=5)
    (model,) = response.models
    assert model == pb.Model(
        space=SPACE,
        max_input_tokens=16,
        is_default=True,
        provider="local",
        capability=pb.CAPABILITY_EMBED,
        precision="fp32",
    )


async def test_calls_need_a_tenant_where_auth_is_on() -> None:
    async with running_embedder_server(FakeModel(), auth="keys") as running:
        error = await refusal(running, pb.EmbedRequest(inputs=["a"]))
        assert (error.code, error.reason) == (Code.UNAUTHENTICATED, "TENANT_MISSING")
        with use_tenant(Tenant("org", "user", "free")):
            assert (await running.embed(pb.EmbedRequest(inputs=["a"]))).space == SPACE
