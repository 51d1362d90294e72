"""The backfill of missing vectors: in the background, after all other work."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Generator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import numpy as np
import pytest
from citewire.retriever.v1.retriever_pb2 import (
    CONTEXT_PATH_LONG_CONTEXT_FALLBACK,
    CONTEXT_PATH_SEMANTIC,
    PlanResponse,
)
from structlog.testing import capture_logs

from citewire_kit.errors import CitewireError, FailedPrecondition, Unavailable
from citewire_kit.postgres import open_pool
from citewire_kit.tenant import Tenant
from citewire_retriever.headings import heading
from citewire_retriever.ingest.chunks import embedding_input
from citewire_retriever.ingest.embedder_client import GrpcEmbedder
from citewire_retriever.ingest.model import ModelWindow, OwnEmbedding
from citewire_retriever.lexical import weigh_chunk
from citewire_retriever.model import Scope, Strategy
from citewire_retriever.service.retrieval import RetrievalService
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.store.spaces import PostgresSpaces
from citewire_retriever.tuning import SearchTuning
from corpus_rows import CorpusRows, NewDocument
from fake_embedding import DIMENSIONS, FakeModel
from ingest_harness import (
    ACME,
    OTHER,
    WINDOW,
    IngestHarness,
    article,
    embedder_address,
    running_worker,
    worker_settings,
)
from second_model import MODEL, SecondModel, embedder_with_two_models, second_model_server
from waiting import wait_until

if TYPE_CHECKING:
    from databases import Database
    from proof_scale import ProofScale

EVERYTHING = Scope(own=False, document_ids=None, collection="", types=(), filter=None)


@pytest.fixture
async def harness(database: Database) -> AsyncIterator[IngestHarness]:
    async with IngestHarness.open(database) as opened:
        yield opened


@pytest.fixture
def rows(database: Database) -> Generator[CorpusRows]:
    """Writes documents as after an import: published, with or without vectors of the embedder's model."""
    with CorpusRows(database.owner_dsn, dimensions=DIMENSIONS, model="fake", revision="r1") as opened:
        yield opened


@pytest.fixture
def second_model() -> Generator[tuple[SecondModel, str]]:
    with second_model_server() as served:
        yield served


class Library:
    """A tenant's view of its library."""

    def __init__(self, retrieval: RetrievalService, spaces: PostgresSpaces) -> None:
        self._retrieval = retrieval
        self._spaces = spaces

    async def plan(self, tenant: Tenant = ACME) -> PlanResponse:
        """Plans a library."""
        return await self._retrieval.plan(tenant, EVERYTHING, Strategy.LIBRARY, None)

    async def missing(self, tenant: Tenant = ACME) -> list[int]:
        """Returns how many documents lack vectors, by space."""
        return [info.documents - info.documents_filled for info in await self._spaces.spaces(tenant)]

    async def given_up(self, tenant: Tenant = ACME) -> int:
        """Returns for how many documents the backfill has given up."""
        return (await self._spaces.spaces(tenant))[0].documents_failed


@pytest.fixture
async def library(database: Database) -> AsyncIterator[Library]:
    async with AsyncExitStack() as stack:
        pool = await open_pool(database.dsn("citewire_corpus"), name="reading")
        stack.push_async_callback(pool.close)
        yield Library(RetrievalService(PostgresSearch(pool, SearchTuning())), PostgresSpaces(pool))


def add(rows: CorpusRows, count: int, *, org: str = "acme", filled: bool, chunks: int = 1) -> list[int]:
    """Adds documents; returns their ids."""
    vectors = np.ones((chunks, DIMENSIONS), dtype=np.float32)
    texts = [f"Sentence {index} says something." for index in range(chunks)]
    return [
        rows.add(NewDocument(org, vectors, owner="ann", tokens=4, texts=texts), with_vectors=filled)[0]
        for _ in range(count)
    ]


async def is_filled(library: Library, tenant: Tenant = ACME) -> bool:
    return set(await library.missing(tenant)) == {0}


async def backfill_jobs(harness: IngestHarness) -> list[str]:
    return [row["state"] for row in await harness.rows("SELECT state FROM corpus.ingest_jobs WHERE kind = 'backfill'")]


