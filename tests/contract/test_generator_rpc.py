"""GeneratorService over a real gRPC server: every RPC, the order of a stream, cancellation, faults of providers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from citewire.common.v1.common_pb2 import ProviderRef
from citewire.generator.v1 import generator_pb2 as pb
from citewire.generator.v1.generator_pb2_grpc import GeneratorServiceStub
from prometheus_client import REGISTRY

from benchmarks.upstream import Upstream, UpstreamSettings
from citewire_generator.app import start
from citewire_generator.model import NOT_FOUND_SENTENCE
from citewire_generator.providers.base import ChatProvider
from citewire_generator.providers.extractive import Extractive
from citewire_generator.servicer import SERVICE_NAME
from citewire_generator.settings import GeneratorSettings
from citewire_kit import client
from citewire_kit.channel import open_channel
from citewire_kit.errors import CitewireError, Code
from citewire_kit.server import GrpcServer
from citewire_kit.tenant import LOCAL_TENANT, use_tenant
from raw_upstream import DONE, Exchange, RawUpstream, delta_event, usage_event
from scripted_chat import ScriptedChat

# One attempt: what is tried again, and how often, is in tests/faults/test_provider_faults.py.
QUICK = {
    "first_token_seconds": 0.4,
    "between_tokens_seconds": 0.4,
    "total_seconds": 5.0,
    "connect_seconds": 1.0,
    "attempts": 1,
}


@dataclass(frozen=True)
class Running:
    """A server and a client of it."""

    server: GrpcServer
    stub: GeneratorServiceStub

    def generate(self, request: pb.GenerateRequest, timeout: float = 20) -> AsyncGenerator[pb.GenerateResponse]:
        return client.stream(self.stub.Generate, request, timeout=timeout)

    async def events(self, request: pb.GenerateRequest, timeout: float = 20) -> list[pb.GenerateResponse]:
        async with aclosing(self.generate(request, timeout)) as stream:
            return [event async for event in stream]


@asynccontextmanager
async def serve(providers: Sequence[ChatProvider] | None = None, **options: Any) -> AsyncGenerator[Running]:  # noqa: ANN401 # values of any kind are meant
    options = {"port": 0, "metrics_port": 0, "auth": "off", "leave_seconds": 0, "drain_seconds": 1} | options
    async with AsyncExitStack() as stack:
        server = await start(stack, GeneratorSettings(**options), providers)
        stack.push_async_callback(server.drain_and_stop)
        channel = open_channel(f"127.0.0.1:{server.port}", streams=True)
        stack.push_async_callback(channel.close)
        yield Running(server, GeneratorServiceStub(channel))


def relay(base: str, **options: Any) -> Any:  # noqa: ANN401 - the context manager of `serve`
    # With a window that is known, citations come before the first token.
    options = {"context_window": 32_768} | options
    return serve(provider="openai-compatible", api_base=base, model="paced", **options)


def request(**fields: Any) -> pb.GenerateRequest:  # noqa: ANN401 # values of any kind are meant
    fields.setdefault("question", "How long do refunds take?")
    fields.setdefault(
        "passages",
        [
            pb.Passage(chunk_id=1, document_id=1, text="Refunds take 14 days.", file_name="terms.md", similarity=0.7),
            pb.Passage(chunk_id=2, document_id=1, text="Shipping is free.", file_name="terms.md", similarity=0.4),
        ],
    )
    return pb.GenerateRequest(**fields)


def kinds(events: Sequence[pb.GenerateResponse]) -> list[str]:
    found = [str(event.WhichOneof("event")) for event in events]
    return [kind for index, kind in enumerate(found) if not (index and kind == "delta" == found[index - 1])]


def text_of(events: Sequence[pb.GenerateResponse]) -> str:
    return "".join(text for event in events for text in event.delta.texts)


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def handled(code: Code) -> float:
    return sample(
        "grpc_server_handled_total",
        grpc_type="server_stream",
        grpc_service=SERVICE_NAME,
        grpc_method="Generate",
        grpc_code=code.value,
    )


def in_flight() -> float:
    return sample("citewire_streams_in_flight", dialect="grpc")


async def until(condition: Callable[[], bool], seconds: float = 1.0) -> None:
    """Waits until a metric says what it should."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - metrics have no event to wait for
            await asyncio.sleep(0.005)


