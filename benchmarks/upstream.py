"""A paced upstream with OpenAI's chat API: for the relay benchmark, and for tests that must see a socket close.

Every token contains its time of writing: `t` + microseconds of the monotonic clock + a space. All processes
of a machine share that clock, so the reader of a token knows its latency.

`python -m benchmarks.upstream --port 0` prints one line, `{"port": …}`, when it is ready, and serves until SIGTERM.
Tests run it in their own loop: `async with Upstream(UpstreamSettings(rate=50)).running() as base_url: …`.

Endpoints: `POST /v1/chat/completions` (streamed or not), `GET /v1/models`, `GET /stats`, and `PATCH /settings` with
fields of `UpstreamSettings`, which apply to later requests.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import re
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import cast

from aiohttp import web

STAMP = re.compile(rb"t(\d{9,}) ")
MODEL = "paced"
PROMPT_CHARACTERS_PER_TOKEN = 4
_TICKS_PER_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """The upstream's behaviour. Tests can assign another one to `Upstream.settings` between requests."""

    rate: float = 50
    """Tokens per second and stream."""
    tokens: int = 200
    """Tokens of an answer; a smaller `max_tokens` of the request wins."""
    first_delay: float = 0
    """Seconds before the first token."""
    phases: int = 0
    """Number of evenly spread moments within `1 / rate` seconds at which streams write, in turn; 0: each from its
    own start. Without it, chance determines how often tokens of several streams coincide, and so the cost of relaying
    them."""
    cut_after: int | None = None
    """Close the socket after this many tokens, without a finish reason: a provider that dies."""
    status: int = 200
    """Answer with this status and an error body instead, if it isn't 200."""
    text: str | None = None
    """Answer with the words of this text instead of stamps."""

    def starts(self, now: float, number: int) -> float:
        """The time for the first token of the `number`-th stream."""
        start = now + self.first_delay
        if not self.phases:
            return start
        phase = number % self.phases / self.phases
        return (math.ceil(start * self.rate - phase) + phase) / self.rate


@dataclass(slots=True)
class UpstreamStats:
    """The counts so far; `GET /stats` returns them as JSON. Times are seconds of the monotonic clock."""

    requests: int = 0
    """Chat requests, streamed or not."""
    open_streams: int = 0
    """Streams being written now."""
    completed_streams: int = 0
    """Streams whose `[DONE]` was written."""
    tokens_sent: int = 0
    """Tokens written in all streams."""
    closed_early: list[float] = field(default_factory=list[float])
    """The time at which the client's socket closed, for each unfinished stream."""


class Upstream:
    """The server. `stats` is live; `wait_closed_early` waits for clients to disconnect."""

    def __init__(self, settings: UpstreamSettings | None = None) -> None:
        self.settings = settings or UpstreamSettings()
        self.stats = UpstreamStats()
        self.last_request: dict[str, object] = {}
        self._left = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def running(self, *, host: str = "127.0.0.1", port: int = 0) -> AsyncGenerator[str]:
        """Serves during the block; yields the base URL, which ends in `/v1`."""
        app = web.Application(client_max_size=32 * 2**20)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/stats", self._stats)
        app.router.add_patch("/settings", self._change)
        # The handler is cancelled when its client disconnects, so a closed socket is noticed immediately.
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.5)
        await runner.setup()
        try:
            site = web.TCPSite(runner, host, port, backlog=1024)
            await site.start()
            address = cast("tuple[str, int]", runner.addresses[0])
            yield f"http://{host}:{address[1]}/v1"
        finally:
            await runner.cleanup()

    async def wait_closed_early(self, count: int = 1) -> list[float]:
        """Waits until `count` clients have disconnected before the end of their streams; returns the times."""
        async with self._left:
            await self._left.wait_for(lambda: len(self.stats.closed_early) >= count)
        return self.stats.closed_early[:]

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "citewire"}]})

    async def _stats(self, _: web.Request) -> web.Response:
        return web.json_response({**asdict(self.stats), "now": time.monotonic()})

    async def _change(self, request: web.Request) -> web.Response:
        self.settings = replace(self.settings, **await request.json())
        return web.json_response(asdict(self.settings))

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.stats.requests += 1
        body = cast("dict[str, object]", await request.json())
        self.last_request = body
        answer = _Answer.plan(self.settings, body)
        if answer.settings.status != 200:
            error = {"message": "the upstream was told to fail", "type": "server_error", "code": None}
            return web.json_response({"error": error}, status=answer.settings.status)
        if body.get("stream"):
            return await self._stream(request, answer)
        await asyncio.sleep(answer.settings.first_delay + answer.count / answer.settings.rate)
        return web.json_response(answer.whole())

    async def _stream(self, request: web.Request, answer: _Answer) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        self.stats.open_streams += 1
        done = False
        try:
            done = await self._write(request, answer)
        finally:
            self.stats.open_streams -= 1
            if done:
                self.stats.completed_streams += 1
            elif answer.settings.cut_after is None:
                await self._note_early_close()
        await response.write_eof()
        return response

    async def _write(self, request: web.Request, answer: _Answer) -> bool:
        """Writes the stream at its pace; False if the client disconnected or the answer was to be cut off."""
        transport = request.transport
        if transport is None:
            return False
        write = _chunk_writer(transport)
        write(answer.opening())
        settings = answer.settings
        # A schedule, not a pause after each token: a late token must not make all the following ones later.
        start = settings.starts(time.monotonic(), self.stats.requests)
        for index in range(answer.count):
            if (pause := start + index / settings.rate - time.monotonic()) > 0:
                await asyncio.sleep(pause)
            if transport.is_closing():
                return False
            if index == settings.cut_after:
                transport.abort()
                return False
            write(answer.token(index))
            self.stats.tokens_sent += 1
        write(answer.ending())
        return True

    async def _note_early_close(self) -> None:
        self.stats.closed_early.append(time.monotonic())
        async with self._left:
            self._left.notify_all()


