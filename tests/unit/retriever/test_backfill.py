"""What backfill embeds, in which spaces, and what it does if a model is unavailable."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from citewire_kit.errors import CitewireError, FailedPrecondition, Unavailable
from citewire_kit.tenant import Tenant, current_tenant
from citewire_retriever.ingest.backfill.rate import TokenRate
from citewire_retriever.ingest.backfill.service import Backfill
from citewire_retriever.ingest.backfill.store import IncompleteVersion, PostgresBackfillStore, TargetSpaces
from citewire_retriever.ingest.embedder_client import GrpcEmbedder
from citewire_retriever.ingest.model import Job, ModelWindow, OwnEmbedding, StoredChunk, Vectors, VectorTable
from citewire_retriever.ingest.settings import WorkerSettings
from citewire_retriever.ingest.store import PostgresJobStore
from citewire_retriever.ingest.turn import Turn
from citewire_retriever.model import Space

LIVE, NEXT, FURTHER = Space("live", "r", 2), Space("next", "r", 2), Space("more", "r", 2)
OWN = OwnEmbedding("openai", "theirs", 2, "")
JOB = Job(1, 1, 1, "backfill", 1, 1, Tenant("acme", "ann", "pro"), {}, 5)
TARGETS = TargetSpaces(LIVE, NEXT, None, only_own=False)


class FakeJobs:
    """The stored chunks that lack a vector, by space."""

    def __init__(self, chunks: int) -> None:
        every = [StoredChunk(number, "", "word", 3) for number in range(chunks)]
        self.missing = {space.model: list(every) for space in (LIVE, NEXT, FURTHER)}
        self.retried: list[tuple[float, bool]] = []

    async def ensure_space(self, space: Space) -> VectorTable:
        return VectorTable(1 + [LIVE, NEXT, FURTHER].index(space), space.model)

    async def unembedded(self, job: Job, table: VectorTable, most: int) -> list[StoredChunk]:
        return self.missing[table.name][:most]

    async def add_vectors(self, job: Job, table: VectorTable, chunk_ids: Sequence[int], vectors: Vectors) -> None:
        assert len(chunk_ids) == len(vectors)
        left = self.missing[table.name]
        self.missing[table.name] = [chunk for chunk in left if chunk.chunk_id not in set(chunk_ids)]

    async def retry(self, job: Job, *, delay_seconds: float, uncount: bool = False) -> None:
        self.retried.append((delay_seconds, uncount))

    def left(self) -> list[int]:
        """Returns the number of chunks that still lack a vector, by space."""
        return [len(self.missing[space.model]) for space in (LIVE, NEXT, FURTHER)]


class FakeStore:
    """The target spaces, and the jobs that were queued and ended."""

    def __init__(self, targets: TargetSpaces = TARGETS) -> None:
        self.what = targets
        self.live = True
        self.due: list[str] = ["acme"]
        self.queued: list[tuple[list[str], list[str]]] = []
        self.missing = 0
        self.earlier: list[float] = []
        self.ended: list[list[str]] = []
        self.waiting = False
        self.centroids: list[str] = []

    async def take_due(self, again_seconds: float) -> str | None:
        return self.due.pop() if self.due else None

    async def come_back(self, org_id: str, seconds: float) -> None:
        self.earlier.append(seconds)

    async def target_spaces(self, org_id: str) -> TargetSpaces:
        assert current_tenant().org_id == org_id
        return self.what

    async def queue(
        self, org_id: str, tables: Sequence[VectorTable], further: Sequence[VectorTable], *, most: int, again: float
    ) -> int:
        self.queued.append(([table.name for table in tables], [table.name for table in further]))
        return self.missing

    async def queue_missing(self, org_id: str, *, most: int) -> int:
        return 0

    async def queue_enrichment(self, org_id: str, *, most: int) -> int:
        del org_id, most
        return 0

    async def is_waiting(self, org_id: str) -> bool:
        return self.waiting

    async def has_scale(self, org_id: str, table: VectorTable, texts_version: int) -> bool:
        del org_id, table, texts_version
        return True

    async def sample_centroids(self, org_id: str, table: VectorTable) -> None:
        self.centroids.append(table.name)

    async def incomplete_version(self, job: Job) -> IncompleteVersion | None:
        return IncompleteVersion("Title", self.what) if self.live else None

    async def add_terms(self, job: Job, title: str, most: int, turn: Turn) -> int:
        del job, title, most, turn
        return 0

    async def end(self, job: Job, further: Sequence[VectorTable]) -> None:
        self.ended.append([table.name for table in further])


class FakeEmbedder:
    """Serves models by name, and a tenant's own model."""

    def __init__(self) -> None:
        self.spaces = {space.model: space for space in (LIVE, NEXT, FURTHER)}
        self.own: Space | None = None
        self.away: set[str] = set()
        self.asked: list[str] = []

    async def window(self, model: str, own: OwnEmbedding | None = None) -> ModelWindow:
        if model in self.away:
            raise Unavailable("away", reason="PROVIDER_UNAVAILABLE")
        if own is not None:
            assert self.own is not None
            return ModelWindow(self.own, 100, own)
        return ModelWindow(self.spaces[model], 100)

    async def embed(
        self, window: ModelWindow, batches: Sequence[Sequence[str]], *, truncate: bool = False
    ) -> AsyncGenerator[Vectors]:
        assert truncate  # chunks were cut for another model
        self.asked.append(window.space.model)
        for batch in batches:
            assert all(text.startswith("Title") for text in batch)
            yield np.ones((len(batch), window.space.dimensions), dtype=np.float32)