async def test_a_quoted_answer_from_start_to_completion() -> None:
    async with serve() as running:
        policy = pb.AnswerPolicy(marker_style=pb.MARKER_STYLE_REF)
        events = await running.events(request(policy=policy))
    assert kinds(events) == ["started", "delta", "completed"]
    started = events[0].started
    assert (started.provider, started.model) == ("extractive", "extractive")
    assert [(one.number, one.passage_index, one.chars) for one in started.packed] == [(1, 0, 21), (2, 1, 17)]
    assert text_of(events) == "Refunds take 14 days. [ref:1]"
    score = events[-1].completed.answerable_score
    assert 0.5 < score < 1
    assert events[-1].completed == pb.Completed(
        usage=pb.TokenUsage(),
        finish_reason=pb.FINISH_REASON_STOP,
        attempts=0,
        cited=[1],
        provider="extractive",
        model="extractive",
        answerable_score=score,
    )


async def test_the_answers_score_and_the_policys_threshold() -> None:
    async with serve() as running:
        for threshold, not_found in ((0.99, True), (0.01, False)):
            policy = pb.AnswerPolicy(answerable_threshold=threshold)
            completed = (await running.events(request(policy=policy)))[-1].completed
            assert completed.not_found == not_found
            assert 0.01 < completed.answerable_score < 0.99
        nothing = (await running.events(request(passages=[])))[-1].completed
        assert (nothing.not_found, nothing.HasField("answerable_score")) == (True, False)


async def test_nothing_found_says_the_sentence_and_suggests() -> None:
    passages = [
        pb.Passage(chunk_id=1, document_id=1, text="Refunds take 14 days.", section="Terms > Refunds", similarity=0.1),
        pb.Passage(chunk_id=2, document_id=1, text="Shipping is free.", section="Terms > Shipping", similarity=0.1),
    ]
    asked = request(
        question="Who won the 1998 world cup?",
        passages=passages,
        policy=pb.AnswerPolicy(suggest_on_not_found=True, marker_style=pb.MARKER_STYLE_REMOVE),
    )
    async with serve() as running:
        events = await running.events(asked)
    assert text_of(events).startswith(f"{NOT_FOUND_SENTENCE}\n\n- ")
    completed = events[-1].completed
    assert completed.not_found
    assert completed.suggested_questions == text_of(events).count("?") >= 2


async def test_notices_stand_after_started() -> None:
    policy = pb.AnswerPolicy(context_format=pb.CONTEXT_FORMAT_SOURCE_LABELS, max_context_chars=30)
    async with serve([ScriptedChat("x")]) as running:
        events = await running.events(request(policy=policy))
    assert kinds(events) == ["started", "notice", "notice", "delta", "completed"]
    assert [event.notice.name for event in events[1:3]] == ["passage_cut", "context_trimmed"]
    assert events[0].started.packed[0].chars == 30 - len("[SOURCE 1] terms.md\n\n\n")


async def test_no_passages_are_allowed() -> None:
    async with serve([ScriptedChat("Hello!")]) as running:
        events = await running.events(request(passages=[], policy=pb.AnswerPolicy(grounding=pb.GROUNDING_OPEN)))
    assert (kinds(events), text_of(events)) == (["started", "delta", "completed"], "Hello!")


async def test_each_delta_is_an_entry() -> None:
    async with serve([ScriptedChat(("a", "b"), "c")]) as running:
        events = await running.events(request(policy=pb.AnswerPolicy(grounding=pb.GROUNDING_SAY_SO)))
    assert [list(event.delta.texts) for event in events[1:-1]] == [["a", "b"], ["c"]]


async def test_suggest_questions() -> None:
    passage = pb.Passage(chunk_id=1, document_id=1, text="Refunds take 14 days.", section="Terms > Refunds")
    async with serve() as running:
        asked = pb.SuggestQuestionsRequest(passages=[passage], count=1)
        answer = await client.unary(running.stub.SuggestQuestions, asked, timeout=5)
    assert list(answer.questions) == ["What is said about Refunds?"]


