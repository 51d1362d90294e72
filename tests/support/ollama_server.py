"""A fake Ollama server on loopback, whose answers are parts of recorded answers from Ollama."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

DIMENSIONS = 768
PROMPTS = ("search_query: ", "search_document: ")


@dataclass
class OllamaServer:
    """The received requests and the answers."""

    vector: list[float]
    """Recorded numbers, at least 2 × DIMENSIONS."""
    words: list[str]
    """Pieces of a recorded answer."""
    url: str = ""
    embedded: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Model and text."""
    chats: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @property
    def answer(self) -> str:
        """The recorded answer."""
        return "".join(self.words)

    def embed(self, body: dict[str, Any]) -> dict[str, Any]:
        """One window of the recorded numbers for each text, at a position determined by its words."""
        model, inputs = cast("str", body["model"]), cast("list[str]", body["input"])
        self.embedded += [(model, text) for text in inputs]
        data = [
            {"object": "embedding", "index": place, "embedding": self._mixed(text)} for place, text in enumerate(inputs)
        ]
        usage = {"prompt_tokens": len(inputs), "total_tokens": len(inputs)}
        return {"object": "list", "data": data, "model": model, "usage": usage}

    def _mixed(self, text: str) -> list[float]:
        for prompt in PROMPTS:
            text = text.removeprefix(prompt)
        mixed = [0.0] * DIMENSIONS
        for word in {word.strip(".,:;?!").lower() for word in text.split()}:
            start = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big") % (len(self.vector) - DIMENSIONS)
            mixed = [sum(pair) for pair in zip(mixed, self.vector[start : start + DIMENSIONS], strict=True)]
        return mixed

    def events(self, body: dict[str, Any]) -> list[bytes]:
        """The recorded answer, in the events of its OpenAI-compatible endpoint."""
        self.chats.append(body)
        base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        deltas: list[dict[str, Any]] = [
            {**base, "choices": [{"index": 0, "delta": {"role": "assistant", "content": word}, "finish_reason": None}]}
            for word in self.words
        ]
        end: dict[str, Any] = {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        usage = {"prompt_tokens": 26, "completion_tokens": len(self.words), "total_tokens": 26 + len(self.words)}
        last: dict[str, Any] = {**base, "choices": [], "usage": usage}
        return [*(f"data: {json.dumps(event)}\n\n".encode() for event in (*deltas, end, last)), b"data: [DONE]\n\n"]


@contextmanager
def ollama_server(transcripts: Path) -> Generator[OllamaServer]:
    """Serves the recordings in a folder of Ollama's transcripts."""
    numbers = json.loads((transcripts / "200-json-embeddings-1.json").read_bytes())["embedding"]
    lines = (transcripts / "200-stream-stop-1.ndjson").read_text().splitlines()
    told = OllamaServer(numbers, [json.loads(line).get("response", "") for line in lines if line])

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # the base's name
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/v1/embeddings":
                self._send("application/json", [json.dumps(told.embed(body)).encode()])
            elif self.path == "/v1/chat/completions":
                self._send("text/event-stream", told.events(body))
            else:
                self.send_error(404)

        def _send(self, kind: str, parts: list[bytes]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(sum(map(len, parts))))
            self.end_headers()
            for part in parts:
                self.wfile.write(part)

        def log_message(self, format: str, *args: object) -> None:  # the base's name
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)