@dataclass(frozen=True, slots=True)
class _Answer:
    """One planned answer, with the constant parts of its frames already encoded."""

    settings: UpstreamSettings
    identity: dict[str, object]
    words: Sequence[str] | None
    count: int
    prompt_tokens: int
    with_usage: bool
    head: bytes
    tail: bytes

    @staticmethod
    def plan(settings: UpstreamSettings, body: dict[str, object]) -> _Answer:
        words = None if settings.text is None else re.findall(r"\S+\s*", settings.text)
        most = body.get("max_tokens") or body.get("max_completion_tokens")
        count = settings.tokens if words is None else len(words)
        options = cast("dict[str, object]", body.get("stream_options") or {})
        identity: dict[str, object] = {
            "id": "chatcmpl-paced",
            "created": int(time.time()),
            "model": body.get("model", MODEL),
        }
        empty = {**identity, "object": "chat.completion.chunk", "choices": [_delta({"content": "\0"})]}
        head, tail = json.dumps(empty).split('"\\u0000"')
        return _Answer(
            settings=settings,
            identity=identity,
            words=words,
            count=min(count, most) if isinstance(most, int) else count,
            prompt_tokens=len(json.dumps(body.get("messages", ""))) // PROMPT_CHARACTERS_PER_TOKEN,
            with_usage=bool(options.get("include_usage")),
            head=f"data: {head}".encode(),
            tail=f"{tail}\n\n".encode(),
        )

    def opening(self) -> bytes:
        """The first frame, with the role and no text."""
        return self._frame([_delta({"role": "assistant", "content": ""})])

    def token(self, index: int) -> bytes:
        """One token: a word of the text, or the current time."""
        if self.words is not None:
            return self.head + json.dumps(self.words[index]).encode() + self.tail
        return b'%b"t%d "%b' % (self.head, time.monotonic_ns() * _TICKS_PER_SECOND // 10**9, self.tail)

    def ending(self) -> bytes:
        """Finish reason, usage if it was requested, and `[DONE]`."""
        frames = self._frame([{**_delta({}), "finish_reason": "stop"}])
        if self.with_usage:
            frames += self._frame([], usage=self._usage())
        return frames + b"data: [DONE]\n\n"

    def whole(self) -> dict[str, object]:
        """The response to a request without streaming."""
        tokens = self.words[: self.count] if self.words is not None else ["token "] * self.count
        message = {"role": "assistant", "content": "".join(tokens)}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return {**self.identity, "object": "chat.completion", "choices": choices, "usage": self._usage()}

    def _usage(self) -> dict[str, int]:
        total = self.prompt_tokens + self.count
        return {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.count, "total_tokens": total}

    def _frame(self, choices: Sequence[object], **more: object) -> bytes:
        chunk = {**self.identity, "object": "chat.completion.chunk", "choices": choices, **more}
        return f"data: {json.dumps(chunk)}\n\n".encode()


def _delta(delta: dict[str, str]) -> dict[str, object]:
    return {"index": 0, "delta": delta, "finish_reason": None}


def _chunk_writer(transport: asyncio.Transport) -> Callable[[bytes], None]:
    """Writes HTTP chunks directly to the socket: aiohttp's own writer costs several times the token's relay."""

    def write(data: bytes) -> None:
        transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    return write


async def _serve(settings: UpstreamSettings, host: str, port: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Upstream(settings).running(host=host, port=port) as base_url:
        print(json.dumps({"port": int(base_url.rsplit(":", 1)[1].removesuffix("/v1"))}), flush=True)
        await stop.wait()


def main(arguments: Sequence[str]) -> None:
    """Serves with the given settings until a signal stops it."""
    defaults = UpstreamSettings()
    parser = argparse.ArgumentParser(description="A paced upstream that speaks OpenAI's chat API.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one, printed as JSON (default)")
    parser.add_argument("--rate", type=float, default=defaults.rate, help="tokens per second (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=defaults.tokens, help="tokens per answer (default: %(default)s)")
    parser.add_argument("--first-delay", type=float, default=0, help="seconds before the first token (default: 0)")
    options = parser.parse_args(arguments)
    settings = UpstreamSettings(rate=options.rate, tokens=options.tokens, first_delay=options.first_delay)
    asyncio.run(_serve(settings, options.host, options.port))


if __name__ == "__main__":
    main(sys.argv[1:])
