"""A rerank server on loopback with the formats of real ones: Cohere, Jina, vLLM, Infinity, TEI, LiteLLM."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

from local_http import serving

Server = Literal["cohere", "jina", "vllm", "infinity", "tei", "litellm"]
PATHS: dict[Server, str] = {
    "cohere": "/v2/rerank",
    "jina": "/v1/rerank",
    "vllm": "/v1/rerank",
    "infinity": "/rerank",
    "tei": "/rerank",
    "litellm": "/v1/rerank",
}
TOKENS = 33


@dataclass
class RerankUpstream:
    """Scores a document by the words that it shares with the query."""

    server: Server = "jina"
    port: int = 0
    failures: list[int] = field(default_factory=list[int])
    """Statuses to answer with first, one for each call at the right path; 0 resets the connection."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    answer: object = None
    """Body to send instead of the right one."""
    stall: bool = False
    """Whether it never responds."""
    paths: list[str] = field(default_factory=list[str])
    keys: list[str] = field(default_factory=list[str])
    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    called: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def base(self) -> str:
        """The URL as an operator would write it, normalised."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Any request."""
        self.paths.append(request.path)
        self.called.set()
        self.keys.append(request.headers.get("Authorization", ""))
        if request.path != PATHS[self.server]:
            return web.json_response({"detail": "Not Found"}, status=404)
        if self.stall:
            await asyncio.Event().wait()
        if self.failures:
            return self._failed(request, self.failures.pop(0))
        if self.answer is not None:
            return web.json_response(self.answer)
        body = await request.json()
        self.bodies.append(body)
        return self._tei(body) if self.server == "tei" else self._rerank(body)

    def _failed(self, request: web.Request, status: int) -> web.Response:
        if not status and request.transport is not None:
            request.transport.abort()
        error = {"error": {"message": f"{request.headers.get('Authorization')} said no"}}
        return web.json_response(error, status=status or 500, headers=self.headers)

    def _rerank(self, body: dict[str, Any]) -> web.Response:
        if not isinstance(body.get("documents"), list) or not body.get("model"):
            return web.json_response({"detail": "documents and model are required"}, status=422)
        result = sorted(_scores(body["query"], body["documents"]), key=lambda entry: -entry[1])[: body.get("top_n")]
        results = [{"index": index, "relevance_score": score} for index, score in result]
        answer: dict[str, object] = {"id": "x", "results": results}
        if self.server == "cohere":
            answer["meta"] = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
        elif self.server == "litellm":
            answer["meta"] = {"billed_units": {"total_tokens": TOKENS}, "tokens": {"input_tokens": TOKENS}}
        else:
            answer |= {"model": body["model"], "usage": {"total_tokens": TOKENS}}
        return web.json_response(answer)

    def _tei(self, body: dict[str, Any]) -> web.Response:
        if "texts" not in body:
            return web.Response(text="Failed to deserialize the JSON body: missing field `texts`", status=422)
        texts: list[str] = body["texts"]
        if len(texts) > 32:
            error = {"error": "batch size > maximum allowed batch size 32", "error_type": "Validation"}
            return web.json_response(error, status=422)
        result = sorted(_scores(body["query"], texts), key=lambda entry: -entry[1])
        results = [{"index": index, "score": score} for index, score in result]
        return web.json_response(results, headers={"x-compute-tokens": str(TOKENS)})


@asynccontextmanager
async def rerank_upstream(server: Server = "jina") -> AsyncGenerator[RerankUpstream]:
    """Runs one until the block ends."""
    upstream = RerankUpstream(server)
    app = web.Application()
    app.router.add_post("/{tail:.*}", upstream.handle)
    async with serving(app) as upstream.port:
        yield upstream


def _scores(query: str, documents: list[str]) -> list[tuple[int, float]]:
    words = set(query.split())
    return [(index, len(words & set(text.split())) / len(words)) for index, text in enumerate(documents)]
