"""Whether a rerank keeps its time limit, and its quality within it: the embedder over gRPC, alone and under load.

SciFact's claims; the first ranking is by words (BM25 as in the store) over ingest's chunks, so that
nothing needs to be embedded first; its best 40 documents, by their best chunks, are reranked. Cold means that no token
vectors are cached, warm that those of all chunks are. The last rows have several calls at once, and documents that the
same process embeds without a pause; the time of a question's embedding is measured beside them.

Run it with `python -m benchmarks.rerank_budget [--queries 60]`; the data is expected beside the repository. With a
first ranking by words and meaning, the same is measured by
`citewire eval SET --mode hybrid+rerank --rerank-seconds 0.3`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import os
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from citewire.embedder.v1 import embedder_pb2 as pb
from citewire.embedder.v1.embedder_pb2_grpc import EmbedderServiceStub

from benchmarks.rerank import CANDIDATES, DATA, SETS, Collection, read_collection
from benchmarks.tables import describe_machine, format_table
from citewire_embedder.app import start
from citewire_embedder.providers.model_directory import BUILT_IN, find_model, read_directory
from citewire_embedder.settings import EmbedderSettings
from citewire_kit import client
from citewire_kit.channel import open_channel
from citewire_kit.telemetry import configure_logging
from citewire_ledger import MemoryLedger
from citewire_retriever.ingest.chunker import chunk
from citewire_retriever.ingest.chunks import ChunkRules, embedding_input
from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.parsers.plain import parse_plain
from citewire_retriever.lexical import count_question, weigh_chunk

_ALL_BYTES: Final = 1 << 30
_DEPTHS: Final = (1, 5, 10, 15, 20, 30, CANDIDATES)
_PAUSE: Final = 0.05
"""Seconds between two questions that are embedded at the same time."""
_BULK: Final = 64
"""Texts per batch of the documents that are embedded at the same time."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk of a document."""

    document: str
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A query with the best passages of a first ranking, their scores in it, and the grades of documents."""

    query: str
    passages: Sequence[Passage]
    scores: Sequence[float]
    grades: Mapping[str, int]

    def request(self, seconds: float | None, most: int = CANDIDATES) -> pb.RerankRequest:
        """The gateway's call for a search, with this many candidates."""
        request = pb.RerankRequest(
            query=self.query,
            documents=[passage.text for passage in self.passages[:most]],
            headings=[passage.heading for passage in self.passages[:most]],
            first_scores=self.scores[:most],
        )
        if seconds is not None:
            request.budget.FromMicroseconds(int(seconds * 1e6))
        return request


@dataclass(slots=True)
class Measurements:
    """Times and quality of the calls of one row."""

    seconds: list[float] = field(default_factory=list[float])
    scored: list[int] = field(default_factory=list[int])
    ndcg: list[float] = field(default_factory=list[float])
    cpu: float = 0.0
    """CPU seconds of client and server together."""
    questions: list[float] = field(default_factory=list[float])
    """Seconds of each question embedding during the calls."""
    embedded: int = 0
    """Documents embedded during the calls."""

    def row(self, name: str) -> list[object]:
        """The printed row."""
        p50, p95 = np.quantile(self.seconds, [0.5, 0.95]) * 1000
        questions = np.quantile(self.questions, [0.5, 0.95]) * 1000 if self.questions else (math.nan, math.nan)
        return [
            name,
            float(p50),
            float(p95),
            max(self.seconds) * 1000,
            self.cpu / len(self.seconds) * 1000,
            float(np.mean(self.scored)),
            min(self.scored),
            f"{np.mean(self.ndcg):.4f}",
            *(f"{value:.0f}" if math.isfinite(value) else "" for value in questions),
            self.embedded or "",
        ]