@pytest.mark.timeout(900)
async def test_the_coverage_fallback_heals_itself(
    database: Database, rows: CorpusRows, harness: IngestHarness, library: Library, proof: ProofScale
) -> None:
    filled, missing, more = (3948, 987, 65) if proof.full else (240, 60, 4)
    items = filled + missing + more
    add(rows, filled, filled=True)
    add(rows, missing, filled=False)
    twenty = await library.plan()
    assert (twenty.path, twenty.counts.without_embedding) == (CONTEXT_PATH_SEMANTIC, missing)  # exactly 20 %
    missing += more
    add(rows, more, filled=False)
    before = await library.plan()
    counts = before.counts
    path = CONTEXT_PATH_LONG_CONTEXT_FALLBACK
    assert (before.path, counts.items, counts.without_embedding) == (path, items, missing)
    assert "21%" in before.reason
    assert await library.missing() == [missing]
    async with embedder_address(FakeModel(window=WINDOW)) as embedder:
        settings = worker_settings(database, embedder, backfill_tokens_per_second=0)
        async with running_worker(settings):

            async def all_there() -> bool:  # the job is deleted after the last vector is stored
                return await is_filled(library) and await backfill_jobs(harness) == []

            await wait_until(all_there, seconds=proof.pick(scaled_down=120, full=600))
    after = await library.plan()
    assert (after.path, after.counts.items, after.counts.without_embedding) == (CONTEXT_PATH_SEMANTIC, items, 0)


async def test_a_backfill_gives_the_vectors_of_an_upload(
    database: Database, harness: IngestHarness, library: Library
) -> None:
    async with embedder_address(FakeModel(window=WINDOW)) as embedder:
        settings = worker_settings(database, embedder, backfill_seconds=0.2, backfill_tokens_per_second=0)
        async with running_worker(settings):
            document_id = await harness.upload("about.md", article(30))
            await harness.until(document_id, "ready")
            expected = await harness.vectors(document_id)
            assert len(expected) > 17  # more than one slice, which has four batches of four
            # First all but one, then the last one alone.
            for condition in ("chunk_index > 0", "chunk_index = 3"):
                (table,) = await harness.rows("SELECT table_name FROM corpus.spaces")
                await harness.rows(
                    f"WITH gone AS (DELETE FROM corpus.{table['table_name']} v USING corpus.chunks c"  # noqa: S608 # our own names
                    f" WHERE c.org_id = v.org_id AND c.chunk_id = v.chunk_id AND {condition} RETURNING 1)"
                    " SELECT count(*) FROM gone"
                )
                assert await harness.vectors(document_id) != expected

                async def all_there() -> bool:
                    return await is_filled(library) and await backfill_jobs(harness) == []

                await wait_until(all_there)
                assert await harness.vectors(document_id) == expected
    assert (await harness.version(document_id))["status"] == "ready"


async def test_workers_share_it_and_survive_one_that_vanishes(
    database: Database, rows: CorpusRows, harness: IngestHarness, library: Library
) -> None:
    """Two workers, two organisations, and a third worker that claimed a job and vanished."""
    model = FakeModel(window=WINDOW)
    add(rows, 30, filled=False, chunks=3)
    add(rows, 30, org="other", filled=False, chunks=3)
    async with embedder_address(model) as embedder:
        settings = worker_settings(database, embedder, backfill_tokens_per_second=0, lease_seconds=5)
        model.gate.clear()
        async with running_worker(settings):

            async def queued() -> bool:
                return len(await backfill_jobs(harness)) == 60

            await wait_until(queued)
            vanished = await harness.worker.claim("backfill", worker="gone", lease_seconds=0.3)
            assert vanished is not None
            model.gate.set()
            async with running_worker(settings):

                async def all_there() -> bool:
                    return (
                        await is_filled(library)
                        and await is_filled(library, OTHER)
                        and await backfill_jobs(harness) == []
                    )

                await wait_until(all_there, seconds=40)
    # Late writes of the vanished worker are refused.
    assert not await harness.worker.renew(vanished, lease_seconds=10)
    counts = await harness.rows(
        f"SELECT org_id, count(*) AS n FROM corpus.vectors_{rows.space_id} GROUP BY org_id ORDER BY org_id"  # noqa: S608 # our own name
    )
    assert [(row["org_id"], row["n"]) for row in counts] == [("acme", 90), ("other", 90)]
    # And nothing was computed twice, unless the machine paused for longer than a lease.
    assert 180 <= sum(len(batch) for batch in model.batches) < 200


