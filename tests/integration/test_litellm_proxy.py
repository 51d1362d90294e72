"""Adapters against LiteLLM's proxy, which isn't ours: they read its answers correctly.

The official SDKs show what is correct: they repeat the adapter's own recorded request.
All tests are in this file, so that one process of pytest-xdist runs them, and one proxy.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import anthropic
import numpy as np
import openai
import pytest
from citewire.generator.v1 import generator_pb2 as pb
from citewire.generator.v1.generator_pb2_grpc import GeneratorServiceStub

from citewire_embedder.providers.base import Purpose as TextPurpose
from citewire_embedder.providers.remote_calls import CallLimits, ModelSpec, open_http
from citewire_embedder.providers.remote_embedding import RemoteModel
from citewire_generator.app import start
from citewire_generator.model import FinishReason, Message, ModelInfo, Role
from citewire_generator.providers.base import ChatTask
from citewire_generator.providers.factory import build_chat_provider
from citewire_generator.settings import GeneratorSettings
from citewire_kit import client
from citewire_kit.channel import open_channel
from citewire_kit.errors import CitewireError, Code
from citewire_ledger import MemoryLedger, Outcome
from citewire_remote.catalogue import load_catalogue
from citewire_remote.retry import RetryPolicy
from citewire_remote.stall_timeout import TimeLimits
from litellm_proxy import KEY, RELAYED, LiteLlmProxy, litellm_proxy
from recording_proxy import RecordedRequest, RecordingProxy, recording_proxy

TEXTS = {
    "plain": "Refunds take five days, counted from the day on which the parcel came back.",
    "cited": "Refunds take five days [1]. Ask support first [1].",
    "unicode": "Größe: 5 € — 日本語の返金 🙂👩‍👩‍👧 naïve, and a \N{ZERO WIDTH SPACE}space of no width.",
    "escapes": 'A "quote", a back\\slash, <b>tags</b>, {"json": [true, null]}\n\n\tdata: [DONE]\nevent: message_stop\n',
    "long": " ".join(f"Sentence {number} of many says nothing new." for number in range(60)),
}
ERRORS = {
    "limited": "litellm.RateLimitError",
    "overflowing": "litellm.ContextWindowExceededError",
    "failing": "litellm.InternalServerError",
}
CUT = {"text": "Refunds take", "reason": "length", "prompt": 17, "completion": 3}
"""An answer that was cut off, in one piece only: LiteLLM's mocks can't stream it."""
VECTORS = {"text-embedding-3-small": 1536, "some-embedding-model": 24}
"""Models and the dimensions of their vectors."""
KINDS = ("anthropic", "openai", "openai-compatible")
PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions", "openai-compatible": "/v1/chat/completions"}
FINISH = {
    "stop": pb.FINISH_REASON_STOP,
    "end_turn": pb.FINISH_REASON_STOP,
    "length": pb.FINISH_REASON_LENGTH,
    "max_tokens": pb.FINISH_REASON_LENGTH,
}
Answer: TypeAlias = tuple[str, int, int, "pb.FinishReason"]
"""An answer's text, prompt tokens, completion tokens and finish reason."""

by_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiteLlmProxy]:
    choice = {"index": 0, "finish_reason": CUT["reason"], "message": {"role": "assistant", "content": CUT["text"]}}
    usage = {"prompt_tokens": CUT["prompt"], "completion_tokens": CUT["completion"], "total_tokens": 20}
    cut = {"id": "cut", "model": "cut", "choices": [choice], "usage": usage}
    vectors = {name: [(-1) ** at / (at + 3) for at in range(length)] for name, length in VECTORS.items()}
    models = {**TEXTS, **ERRORS, **vectors, "cut": cut}
    with litellm_proxy(tmp_path_factory.mktemp("litellm"), models) as running:
        yield running


@dataclass(frozen=True)
class Caller:
    """A generator whose provider is the proxy, behind a recording proxy."""

    stub: GeneratorServiceStub
    recorder: RecordingProxy
    ledger: MemoryLedger
    kind: str

    async def answer(self, model: str) -> tuple[Answer, list[str]]:
        """Asks a model; returns its answer and the deltas."""
        passage = pb.Passage(chunk_id=1, document_id=1, text="Refunds take five days.")
        request = pb.GenerateRequest(question="How long do refunds take?", passages=[passage], model=model)
        texts: list[str] = []
        completed: list[pb.Completed] = []
        async with aclosing(client.stream(self.stub.Generate, request, timeout=60)) as events:
            async for event in events:
                texts += event.delta.texts
                completed += [event.completed] if event.WhichOneof("event") == "completed" else []
        [end] = completed
        assert not end.usage.estimated
        return ("".join(texts), end.usage.prompt_tokens, end.usage.completion_tokens, end.finish_reason), texts