class Bench:
    """An embedder and its client, in one process."""

    def __init__(self, stub: EmbedderServiceStub) -> None:
        self.stub = stub

    async def run(
        self,
        claims: Sequence[Claim],
        seconds: float | None,
        *,
        at_once: int = 1,
        beside: Sequence[str] = (),
        most: int = CANDIDATES,
    ) -> Measurements:
        """Reranks for each claim.

        Args:
            claims: The claims to rerank for.
            seconds: The budget; None for none.
            at_once: Calls in flight.
            beside: Texts to embed repeatedly at the same time, along with questions; nothing if it is empty.
            most: Number of first candidates that are reranked; the others stay behind them.
        """
        result, todo = Measurements(), iter(claims)

        async def work() -> None:
            for claim in todo:
                begin = time.perf_counter()
                response = await client.unary(self.stub.Rerank, claim.request(seconds, most), timeout=60)
                result.seconds.append(time.perf_counter() - begin)
                result.scored.append(response.scored)
                order = [ranked.index for ranked in response.results]
                result.ndcg.append(ndcg(claim, [*order, *range(len(order), len(claim.passages))]))

        async with self._embedding(beside, result):
            questions = asyncio.create_task(self._embed_questions(claims, result)) if beside else None
            cpu = time.process_time()
            await asyncio.gather(*(work() for _ in range(at_once)))
            result.cpu = time.process_time() - cpu
            if questions is not None:
                questions.cancel()
                await asyncio.gather(questions, return_exceptions=True)
        return result

    async def embed_questions(self, claims: Sequence[Claim], count: int, beside: Sequence[str] = ()) -> str:
        """Returns the time for embedding questions while nothing is reranked."""
        result = Measurements()
        async with self._embedding(beside, result):
            await self._embed_questions(claims, result, count)
        p50, p95 = np.quantile(result.questions, [0.5, 0.95]) * 1000
        return f"median {p50:.0f} ms, p95 {p95:.0f} ms"

    @asynccontextmanager
    async def _embedding(self, texts: Sequence[str], result: Measurements) -> AsyncGenerator[None]:
        task = asyncio.create_task(self._embed_documents(texts, result)) if texts else None
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _embed_documents(self, texts: Sequence[str], result: Measurements) -> None:
        async def batches() -> AsyncGenerator[pb.EmbedStreamRequest]:
            for number in itertools.count():
                inputs = [texts[(number * _BULK + place) % len(texts)] for place in range(_BULK)]
                yield pb.EmbedStreamRequest(batch_id=number, batch=pb.EmbedRequest(inputs=inputs))

        call = self.stub.EmbedStream(batches())
        try:
            async for response in call:
                result.embedded += len(response.batch.token_counts)
        finally:
            call.cancel()

    async def _embed_questions(self, claims: Sequence[Claim], result: Measurements, count: int | None = None) -> None:
        for number in itertools.count() if count is None else range(count):
            query = f"{claims[number % len(claims)].query} {number}"  # a unique question, so that none is in the cache
            begin = time.perf_counter()
            request = pb.EmbedRequest(inputs=[query], purpose=pb.PURPOSE_QUERY)
            await client.unary(self.stub.Embed, request, timeout=60)
            result.questions.append(time.perf_counter() - begin)
            await asyncio.sleep(_PAUSE)


