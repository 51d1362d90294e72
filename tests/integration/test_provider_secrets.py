"""Canaries as keys and addresses of tenants' providers: afterwards, they are found in no log, trace or table."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest
from psycopg import sql

from callers import keyed_environment
from citewire_remote.sealing import new_master_key
from gateway_fake_servers import running_fakes
from keyed_upstream import keyed_upstream
from service_process import ServiceProcess, service_process, span_collector

if TYPE_CHECKING:
    from databases import Database

KEY = "sk-canary-7b1e93d0c4a84f52b6f1"
PATH = "canary-path-42d7c9e8a1b3"
MODEL = "visible-model"
QUESTION = {"question": "How long do refunds take?"}


def encodings(secret: str) -> set[bytes]:
    """Returns a secret's possible encodings: plain, hexadecimal, reversed, and base64 at any offset."""
    raw = secret.encode()
    encoded = {base64.b64encode(b"\0" * offset + raw)[4:-4] for offset in range(3)}
    return {raw, raw.hex().encode(), raw[::-1], *encoded}


def find_canaries(places: dict[str, bytes]) -> list[str]:
    """Returns the places of canaries, and their encodings there."""
    return [
        f"{place}: {encoding!r}"
        for place, content in places.items()
        for secret in (KEY, PATH)
        for encoding in encodings(secret)
        if encoding in content
    ]


def dump(dsn: str) -> bytes:
    """Returns every row of each of our tables as text."""
    with psycopg.connect(dsn) as connection:
        tables = connection.execute(
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        assert ("chat", "providers") in tables
        rows: list[bytes] = []
        for schema, table in tables:
            query = sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(schema, table))
            with connection.cursor().copy(query) as copy:
                rows += [bytes(row) for row in copy]
    return b"".join(rows)


async def scrape(process: ServiceProcess) -> bytes:
    async with httpx.AsyncClient(trust_env=False) as http:
        return (await http.get(f"http://127.0.0.1:{process.metrics_port}/metrics")).content