@asynccontextmanager
async def running_caller(proxy: LiteLlmProxy, kind: str, *models: str, key: str = KEY) -> AsyncGenerator[Caller]:
    """Runs a generator with these models."""
    values: dict[str, object] = {"port": 0, "metrics_port": 0, "auth": "off", "leave_seconds": 0, "attempts": 1}
    prefix = "" if kind == "openai-compatible" else f"{kind}_"
    async with recording_proxy(proxy.port) as recorder, AsyncExitStack() as stack:
        values |= {"provider": kind, f"{prefix}api_base": recorder.root, f"{prefix}api_key": key}
        values |= {f"{prefix}model": models[0], f"{prefix}more_models": ",".join(models[1:])}
        ledger = MemoryLedger()
        server = await start(stack, GeneratorSettings.model_validate(values), ledger=ledger)
        stack.push_async_callback(server.drain_and_stop)
        channel = open_channel(f"127.0.0.1:{server.port}", streams=True)
        stack.push_async_callback(channel.close)
        yield Caller(GeneratorServiceStub(channel), recorder, ledger, kind)


async def read_by_sdk(proxy: LiteLlmProxy, kind: str, request: RecordedRequest) -> Answer:
    """Returns the answer that the official SDK reads for the same request."""
    if kind == "anthropic":
        return await _read_by_anthropic(proxy, request.body)
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{proxy.root}/v1", max_retries=0) as sdk:
        texts: list[str] = []
        reasons: list[str] = []
        usages: list[tuple[int, int]] = []
        create: Any = sdk.chat.completions.create
        async for chunk in await create(**request.body):
            for choice in chunk.choices:
                texts.append(choice.delta.content or "")
                reasons += [choice.finish_reason] if choice.finish_reason else []
            usages += [(chunk.usage.prompt_tokens, chunk.usage.completion_tokens)] if chunk.usage else []
    [reason], [usage] = reasons, usages
    return ("".join(texts), *usage, FINISH[reason])


async def _read_by_anthropic(proxy: LiteLlmProxy, body: Mapping[str, Any]) -> Answer:
    fields: dict[str, Any] = {name: value for name, value in body.items() if name != "stream"}
    async with (
        anthropic.AsyncAnthropic(api_key=KEY, base_url=proxy.root, max_retries=0) as sdk,
        sdk.messages.stream(**fields) as stream,
    ):
        message = await stream.get_final_message()
    text = "".join(block.text for block in message.content if block.type == "text")
    assert message.stop_reason is not None
    return text, message.usage.input_tokens, message.usage.output_tokens, FINISH[message.stop_reason]


@by_kind
@pytest.mark.parametrize("name", TEXTS)
async def test_an_answer_is_read_as_sent(proxy: LiteLlmProxy, kind: str, name: str) -> None:
    model = f"{RELAYED}{name}" if kind == "anthropic" else name
    async with running_caller(proxy, kind, model) as ours:
        answered, texts = await ours.answer(model)
        [request] = ours.recorder.requests
        assert (request.path, request.body["stream"]) == (PATHS[kind], True)
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert answered == await read_by_sdk(proxy, kind, request)
        assert answered[0] == TEXTS[name]
        assert len(texts) > 1  # it was streamed
        [row] = ours.ledger.rows
        assert (row.outcome, row.usage.estimated if row.usage else None) == (Outcome.DONE, False)
        assert row.usage is not None
        assert (row.usage.input_tokens, row.usage.output_tokens) == answered[1:3]


async def test_a_message_in_one_piece_is_read_as_sent(proxy: LiteLlmProxy) -> None:
    """For a mock, the proxy's Messages API answers like this even if a stream was requested."""
    async with running_caller(proxy, "anthropic", "plain") as ours:
        answered, _ = await ours.answer("plain")
        [request] = ours.recorder.requests
        async with anthropic.AsyncAnthropic(api_key=KEY, base_url=proxy.root, max_retries=0) as sdk:
            create: Any = sdk.messages.create
            message = await create(**{**request.body, "stream": False})
        usage = message.usage
        assert answered == (TEXTS["plain"], usage.input_tokens, usage.output_tokens, FINISH[message.stop_reason])


@by_kind
@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("limited", Code.RESOURCE_EXHAUSTED, "PROVIDER_RATE_LIMITED"),
        ("overflowing", Code.INVALID_ARGUMENT, "CONTEXT_TOO_LONG"),
        ("failing", Code.UNAVAILABLE, "PROVIDER_UNAVAILABLE"),
        ("unheard-of", Code.FAILED_PRECONDITION, "PROVIDER_REJECTED"),
    ],
)
async def test_the_proxys_errors_are_recognised(
    proxy: LiteLlmProxy, kind: str, name: str, code: Code, reason: str
) -> None:
    async with running_caller(proxy, kind, name) as ours:
        with pytest.raises(CitewireError) as raised:
            await ours.answer(name)
        assert (raised.value.code, raised.value.reason) == (code, reason)


