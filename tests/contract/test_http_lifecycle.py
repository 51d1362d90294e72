"""How a stream ends: clients that leave, services that die, deadlines, a server that stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING

import httpx
import pytest
from citewire.generator.v1 import generator_pb2
from prometheus_client import REGISTRY

from citewire_kit.errors import Unavailable
from gateway_fake_servers import Fakes, running_fakes
from gateway_fakes import completed, delta, started
from gateway_process import Gateway, Json, frames_of, rows, running_gateway, until_rows, write
from waiting import BUSY_SECONDS, wait_until

if TYPE_CHECKING:
    from databases import Database

QUESTION: Json = {"question": "How much did revenue grow?"}
DIALECTS = [("/v1/chat", "native"), ("/api/chat/", "simple")]
Generated = AsyncGenerator[generator_pb2.GenerateResponse, None]


@pytest.fixture
async def fakes() -> AsyncIterator[Fakes]:
    async with running_fakes() as running:
        yield running


@pytest.fixture
async def gateway(database: Database, fakes: Fakes) -> AsyncIterator[Gateway]:
    async with running_gateway(database, fakes) as running:
        yield running


class Paced:
    """A generator that writes two tokens and then waits for the test."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def __call__(self, request: generator_pb2.GenerateRequest) -> Generated:
        yield started((1, 0))
        yield delta("one")
        yield delta(" two")
        await self.go_on.wait()
        yield delta(" three")
        yield completed()


def metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def read_until(response: httpx.Response, text: str) -> str:
    seen = ""
    async for piece in response.aiter_text():
        seen += piece
        if text in seen:
            return seen
    raise AssertionError(f"{text!r} is not in {seen!r}")


@pytest.mark.parametrize(("path", "dialect"), DIALECTS)
async def test_a_client_that_leaves_stops_everything_at_once(
    gateway: Gateway, database: Database, path: str, dialect: str
) -> None:
    gateway.fakes.generator.script = Paced()
    before = metric("citewire_streams_cancelled_total", cause="client")
    async with gateway.http.stream("POST", path, json=QUESTION) as response:
        await read_until(response, " two")
        assert metric("citewire_streams_in_flight", dialect=dialect) == 1
    async with asyncio.timeout(BUSY_SECONDS):
        await gateway.fakes.generator.ended_event.wait()
    assert gateway.fakes.generator.ended == ["cancelled"]
    await wait_until(lambda: metric("citewire_streams_in_flight", dialect=dialect) == 0, BUSY_SECONDS)
    assert metric("citewire_streams_cancelled_total", cause="client") == before + 1
    await until_rows(database, "SELECT state, reason, estimated FROM chat.exchanges", [("cancelled", "client", True)])


async def test_the_shown_part_of_a_cancelled_answer_is_stored(gateway: Gateway, database: Database) -> None:
    gateway.fakes.generator.script = Paced()
    async with gateway.http.stream("POST", "/v1/chat", json=QUESTION) as response:
        await read_until(response, " two")
    await until_rows(
        database,
        "SELECT role, content, state FROM chat.messages ORDER BY ordinal",
        [("user", QUESTION["question"], "complete"), ("assistant", "one two", "cancelled")],
    )


async def test_a_client_that_leaves_before_the_first_token_leaves_no_question_behind(
    gateway: Gateway, database: Database
) -> None:
    async def silent(_: generator_pb2.GenerateRequest) -> Generated:
        await asyncio.Event().wait()
        yield started()

    gateway.fakes.generator.script = silent
    question_task = asyncio.create_task(gateway.http.post("/v1/chat", json=QUESTION))
    await wait_until(lambda: bool(gateway.fakes.generator.requests))
    question_task.cancel()
    await until_rows(database, "SELECT state FROM chat.exchanges", [("cancelled",)])
    await wait_until(lambda: gateway.fakes.generator.ended == ["cancelled"])
    assert rows(database, "SELECT count(*) FROM chat.conversations") == [(0,)]


