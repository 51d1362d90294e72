"""A model provider on loopback that requires a key, and leaks it wherever it can."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from aiohttp import web

from local_http import serving

DIMENSIONS = 8


@dataclass
class KeyedUpstream:
    """Serves chat completions and embeddings in OpenAI's format, and rerank in Jina's.

    It echoes a wrong or rejected key.
    """

    key: str
    port: int = 0
    status: int = 200
    """The answer to callers with the right key."""
    answer: str = "Refunds take five days [1]."
    calls: list[str] = field(default_factory=list[str])
    keys: list[str] = field(default_factory=list[str])
    hold: asyncio.Event | None = None

    @property
    def base(self) -> str:
        """The base URL as a tenant would write it."""
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Any request."""
        self.calls.append(request.path)
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.keys.append(given)
        body = await request.json()
        if given != self.key or self.status != 200:
            status = 401 if given != self.key else self.status
            message = f"the key {given} at {request.url} was refused"
            return web.json_response({"error": {"message": message, "code": given, "type": given}}, status=status)
        if request.path.endswith("/embeddings"):
            return self._embeddings(body)
        if request.path.endswith("/rerank"):
            results = [{"index": index, "relevance_score": 0.5} for index in range(len(body["documents"]))]
            return web.json_response({"results": results, "usage": {"total_tokens": 5}})
        return await self._chat(request, body)

    async def _chat(self, request: web.Request, body: dict[str, object]) -> web.StreamResponse:
        usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
        if not body.get("stream"):
            message = {"role": "assistant", "content": self.answer}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return web.json_response({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for word in self.answer.split(" "):
            if self.hold is not None:
                await self.hold.wait()
            await _send(response, _choice({"content": f"{word} "}))
        await _send(response, _choice({}, "stop"))
        await _send(response, {"choices": [], "usage": usage})
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    def _embeddings(self, body: dict[str, object]) -> web.Response:
        texts = cast("list[str]", body["input"]) if isinstance(body["input"], list) else [""]
        vector = [1.0 / DIMENSIONS**0.5] * DIMENSIONS
        packed = base64.b64encode(struct.pack(f"<{DIMENSIONS}f", *vector)).decode()
        value: object = packed if body.get("encoding_format") == "base64" else vector
        data = [{"object": "embedding", "index": index, "embedding": value} for index in range(len(texts))]
        usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        return web.json_response({"object": "list", "data": data, "model": body["model"], "usage": usage})


@asynccontextmanager
async def keyed_upstream(key: str) -> AsyncGenerator[KeyedUpstream]:
    """Runs one until the block ends."""
    upstream = KeyedUpstream(key)
    app = web.Application()
    app.router.add_post("/{tail:.*}", upstream.handle)
    async with serving(app) as upstream.port:
        yield upstream


def _choice(delta: dict[str, str], finish: str | None = None) -> object:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


async def _send(response: web.StreamResponse, event: object) -> None:
    await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