@by_kind
@pytest.mark.parametrize("name", ["plain", "unicode", "cut"])
async def test_an_answer_in_one_piece_is_read_as_sent(proxy: LiteLlmProxy, kind: str, name: str) -> None:
    model = f"{RELAYED}{name}" if kind == "anthropic" else name
    described = ModelInfo(kind, model, 32_768, remote=True)
    task = ChatTask(model=model, messages=(Message(Role.USER, "How long?"),), max_completion_tokens=50)
    async with recording_proxy(proxy.port) as recorder:
        base, limits = f"{recorder.root}/v1", TimeLimits()
        provider = build_chat_provider(kind, api_base=base, api_key=KEY, models=(described,), limits=limits)
        try:
            completion = await provider.complete(task)
        finally:
            await provider.close()
        [request] = recorder.requests
    assert not request.body.get("stream")
    usage = completion.usage
    text, prompt, written, reason = await _read_whole_by_sdk(proxy, kind, request.body)
    assert (completion.text, usage.prompt_tokens, usage.completion_tokens) == (text, prompt, written)
    assert not usage.estimated
    if name == "cut":
        assert reason == ("max_tokens" if kind == "anthropic" else "length")
        assert completion.finish_reason is FinishReason.LENGTH
        assert (text, prompt, written) == (CUT["text"], CUT["prompt"], CUT["completion"])
    else:
        assert (completion.finish_reason, text) == (FinishReason.STOP, TEXTS[name])


async def _read_whole_by_sdk(proxy: LiteLlmProxy, kind: str, body: Mapping[str, Any]) -> tuple[str, int, int, str]:
    if kind == "anthropic":
        async with anthropic.AsyncAnthropic(api_key=KEY, base_url=proxy.root, max_retries=0) as sdk:
            create: Any = sdk.messages.create
            message = await create(**body)
        return message.content[0].text, message.usage.input_tokens, message.usage.output_tokens, message.stop_reason
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{proxy.root}/v1", max_retries=0) as sdk:
        create = sdk.chat.completions.create
        answer = await create(**body)
    [choice] = answer.choices
    return choice.message.content, answer.usage.prompt_tokens, answer.usage.completion_tokens, choice.finish_reason


@asynccontextmanager
async def embedding(
    proxy: LiteLlmProxy, kind: str, name: str
) -> AsyncGenerator[tuple[RemoteModel, RecordingProxy, MemoryLedger]]:
    """An embedding model whose provider is the proxy, behind a recording proxy."""
    limits, ledger = CallLimits(retry=RetryPolicy(attempts=1)), MemoryLedger()
    async with recording_proxy(proxy.port) as recorder:
        spec = ModelSpec(kind, name, f"{recorder.root}/v1", KEY)
        model = RemoteModel(spec, load_catalogue(), open_http(limits), ledger=ledger, limits=limits)
        try:
            yield model, recorder, ledger
        finally:
            await model.close()


@pytest.mark.parametrize(
    ("kind", "name"), [("openai", "text-embedding-3-small"), ("openai-compatible", "some-embedding-model")]
)
async def test_a_vector_and_its_tokens_are_read_as_sent(proxy: LiteLlmProxy, kind: str, name: str) -> None:
    async with embedding(proxy, kind, name) as (model, recorder, ledger):
        texts = await model.tokenise(["How long do refunds take?"], TextPurpose.QUERY)
        vectors, tokens = await model.embed_counted(texts)
        [request] = recorder.requests
        assert (request.path, request.headers["authorization"]) == ("/v1/embeddings", f"Bearer {KEY}")
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{proxy.root}/v1", max_retries=0) as sdk:
        create: Any = sdk.embeddings.create
        answer = await create(**request.body)
    theirs = np.asarray(answer.data[0].embedding, dtype=np.float64)
    assert vectors.shape == (1, VECTORS[name])
    np.testing.assert_allclose(vectors[0], theirs / np.linalg.norm(theirs), atol=1e-6)
    [row] = ledger.rows
    assert row.usage is not None
    assert (tokens, row.usage.input_tokens, row.usage.estimated) == (answer.usage.prompt_tokens,) * 2 + (False,)


async def test_fewer_vectors_than_texts_are_an_error(proxy: LiteLlmProxy) -> None:
    """The proxy answers with one vector, however many texts a mock gets."""
    async with embedding(proxy, "openai-compatible", "some-embedding-model") as (model, _, ledger):
        texts = await model.tokenise(["one", "two"], TextPurpose.DOCUMENT)
        with pytest.raises(CitewireError) as raised:
            await model.embed_counted(texts)
    assert raised.value.reason.startswith("PROVIDER_")
    assert ledger.rows[0].outcome is Outcome.FAILED
