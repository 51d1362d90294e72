"""An embedder with two models: one without weights, and one at an address served by the test."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from callers import KEYED
from citewire_embedder.app import start
from citewire_embedder.settings import EmbedderSettings
from citewire_retriever.ingest.backfill.scales import TEXTS
from fake_embedding import FakeModel

MODEL, SIZE = "nomic-embed-text", 768


_BUILT_IN = {text for texts in TEXTS.values() for text in (*texts.questions, *texts.passages)}


class SecondModel:
    """The second model's server: it answers with one vector for all, or with a status.

    Its `texts` leave out those that calibrate a space.
    """

    def __init__(self) -> None:
        self.status = 200
        self.texts: list[str] = []
        self.calls = 0
        self.gate = threading.Event()
        """While it is clear, the server answers nothing."""
        self.gate.set()


@contextmanager
def second_model_server() -> Generator[tuple[SecondModel, str]]:
    """Serves the second model; yields its controls and its address."""
    told = SecondModel()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the base's name
            texts: list[str] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            told.calls += 1
            told.gate.wait(60)
            vector = [1.0] * SIZE
            data = [{"index": place, "embedding": vector} for place in range(len(texts))]
            body = json.dumps({"data": data} if told.status == 200 else {"error": "no"}).encode()
            if told.status == 200:
                told.texts += [text for text in texts if text.partition(": ")[2] not in _BUILT_IN]
            self.send_response(told.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # the base's name
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield told, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


@asynccontextmanager
async def embedder_with_two_models(url: str, first: FakeModel) -> AsyncGenerator[str]:
    """The real embedder with a model without weights, and the second one at an address; yields its own address."""
    settings = EmbedderSettings.model_validate(
        {
            "port": 0,
            "metrics_port": 0,
            "leave_seconds": 0,
            "drain_seconds": 1,
            "ollama_api_base": url,
            "attempts": 1,
            "breaker_failures": 100,
            **KEYED,
        }
    )
    async with AsyncExitStack() as stack:
        server = await start(stack, settings, first)
        stack.push_async_callback(server.drain_and_stop)
        yield f"127.0.0.1:{server.port}"
