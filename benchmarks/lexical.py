"""Value and cost of the lexical leg: nDCG@10 and time per search compared with plain ts_rank_cd; and the fusion.

SciFact, XQuAD in English and Spanish, and SQuAD's paragraphs, each as one organisation's library, one chunk per text.
Searches use the retriever's own service and store, one after another. `--dense` also embeds the texts (minutes)
and adds the dense leg and both fusions: by scores with trust, and by ranks. `--rerank` adds the local reranker for
the best 40 of the fusion by scores, with their scores. `--large N` adds an organisation of N chunks and times
searches in it.

Usage: python -m benchmarks.lexical [--sets NAME …] [--dense] [--rerank] [--queries N] [--large N]; the data is expected
beside the repository.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import hashlib
import itertools
import json
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from benchmarks.extractive_data import embed
from benchmarks.tables import describe_machine, format_table
from citewire_embedder.providers.base import Precision
from citewire_embedder.providers.late_interaction import LateInteraction
from citewire_embedder.providers.model_directory import BUILT_IN, find_model, read_directory
from citewire_embedder.providers.openvino_session import available_cpus
from citewire_kit.migrate import migrate
from citewire_kit.postgres import open_pool
from citewire_kit.tenant import Tenant
from citewire_retriever.lexical import weigh_chunk
from citewire_retriever.model import Scope, SearchMode, SearchQuery, Space
from citewire_retriever.service.retrieval import RetrievalService
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.store.vectors import sparse_vector
from citewire_retriever.tuning import SearchTuning
from corpus_rows import COUNT_ACCESSES
from embedded_postgres import EmbeddedPostgres, start_embedded_postgres

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SPACE = Space("bench", "1", 384)
DATABASE = "bench"
CANDIDATES = 40
"""Number of results to rerank."""
SPAN = 10_000_000
"""Distance between the ids of organisations' documents and chunks."""


@dataclass(frozen=True, slots=True)
class Library:
    """Texts, questions, and the grades of texts for each question."""

    name: str
    texts: Mapping[str, str]
    questions: Mapping[str, str]
    grades: Mapping[str, Mapping[str, int]]


Ranking = Callable[[str, bytes], Awaitable[Sequence[int]]]
"""Indexes of the best ten texts for a question and its vector."""


