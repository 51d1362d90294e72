"""The gateway as a process: its settings, signals, metrics and logs, and a database that comes and goes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest
from citewire.generator.v1 import generator_pb2

from callers import keyed_environment
from embedded_postgres import EmbeddedPostgres, start_embedded_postgres
from gateway_fake_servers import Fakes, running_fakes
from gateway_fakes import completed, delta, started
from gateway_process import frames_of, rows
from local_ports import free_port
from waiting import wait_until

if TYPE_CHECKING:
    from databases import Database

QUESTION = {"question": "How much did revenue grow?"}


@pytest.fixture
async def fakes() -> AsyncIterator[Fakes]:
    async with running_fakes() as running:
        yield running


@dataclass
class Running:
    """A gateway process."""

    process: asyncio.subprocess.Process
    http: httpx.AsyncClient
    metrics_url: str
    log: Path

    def lines(self) -> list[dict[str, object]]:
        """Returns the lines that it has logged."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


def environment(dsn: str, fakes: Fakes, port: int, metrics_port: int, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        **keyed_environment(),
        "CITEWIRE_AUTH": "off",
        "CITEWIRE_GATEWAY_DSN": dsn,
        "CITEWIRE_GATEWAY_PORT": str(port),
        "CITEWIRE_GATEWAY_METRICS_PORT": str(metrics_port),
        "CITEWIRE_GATEWAY_LEAVE_SECONDS": "0.2",
        "CITEWIRE_GATEWAY_DRAIN_SECONDS": "20",
        **{f"CITEWIRE_GATEWAY_{name.upper()}_TARGET": fakes.target(name) for name in fakes.servers},
        **more,
    }


