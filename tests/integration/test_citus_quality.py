"""SciFact's questions have the same results on a cluster and on one Postgres: ids, scores, recall and nDCG."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ir_measures
import psycopg
import pytest
from citewire.common.v1.place_pb2 import Place

from citewire_kit.postgres import open_pool
from citewire_retriever.ingest.chunks import Chunk
from citewire_retriever.ingest.model import Publication, Published
from citewire_retriever.model import Scope, SearchMode, SearchQuery, Space
from citewire_retriever.service.retrieval import RetrievalService
from citewire_retriever.store.filter_sql import VISIBLE
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.tuning import SearchTuning
from hashed_words import DIMENSIONS, embed
from ingest_harness import ACME, IngestHarness

if TYPE_CHECKING:
    from databases import Database
    from proof_scale import PrintTable, ProofScale

SPACE = Space("hashed-words", "r1", DIMENSIONS)
TEXTS_PER_DOCUMENT = 25
"""Texts per document; each is a chunk."""
MEASURES = ("R@10", "nDCG@10")
WAYS = {
    "exact": SearchTuning(),
    "by the indexes": SearchTuning(exact_chunks=0, exact_chunks_per_candidate=0, lexical_scan_chunks=0),
}
Ranking = list[tuple[int, float, float, float]]
"""Chunk ids, best first, each with rank score, vector score and lexical score."""


@dataclass(frozen=True, slots=True)
class JudgedTexts:
    """Texts, questions, and the texts that answer each question."""

    texts: list[str]
    questions: dict[str, str]
    relevant: dict[str, set[int]]
    """Indexes of texts by question."""


@pytest.fixture(scope="module")
def judged_texts(shared_data: Path, proof: ProofScale) -> JudgedTexts:
    """Questions with all texts that answer them, filled up with other texts."""
    folder = shared_data / "retrieval-scifact"
    rows = [json.loads(line) for line in gzip.decompress((folder / "corpus.jsonl.gz").read_bytes()).splitlines()]
    grades: dict[str, set[str]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        question, text, grade = line.split("\t")
        if int(grade) > 0:
            grades.setdefault(question, set()).add(text)
    asked = dict(list(grades.items())[: proof.pick(scaled_down=40, full=300)])
    answering = set[str]().union(*asked.values())
    others = [row["_id"] for row in rows if row["_id"] not in answering]
    selected: set[str] = answering | set(others[: proof.pick(scaled_down=300, full=len(rows)) - len(answering)])
    rows = [row for row in rows if row["_id"] in selected]
    places = {row["_id"]: place for place, row in enumerate(rows)}
    texts = {
        str(row["_id"]): str(row["text"])
        for row in map(json.loads, (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines())
    }
    return JudgedTexts(
        [f"{row['title']} {row['text']}" for row in rows],
        {question: texts[question] for question in asked},
        {question: {places[text] for text in answers} for question, answers in asked.items()},
    )


def share_id_key(source: Database, target: Database) -> None:
    """Gives both databases the same key for ids, which decide the order of equal scores."""
    with psycopg.connect(source.owner_dsn) as connection:
        row = connection.execute("SELECT pg_get_functiondef('corpus.hidden_id(regclass)'::regprocedure)").fetchone()
    assert row is not None
    with psycopg.connect(target.owner_dsn) as connection:
        connection.execute(row[0])


async def put(database: Database, texts: Sequence[str]) -> dict[int, int]:
    """Uploads, claims and publishes the texts; returns their indexes by chunk id."""
    places: dict[int, int] = {}
    async with IngestHarness.open(database) as harness:
        worker = harness.worker
        for start in range(0, len(texts), TEXTS_PER_DOCUMENT):
            part = texts[start : start + TEXTS_PER_DOCUMENT]
            document_id = await harness.upload(f"{start}.txt", "\n".join(part))
            job = await worker.claim("ingest", worker="test", lease_seconds=600)
            assert job is not None
            await worker.begin(job)
            table = await worker.ensure_space(SPACE)
            await worker.save_text(job, "\n".join(part))
            await worker.stage(
                job, table, [chunk(index, text) for index, text in enumerate(part)], embed(part), len(part)
            )
            made = Publication(None, "text/plain", None, len(part), 100, table, keep_seconds=3600)
            assert await worker.publish(job, made) is Published.LIVE
            places |= {row["chunk_id"]: start + row["chunk_index"] for row in await harness.chunks(document_id)}
        await harness.owner.execute("ANALYZE corpus.documents, corpus.chunks, corpus.lexical, corpus.versions")
    return places


def chunk(index: int, text: str) -> Chunk:
    return Chunk(
        index=index,
        text=text,
        token_count=len(text.split()),
        content_hash=hashlib.sha256(text.encode()).digest(),
        section="",
        place=Place(start_line=index + 1, end_line=index + 1),
        char_start=0,
        char_end=len(text),
        verbatim=False,
        header="",
    )


async def ask(database: Database, questions: Mapping[str, str]) -> dict[str, dict[str, Ranking]]:
    """Returns the rankings of each mode and way by question."""
    results: dict[str, dict[str, Ranking]] = {}
    pool = await open_pool(database.dsn("citewire_corpus"), max_size=1, name="test", resolved=VISIBLE)
    async with pool:
        for way, tuning in WAYS.items():
            retrieval = RetrievalService(PostgresSearch(pool, tuning))
            for mode in SearchMode:
                rankings = results[f"{mode.value}, {way}"] = {}
                for key, text in questions.items():
                    query = SearchQuery(
                        Scope(), embed([text])[0].astype("<f4").tobytes(), SPACE, text, mode, exact=way == "exact"
                    )
                    response = await retrieval.search(ACME, query)
                    rankings[key] = [
                        (result.chunk.chunk_id, result.rank_score, result.score, result.lexical_score)
                        for result in response.results
                    ]
    return results


def measure(rankings: dict[str, Ranking], places: Mapping[int, int], relevant: dict[str, set[int]]) -> dict[str, float]:
    """Returns the measures' means over all questions."""
    qrels = [
        ir_measures.Qrel(question, str(place), 1) for question, answers in relevant.items() for place in sorted(answers)
    ]
    run: list[Any] = []
    for question, ranking in rankings.items():
        run += [
            ir_measures.ScoredDoc(question, str(places[chunk_id]), float(-rank))
            for rank, (chunk_id, *_) in enumerate(ranking)
        ]
    measures = [ir_measures.parse_measure(name) for name in MEASURES]
    values = ir_measures.calc_aggregate(measures, qrels, run)  # pyright: ignore[reportUnknownMemberType] # untyped there
    return {str(metric): float(value) for metric, value in values.items()}