def main() -> int:
    """Prints the tables; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sets", nargs="+", choices=list(LIBRARIES), default=USUAL, help="default: %(default)s")
    parser.add_argument("--dense", action="store_true", help="also the dense leg and the fusion")
    parser.add_argument("--rerank", action="store_true", help="also the local reranker; with --dense")
    parser.add_argument("--queries", type=int, default=1200, help="questions of each set at most")
    parser.add_argument("--large", type=int, default=0, help="chunks of one more organisation")
    options = parser.parse_args()
    if options.rerank and not options.dense:
        parser.error("--rerank reranks what --dense finds")
    print(describe_machine(), flush=True)
    settings = {"shared_buffers": "512MB", "maintenance_work_mem": "512MB"}
    with start_embedded_postgres(settings=settings) as server:
        server.create_database(DATABASE)
        asyncio.run(migrate(server.dsn(database=DATABASE), schema="corpus", package="citewire_retriever"))
        libraries = [_cut(LIBRARIES[name](name), options.queries) for name in options.sets]
        asyncio.run(_measure(server, libraries, dense=options.dense, rerank=options.rerank, large=options.large))
    return 0


async def _measure(
    server: EmbeddedPostgres, libraries: Sequence[Library], *, dense: bool, rerank: bool, large: int
) -> None:
    table: list[list[object]] = []
    for number, library in enumerate(libraries):
        vectors = await asyncio.to_thread(embed, list(library.texts.values())) if dense else None
        _put(server, number, library.name, list(library.texts.values()), vectors)
        none = np.zeros((len(library.questions), 1), np.float32)
        asked = await asyncio.to_thread(embed, list(library.questions.values())) if dense else none
        async with AsyncExitStack() as stack:
            reranker = await stack.enter_async_context(_late_interaction()) if rerank else None
            ways = await _ways(stack, server, number, library.name, dense=dense, reranker=reranker)
            for way, ranking in ways.items():
                table.append([library.name, way, *(await _score(library, asked, ranking))])
                print(f"  {library.name}, {way}: nDCG@10 {table[-1][2]}", flush=True)
    print("\n" + format_table(["set", "way", "nDCG@10", "p50 ms", "p95 ms"], table), flush=True)
    if large:
        texts = list(
            itertools.islice(
                itertools.cycle(itertools.chain(*(library.texts.values() for library in libraries))), large
            )
        )
        _put(server, len(libraries), "large", texts, None)
        some = _cut(libraries[0], 100)
        async with AsyncExitStack() as stack:
            ways = await _ways(stack, server, len(libraries), "large", dense=False, reranker=None)
            rows = [[way, *(await _score(some, np.zeros((100, 1)), ranking))[1:]] for way, ranking in ways.items()]
        print("\n" + format_table([f"{large:,} chunks of one organisation", "p50 ms", "p95 ms"], rows), flush=True)


async def _ways(
    stack: AsyncExitStack,
    server: EmbeddedPostgres,
    number: int,
    org: str,
    *,
    dense: bool,
    reranker: LateInteraction | None,
) -> dict[str, Ranking]:
    pool = await open_pool(server.dsn("citewire_corpus", DATABASE), max_size=1, name="bench")
    stack.push_async_callback(pool.close)
    service = RetrievalService(PostgresSearch(pool, SearchTuning()))
    owner = await psycopg.AsyncConnection.connect(server.dsn(database=DATABASE), autocommit=True)
    stack.push_async_callback(owner.close)
    everything = SearchQuery(Scope(), mode=SearchMode.LEXICAL, top_k=10)

    def through_service(query: SearchQuery) -> Ranking:
        async def rank(question: str, vector: bytes) -> Sequence[int]:
            asked = replace(query, text=question, vector=vector if query.space else b"")
            response = await service.search(Tenant(org, "user", "pro"), asked)
            return [result.chunk.chunk_id - number * SPAN for result in response.results]

        return rank

    async def reranked(question: str, vector: bytes) -> Sequence[int]:
        assert reranker is not None
        asked = replace(everything, mode=SearchMode.HYBRID, space=SPACE, text=question, vector=vector, top_k=CANDIDATES)
        results = (await service.search(Tenant(org, "user", "pro"), asked)).results
        first = [result.rank_score for result in results]
        ranking = await reranker.rerank(question, [result.chunk.text for result in results], 10, first)
        return [results[entry.index].chunk.chunk_id - number * SPAN for entry in ranking.ranked]

    async def plain(question: str, _vector: bytes) -> Sequence[int]:
        cursor = await owner.execute(
            "WITH asked AS (SELECT replace(plainto_tsquery('english', %s)::text, '&', '|')::tsquery AS q)"
            " SELECT chunk_id FROM bench_words, asked WHERE org_id = %s AND words @@ q"
            " ORDER BY ts_rank_cd(words, q, 1) DESC, chunk_id LIMIT 10",
            (question, org),
        )
        return [int(row[0]) - number * SPAN for row in await cursor.fetchall()]

    ways: dict[str, Ranking] = {"ts_rank_cd": plain, "lexical": through_service(everything)}
    if dense:
        ways["dense"] = through_service(replace(everything, mode=SearchMode.DENSE, space=SPACE))
        hybrid = replace(everything, mode=SearchMode.HYBRID, space=SPACE)
        ways["hybrid by rank"] = through_service(replace(hybrid, fuse_by_rank=True))
        ways["hybrid"] = through_service(hybrid)
    if reranker is not None:
        ways["hybrid, reranked"] = reranked
    return ways


async def _score(library: Library, vectors: Any, ranking: Ranking) -> tuple[str, float, float]:  # noqa: ANN401 # an array of numpy, which has no closer type here
    names = list(library.texts)
    gains: list[float] = []
    times: list[float] = []
    for (key, question), vector in zip(library.questions.items(), vectors, strict=True):
        start = time.perf_counter()
        places = await ranking(question, np.asarray(vector, "<f4").tobytes())
        times.append((time.perf_counter() - start) * 1000)
        grades = library.grades[key]
        results = [grades.get(names[place], 0) if place < len(names) else 0 for place in places]
        gains.append(_dcg(results) / _dcg(sorted(grades.values(), reverse=True)[:10]))
    return f"{np.mean(gains):.4f}", round(float(np.median(times)), 1), round(float(np.percentile(times, 95)), 1)


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains))


def _put(server: EmbeddedPostgres, number: int, org: str, texts: Sequence[str], vectors: Any) -> None:  # noqa: ANN401 # an array of numpy, which has no closer type here
    """Stores each text as a document of one chunk with COPY, and the counts that triggers would maintain."""
    first = number * SPAN
    counts: Counter[int] = Counter()
    with psycopg.connect(server.dsn(database=DATABASE)) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("CREATE TABLE IF NOT EXISTS bench_words (org_id text, chunk_id bigint, words tsvector)")
        row = connection.execute(
            "SELECT corpus.ensure_space(%s, %s, %s)", (SPACE.model, SPACE.revision, 384)
        ).fetchone()
        assert row is not None
        connection.execute("INSERT INTO corpus.org_spaces (org_id, live_space_id) VALUES (%s, %s)", (org, row[0]))
        connection.execute(
            "INSERT INTO corpus.documents (org_id, document_id, owner, type, title, title_given, live_version,"
            " live_chunks) SELECT %s, %s + n, 'user', 'file', 'T', true, 1, 1 FROM generate_series(0, %s - 1) n",
            (org, first, len(texts)),
        )
        chunks = "corpus.chunks (org_id, chunk_id, document_id, version, chunk_index, text, token_count, content_hash,"
        with connection.cursor().copy(f"COPY {chunks} char_start, char_end) FROM STDIN".encode()) as copy:
            for place, (text, tokens) in enumerate(zip(texts, _count_tokens(texts), strict=True), first):
                digest = hashlib.sha256(text.encode()).digest()
                copy.write_row((org, place, place, 1, 0, text, tokens, digest, 0, len(text)))
        with connection.cursor().copy(
            "COPY corpus.lexical (org_id, chunk_id, document_id, version, terms) FROM STDIN"
        ) as copy:
            for place, text in enumerate(texts, first):
                weights = weigh_chunk(text)
                counts.update((0, *weights))
                copy.write_row((org, place, place, 1, sparse_vector(weights).to_text()))
        with connection.cursor().copy(
            "COPY corpus.term_counts (org_id, term, collection_id, chunks) FROM STDIN"
        ) as copy:
            for term, holding in counts.items():
                copy.write_row((org, term, 0, holding))
        if vectors is not None:
            table = f"corpus.vectors_{row[0]} (org_id, chunk_id, document_id, version, embedding)"
            with connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
                for place, vector in enumerate(vectors, first):
                    copy.write_row((org, place, place, 1, "[" + ",".join(f"{x:.6g}" for x in vector) + "]"))
        connection.execute(
            "INSERT INTO bench_words SELECT org_id, chunk_id, to_tsvector('english', text) FROM corpus.chunks"
            " WHERE org_id = %s",
            (org,),
        )
        connection.execute("CREATE INDEX IF NOT EXISTS bench_words_gin ON bench_words USING gin (words)")
        connection.execute(COUNT_ACCESSES)
    with psycopg.connect(server.dsn(database=DATABASE), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _count_tokens(texts: Sequence[str]) -> list[int]:
    """Counts tokens as in ingest: fusion uses them to determine whether the model knows a language."""
    return read_directory(find_model(BUILT_IN).path).open_tokeniser().count(texts)


@asynccontextmanager
async def _late_interaction() -> AsyncGenerator[LateInteraction]:
    directory = read_directory(find_model(BUILT_IN).path)
    reranker = LateInteraction(BUILT_IN, directory, precision=Precision.FP32, threads=available_cpus())
    try:
        yield reranker
    finally:
        await reranker.close()


def _cut(library: Library, most: int) -> Library:
    """A sample of at most this many questions, spread evenly over the file, as neighbours are about the same text."""
    keys = list(library.questions)
    keys = keys[:: max(1, len(keys) // most)][:most]
    return replace(library, questions={key: library.questions[key] for key in keys})


def _beir(name: str, folder: Path, part: str = "test") -> Library:
    grades: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels" / f"{part}.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, text, grade = line.split("\t")
        grades.setdefault(query, {})[text] = int(grade)
    asked = {row["_id"]: row["text"] for row in _rows(folder, "queries") if row["_id"] in grades}
    texts = {row["_id"]: f"{row.get('title', '')} {row['text']}".strip() for row in _rows(folder, "corpus")}
    return Library(name, texts, asked, grades)


def _rows(folder: Path, name: str) -> list[dict[str, str]]:
    packed = folder / f"{name}.jsonl.gz"
    raw = gzip.decompress(packed.read_bytes()) if packed.is_file() else (folder / f"{name}.jsonl").read_bytes()
    return [json.loads(line) for line in raw.decode("utf-8").splitlines() if line]


def _squad(name: str, path: Path) -> Library:
    texts: dict[str, str] = {}
    asked: dict[str, str] = {}
    grades: dict[str, dict[str, int]] = {}
    for article in json.loads(gzip.decompress(path.read_bytes()))["data"]:
        for paragraph in article["paragraphs"]:
            key = str(len(texts))
            texts[key] = f"{article['title'].replace('_', ' ')} {paragraph['context']}"
            for question in paragraph["qas"]:
                if not question["is_impossible"]:
                    asked[question["id"]] = question["question"]
                    grades[question["id"]] = {key: 1}
    return Library(name, texts, asked, grades)


LIBRARIES: Mapping[str, Callable[[str], Library]] = {
    "SciFact": lambda name: _beir(name, DATA / "retrieval-scifact"),
    "SciFact train": lambda name: _beir(name, DATA / "retrieval-scifact", "train"),
    "XQuAD en": lambda name: _beir(name, DATA / "retrieval-xquad" / "en"),
    "XQuAD es": lambda name: _beir(name, DATA / "retrieval-xquad" / "es"),
    "SQuAD": lambda name: _squad(name, DATA / "qa-squad2" / "squad2-dev-half-a.json.gz"),
}

USUAL = [name for name in LIBRARIES if name != "SciFact train"]


if __name__ == "__main__":
    raise SystemExit(main())