async def test_a_worker_that_stops_gives_its_slice_back(
    database: Database, rows: CorpusRows, harness: IngestHarness, library: Library
) -> None:
    model = FakeModel(window=WINDOW)
    add(rows, 1, filled=False, chunks=40)
    async with embedder_address(model) as embedder:
        settings = worker_settings(database, embedder, backfill_tokens_per_second=0)
        async with running_worker(settings):
            async with asyncio.timeout(20):
                await model.computing.wait()
            model.gate.clear()
        assert await backfill_jobs(harness) in (["queued"], [])
        model.gate.set()
        async with running_worker(settings):

            async def all_there() -> bool:
                return await is_filled(library) and await backfill_jobs(harness) == []

            await wait_until(all_there)


async def test_the_rate_is_kept_and_uploads_are_not_limited(
    database: Database, rows: CorpusRows, harness: IngestHarness, library: Library
) -> None:
    add(rows, 5, filled=False, chunks=2)
    async with embedder_address(FakeModel(window=WINDOW)) as embedder:
        # A document has eight tokens: after the first one, this rate allows the next one hours later.
        settings = worker_settings(database, embedder, backfill_tokens_per_second=0.001, concurrency=1)
        async with running_worker(settings):

            async def one_there() -> bool:
                return await library.missing() == [4]

            await wait_until(one_there)
            document_id = await harness.upload("about.md", article(3))
            await harness.until(document_id, "ready")
        assert await library.missing() == [4]
        assert sorted(await backfill_jobs(harness)) == ["queued"] * 4


async def test_uploads_come_first(database: Database, rows: CorpusRows, harness: IngestHarness) -> None:
    """One loop, a large backfill, and an upload that comes last: it only waits for the current slice."""
    model = FakeModel(window=WINDOW)
    add(rows, 40, filled=False)
    async with embedder_address(model) as embedder:
        settings = worker_settings(database, embedder, backfill_tokens_per_second=0, concurrency=1)
        model.gate.clear()
        async with running_worker(settings):
            async with asyncio.timeout(20):
                await model.computing.wait()
            document_id = await harness.upload("about.md", article(1))
            model.gate.set()
            await harness.until(document_id, "ready")

            async def ended() -> bool:
                return await backfill_jobs(harness) == []

            await wait_until(ended)
    # The uploaded text is the longest.
    place = max(range(len(model.batches)), key=lambda index: max(map(len, model.batches[index])))
    assert place == 1  # after the one document that was being processed


async def test_a_failing_model_is_given_up_and_retried_later(
    database: Database, rows: CorpusRows, library: Library
) -> None:
    model = FakeModel(window=WINDOW)
    model.error = RuntimeError("no")
    add(rows, 2, filled=False)
    async with embedder_address(model) as embedder:
        settings = worker_settings(
            database,
            embedder,
            backfill_seconds=0.3,
            backfill_again_seconds=3,
            backfill_tokens_per_second=0,
            max_attempts=2,
        )
        async with running_worker(settings):

            async def given_up() -> bool:
                return await library.given_up() == 2

            await wait_until(given_up)
            assert await library.missing() == [2]
            model.error = None

            async def all_there() -> bool:
                return await is_filled(library) and await library.given_up() == 0

            await wait_until(all_there)


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (Unavailable("starting", reason="SERVICE_UNAVAILABLE"), "info"),
        (FailedPrecondition("none", reason="SPACE_MISMATCH"), "warning"),
    ],
)
async def test_a_starting_embedder_causes_no_warning(
    database: Database, harness: IngestHarness, monkeypatch: pytest.MonkeyPatch, error: CitewireError, level: str
) -> None:
    serve = GrpcEmbedder.window

    async def window(embedder: GrpcEmbedder, model: str, own: OwnEmbedding | None = None) -> ModelWindow:
        if model == MODEL:
            raise error
        return await serve(embedder, model, own)

    async with embedder_address(FakeModel(window=WINDOW)) as embedder:
        document_id = await harness.upload("about.md", article(3))
        async with running_worker(worker_settings(database, embedder)):
            await harness.until(document_id, "ready")
        await harness.rows("UPDATE corpus.backfill_checks SET next_at = now() RETURNING 1")
        monkeypatch.setattr(GrpcEmbedder, "window", window)
        settings = worker_settings(database, embedder, more_models=MODEL, backfill_seconds=0.1)
        with capture_logs() as logged:
            async with running_worker(settings):

                async def is_logged() -> bool:
                    return any(entry["event"] == "further_model_not_served" for entry in logged)

                await wait_until(is_logged)
    levels = {entry["log_level"] for entry in logged if entry["event"] == "further_model_not_served"}
    assert levels == {level}


