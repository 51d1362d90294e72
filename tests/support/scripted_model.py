"""A chat model on loopback with OpenAI's protocol and scripted answers.

It runs in a thread, because the event loops of tests are short-lived.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class ScriptedModel:
    """The next answers."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        """The answer, as it is sent."""
        self.endless = False
        """Whether the pieces are repeated until the client disconnects."""
        self.status = 200
        self.pause = 0.01
        """Seconds between two pieces."""
        self.left_at = 0.0
        """Time, by the monotonic clock, at which the client was found to have disconnected."""
        self.url = ""
        self.models: list[str] = []
        """The model that each request named."""
        self.cached_tokens = 0
        """Number of the prompt's 90 tokens reported as read from the cache."""

    def say(self, *pieces: str, endless: bool = False) -> None:
        """Sets the next answers."""
        self.pieces, self.endless, self.status, self.left_at = list(pieces), endless, 200, 0.0


@contextmanager
def scripted_model() -> Generator[ScriptedModel]:
    """Runs the model until the block ends."""
    model = ScriptedModel()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            model.models.append(str(body.get("model", "")))
            self.send_response(model.status)
            kind = "text/event-stream" if model.status == 200 else "application/json"
            self.send_header("Content-Type", kind)
            self.end_headers()
            if model.status != 200:
                self.wfile.write(b'{"error": {"message": "<img src=x onerror=window.hacked=1> the model is away"}}')
                return
            try:
                self._stream()
            except (BrokenPipeError, ConnectionResetError):
                model.left_at = time.monotonic()

        def _stream(self) -> None:
            while True:
                for piece in model.pieces:
                    self._send({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]})
                    time.sleep(model.pause)
                if not model.endless:
                    break
            nothing: dict[str, str] = {}
            self._send({"choices": [{"index": 0, "delta": nothing, "finish_reason": "stop"}]})
            usage: dict[str, object] = {"prompt_tokens": 90, "completion_tokens": 12, "total_tokens": 102}
            if model.cached_tokens:
                usage["prompt_tokens_details"] = {"cached_tokens": model.cached_tokens}
            self._send({"choices": [], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")

        def _send(self, event: object) -> None:
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    model.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        with contextlib.suppress(OSError):
            server.server_close()
        thread.join(10)