def build(store: FakeStore, jobs: FakeJobs, embedder: FakeEmbedder, rate: float = 0) -> Backfill:
    settings = WorkerSettings.model_validate(
        {"dsn": "postgresql://x", "auth": "off", "batch_chunks": 2, "more_models": "more"}
    )
    return Backfill(
        cast("PostgresBackfillStore", store),
        cast("PostgresJobStore", jobs),
        cast("GrpcEmbedder", embedder),
        TokenRate(rate),
        settings,
    )


def a_turn() -> Turn:
    async def is_waited_for() -> bool:
        return False

    return Turn(5.0, is_waited_for)


async def test_every_target_space_is_filled() -> None:
    store, jobs, embedder = FakeStore(), FakeJobs(2), FakeEmbedder()
    await build(store, jobs, embedder).embed(JOB, a_turn())
    assert jobs.left() == [0, 0, 0]
    assert embedder.asked == ["live", "next", "more"]
    assert store.ended == [["more"]]  # from now on this space is searched


async def test_a_slice_is_four_batches_and_the_rest_comes_later() -> None:
    store, jobs, embedder = FakeStore(), FakeJobs(20), FakeEmbedder()
    backfill = build(store, jobs, embedder)
    await backfill.embed(JOB, a_turn())
    assert jobs.left() == [12, 20, 20]
    assert (jobs.retried, store.ended) == ([(0, True)], [])
    for _ in range(10):
        if not store.ended:
            await backfill.embed(JOB, a_turn())
    assert jobs.left() == [0, 0, 0]


@pytest.mark.parametrize(("away", "left"), [("live", [2, 0, 0]), ("next", [0, 2, 0]), ("more", [0, 0, 2])])
async def test_an_unavailable_model_delays_only_its_own_space(away: str, left: list[int]) -> None:
    store, jobs, embedder = FakeStore(), FakeJobs(2), FakeEmbedder()
    embedder.away = {away}
    with pytest.raises(Unavailable):
        await build(store, jobs, embedder).embed(JOB, a_turn())
    assert jobs.left() == left
    assert store.ended == []


async def test_another_revision_fills_nothing() -> None:
    store, jobs, embedder = FakeStore(), FakeJobs(2), FakeEmbedder()
    embedder.spaces["live"] = replace(LIVE, revision="other")
    with pytest.raises(FailedPrecondition) as refused:
        await build(store, jobs, embedder).embed(JOB, a_turn())
    assert refused.value.reason == "SPACE_MISMATCH"
    assert jobs.left() == [2, 0, 0]


async def test_only_own_providers_see_the_documents() -> None:
    store, jobs, embedder = FakeStore(TargetSpaces(LIVE, NEXT, OWN, only_own=True)), FakeJobs(2), FakeEmbedder()
    embedder.own = NEXT
    with pytest.raises(CitewireError) as refused:
        await build(store, jobs, embedder).embed(JOB, a_turn())
    assert refused.value.reason == "PROVIDER_MISSING"
    assert jobs.left() == [2, 0, 2]
    assert embedder.asked == ["next"]


async def test_the_job_ends_if_its_version_is_no_longer_live() -> None:
    store, jobs, embedder = FakeStore(), FakeJobs(2), FakeEmbedder()
    store.live = False
    await build(store, jobs, embedder).embed(JOB, a_turn())
    assert (store.ended, jobs.left()) == ([[]], [2, 2, 2])


async def test_embedded_tokens_count_against_the_rate_and_the_organisation() -> None:
    backfill, turn = build(FakeStore(), FakeJobs(2), FakeEmbedder(), rate=0.01), a_turn()
    assert backfill.wait_seconds() == 0
    await backfill.embed(JOB, turn)
    # Two chunks of three tokens in three spaces.
    assert 1790 < backfill.wait_seconds() <= 1800
    assert turn.spent == pytest.approx(18 / 3000)


async def test_a_survey_queues_every_served_space() -> None:
    store, jobs, embedder = FakeStore(), FakeJobs(2), FakeEmbedder()
    backfill = build(store, jobs, embedder)
    assert await backfill.survey()
    assert not await backfill.survey()
    assert store.queued == [(["live", "next"], ["more"])]
    assert store.earlier == []
    assert store.centroids == ["live", "next"]


async def test_the_first_space_of_an_organisation_is_measured_while_it_is_prepared() -> None:
    store = FakeStore(TargetSpaces(None, NEXT, None, only_own=False))
    assert await build(store, FakeJobs(2), FakeEmbedder()).survey()
    assert store.centroids == ["next"]


async def test_a_space_is_measured_once_all_chunks_are_embedded() -> None:
    store = FakeStore()
    store.waiting = True
    assert await build(store, FakeJobs(2), FakeEmbedder()).survey()
    assert store.centroids == []


async def test_a_survey_leaves_out_spaces_without_a_model() -> None:
    store, jobs, embedder = FakeStore(), FakeJobs(2), FakeEmbedder()
    embedder.away = {"next", "more"}
    store.missing = 7
    assert await build(store, jobs, embedder).survey()
    assert store.queued == [(["live"], [])]
    assert store.earlier == [5.0]  # there may be more to embed


async def test_a_survey_for_own_providers_only_leaves_out_further_models() -> None:
    store, jobs, embedder = FakeStore(TargetSpaces(LIVE, None, OWN, only_own=True)), FakeJobs(2), FakeEmbedder()
    embedder.own = LIVE
    assert await build(store, jobs, embedder).survey()
    assert store.queued == [(["live"], [])]
