"""The openai-compatible provider against a scripted server over real sockets."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.model import FinishReason, Message, ModelInfo, Role, Usage
from citewire_generator.providers.base import ChatTask, Delta, End
from citewire_generator.providers.openai_compatible import OpenAiCompatible
from citewire_generator.providers.remote import open_session
from citewire_kit.errors import CitewireError, Code
from citewire_remote.stall_timeout import TimeLimits
from generator_calls import make_passage
from raw_upstream import DONE, Exchange, RawUpstream, delta_event, usage_event
from waiting import BUSY_SECONDS

KEY = "sk-canary-0123456789"
SECRET = "the provider's own words"
QUICK = TimeLimits(connect=1, first_token=0.3, between_tokens=0.3, whole=3)
TASK = ChatTask(
    "m", (Message(Role.SYSTEM, "rules"), Message(Role.USER, "hello")), max_completion_tokens=9, temperature=0.5
)


@asynccontextmanager
async def provider(base: str, limits: TimeLimits = QUICK, key: str | None = KEY) -> AsyncGenerator[OpenAiCompatible]:
    models = (ModelInfo("openai-compatible", "m"),)
    made = OpenAiCompatible(open_session(limits), api_base=base, api_key=key, models=models, limits=limits)
    try:
        yield made
    finally:
        await made.close()


async def collect(made: OpenAiCompatible, task: ChatTask = TASK) -> tuple[list[tuple[str, ...]], End]:
    deltas: list[tuple[str, ...]] = []
    async for event in made.stream(task):
        if isinstance(event, End):
            return deltas, event
        deltas.append(event.texts)
    raise AssertionError("no end")


async def run(behave: Callable[[Exchange], Awaitable[None]], limits: TimeLimits = QUICK) -> tuple[str, End]:
    async with RawUpstream(behave).running() as base, provider(base, limits) as made:
        deltas, end = await collect(made)
    return "".join(text for texts in deltas for text in texts), end


async def failure(behave: Callable[[Exchange], Awaitable[None]], limits: TimeLimits = QUICK) -> CitewireError:
    async with RawUpstream(behave).running() as base, provider(base, limits) as made:
        with pytest.raises(CitewireError) as caught:
            await collect(made)
    error = caught.value
    assert SECRET not in f"{error} {error.metadata} {error.violations}"
    assert KEY not in f"{error} {error.metadata} {error.violations}"
    return error


async def good(exchange: Exchange) -> None:
    await exchange.head()
    await exchange.send(delta_event("Hel") + delta_event("lo") + delta_event(None, "stop") + usage_event(5, 2) + DONE)


async def test_the_request_and_the_answer() -> None:
    upstream = RawUpstream(good)
    async with upstream.running() as base, provider(base) as made:
        deltas, end = await collect(made)
    assert deltas == [("Hel", "lo")]  # one read, one delta: nothing waits for more
    assert end == End(FinishReason.STOP, Usage(5, 0, 2))
    request = upstream.requests[0]
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["accept-encoding"] == "identity"
    assert request.body == {
        "model": "m",
        "messages": [{"role": "system", "content": "rules"}, {"role": "user", "content": "hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 9,
        "temperature": 0.5,
    }


async def test_without_a_key_none_is_sent_and_the_servers_defaults_apply() -> None:
    upstream = RawUpstream(good)
    async with upstream.running() as base, provider(base, key=None) as made:
        await collect(made, ChatTask("m", ()))
    assert "authorization" not in upstream.requests[0].headers
    assert not {"max_tokens", "temperature"} & upstream.requests[0].body.keys()


async def test_tokens_are_passed_on_as_they_arrive() -> None:
    first = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.delta("a")
        await first.wait()
        await exchange.send(delta_event("b") + delta_event("c") + delta_event(None, "stop") + DONE)

    async with RawUpstream(slow).running() as base, provider(base) as made:
        events = made.stream(TASK)
        assert await anext(events) == Delta(("a",))
        first.set()
        assert await anext(events) == Delta(("b", "c"))
        assert await anext(events) == End(FinishReason.STOP)
        await events.aclose()


@pytest.mark.parametrize(
    ("status", "body", "code", "reason"),
    [
        (400, {"error": {"message": SECRET}}, Code.FAILED_PRECONDITION, "PROVIDER_REJECTED"),
        (400, {"error": {"code": "context_length_exceeded"}}, Code.INVALID_ARGUMENT, "CONTEXT_TOO_LONG"),
        (400, {"error": f"{SECRET}: prompt is too long"}, Code.INVALID_ARGUMENT, "CONTEXT_TOO_LONG"),
        (401, {"error": {"message": f"{SECRET} {KEY}"}}, Code.FAILED_PRECONDITION, "PROVIDER_AUTH"),
        (403, {"detail": SECRET}, Code.FAILED_PRECONDITION, "PROVIDER_AUTH"),
        (404, {"error": {"message": SECRET}}, Code.FAILED_PRECONDITION, "PROVIDER_REJECTED"),
        (402, {}, Code.RESOURCE_EXHAUSTED, "PROVIDER_RATE_LIMITED"),
        (429, {"error": {"message": SECRET}}, Code.RESOURCE_EXHAUSTED, "PROVIDER_RATE_LIMITED"),
        (500, {"error": {"message": SECRET}}, Code.UNAVAILABLE, "PROVIDER_UNAVAILABLE"),
        (502, SECRET, Code.UNAVAILABLE, "PROVIDER_UNAVAILABLE"),
        (529, [SECRET], Code.UNAVAILABLE, "PROVIDER_UNAVAILABLE"),
        (302, {}, Code.FAILED_PRECONDITION, "PROVIDER_REJECTED"),
    ],
)
async def test_statuses(status: int, body: object, code: Code, reason: str) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.head(status, "application/json", Location="http://127.0.0.1:9/")
        await exchange.send(json.dumps(body).encode())

    error = await failure(refuse)
    assert (error.code, error.reason) == (code, reason)
    assert error.metadata["status"] == str(status)


async def test_retry_after_is_passed_on() -> None:
    async def limit(exchange: Exchange) -> None:
        await exchange.head(429, "application/json", Retry_After="17")

    assert (await failure(limit)).retry_after == 17


async def test_a_prompt_refused_by_a_filter_ends_with_that_reason() -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.head(400, "application/json")
        await exchange.send(json.dumps({"error": {"code": "content_filter", "message": SECRET}}).encode())

    text, end = await run(refuse)
    assert (text, end.finish_reason) == ("", FinishReason.CONTENT_FILTER)


async def test_connection_refused() -> None:
    async with RawUpstream(good).running() as base:
        pass
    async with provider(base) as made:
        with pytest.raises(CitewireError) as caught:
            await collect(made)
    assert (caught.value.code, caught.value.reason) == (Code.UNAVAILABLE, "PROVIDER_UNAVAILABLE")
    assert caught.value.retry_after is not None


async def stall(exchange: Exchange) -> None:
    await exchange.gone()


async def stall_after_head(exchange: Exchange) -> None:
    await exchange.head()
    await exchange.gone()


async def stall_with_comments(exchange: Exchange) -> None:
    await exchange.head()
    gone = asyncio.ensure_future(exchange.gone())
    while not gone.done():
        await exchange.send(b": still here\n\n")
        await asyncio.wait({gone}, timeout=0.05)


async def stall_after_a_token(exchange: Exchange) -> None:
    await exchange.head()
    await exchange.delta("a")
    await exchange.gone()


async def drip(exchange: Exchange) -> None:
    await exchange.head()
    gone = asyncio.ensure_future(exchange.gone())
    while not gone.done():
        await exchange.delta("a")
        await asyncio.wait({gone}, timeout=0.05)


@pytest.mark.parametrize(
    ("behave", "limits", "text"),
    [
        (stall, QUICK, "no first token in 0.3 s"),
        (stall_after_head, QUICK, "no first token in 0.3 s"),
        (stall_with_comments, QUICK, "no first token in 0.3 s"),
        (stall_after_a_token, replace(QUICK, first_token=5), "no further token in 0.3 s"),
        (drip, replace(QUICK, whole=0.5), "didn't finish in 0.5 s"),
    ],
)
async def test_time_limits(behave: Callable[[Exchange], Awaitable[None]], limits: TimeLimits, text: str) -> None:
    started = time.monotonic()
    error = await failure(behave, limits)
    assert (error.code, error.reason) == (Code.DEADLINE_EXCEEDED, "PROVIDER_TIMEOUT")
    assert text in error.message
    assert time.monotonic() - started < BUSY_SECONDS


async def test_a_slow_reader_is_not_taken_for_a_silent_provider() -> None:
    async def quick(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.delta("a")
        await asyncio.sleep(0.1)
        await exchange.send(delta_event("b") + delta_event(None, "stop") + DONE)

    async with RawUpstream(quick).running() as base, provider(base) as made:
        events = made.stream(TASK)
        assert await anext(events) == Delta(("a",))
        await asyncio.sleep(2 * QUICK.between_tokens)
        assert await anext(events) == Delta(("b",))
        await events.aclose()


async def cut(exchange: Exchange) -> None:
    await exchange.head()
    await exchange.delta("a")


async def cut_in_an_event(exchange: Exchange) -> None:
    await exchange.head()
    await exchange.send(delta_event("a") + delta_event("b", "stop")[:-9])


async def reset(exchange: Exchange) -> None:
    await exchange.head()
    await exchange.delta("a")
    await asyncio.sleep(0.05)
    exchange.reset()


async def chunked_cut(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    data = delta_event("a")
    await exchange.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")


async def malformed(exchange: Exchange) -> None:
    await exchange.head()
    await exchange.send(delta_event("a") + b"data: {nonsense\n\n")


async def a_web_page(exchange: Exchange) -> None:
    await exchange.head(kind="text/html")
    await exchange.send(f"<html>{SECRET}</html>".encode())


async def json_that_is_no_completion(exchange: Exchange) -> None:
    await exchange.head(kind="application/json")
    await exchange.send(b'{"ok": true}')


@pytest.mark.parametrize(
    "behave", [cut, cut_in_an_event, reset, chunked_cut, malformed, a_web_page, json_that_is_no_completion]
)
async def test_a_broken_stream_is_never_a_clean_end(behave: Callable[[Exchange], Awaitable[None]]) -> None:
    error = await failure(behave)
    assert (error.code, error.reason) == (Code.UNAVAILABLE, "PROVIDER_STREAM_BROKEN")


async def test_reset_before_the_head() -> None:
    async def drop(exchange: Exchange) -> None:
        exchange.reset()

    assert (await failure(drop)).reason == "PROVIDER_UNAVAILABLE"


async def test_an_error_in_the_stream() -> None:
    async def fail(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.send(
            delta_event("a") + b'data: {"error": {"message": "' + SECRET.encode() + b'", "code": 503}}\n\n'
        )

    assert (await failure(fail)).reason == "PROVIDER_UNAVAILABLE"


async def test_events_after_the_end_may_be_missing() -> None:
    async def end_and_stall(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.send(delta_event("a") + delta_event(None, "length"))
        exchange.reset()

    text, end = await run(end_and_stall)
    assert (text, end) == ("a", End(FinishReason.LENGTH))


async def test_a_completion_in_one_piece_is_accepted() -> None:
    async def whole(exchange: Exchange) -> None:
        await exchange.head(kind="application/json")
        body = {
            "choices": [{"message": {"content": "all"}, "finish_reason": "stop"}],
            "usage": {"completion_tokens": 1},
        }
        await exchange.send(json.dumps(body).encode())

    assert await run(whole) == ("all", End(FinishReason.STOP, Usage(0, 0, 1)))


@pytest.mark.parametrize("tokens_first", [0, 3])
async def test_leaving_closes_the_socket_at_once(tokens_first: int) -> None:
    gone = asyncio.Event()

    async def endless(exchange: Exchange) -> None:
        if tokens_first:
            await exchange.head()
        for _ in range(tokens_first):
            await exchange.delta("a")
            await asyncio.sleep(0.01)
        await exchange.gone()
        gone.set()

    limits = TimeLimits()
    async with RawUpstream(endless).running() as base, provider(base, limits) as made:
        events = made.stream(TASK)
        for _ in range(tokens_first):
            await anext(events)
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await events.aclose()
        async with asyncio.timeout(BUSY_SECONDS):
            await gone.wait()


async def test_a_connection_is_used_again_after_a_whole_stream() -> None:
    connections = 0

    async def keep_alive(exchange: Exchange) -> None:
        nonlocal connections
        connections += 1
        body = delta_event("a") + delta_event(None, "stop") + DONE
        await exchange.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            + f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await exchange.gone()

    async with RawUpstream(keep_alive).running() as base, provider(base) as made:
        first = await collect(made)
        # The second request uses the same connection; this server doesn't read it, so it is silent.
        with pytest.raises(CitewireError) as caught:
            await collect(made)
    assert first[1].finish_reason is FinishReason.STOP
    assert caught.value.reason == "PROVIDER_TIMEOUT"
    assert connections == 1


async def test_suggestions_are_asked_of_the_model() -> None:
    async def suggest(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.send(delta_event("1. What is X?\n2. Who is Y?\n3. Why?") + delta_event(None, "stop") + DONE)

    upstream = RawUpstream(suggest)
    async with upstream.running() as base, provider(base) as made:
        suggestions = await made.suggest(
            pb.SuggestQuestionsRequest(passages=[make_passage(1, 1, "text")], question="Why?", count=2), "m"
        )
    assert suggestions.questions == ("What is X?", "Who is Y?")
    assert suggestions.usage.estimated
    assert suggestions.usage.completion_tokens > 0