async def test_list_models() -> None:
    async with serve([ScriptedChat("x"), Extractive()]) as running:
        answer = await client.unary(running.stub.ListModels, pb.ListModelsRequest(), timeout=5)
    assert [(model.provider, model.name, model.is_default, model.remote) for model in answer.models] == [
        ("scripted", "parrot", True, True),
        ("scripted", "lab/crow", False, True),
        ("extractive", "extractive", False, False),
    ]


@pytest.mark.parametrize(
    ("asked", "code", "reason", "fields"),
    [
        (request(question="  "), Code.INVALID_ARGUMENT, "INVALID_FIELD", ["question"]),
        (request(question="x" * 1_000_000), Code.INVALID_ARGUMENT, "INVALID_FIELD", ["question"]),
        (request(question="a\0b", temperature=9), Code.INVALID_ARGUMENT, "INVALID_FIELD", ["question", "temperature"]),
        (request(model="gpt-99"), Code.NOT_FOUND, "MODEL_NOT_FOUND", []),
        (request(provider=ProviderRef(provider="openai")), Code.INVALID_ARGUMENT, "INVALID_FIELD", ["provider.type"]),
    ],
)
async def test_refusals(asked: pb.GenerateRequest, code: Code, reason: str, fields: list[str]) -> None:
    async with serve() as running:
        with pytest.raises(CitewireError) as caught:
            await running.events(asked)
    assert (caught.value.code, caught.value.reason) == (code, reason)
    assert [violation.field for violation in caught.value.violations] == fields


async def test_without_a_tenant_nothing_is_served() -> None:
    async with serve(auth="keys") as running:
        with pytest.raises(CitewireError) as caught:
            await running.events(request())
        assert caught.value.reason == "TENANT_MISSING"
        with use_tenant(LOCAL_TENANT):
            assert kinds(await running.events(request())) == ["started", "delta", "completed"]


async def test_one_call_too_many_is_refused_at_once() -> None:
    hold = asyncio.Event()
    provider = ScriptedChat("x", hold)
    async with serve([provider], max_concurrent=1) as running:
        first = asyncio.ensure_future(running.events(request()))
        await provider.waiting.wait()
        with pytest.raises(CitewireError) as caught:
            await running.events(request())
        assert caught.value.reason == "OVERLOADED"
        assert caught.value.retry_after is not None
        hold.set()
        assert kinds(await first) == ["started", "delta", "completed"]


async def test_a_large_request_arrives_whole() -> None:
    passages = [pb.Passage(chunk_id=n, document_id=n, text="word " * 800) for n in range(1, 1001)]
    passages[0].text = "Refunds take 14 days. " + passages[0].text
    async with serve() as running:
        events = await running.events(request(passages=passages))
    assert len(events[0].started.packed) == 1000
    assert "Refunds take 14 days." in text_of(events)


async def test_an_answer_relayed_from_a_paced_upstream() -> None:
    async with Upstream(UpstreamSettings(rate=500, tokens=30)).running() as base, relay(base) as running:
        events = await running.events(request())
    assert kinds(events) == ["started", "delta", "completed"]
    assert len([text for event in events for text in event.delta.texts]) == 30
    completed = events[-1].completed
    assert (completed.attempts, completed.usage.completion_tokens, completed.usage.estimated) == (1, 30, False)


async def test_cancelling_ends_the_call_and_closes_the_upstreams_socket() -> None:
    upstream = Upstream(UpstreamSettings(rate=50, tokens=10_000))
    async with upstream.running() as base, relay(base) as running:
        before = handled(Code.CANCELLED), sample("citewire_streams_cancelled_total", cause="client")
        stream = running.generate(request())
        async for event in stream:
            if event.HasField("delta"):
                break
        assert in_flight() == 1
        left = time.monotonic()
        await stream.aclose()
        async with asyncio.timeout(1):
            closed = await upstream.wait_closed_early()
        assert closed[0] - left < 1
        await until(lambda: handled(Code.CANCELLED) == before[0] + 1)
        assert sample("citewire_streams_cancelled_total", cause="client") == before[1] + 1
        assert in_flight() == 0
    assert time.monotonic() - left < 3