class Recorder:
    """A client that records every answer."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.answers: list[bytes] = []

    async def send(self, method: str, path: str, body: object = None) -> httpx.Response:
        response = await self._http.request(method, path, json=body)
        self.answers += [response.content, str(response.headers).encode()]
        return response


def test_the_search_finds_a_canary() -> None:
    for place in (KEY.encode(), b'{"x": "%s"}' % PATH.encode(), base64.b64encode(b"Bearer " + KEY.encode())):
        assert find_canaries({"here": b"hay " + place + b" hay"})
    assert not find_canaries({"here": b"sk-canary canary-path"})


async def test_keys_are_in_no_log_trace_metric_error_or_dump(database: Database, tmp_path: Path) -> None:
    keys = tmp_path / "master-keys"
    keys.write_text(new_master_key("k1"))
    places: dict[str, bytes] = {}
    async with AsyncExitStack() as stack:
        spans, endpoint = await stack.enter_async_context(span_collector())
        upstream = await stack.enter_async_context(keyed_upstream(KEY))
        fakes = await stack.enter_async_context(running_fakes())
        shared = {"CITEWIRE_AUTH": "off", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "CITEWIRE_EGRESS_ALLOW": "127.0.0.1"}
        secrets = {"CITEWIRE_MASTER_KEYS_FILE": str(keys), "CITEWIRE_GENERATOR_ATTEMPTS": "1"}
        generator = await stack.enter_async_context(
            service_process("generator", log=tmp_path / "generator.log", **shared, **secrets)
        )
        embedder = await stack.enter_async_context(
            service_process("embedder", log=tmp_path / "embedder.log", **shared, CITEWIRE_MASTER_KEYS_FILE=str(keys))
        )
        fakes.retriever.space = None  # nothing has been ingested yet, so any model may embed
        targets = {f"CITEWIRE_GATEWAY_{name.upper()}_TARGET": fakes.target(name) for name in fakes.servers}
        targets["CITEWIRE_GATEWAY_GENERATOR_TARGET"] = f"127.0.0.1:{generator.port}"
        targets["CITEWIRE_GATEWAY_EMBEDDER_TARGET"] = f"127.0.0.1:{embedder.port}"
        dsn = {"CITEWIRE_GATEWAY_DSN": database.dsn("citewire_chat")}
        gateway = await stack.enter_async_context(
            service_process("gateway", "serve", log=tmp_path / "gateway.log", **shared, **targets, **dsn)
        )
        http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.port}", trust_env=False, timeout=60)
        recorder = Recorder(await stack.enter_async_context(http))
        async with asyncio.timeout(60):  # the embedder listens before its model is loaded
            while (await recorder.send("GET", "/readyz")).status_code != 200:  # noqa: ASYNC110 - nothing tells us
                await asyncio.sleep(0.1)

        await use_provider(recorder, f"{upstream.base}/{PATH}")
        await use_embedding_and_rerank(recorder, f"{upstream.base}/{PATH}")
        assert KEY in upstream.keys
        assert any(PATH in call for call in upstream.calls)
        assert f"/{PATH}/v1/rerank" in upstream.calls
        upstream.hold = asyncio.Event()
        await leave_early(http)
        for status in (400, 401, 404, 429, 500, 529):
            upstream.status = status
            response = await recorder.send("POST", "/v1/chat", {**QUESTION, "stream": False})
            assert response.status_code >= 400
            assert (
                await recorder.send("PUT", "/v1/providers/chat", body(f"{upstream.base}/{PATH}"))
            ).status_code == 200
        keys.write_text(f"{new_master_key('k2')}\n{keys.read_text()}")
        rotated = await asyncio.to_thread(rotate, targets | dsn | {"CITEWIRE_LOG_LEVEL": "DEBUG"})
        assert rotated.returncode == 0, rotated.stderr
        assert b"2 rewrapped" in rotated.stdout
        places["rotation"] = rotated.stdout + rotated.stderr
        places["the metrics"] = await scrape(generator) + await scrape(gateway) + await scrape(embedder)
        places["the database"] = await asyncio.to_thread(dump, database.owner_dsn)
        places["the answers"] = b"\n".join(recorder.answers)
    places["the generator's log"] = (tmp_path / "generator.log").read_bytes()
    places["the embedder's log"] = (tmp_path / "embedder.log").read_bytes()
    places["the gateway's log"] = (tmp_path / "gateway.log").read_bytes()
    places["the traces"] = b"".join(spans.received)
    # Public values are found, so the search looks in the right places.
    for place in ("the metrics", "the database", "the answers", "the traces"):
        assert MODEL.encode() in places[place], place
    assert b"provider_refused" in places["the generator's log"]
    assert b"SealProvider" in places["the embedder's log"] + places["the traces"]
    assert b"PUT" in places["the gateway's log"]
    assert find_canaries(places) == []


def body(base: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 # fields of the body
    return {"provider": "openai-compatible", "model": MODEL, "api_base": base, "api_key": KEY, **fields}


async def use_provider(recorder: Recorder, base: str) -> None:
    """Makes successful calls, and calls that are refused before they reach a provider."""
    wrongs: tuple[dict[str, Any], ...] = ({"model": 1}, {"provider": "nobody"}, {"api_base": f"ftp://{PATH}"})
    for wrong in (*wrongs, {"fallbacks": [{"provider": None}]}):
        assert (await recorder.send("PUT", "/v1/providers/chat", body(base, **wrong))).status_code == 422
    for inside in (f"http://10.0.0.1/{PATH}", f"http://169.254.169.254/{PATH}"):
        response = await recorder.send("PUT", "/v1/providers/chat", body(inside))
        assert response.json()["reason"] == "PROVIDER_ADDRESS"
    saved = await recorder.send("PUT", "/v1/providers/chat", body(base))
    assert saved.json()["test"]["ok"] is True, saved.text
    answer = await recorder.send("POST", "/v1/chat", {**QUESTION, "stream": False})
    assert "five days" in answer.json().get("answer", ""), answer.text
    await recorder.send("POST", "/v1/chat", QUESTION)
    await recorder.send("GET", "/v1/providers")
    await recorder.send("GET", "/v1/providers/chat")


async def use_embedding_and_rerank(recorder: Recorder, base: str) -> None:
    """Saves providers for the embedder and searches with them, whatever they answer. The last one stays."""
    for path, kind in (("embedding", "ollama"), ("embedding", "openai-compatible"), ("rerank", "openai-compatible")):
        saved = await recorder.send("PUT", f"/v1/providers/{path}", body(base, provider=kind))
        assert saved.status_code == 200, saved.text
        await recorder.send("POST", "/v1/search", {"query": "refunds", "rerank": path == "rerank"})
    assert (await recorder.send("DELETE", "/v1/providers/embedding")).status_code == 204


async def leave_early(http: httpx.AsyncClient) -> None:
    """Asks, and leaves before the first word."""
    with pytest.raises(httpx.ReadTimeout):
        await http.post("/v1/chat", json={**QUESTION, "stream": False}, timeout=1)


def rotate(environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "citewire_gateway", "rotate"],
        env=environment | keyed_environment(),
        capture_output=True,
        timeout=60,
        check=False,
    )