@asynccontextmanager
async def serving(dsn: str, fakes: Fakes, tmp_path: Path, **more: str) -> AsyncGenerator[Running, None]:
    """Runs `python -m citewire_gateway serve` during the block, which starts when the gateway answers."""
    port, metrics_port = free_port(), free_port()
    log = tmp_path / f"gateway-{port}.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "citewire_gateway",
            "serve",
            env=environment(dsn, fakes, port, metrics_port, **more),
            stderr=output,
            stdout=output,
        )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as http:

            async def alive() -> bool:
                assert process.returncode is None, log.read_text()
                try:
                    return (await http.get("/livez")).status_code == 200
                except httpx.TransportError:
                    return False

            await wait_until(alive, 60)
            yield Running(process, http, f"http://127.0.0.1:{metrics_port}/metrics", log)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_sigterm_lets_streams_finish_and_ends_clean(database: Database, fakes: Fakes, tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def paced(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta("one")
        await go_on.wait()
        yield delta(" two")
        yield completed()

    fakes.generator.script = paced
    async with serving(database.dsn("citewire_chat"), fakes, tmp_path) as gateway:
        async with gateway.http.stream("POST", "/v1/chat", json=QUESTION) as response:
            seen = ""
            async for piece in response.aiter_text():
                seen += piece
                if '"one"' in seen and not go_on.is_set():
                    gateway.process.send_signal(signal.SIGTERM)
                    await wait_until(lambda: any(line["event"] == "draining" for line in gateway.lines()))
                    go_on.set()
        assert [frame.event for frame in frames_of(seen)][-3:] == ["token", "usage", "done"]
        assert await asyncio.wait_for(gateway.process.wait(), 20) == 0
    assert rows(database, "SELECT state FROM chat.exchanges") == [("done",)]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_the_grace_period(
    database: Database, fakes: Fakes, tmp_path: Path, how: signal.Signals
) -> None:
    async def silent(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta("one")
        await asyncio.Event().wait()

    fakes.generator.script = silent
    async with serving(database.dsn("citewire_chat"), fakes, tmp_path) as gateway:
        async with gateway.http.stream("POST", "/v1/chat", json=QUESTION) as response:
            seen = ""
            signals = 0
            async for piece in response.aiter_text():
                seen += piece
                if '"one"' in seen and signals == 0:
                    gateway.process.send_signal(how)
                    await wait_until(lambda: any(line["event"] == "draining" for line in gateway.lines()))
                    gateway.process.send_signal(how)
                    signals = 2
        frames = frames_of(seen)
        assert [frame.event for frame in frames[-2:]] == ["error", "done"]
        assert frames[-2].data["retryable"] is True
        assert await asyncio.wait_for(gateway.process.wait(), 20) == 0
    assert rows(database, "SELECT state, reason FROM chat.exchanges") == [("cancelled", "drain")]


async def test_metrics_have_their_own_port_and_all_series_from_the_start(
    database: Database, fakes: Fakes, tmp_path: Path
) -> None:
    async with serving(database.dsn("citewire_chat"), fakes, tmp_path) as gateway:
        assert (await gateway.http.get("/metrics")).status_code == 404
        fresh = (await gateway.http.get(gateway.metrics_url)).text
        for line in (
            'citewire_streams_in_flight{dialect="native"} 0.0',
            'citewire_streams_in_flight{dialect="simple"} 0.0',
            'citewire_streams_in_flight{dialect="json"} 0.0',
            'citewire_streams_cancelled_total{cause="client"} 0.0',
            'citewire_streams_cancelled_total{cause="drain"} 0.0',
            'citewire_streams_cancelled_total{cause="deadline"} 0.0',
            'citewire_streams_cancelled_total{cause="upstream"} 0.0',
            'citewire_http_requests_total{method="POST",route="/v1/chat",status="200"} 0.0',
            'citewire_http_requests_total{method="GET",route="/v1/documents/{document_id}",status="404"} 0.0',
            'grpc_client_started_total{grpc_method="Generate",grpc_service="citewire.generator.v1.GeneratorService",'
            'grpc_type="server_stream"} 0.0',
        ):
            assert line in fresh, line
        await gateway.http.post("/v1/chat", json=QUESTION)
        for path in ("/nowhere", "/nor/here", "/v1/documents/12", "/v1/documents/13"):
            await gateway.http.get(path)
        seen = (await gateway.http.get(gateway.metrics_url)).text
        assert 'citewire_http_requests_total{method="POST",route="/v1/chat",status="200"} 1.0' in seen
        assert 'citewire_http_requests_total{method="GET",route="unmatched",status="404"} 3.0' in seen
        assert 'route="/v1/documents/{document_id}",status="404"} 2.0' in seen
        assert "nowhere" not in seen
        # The process that spends a token counts it, which isn't the gateway.
        assert "gen_ai_client_token_usage_count" not in seen


async def test_logs_are_json_with_ids_and_without_content(database: Database, fakes: Fakes, tmp_path: Path) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    headers = {"X-Request-Id": "request-1", "traceparent": f"00-{trace}-b7ad6b7169203331-01"}
    async with serving(database.dsn("citewire_chat"), fakes, tmp_path) as gateway:
        await gateway.http.post("/v1/chat", json={"question": "a very secret question"}, headers=headers)
        # The line is written at the end of the answer, which may reach the client before.
        await wait_until(lambda: any(line["event"] == "http_request" for line in gateway.lines()))
        line = next(line for line in gateway.lines() if line["event"] == "http_request")
        assert line["request_id"] == "request-1"
        assert line["trace_id"] == trace
        assert (line["method"], line["route"], line["status"], line["service"]) == ("POST", "/v1/chat", 200, "gateway")
        assert "secret" not in gateway.log.read_text()
        assert "grew" not in gateway.log.read_text()


def exchange_is_open(postgres: EmbeddedPostgres, request_id: str) -> bool:
    with psycopg.connect(postgres.dsn(database="citewire"), autocommit=True) as connection:
        states = connection.execute("SELECT state FROM chat.exchanges WHERE request_id = %s", (request_id,)).fetchall()
    return states == [("running",)]


def is_given_up(gateway: Running, request_id: str) -> bool:
    """Whether the wait to store the end of a chat is over."""
    ended = [line.get("request_id") for line in gateway.lines() if line["event"] == "exchange_not_closed"]
    return request_id in ended


async def test_it_starts_without_a_database_and_works_once_it_is_there(fakes: Fakes, tmp_path: Path) -> None:
    with start_embedded_postgres(in_memory=True) as postgres:
        postgres.create_database("citewire")
        migrated = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "citewire_gateway",
            "migrate",
            env={"CITEWIRE_GATEWAY_MIGRATE_DSN": postgres.dsn(database="citewire")},
        )
        assert await migrated.wait() == 0
        postgres.stop()
        # So that a refusal is a 503, however long it takes, and not an error in a stream.
        settings = {"CITEWIRE_GATEWAY_HOLD_SECONDS": "30"}
        async with serving(postgres.dsn("citewire_chat", "citewire"), fakes, tmp_path, **settings) as gateway:
            ready = await gateway.http.get("/readyz")
            assert ready.status_code == 503
            assert ready.json()["database"] in ("unavailable", "no answer")
            assert ready.json()["embedder"] == "ok"
            for path in ("/v1/chat", "/api/chat/"):
                refused = await gateway.http.post(path, json=QUESTION)
                assert refused.status_code == 503, refused.text
                assert refused.json()["reason"] == "DATABASE_UNAVAILABLE"
                assert refused.headers["retry-after"]
            assert fakes.generator.requests == []
            for start in ("first", "after-a-crash"):
                postgres.start()

                async def works() -> bool:
                    return (await gateway.http.post("/v1/chat", json=QUESTION)).status_code == 200

                await wait_until(works, 30)
                # In the middle of a chat, which is refused after one wait for the database, to store the question. It
                # doesn't wait again to store the error.
                search = fakes.retriever.log.gates["search"] = asyncio.Event()
                named = {"X-Request-Id": start}
                chat = asyncio.create_task(gateway.http.post("/v1/chat", json=QUESTION, headers=named))
                await wait_until(partial(exchange_is_open, postgres, start), 10)
                postgres.kill()
                search.set()
                refused = await chat
                assert (refused.status_code, refused.json()["reason"]) == (503, "DATABASE_UNAVAILABLE"), refused.text
                assert not is_given_up(gateway, start)
                await wait_until(partial(is_given_up, gateway, start))
            postgres.start()  # at the end of the block it is stopped gracefully


async def test_busy_connections_dont_look_like_a_database_that_is_away(
    database: Database, fakes: Fakes, tmp_path: Path
) -> None:
    async with serving(database.dsn("citewire_chat"), fakes, tmp_path, CITEWIRE_GATEWAY_POOL_MAX="1") as gateway:
        with psycopg.connect(database.owner_dsn) as owner:
            owner.execute("LOCK TABLE chat.conversations")
            waiting = asyncio.create_task(gateway.http.get("/v1/conversations"))

            async def waits() -> bool:
                return rows(database, "SELECT count(*) FROM pg_locks WHERE NOT granted") == [(1,)]

            await wait_until(waits, 10)
            ready = await gateway.http.get("/readyz")
            assert (ready.status_code, ready.json()["database"]) == (200, "ok")
            assert not waiting.done()
        assert (await waiting).status_code == 200


async def test_a_taken_port_is_reported(database: Database, fakes: Fakes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        env = environment(database.dsn("citewire_chat"), fakes, port, 0)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "citewire_gateway", env=env, stderr=asyncio.subprocess.PIPE
        )
        _, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in errors.decode()
    assert "CITEWIRE_GATEWAY_PORT" in errors.decode()


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"CITEWIRE_GATEWAY_DSN": ""}, "CITEWIRE_GATEWAY_DSN"),
        ({"CITEWIRE_GATEWAY_HEARTBEAT_SECONDS": "16"}, "CITEWIRE_GATEWAY_HEARTBEAT_SECONDS"),
        ({"CITEWIRE_GATEWAY_HOST": "192.0.2.1"}, "CITEWIRE_GATEWAY_HOST"),
        ({"CITEWIRE_GATEWAY_DEFAULT_PROFILE": "nonsense"}, "CITEWIRE_GATEWAY_DEFAULT_PROFILE"),
    ],
)
async def test_wrong_settings_are_named(database: Database, fakes: Fakes, more: dict[str, str], named: str) -> None:
    env = environment(database.dsn("citewire_chat"), fakes, 0, 0) | more
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "citewire_gateway", env=env, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 2, errors.decode()
    assert named in errors.decode()