async def test_cancelling_before_the_first_token_closes_the_socket_too() -> None:
    upstream = Upstream(UpstreamSettings(first_delay=30))
    async with upstream.running() as base, relay(base) as running:
        stream = running.generate(request())
        assert (await anext(stream)).HasField("started")
        waiting = asyncio.ensure_future(anext(stream))
        await until(lambda: upstream.stats.requests == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await stream.aclose()
        async with asyncio.timeout(1):
            await upstream.wait_closed_early()
        await until(lambda: in_flight() == 0)


async def test_a_deadline_ends_the_call_and_the_upstream() -> None:
    upstream = Upstream(UpstreamSettings(rate=50, tokens=10_000))
    async with upstream.running() as base, relay(base) as running:
        before = sample("citewire_streams_cancelled_total", cause="deadline")
        with pytest.raises(CitewireError) as caught:
            await running.events(request(), timeout=0.5)
        assert caught.value.code is Code.DEADLINE_EXCEEDED
        async with asyncio.timeout(1):
            await upstream.wait_closed_early()
        await until(lambda: sample("citewire_streams_cancelled_total", cause="deadline") == before + 1)
        assert in_flight() == 0


async def test_a_cancelled_calls_tokens_are_counted_by_estimate() -> None:
    labels = {
        "gen_ai_provider_name": "openai-compatible",
        "gen_ai_request_model": "paced",
        "gen_ai_operation_name": "chat",
        "gen_ai_token_type": "output",
    }
    async with Upstream(UpstreamSettings(rate=50, tokens=10_000)).running() as base, relay(base) as running:
        before = sample("gen_ai_client_token_usage_count", **labels)
        stream = running.generate(request())
        async for event in stream:
            if event.HasField("delta"):
                break
        await stream.aclose()
        await until(lambda: sample("gen_ai_client_token_usage_count", **labels) == before + 1)


# Faults of providers: what the client sees. Each is one call, never repeated after the first token.


async def refused(exchange: Exchange, status: int, **headers: str) -> None:
    await exchange.head(status, "application/json", **headers)
    await exchange.send(json.dumps({"error": {"message": "secret words", "type": "x"}}).encode())


async def fault_401(exchange: Exchange) -> None:
    await refused(exchange, 401)


async def fault_429(exchange: Exchange) -> None:
    await refused(exchange, 429, Retry_After="7")


async def fault_500(exchange: Exchange) -> None:
    await refused(exchange, 500)


async def fault_529(exchange: Exchange) -> None:
    await refused(exchange, 529)


async def stall_at_once(exchange: Exchange) -> None:
    await exchange.gone()


async def token_then(exchange: Exchange) -> None:
    await exchange.head()
    await exchange.delta("Once ")


async def stall_mid_stream(exchange: Exchange) -> None:
    await token_then(exchange)
    await exchange.gone()


async def malformed(exchange: Exchange) -> None:
    await token_then(exchange)
    await exchange.send(b"data: {secret words\n\n")


async def reset(exchange: Exchange) -> None:
    await token_then(exchange)
    await asyncio.sleep(0.05)
    exchange.reset()


async def cut(exchange: Exchange) -> None:
    await token_then(exchange)


async def error_event(exchange: Exchange) -> None:
    await token_then(exchange)
    await exchange.send(b'data: {"error": {"type": "overloaded_error", "message": "secret words"}}\n\n')


@pytest.mark.parametrize(
    ("behave", "code", "reason", "text"),
    [
        (fault_401, Code.FAILED_PRECONDITION, "PROVIDER_AUTH", ""),
        (fault_429, Code.RESOURCE_EXHAUSTED, "PROVIDER_RATE_LIMITED", ""),
        (fault_500, Code.UNAVAILABLE, "PROVIDER_UNAVAILABLE", ""),
        (fault_529, Code.UNAVAILABLE, "PROVIDER_UNAVAILABLE", ""),
        (stall_at_once, Code.DEADLINE_EXCEEDED, "PROVIDER_TIMEOUT", ""),
        (stall_mid_stream, Code.DEADLINE_EXCEEDED, "PROVIDER_TIMEOUT", "Once "),
        (malformed, Code.UNAVAILABLE, "PROVIDER_STREAM_BROKEN", "Once "),
        (reset, Code.UNAVAILABLE, "PROVIDER_STREAM_BROKEN", "Once "),
        (cut, Code.UNAVAILABLE, "PROVIDER_STREAM_BROKEN", "Once "),
        (error_event, Code.UNAVAILABLE, "PROVIDER_UNAVAILABLE", "Once "),
    ],
)
async def test_faults_of_the_provider(
    behave: Callable[[Exchange], Awaitable[None]], code: Code, reason: str, text: str
) -> None:
    upstream = RawUpstream(behave)
    events: list[pb.GenerateResponse] = []

    async def read() -> None:
        async with aclosing(running.generate(request())) as stream:
            async for event in stream:
                events.append(event)  # noqa: PERF401 - what came before the error is looked at

    async with upstream.running() as base, relay(base, **QUICK) as running:
        with pytest.raises(CitewireError) as caught:
            await read()
        # The server goes on serving.
        upstream.behave = good
        assert text_of(await running.events(request())) == "Fine."
    assert (caught.value.code, caught.value.reason) == (code, reason)
    assert "secret" not in str(caught.value)
    assert kinds(events) == (["started", "delta"] if text else ["started"])
    assert text_of(events) == text
    assert len(upstream.requests) == 2
    if behave is fault_429:
        assert caught.value.retry_after == 7


async def test_a_provider_that_is_not_there() -> None:
    async with RawUpstream(good).running() as base:
        pass
    async with relay(base, **QUICK) as running:
        with pytest.raises(CitewireError) as caught:
            await running.events(request())
    assert (caught.value.code, caught.value.reason) == (Code.UNAVAILABLE, "PROVIDER_UNAVAILABLE")


async def good(exchange: Exchange) -> None:
    await exchange.head()
    await exchange.send(delta_event("Fine.") + delta_event(None, "stop") + usage_event(3, 1) + DONE)


async def test_back_pressure_gathers_deltas_into_messages() -> None:
    count = 20_000

    async def flood(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.send(delta_event("word ") * count + delta_event(None, "stop") + DONE)

    async with RawUpstream(flood).running() as base, relay(base) as running:
        events = await running.events(request())
    deltas = [event for event in events if event.HasField("delta")]
    assert text_of(events) == "word " * count
    assert len(deltas) < count / 20


async def test_a_slow_client_holds_the_upstream_back() -> None:
    sent = 0
    events = 100_000

    async def flood(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.head()
        for _ in range(events // 100):
            await exchange.send(delta_event("x" * 400) * 100)
            sent += 100
        await exchange.send(delta_event(None, "stop") + DONE)

    async with RawUpstream(flood).running() as base, relay(base) as running:
        stream = running.generate(request(policy=pb.AnswerPolicy(grounding=pb.GROUNDING_SAY_SO)))
        await anext(stream)
        await anext(stream)
        before = -1
        while before != sent:  # until nothing moves any more
            before = sent
            await asyncio.sleep(0.3)
        assert sent < events / 2
        await stream.aclose()
        await until(lambda: in_flight() == 0)


async def test_series_exist_from_the_start() -> None:
    async with serve([ScriptedChat("x")]):
        for outcome in ("cited", "invalid", "removed"):
            assert REGISTRY.get_sample_value("citewire_generator_markers_total", {"outcome": outcome}) is not None
        for cause in ("client", "deadline", "drain", "upstream"):
            assert REGISTRY.get_sample_value("citewire_streams_cancelled_total", {"cause": cause}) is not None
        labels = {"gen_ai_provider_name": "scripted", "gen_ai_request_model": "parrot"}
        assert REGISTRY.get_sample_value("gen_ai_server_time_to_first_token_seconds_count", labels) is not None
