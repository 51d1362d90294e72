"""Cancellation, deadlines and drain, with every stage on, over real connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import pytest
from google.protobuf.wrappers_pb2 import StringValue
from prometheus_client import REGISTRY

from citewire_kit import client, deadline
from citewire_kit.errors import Code, DeadlineExceeded
from echo_service import METHODS, SERVICE, EchoServicer, running_echo_service, text
from endless_calls import EndlessHandler, read_all, stream_metric
from waiting import BUSY_SECONDS, wait_until


def handled(method: str, code: Code, side: str = "server") -> float:
    labels = {"grpc_type": METHODS[method], "grpc_service": SERVICE, "grpc_method": method, "grpc_code": code.value}
    return REGISTRY.get_sample_value(f"grpc_{side}_handled_total", labels) or 0.0


async def _endless() -> AsyncGenerator[StringValue]:
    while True:
        yield text("x")
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("pause", [0.01, 60.0], ids=["between-messages", "while-the-handler-waits"])
@pytest.mark.parametrize("leave", ["break", "cancel"])
async def test_a_client_that_leaves_a_stream_ends_it_within_a_second(leave: str, pause: float) -> None:
    handler = EndlessHandler(pause=pause)
    before = handled("ServerStream", Code.CANCELLED)
    cut_before = stream_metric("cancelled_total", cause="client")
    async with running_echo_service(EchoServicer(server_stream=handler.stream)) as running:
        got = asyncio.Event()

        async def read() -> None:
            async with aclosing(client.stream(running.stub.server_stream, text("go"), timeout=30)) as answers:
                async for _ in answers:
                    got.set()
                    if leave == "break":
                        break

        reading = asyncio.create_task(read())
        await got.wait()
        assert stream_metric("in_flight", dialect="grpc") == (0 if handler.ended.is_set() else 1)
        if leave == "cancel":
            reading.cancel()
        async with asyncio.timeout(BUSY_SECONDS):
            await handler.ended.wait()
        assert handler.tenant_at_end == "local"
        await wait_until(lambda: running.server.in_flight == 0)
        assert handled("ServerStream", Code.CANCELLED) == before + 1
        assert stream_metric("in_flight", dialect="grpc") == 0
        assert stream_metric("cancelled_total", cause="client") == cut_before + 1
        await asyncio.gather(reading, return_exceptions=True)


async def test_a_stream_that_is_dropped_without_closing_ends_too() -> None:
    handler = EndlessHandler()
    async with running_echo_service(EchoServicer(server_stream=handler.stream)) as running:
        async for _ in client.stream(running.stub.server_stream, text("go"), timeout=30):
            break
        async with asyncio.timeout(BUSY_SECONDS):
            await handler.ended.wait()


@pytest.mark.parametrize("method", ["Unary", "ClientStream", "Bidi"])
async def test_a_cancelled_caller_cancels_the_handler_of_the_other_shapes(method: str) -> None:
    handler = EndlessHandler(pause=60)
    before, client_before = handled(method, Code.CANCELLED), handled(method, Code.CANCELLED, "client")
    async with running_echo_service(
        EchoServicer(unary=handler.hold, client_stream=handler.upload, bidi=handler.stream)
    ) as running:

        async def call() -> None:
            if method == "Unary":
                await client.unary(running.stub.unary, text("x"), timeout=30)
            elif method == "ClientStream":
                await client.client_stream(running.stub.client_stream, _endless(), timeout=30)
            else:
                async with aclosing(client.bidi(running.stub.bidi, _endless(), timeout=30)) as answers:
                    async for _ in answers:
                        pass

        calling = asyncio.create_task(call())
        await handler.started.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        async with asyncio.timeout(BUSY_SECONDS):
            await handler.ended.wait()
        assert handler.tenant_at_end == "local"
        await wait_until(lambda: running.server.in_flight == 0)
        assert handled(method, Code.CANCELLED) == before + 1
        assert handled(method, Code.CANCELLED, "client") == client_before + 1


async def test_an_interrupted_upload_is_never_taken_for_complete() -> None:
    complete: list[int] = []
    cut = 0

    async def store(requests: AsyncIterator[StringValue]) -> StringValue:
        nonlocal cut
        try:
            complete.append(len([request async for request in requests]))
        except asyncio.CancelledError:
            cut += 1
            raise
        return text("stored")

    async with running_echo_service(EchoServicer(client_stream=store)) as running:
        for _ in range(30):
            halfway = asyncio.Event()

            async def requests(halfway: asyncio.Event = halfway) -> AsyncGenerator[StringValue]:
                yield text("first")
                yield text("second")
                halfway.set()
                await asyncio.sleep(60)

            uploading = asyncio.create_task(client.client_stream(running.stub.client_stream, requests(), timeout=30))
            await halfway.wait()
            uploading.cancel()
            await asyncio.gather(uploading, return_exceptions=True)
        await wait_until(lambda: running.server.in_flight == 0)
    # Some calls may be cancelled before their handler starts; none may be taken for complete.
    assert complete == []
    assert cut > 0


async def test_an_error_in_the_request_iterator_ends_the_call_and_is_raised() -> None:
    async def requests() -> AsyncGenerator[StringValue]:
        yield text("first")
        raise OSError("the file is gone")

    handler = EndlessHandler()
    async with running_echo_service(EchoServicer(client_stream=handler.upload, bidi=handler.stream)) as running:
        with pytest.raises(OSError, match="the file is gone"):
            await client.client_stream(running.stub.client_stream, requests(), timeout=30)
        async with asyncio.timeout(BUSY_SECONDS):
            await handler.ended.wait()
        with pytest.raises(OSError, match="the file is gone"):
            await read_all(client.bidi(running.stub.bidi, requests(), timeout=30))


async def test_the_request_iterator_is_closed_when_the_server_answers_early() -> None:
    closed = asyncio.Event()

    async def requests() -> AsyncGenerator[StringValue]:
        try:
            yield text("first")
            await asyncio.sleep(60)
        finally:
            closed.set()

    async def early(_requests: AsyncIterator[StringValue]) -> StringValue:
        raise DeadlineExceeded("early", reason="DEADLINE_EXCEEDED")

    async with running_echo_service(EchoServicer(client_stream=early)) as running:
        with pytest.raises(DeadlineExceeded):
            await client.client_stream(running.stub.client_stream, requests(), timeout=30)
        assert closed.is_set()


async def test_the_time_budget_shrinks_with_each_hop() -> None:
    left: dict[str, float | None] = {}

    async def note_b(request: StringValue) -> StringValue:
        left["b"] = deadline.remaining()
        return request

    async with running_echo_service(EchoServicer(unary=note_b)) as b:

        async def note_a(request: StringValue) -> StringValue:
            left["a"] = deadline.remaining()
            await asyncio.sleep(0.1)
            return await client.unary(b.stub.unary, request, timeout=60)

        async with running_echo_service(EchoServicer(unary=note_a)) as a:
            with deadline.budget(5):
                await client.unary(a.stub.unary, text("x"), timeout=60)
    assert left["a"] is not None
    assert left["b"] is not None
    assert left["a"] <= 5 - client.HOP_SECONDS + 0.05  # gRPC rounds a deadline up on the wire
    assert left["b"] <= left["a"] - 0.1 - client.HOP_SECONDS + 0.05


async def test_the_deadline_ends_both_calls_of_a_chain() -> None:
    inner, outer = EndlessHandler(), EndlessHandler()
    before = handled("Unary", Code.DEADLINE_EXCEEDED)
    cancelled = handled("Unary", Code.CANCELLED)
    async with running_echo_service(EchoServicer(unary=inner.hold)) as b:

        async def ask_b(request: StringValue) -> StringValue:
            try:
                return await client.unary(b.stub.unary, request, timeout=60)
            finally:
                outer.ended.set()

        async with running_echo_service(EchoServicer(unary=ask_b)) as a:
            with pytest.raises(DeadlineExceeded) as raised:
                await client.unary(a.stub.unary, text("x"), timeout=0.5)
            async with asyncio.timeout(BUSY_SECONDS):
                await inner.ended.wait()
                await outer.ended.wait()
            await wait_until(lambda: a.server.in_flight == b.server.in_flight == 0)
    assert raised.value.reason == "DEADLINE_EXCEEDED"
    # On a very busy machine, one of the two may be cancelled so early that it looks as if the client had left.
    by_deadline = handled("Unary", Code.DEADLINE_EXCEEDED) - before
    assert by_deadline >= 1
    assert by_deadline + handled("Unary", Code.CANCELLED) - cancelled == 2


async def test_a_stream_cut_by_its_deadline_is_counted_as_such() -> None:
    handler = EndlessHandler(pause=60)
    before, by_client = (
        stream_metric("cancelled_total", cause="deadline"),
        stream_metric("cancelled_total", cause="client"),
    )
    async with running_echo_service(EchoServicer(server_stream=handler.stream)) as running:
        with pytest.raises(DeadlineExceeded):
            await read_all(client.stream(running.stub.server_stream, text("go"), timeout=1.5))
        async with asyncio.timeout(BUSY_SECONDS):
            await handler.ended.wait()
    assert stream_metric("cancelled_total", cause="deadline") == before + 1
    assert stream_metric("cancelled_total", cause="client") == by_client


async def test_no_time_left_means_no_call() -> None:
    handler = EndlessHandler()
    async with running_echo_service(EchoServicer(unary=handler.hold)) as running:
        with deadline.budget(client.HOP_SECONDS / 2), pytest.raises(DeadlineExceeded):
            await client.unary(running.stub.unary, text("x"), timeout=5)
        assert not handler.started.is_set()


async def test_a_timeout_in_a_handler_is_a_deadline_and_no_defect() -> None:
    async def slow(request: StringValue) -> StringValue:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)
        return request

    async with running_echo_service(EchoServicer(unary=slow)) as running:
        with pytest.raises(DeadlineExceeded):
            await client.unary(running.stub.unary, text("x"), timeout=5)