async def main() -> int:
    """Prints the tables; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=60, help="claims of each row (default 60)")
    parser.add_argument("--rows", default="", help="only rows whose name contains this; `none` for no row")
    arguments = parser.parse_args()
    folder, only = DATA / SETS["SciFact"], str(arguments.rows)
    if not folder.is_dir():
        print(f"nothing measured: {folder} isn't there", file=sys.stderr)
        return 0
    configure_logging("benchmark", level="WARNING", log_format="console", stream=sys.stderr)
    collection = read_collection(folder, int(arguments.queries))
    passages = await cut(collection)
    claims = rank_by_words(collection, passages)
    beside = [embedding_input(passage.heading, passage.text) for passage in passages[:640]]
    rows: list[list[object]] = []

    async def measure(bench: Bench, name: str, seconds: float | None, **options: Any) -> None:  # noqa: ANN401 # arguments of `run`
        if only in name:
            rows.append((await bench.run(claims, seconds, **options)).row(name))
            print(f"{name}: load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)

    async with embedder(cache_bytes=0) as bench:
        await bench.run(claims[:3], None)  # builds the model
        alone = await bench.embed_questions(claims, 40)
        busy = await bench.embed_questions(claims, 40, beside)
        await measure(bench, "cold, 3 s", 3.0)
        await measure(bench, "cold, 300 ms", 0.3)
        await measure(bench, "cold, 300 ms, 4 calls at once", 0.3, at_once=4)
        await measure(bench, "cold, 300 ms, 16 calls at once", 0.3, at_once=16)
        await measure(bench, "cold, 300 ms, 4 calls at once, embedding beside", 0.3, at_once=4, beside=beside)
    depths: list[list[object]] = []
    async with embedder(cache_bytes=_ALL_BYTES) as bench:
        cold = await bench.run(claims, None)
        for most in _DEPTHS:
            warm = await bench.run(claims, None, most=most)
            cost = [cold.cpu / len(claims) / CANDIDATES * most * 1000, warm.cpu / len(claims) * 1000]
            depths.append([most, f"{np.mean(warm.ndcg):.4f}", *cost])
        await measure(bench, "warm, 300 ms", 0.3)
        await measure(bench, "warm, 300 ms, 4 calls at once, embedding beside", 0.3, at_once=4, beside=beside)
    first = float(np.mean([ndcg(claim, range(len(claim.passages))) for claim in claims]))
    print(f"{describe_machine()}, load {os.getloadavg()[0]:.1f}\n")
    print(f"{len(claims)} claims, nDCG@10 of the first ranking {first:.4f}")
    print(f"a question's embedding without reranks: {alone}; beside documents: {busy}\n")
    headings = ["rerank of 40", "median ms", "p95 ms", "longest ms", "CPU ms", "ranked", "fewest", "nDCG@10"]
    print(format_table([*headings, "question ms", "p95", "embedded"], rows))
    print("\nWhatever the time, if only the first so many are ranked:\n")
    print(format_table(["ranked", "nDCG@10", "CPU ms cold", "CPU ms warm"], depths))
    return 0


@asynccontextmanager
async def embedder(*, cache_bytes: int) -> AsyncGenerator[Bench]:
    """An embedder with default settings except for the cache."""
    settings = EmbedderSettings.model_validate(
        {"port": 0, "metrics_port": 0, "auth": "off", "drain_seconds": 1, "leave_seconds": 0}
        | {"rerank_cache_bytes": cache_bytes}
    )
    async with AsyncExitStack() as stack:
        server = await start(stack, settings, ledger=MemoryLedger())
        stack.push_async_callback(server.drain_and_stop)
        channel = open_channel(f"127.0.0.1:{server.port}")
        stack.push_async_callback(channel.close)
        yield Bench(EmbedderServiceStub(channel))


async def cut(collection: Collection) -> list[Passage]:
    """Splits the documents like ingest."""
    directory = read_directory(find_model(BUILT_IN).path)
    tokeniser = directory.open_tokeniser()
    rules = ChunkRules(max_tokens=directory.max_tokens - tokeniser.extra_tokens)

    async def count(texts: Sequence[str]) -> list[int]:
        return tokeniser.count(texts)

    passages: list[Passage] = []
    for document, title in collection.titles.items():
        text = collection.texts[document].removeprefix(title).strip()
        chunks = await chunk(parse_plain(text, ParseLimits()), title or document, rules, count)
        passages += [Passage(document, chunk.header, chunk.text) for chunk in chunks]
    return passages


def rank_by_words(collection: Collection, passages: Sequence[Passage]) -> list[Claim]:
    """Ranks documents by their best chunk; scores are relative to a text with all words of the claim."""
    rows: dict[int, list[tuple[int, float]]] = {}
    for place, passage in enumerate(passages):
        for term, weight in weigh_chunk(embedding_input(passage.heading, passage.text)).items():
            rows.setdefault(term, []).append((place, weight))
    claims: list[Claim] = []
    for number, query in collection.queries.items():
        scores, ideal = np.zeros(len(passages)), 0.0
        for term, count in count_question(query).items():
            row = rows.get(term, [])
            rarity = count * math.log1p((len(passages) - len(row) + 0.5) / (len(row) + 0.5))
            ideal += rarity
            for place, weight in row:
                scores[place] += rarity * weight
        best: dict[str, int] = {}
        order: list[int] = np.argsort(-scores, kind="stable").tolist()
        for place in order:
            best.setdefault(passages[place].document, place)
            if len(best) == CANDIDATES:
                break
        shares = [float(scores[place]) / max(ideal, 1e-9) for place in best.values()]
        claims.append(Claim(query, [passages[place] for place in best.values()], shares, collection.grades[number]))
    return claims


def ndcg(claim: Claim, order: Sequence[int]) -> float:
    """nDCG@10 of the claim's passages in a given order."""
    grades = [claim.grades.get(claim.passages[index].document, 0) for index in order][:10]
    ideal = sorted(claim.grades.values(), reverse=True)[:10]
    return _dcg(grades) / _dcg(ideal)


def _dcg(grades: Sequence[int]) -> float:
    return sum(grade / math.log2(rank + 2) for rank, grade in enumerate(grades))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
