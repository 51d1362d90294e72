"""An embedder and a retriever that always return the same answer immediately, so that only the relay is measured.

`python -m benchmarks.relay_services` prints `{"port": …}` when it is ready, and serves until SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import struct
import time

import grpc.aio
from citewire.common.v1.common_pb2 import EmbeddingSpace
from citewire.embedder.v1.embedder_pb2 import EmbeddingUsage, EmbedRequest, EmbedResponse
from citewire.retriever.v1.retriever_pb2 import (
    Chunk,
    ContextPath,
    PlanRequest,
    PlanResponse,
    ScopeCounts,
    SearchRequest,
    SearchResponse,
    SearchResult,
)
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

SPACE = EmbeddingSpace(model="all-MiniLM-L6-v2", revision="benchmark", dimensions=4)
VECTOR = struct.pack("<4f", 0.5, 0.5, 0.5, 0.5)
PASSAGES = 5
EMBEDDER, RETRIEVER = "citewire.embedder.v1.EmbedderService", "citewire.retriever.v1.RetrieverService"
# Placed before the first passage: the time of retrieval in microseconds of the monotonic clock, like the stamps.
FOUND_STAMP = re.compile(rb"found at (\d{9,}) ")
TEXT = "The paced upstream says at which time it wrote each token, and nothing else. " * 10


async def _embed(request: EmbedRequest, _: object) -> EmbedResponse:
    count = len(request.inputs)
    usage = EmbeddingUsage(input_tokens=8 * count)
    return EmbedResponse(vectors=VECTOR * count, space=SPACE, usage=usage, token_counts=[8] * count)


async def _plan(_: PlanRequest, __: object) -> PlanResponse:
    counts = ScopeCounts(items=1, kept=1, chunks=PASSAGES)
    return PlanResponse(path=ContextPath.CONTEXT_PATH_SEMANTIC, reason="a benchmark", counts=counts, space=SPACE)


async def _search(_: SearchRequest, __: object) -> SearchResponse:
    result = f"found at {time.monotonic_ns() // 1000} "
    results = [
        SearchResult(chunk=_chunk(index, result), rank_score=0.9 - index / 100, score=0.9 - index / 100)
        for index in range(PASSAGES)
    ]
    return SearchResponse(results=results, exact=True, space=SPACE)


async def _check(_: HealthCheckRequest, __: object) -> HealthCheckResponse:
    return HealthCheckResponse(status=HealthCheckResponse.SERVING)


def _chunk(index: int, stamp: str) -> Chunk:
    text = stamp + TEXT
    chunk = Chunk(chunk_id=index + 1, document_id=1, version=1, chunk_index=index, text=text, token_count=150)
    chunk.title, chunk.file_name, chunk.type, chunk.live = "Paced", "paced.md", "file", True
    chunk.verbatim = True  # as running text is: for others, a chat asks whether the answer is computed from a table
    return chunk


def _handlers() -> list[grpc.GenericRpcHandler]:
    return [
        grpc.method_handlers_generic_handler(
            "grpc.health.v1.Health",
            {
                "Check": grpc.unary_unary_rpc_method_handler(
                    _check, HealthCheckRequest.FromString, HealthCheckResponse.SerializeToString
                )
            },
        ),
        grpc.method_handlers_generic_handler(
            EMBEDDER,
            {
                "Embed": grpc.unary_unary_rpc_method_handler(
                    _embed, EmbedRequest.FromString, EmbedResponse.SerializeToString
                )
            },
        ),
        grpc.method_handlers_generic_handler(
            RETRIEVER,
            {
                "Plan": grpc.unary_unary_rpc_method_handler(
                    _plan, PlanRequest.FromString, PlanResponse.SerializeToString
                ),
                "Search": grpc.unary_unary_rpc_method_handler(
                    _search, SearchRequest.FromString, SearchResponse.SerializeToString
                ),
            },
        ),
    ]


async def main() -> None:
    """Serves both until a signal stops it."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(_handlers())
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(json.dumps({"port": port}), flush=True)
    await stop.wait()
    await server.stop(grace=None)


if __name__ == "__main__":
    asyncio.run(main())
