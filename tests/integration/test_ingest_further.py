"""Further spaces: documents are embedded once more, after they went live, and their failures delay nobody."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from citewire_embedder.app import start
from citewire_embedder.settings import EmbedderSettings
from fake_embedding import FakeModel
from ingest_world import (
    WINDOW,
    HasDsn,
    World,
    article,
    eventually,
    running_worker,
    worker_settings,
)

MODEL, SIZE = "nomic-embed-text", 768


class Further:
    """The second model's server: it answers with one vector for all, or with a status."""

    def __init__(self) -> None:
        self.status = 200
        self.texts: list[str] = []
        self.calls = 0


@pytest.fixture
def further() -> Generator[tuple[Further, str]]:
    told = Further()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the base's name
            texts: list[str] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            told.calls += 1
            vector = [1.0] * SIZE
            data = [{"index": place, "embedding": vector} for place in range(len(texts))]
            body = json.dumps({"data": data} if told.status == 200 else {"error": "no"}).encode()
            if told.status == 200:
                told.texts += texts
            self.send_response(told.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # the base's name
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield told, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join(timeout=5)


@asynccontextmanager
async def running_embedder(url: str) -> AsyncGenerator[str]:
    """The real embedder with a model without weights, and a second one at an address."""
    settings = EmbedderSettings.model_validate(
        {
            "port": 0,
            "metrics_port": 0,
            "leave_seconds": 0,
            "drain_seconds": 1,
            "ollama_api_base": url,
            "attempts": 1,
            "breaker_failures": 100,
        }
    )
    async with AsyncExitStack() as stack:
        server = await start(stack, settings, FakeModel(window=WINDOW))
        stack.push_async_callback(server.drain_and_stop)
        yield f"127.0.0.1:{server.port}"


@pytest.fixture
async def world(database: HasDsn) -> AsyncIterator[World]:
    async with World.open(database) as opened:
        yield opened


async def embed_job(world: World, document_id: int, version: int = 1) -> str:
    rows = await world.rows(
        "SELECT state FROM corpus.ingest_jobs WHERE kind = 'embed' AND document_id = %s AND version = %s",
        document_id,
        version,
    )
    return rows[0]["state"] if rows else ""


async def test_a_document_is_embedded_in_the_further_space_after_it_went_live(
    world: World, database: HasDsn, further: tuple[Further, str]
) -> None:
    told, url = further
    told.status = 500
    async with running_embedder(url) as embedder:
        document_id = await world.upload("about.md", article(3))
        async with running_worker(worker_settings(database, embedder, more_models=MODEL)):
            await world.until(document_id, "ready")
            chunks = await world.chunks(document_id)
            assert len(await world.vectors(document_id)) == len(chunks)

            async def tried_twice() -> bool:
                return told.calls >= 2

            await eventually(tried_twice)
            assert await world.rows("SELECT 1 FROM corpus.further_spaces") == []
            assert (await world.version(document_id))["status"] == "ready"
            told.status = 200

            async def embedded() -> bool:
                return await embed_job(world, document_id) == "done"

            await eventually(embedded)
        assert len(told.texts) == len(chunks)
        assert all(text.startswith("search_document: ") for text in told.texts)
        space = await world.row(
            "SELECT s.model, s.dimensions, f.org_id FROM corpus.further_spaces f JOIN corpus.spaces s USING (space_id)"
        )
        assert (space["model"], space["dimensions"], space["org_id"]) == (MODEL, SIZE, "acme")


async def test_a_version_that_is_superseded_leaves_no_vectors(
    world: World, database: HasDsn, further: tuple[Further, str]
) -> None:
    told, url = further
    async with running_embedder(url) as embedder:
        document_id = await world.upload("about.md", article(3))
        async with running_worker(worker_settings(database, embedder, more_models=MODEL)):
            await world.until(document_id, "ready")
            await world.upload("about.md", article(2), document_id=document_id)
            await world.until(document_id, "ready", 2)

            async def both_ended() -> bool:
                return [await embed_job(world, document_id, version) for version in (1, 2)] == ["done", "done"]

            await eventually(both_ended, seconds=40)
        (table,) = await world.rows("SELECT table_name FROM corpus.spaces WHERE model = %s", MODEL)
        held = await world.rows(f"SELECT DISTINCT version FROM corpus.{table['table_name']}")  # noqa: S608 # our own name
        assert [row["version"] for row in held] == [2]
        assert told.texts


async def test_without_further_models_nothing_is_queued(
    world: World, database: HasDsn, further: tuple[Further, str]
) -> None:
    told, url = further
    async with running_embedder(url) as embedder:
        document_id = await world.upload("about.md", article(2))
        async with running_worker(worker_settings(database, embedder)):
            await world.until(document_id, "ready")
    assert await embed_job(world, document_id) == ""
    assert told.calls == 0