async def test_existing_documents_get_a_further_models_vectors(
    database: Database, harness: IngestHarness, library: Library, second_model: tuple[SecondModel, str]
) -> None:
    model, url = second_model
    async with embedder_with_two_models(url, FakeModel(window=WINDOW)) as embedder:
        document_id = await harness.upload("about.md", article(3))
        async with running_worker(worker_settings(database, embedder)):
            await harness.until(document_id, "ready")
        assert await library.missing() == [0]
        await harness.rows("UPDATE corpus.backfill_checks SET next_at = now() RETURNING 1")
        settings = worker_settings(database, embedder, more_models=MODEL, backfill_seconds=0.3)
        async with running_worker(settings):

            async def both_there() -> bool:
                return await library.missing() == [0, 0]

            await wait_until(both_there)
    assert len(model.texts) == len(await harness.chunks(document_id))


async def test_a_deletion_during_the_backfill_leaves_nothing(
    database: Database, rows: CorpusRows, harness: IngestHarness, library: Library
) -> None:
    model = FakeModel(window=WINDOW)
    gone, *_ = add(rows, 3, filled=False, chunks=3)
    async with embedder_address(model) as embedder:
        model.gate.clear()
        async with running_worker(worker_settings(database, embedder, backfill_tokens_per_second=0, concurrency=4)):
            async with asyncio.timeout(20):
                await model.computing.wait()
            assert await harness.documents.delete(ACME, gone)
            model.gate.set()

            async def all_there() -> bool:
                return await is_filled(library) and await backfill_jobs(harness) == []

            await wait_until(all_there)
    assert await harness.vectors(gone) == []


async def test_terms_of_documents_from_before_lexical_search(
    database: Database, rows: CorpusRows, harness: IngestHarness, library: Library
) -> None:
    """Two workers make and count each once, also while documents are moved and deleted."""
    vectors = np.ones((3, DIMENSIONS), dtype=np.float32)
    old = [rows.add(NewDocument("acme", vectors, collection="One" if n % 2 else ""))[0] for n in range(20)]
    add(rows, 2, filled=True)
    assert len(await harness.rows("SELECT FROM corpus.lexical")) == 2
    async with embedder_address(FakeModel(window=WINDOW)) as embedder:
        settings = worker_settings(database, embedder, backfill_tokens_per_second=0)
        async with running_worker(settings), running_worker(settings):
            rows.run("UPDATE corpus.documents SET collection_id = NULL WHERE document_id = %s", (old[1],))
            assert await harness.documents.delete(ACME, old[2])

            async def all_there() -> bool:
                return (
                    len(await harness.rows("SELECT FROM corpus.lexical")) == 59 and await backfill_jobs(harness) == []
                )

            await wait_until(all_there)
            assert await harness.documents.delete(ACME, old[3])
    expected: Counter[tuple[int, int]] = Counter()
    for row in await harness.rows(
        "SELECT coalesce(d.collection_id, 0) AS collection, d.title, c.section, c.text, d.document_id"
        " FROM corpus.documents d JOIN corpus.chunks c USING (org_id, document_id)"
    ):
        # Those that already had terms were added without a heading.
        header = heading(row["title"], row["section"]) if row["document_id"] in old else ""
        terms = weigh_chunk(embedding_input(header, row["text"]))
        expected.update((term, row["collection"]) for term in (0, *terms))
    counts = await harness.rows("SELECT term, collection_id, chunks FROM corpus.term_counts WHERE chunks <> 0")
    assert {(row["term"], row["collection_id"]): row["chunks"] for row in counts} == expected
    assert await is_filled(library)