async def test_a_client_that_leaves_without_a_stream_stops_everything_too(gateway: Gateway, database: Database) -> None:
    gateway.fakes.generator.script = Paced()
    question_task = asyncio.create_task(gateway.http.post("/v1/chat", json={**QUESTION, "stream": False}))
    await wait_until(lambda: bool(gateway.fakes.generator.requests))
    question_task.cancel()
    async with asyncio.timeout(BUSY_SECONDS):
        await gateway.fakes.generator.ended_event.wait()
    await until_rows(database, "SELECT state FROM chat.exchanges", [("cancelled",)])
    await wait_until(lambda: metric("citewire_streams_in_flight", dialect="json") == 0, BUSY_SECONDS)


@pytest.mark.parametrize(("path", "dialect"), DIALECTS)
async def test_a_service_that_dies_in_the_middle_ends_in_an_error(
    gateway: Gateway, database: Database, path: str, dialect: str
) -> None:
    gateway.fakes.generator.script = Paced()
    before = metric("citewire_streams_cancelled_total", cause="upstream")
    async with gateway.http.stream("POST", path, json=QUESTION) as response:
        seen = ""
        async for piece in response.aiter_text():
            if " two" in seen:
                seen += piece
                continue
            seen += piece
            if " two" in seen:
                await gateway.fakes.kill("generator")
    frames = frames_of(seen)
    if dialect == "native":
        assert [frame.event for frame in frames[-2:]] == ["error", "done"]
        assert list(frames[-2].data) == ["text"]
        assert frames[-1].data == {}
        assert "usage" not in [frame.event for frame in frames]
    else:
        assert list(frames[-1].data) == ["error"]
        assert not any("done" in frame.data for frame in frames)
    assert metric("citewire_streams_cancelled_total", cause="upstream") == before + 1
    await until_rows(database, "SELECT state, reason FROM chat.exchanges", [("failed", "SERVICE_UNAVAILABLE")])


async def test_an_end_without_completed_is_a_failure(gateway: Gateway) -> None:
    async def forgets(_: generator_pb2.GenerateRequest) -> Generated:
        yield started((1, 0))
        yield delta("one")

    gateway.fakes.generator.script = forgets
    frames = await gateway.stream("/v1/chat", QUESTION)
    assert [frame.event for frame in frames] == ["conversation", "citations", "token", "error", "done"]


@pytest.mark.parametrize("name", ["embedder", "retriever", "generator"])
async def test_without_a_service_new_requests_are_503_until_it_is_back(
    gateway: Gateway, database: Database, name: str
) -> None:
    port = gateway.fakes.servers[name].port
    assert port is not None
    await gateway.fakes.kill(name)
    for path in ("/v1/chat", "/api/chat/", "/api/chat/query"):
        response = await gateway.http.post(path, json=QUESTION)
        assert response.status_code == 503, response.text
        assert response.headers["content-type"] == "application/problem+json"
        assert int(response.headers["retry-after"]) >= 1
        assert response.json()["reason"] == "SERVICE_UNAVAILABLE"
    ready = await gateway.http.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()[name] == "unavailable"
    assert name in ready.json()["detail"]
    await until_rows(database, "SELECT count(*) FROM chat.conversations", [(0,)])
    await gateway.fakes.start(name, port)

    async def works() -> bool:
        return (await gateway.http.post("/v1/chat", json=QUESTION)).status_code == 200

    await wait_until(works)
    await wait_until(lambda: _is_ready(gateway))


async def _is_ready(gateway: Gateway) -> bool:
    response = await gateway.http.get("/readyz")
    parts = {"database": "ok", "embedder": "ok", "retriever": "ok", "generator": "ok"}
    return response.status_code == 200 and response.json() == {"status": "ready", **parts}


