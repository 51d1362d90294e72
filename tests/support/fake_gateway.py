"""A real HTTP server on a free loopback port with responses scripted by tests of the command line."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, slots=True)
class Request:
    """A received request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, object]:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Reply:
    """A response: each of `chunks` is written and flushed separately.

    `cut`: the connection is closed in the middle, instead of at the end of the body.
    """

    status: int = 200
    content_type: str = "application/json"
    chunks: Iterable[bytes] = ()
    headers: dict[str, str] = field(default_factory=dict[str, str])
    cut: bool = False


Handler = Callable[[Request], Reply]


def reply_json(value: object, status: int = 200) -> Reply:
    return Reply(status, chunks=(json.dumps(value).encode(),))


def reply_problem(status: int, title: str, **members: object) -> Reply:
    body = {"type": "about:blank", "title": title, "status": status, **members}
    return Reply(status, "application/problem+json", (json.dumps(body).encode(),))


def frame(event: str, data: object) -> bytes:
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def reply_events(*frames: bytes, cut: bool = False) -> Reply:
    return Reply(content_type="text/event-stream", chunks=frames, cut=cut)


class FakeGateway:
    """Routes are added with `on`; a request that matches no route gets 404."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
        self._routes: list[tuple[str, re.Pattern[str], Handler]] = []
        self._lock = threading.Lock()
        self.requests: list[Request] = []
        self.gone = threading.Event()
        """Set when a client has disconnected before its response was complete."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def on(self, method: str, path: str, answer: Handler | Reply) -> None:
        """Answers `method` on paths that match `path` (a regular expression); the latest route wins."""
        handler: Handler = answer if callable(answer) else lambda _request: answer
        self._routes.insert(0, (method, re.compile(path), handler))

    def answer(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
        for method, path, handler in self._routes:
            if method == request.method and path.fullmatch(request.path):
                return handler(request)
        return reply_problem(404, "Not found", detail=f"no {request.method} {request.path} here", reason="NOT_FOUND")

    def answer_of(self, method: str, path: str) -> Handler:
        """The current handler, for a test that wraps it."""
        return next(handler for known, pattern, handler in self._routes if known == method and pattern.fullmatch(path))

    def received(self, method: str, path: str) -> list[Request]:
        pattern = re.compile(path)
        with self._lock:
            return [r for r in self.requests if r.method == method and pattern.fullmatch(r.path)]


@contextmanager
def fake_gateway() -> Generator[FakeGateway]:
    class Connection(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # an answer in several pieces would wait 40 ms for the first one's receipt

        def handle_any(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(length) if length else self._chunked()
            if len(body) < length:
                self.close_connection = True  # the client went away before the end
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, parts.path, dict(parse_qsl(parts.query)), headers, body)
            self._write(gateway.answer(request))

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815 # the names that http.server calls

        def log_message(self, format: str, *args: object) -> None:
            del format, args

        def _chunked(self) -> bytes:
            if self.headers.get("transfer-encoding", "").lower() != "chunked":
                return b""
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def _write(self, reply: Reply) -> None:
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            if reply.status == HTTPStatus.NO_CONTENT:
                self.end_headers()
                return
            self.send_header("Transfer-Encoding", "chunked")
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for chunk in reply.chunks:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                    self.wfile.flush()
                if not reply.cut:
                    self.wfile.write(b"0\r\n\r\n")
            except OSError:
                gateway.gone.set()
                self.close_connection = True
            if reply.cut:
                self.close_connection = True

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            if not isinstance(sys.exception(), ConnectionError):  # a disconnected client isn't an error
                super().handle_error(request, client_address)  # pyright: ignore[reportArgumentType] # socket types

    server = Server(("127.0.0.1", 0), Connection)
    server.daemon_threads = True
    gateway = FakeGateway(server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield gateway
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
