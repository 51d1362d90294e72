"""Further spaces: documents are embedded again after they are live, and failures delay nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator

import pytest

from citewire_retriever.ingest import turn
from databases import HasDsn
from fake_embedding import FakeModel
from ingest_harness import (
    WINDOW,
    IngestHarness,
    article,
    running_worker,
    worker_settings,
)
from second_model import MODEL, SIZE, SecondModel, embedder_with_two_models, second_model_server
from waiting import wait_until


@pytest.fixture
def second_model() -> Generator[tuple[SecondModel, str]]:
    with second_model_server() as served:
        yield served


@pytest.fixture
async def harness(database: HasDsn) -> AsyncIterator[IngestHarness]:
    async with IngestHarness.open(database) as opened:
        yield opened


async def test_embedding_in_a_further_space_is_charged_like_ingest(
    harness: IngestHarness, database: HasDsn, second_model: tuple[SecondModel, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "_SECONDS_PER_TOKEN", 1.0)  # so that only tokens count
    async with embedder_with_two_models(second_model[1], FakeModel(window=WINDOW)) as embedder:
        document_id = await harness.upload("about.md", article(3))
        async with running_worker(worker_settings(database, embedder, more_models=MODEL, backfill_seconds=0)):
            tokens = (await harness.until(document_id, "ready"))["tokens"]

            async def is_charged() -> bool:
                [share] = await harness.rows("SELECT virtual_time FROM corpus.ingest_shares WHERE org_id <> ''")
                return share["virtual_time"] >= 2 * tokens

            await wait_until(is_charged)


async def embed_job(harness: IngestHarness, document_id: int, version: int = 1) -> str:
    rows = await harness.rows(
        "SELECT state FROM corpus.ingest_jobs WHERE kind = 'embed' AND document_id = %s AND version = %s",
        document_id,
        version,
    )
    return rows[0]["state"] if rows else ""


async def test_a_document_is_embedded_in_the_further_space_once_it_is_live(
    harness: IngestHarness, database: HasDsn, second_model: tuple[SecondModel, str]
) -> None:
    model, url = second_model
    model.status = 500
    async with embedder_with_two_models(url, FakeModel(window=WINDOW)) as embedder:
        document_id = await harness.upload("about.md", article(3))
        async with running_worker(worker_settings(database, embedder, more_models=MODEL)):
            await harness.until(document_id, "ready")
            chunks = await harness.chunks(document_id)
            assert len(await harness.vectors(document_id)) == len(chunks)

            async def tried_twice() -> bool:
                return model.calls >= 2

            await wait_until(tried_twice)
            assert await harness.rows("SELECT 1 FROM corpus.further_spaces") == []
            assert (await harness.version(document_id))["status"] == "ready"
            model.status = 200

            async def embedded() -> bool:
                return await embed_job(harness, document_id) == "done"

            await wait_until(embedded)
        assert len(model.texts) == len(chunks)
        assert all(text.startswith("search_document: ") for text in model.texts)
        space = await harness.row(
            "SELECT s.model, s.dimensions, f.org_id FROM corpus.further_spaces f JOIN corpus.spaces s USING (space_id)"
        )
        assert (space["model"], space["dimensions"], space["org_id"]) == (MODEL, SIZE, "acme")


async def test_a_version_that_is_superseded_leaves_no_vectors(
    harness: IngestHarness, database: HasDsn, second_model: tuple[SecondModel, str]
) -> None:
    model, url = second_model
    model.gate.clear()
    async with embedder_with_two_models(url, FakeModel(window=WINDOW)) as embedder:
        document_id = await harness.upload("about.md", article(3))
        # Neither the backfill nor an expired lease may end the job; the worker itself must.
        settings = worker_settings(database, embedder, more_models=MODEL, backfill_seconds=0, lease_seconds=600)
        async with running_worker(settings):
            await harness.until(document_id, "ready")
            await wait_until(lambda: model.calls > 0)  # the first version is being embedded
            await harness.upload("about.md", article(2), document_id=document_id)
            await harness.until(document_id, "ready", 2)
            model.gate.set()

            async def both_ended() -> bool:
                return [await embed_job(harness, document_id, version) for version in (1, 2)] == ["done", "done"]

            await wait_until(both_ended)
        (table,) = await harness.rows("SELECT table_name FROM corpus.spaces WHERE model = %s", MODEL)
        held = await harness.rows(f"SELECT DISTINCT version FROM corpus.{table['table_name']}")  # noqa: S608 # our own name
        assert [row["version"] for row in held] == [2]
        assert model.texts


async def test_without_further_models_nothing_is_queued(
    harness: IngestHarness, database: HasDsn, second_model: tuple[SecondModel, str]
) -> None:
    model, url = second_model
    async with embedder_with_two_models(url, FakeModel(window=WINDOW)) as embedder:
        document_id = await harness.upload("about.md", article(2))
        async with running_worker(worker_settings(database, embedder)):
            await harness.until(document_id, "ready")
    assert await embed_job(harness, document_id) == ""
    assert model.calls == 0