async def test_a_silent_model_gets_headers_and_heartbeats(database: Database, fakes: Fakes) -> None:
    release = asyncio.Event()

    async def slow(_: generator_pb2.GenerateRequest) -> Generated:
        await release.wait()
        yield started((1, 0))
        yield delta("late")
        yield completed()

    fakes.generator.script = slow
    async with (
        running_gateway(database, fakes, hold_seconds=0.1, heartbeat_seconds=0.1) as gateway,
        gateway.http.stream("POST", "/v1/chat", json=QUESTION) as response,
    ):
        assert response.status_code == 200
        seen = ""
        async for piece in response.aiter_text():
            seen += piece
            # The frames that were held back come first, then heartbeats; a busy machine may send one before.
            if seen.partition("event: conversation\n")[2].count(": keep-alive\n\n") >= 3:
                release.set()
    assert [frame.event for frame in frames_of(seen)] == ["conversation", "citations", "token", "usage", "done"]


async def test_a_failure_after_the_headers_is_a_frame(database: Database, fakes: Fakes) -> None:
    release = asyncio.Event()

    async def fails(_: generator_pb2.GenerateRequest) -> Generated:
        await release.wait()
        raise Unavailable("the model provider went away", reason="PROVIDER_UNAVAILABLE")
        yield started()

    fakes.generator.script = fails
    async with (
        running_gateway(database, fakes, hold_seconds=0.05) as gateway,
        gateway.http.stream("POST", "/v1/chat", json=QUESTION) as response,
    ):
        seen = ""
        async for piece in response.aiter_text():
            seen += piece
            release.set()
    assert [frame.event for frame in frames_of(seen)] == ["conversation", "error", "done"]
    assert frames_of(seen)[1].data == {"text": "the model provider went away"}


async def test_a_failure_before_the_headers_is_an_http_error_and_leaves_nothing(
    gateway: Gateway, database: Database
) -> None:
    async def fails(_: generator_pb2.GenerateRequest) -> Generated:
        raise Unavailable("the model provider went away", reason="PROVIDER_UNAVAILABLE", retry_after=7)
        yield started()

    gateway.fakes.generator.script = fails
    response = await gateway.http.post("/v1/chat", json=QUESTION)
    assert (response.status_code, response.headers["retry-after"]) == (503, "7")
    await until_rows(database, "SELECT state, reason FROM chat.exchanges", [("failed", "PROVIDER_UNAVAILABLE")])
    assert rows(database, "SELECT count(*) FROM chat.conversations") == [(0,)]


async def test_a_problem_names_the_provider_and_the_model_that_failed(gateway: Gateway) -> None:
    async def fails(_: generator_pb2.GenerateRequest) -> Generated:
        named = {"provider": "openai", "model": "gpt-4.1"}
        raise Unavailable("the model provider went away", reason="PROVIDER_UNAVAILABLE", metadata=named)
        yield started()

    gateway.fakes.generator.script = fails
    problem = (await gateway.http.post("/v1/chat", json=QUESTION)).json()
    assert (problem["provider"], problem["model"]) == ("openai", "gpt-4.1")


async def test_a_chat_that_takes_too_long_ends_at_its_deadline(database: Database, fakes: Fakes) -> None:
    fakes.generator.script = Paced()
    before = metric("citewire_streams_cancelled_total", cause="deadline")
    async with running_gateway(database, fakes, chat_seconds=0.7) as gateway:
        frames = await gateway.stream("/v1/chat", QUESTION)
    assert [frame.event for frame in frames[-2:]] == ["error", "done"]
    assert metric("citewire_streams_cancelled_total", cause="deadline") == before + 1
    assert rows(database, "SELECT state, reason FROM chat.exchanges") == [("failed", "DEADLINE_EXCEEDED")]