@pytest.mark.timeout(1800)
async def test_quality_is_the_same_as_on_one_postgres(
    plain_database: Database, citus_database: Database, judged_texts: JudgedTexts, print_table: PrintTable
) -> None:
    share_id_key(plain_database, citus_database)
    places = await put(plain_database, judged_texts.texts)
    assert await put(citus_database, judged_texts.texts) == places
    plain = await ask(plain_database, judged_texts.questions)
    spread = await ask(citus_database, judged_texts.questions)
    rows: list[tuple[str, ...]] = []
    for name in plain:
        expected, measured = (measure(rankings[name], places, judged_texts.relevant) for rankings in (plain, spread))
        rows.append((name, *(f"{values[key]:.4f}" for key in MEASURES for values in (expected, measured))))
        if "exact" in name:
            assert spread[name] == plain[name], name
        for key in MEASURES:
            assert measured[key] == pytest.approx(expected[key], abs=0 if "exact" in name else 0.01), (name, key)
            assert expected[key] > 0.3, (name, key)  # lower values would prove nothing
    headings = ("search", *(f"{key}, {where}" for key in MEASURES for where in ("one Postgres", "cluster")))
    print_table(f"SciFact, {len(judged_texts.texts)} texts, {len(judged_texts.questions)} questions", headings, rows)