async def test_a_running_stream_may_finish_within_the_grace(database: Database, fakes: Fakes) -> None:
    paced = Paced()
    fakes.generator.script = paced
    async with running_gateway(database, fakes, drain_seconds=30) as gateway:
        async with gateway.http.stream("POST", "/v1/chat", json=QUESTION) as response:
            seen = ""
            async for piece in response.aiter_text():
                seen += piece
                if " two" in seen and not paced.go_on.is_set():
                    gateway.server.leave()
                    # A stopping server accepts no new connection, which shows that it is stopping.
                    await wait_until(lambda: gateway.server.should_exit)
                    paced.go_on.set()
    assert [frame.event for frame in frames_of(seen)][-2:] == ["usage", "done"]


@pytest.mark.parametrize(("path", "dialect"), DIALECTS)
async def test_at_the_end_of_the_grace_period_streams_end_with_an_error(
    database: Database, fakes: Fakes, path: str, dialect: str
) -> None:
    fakes.generator.script = Paced()
    before = metric("citewire_streams_cancelled_total", cause="drain")
    async with running_gateway(database, fakes, drain_seconds=0.2) as gateway:
        async with gateway.http.stream("POST", path, json=QUESTION) as response:
            seen = ""
            async for piece in response.aiter_text():
                seen += piece
                if " two" in seen:
                    gateway.server.leave()
        frames = frames_of(seen)
    if dialect == "native":
        assert [frame.event for frame in frames[-2:]] == ["error", "done"]
        assert frames[-2].data["retryable"] is True
    else:
        assert list(frames[-1].data) == ["error"]
    assert metric("citewire_streams_cancelled_total", cause="drain") == before + 1
    assert rows(database, "SELECT state, reason FROM chat.exchanges") == [("cancelled", "drain")]


async def test_a_stopping_server_is_not_ready(database: Database, fakes: Fakes) -> None:
    async with running_gateway(database, fakes, leave_seconds=30, drain_seconds=30) as gateway:
        gateway.server.leave()
        response = await gateway.http.get("/readyz")
        assert response.status_code == 503
        assert response.json()["reason"] == "SHUTTING_DOWN"
        # It still serves until others have noticed.
        assert (await gateway.http.post("/v1/chat", json=QUESTION)).status_code == 200


async def test_exchanges_of_a_gateway_that_died_are_closed(gateway: Gateway, database: Database) -> None:
    # Opened by a process that died: its lease has expired, and nobody will close it.
    insert = (
        "INSERT INTO chat.exchanges (org_id, exchange_id, user_id, profile, dialect, request_id, lease_until) "
        "SELECT 'acme', gen_random_uuid(), 'ada', 'documents', 'native', 'r', now() + make_interval(secs => s) "
        "FROM unnest(ARRAY[-1, 60]) s RETURNING 1"
    )
    before = metric("citewire_runs_total", outcome="lost")
    assert len(await write(database, insert)) == 2
    await gateway.services.chats.sweep()  # unless the gateway's own sweeper came first
    result = rows(database, "SELECT state, reason FROM chat.exchanges ORDER BY lease_until")
    assert result == [("failed", "ORPHANED"), ("running", None)]
    await wait_until(lambda: metric("citewire_runs_total", outcome="lost") == before + 1)


async def test_a_client_that_does_not_read_is_dropped_at_the_deadline(database: Database, fakes: Fakes) -> None:
    async def floods(_: generator_pb2.GenerateRequest) -> Generated:
        yield started((1, 0))
        while True:
            yield delta("x" * 100_000)

    fakes.generator.script = floods
    async with running_gateway(database, fakes, chat_seconds=1.5, drain_seconds=0) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.server.port, limit=1024)
        body = b'{"question": "x"}'
        head = f"POST /v1/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            writer.write(head.encode() + body)
            await writer.drain()
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            await wait_until(lambda: fakes.generator.ended != [])
            await until_rows(database, "SELECT state, reason FROM chat.exchanges", [("cancelled", "deadline")])
        finally:
            writer.transport.abort()
