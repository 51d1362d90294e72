"""Further spaces: documents are embedded once more, after they went live, and their failures delay nobody."""

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
def further() -> Generator[tuple[SecondModel, str]]:
    with second_model_server() as served:
        yield served


@pytest.fixture
async def harness(database: HasDsn) -> AsyncIterator[IngestHarness]:
    async with IngestHarness.open(database) as opened:
        yield opened


async def test_embedding_in_a_further_space_is_charged_as_ingest_is(
    harness: IngestHarness, database: HasDsn, further: tuple[SecondModel, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "_SECONDS_PER_TOKEN", 1.0)  # so that nothing else counts beside tokens
    async with embedder_with_two_models(further[1], FakeModel(window=WINDOW)) as embedder:
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


async def test_a_document_is_embedded_in_the_further_space_after_it_went_live(
    harness: IngestHarness, database: HasDsn, further: tuple[SecondModel, str]
) -> None:
    told, url = further
    told.status = 500
    async with embedder_with_two_models(url, FakeModel(window=WINDOW)) as embedder:
        document_id = await harness.upload("about.md", article(3))
        async with running_worker(worker_settings(database, embedder, more_models=MODEL)):
            await harness.until(document_id, "ready")
            chunks = await harness.chunks(document_id)
            assert len(await harness.vectors(document_id)) == len(chunks)

            async def tried_twice() -> bool:
                return told.calls >= 2

            await wait_until(tried_twice)
            assert await harness.rows("SELECT 1 FROM corpus.further_spaces") == []
            assert (await harness.version(document_id))["status"] == "ready"
            told.status = 200

            async def embedded() -> bool:
                return await embed_job(harness, document_id) == "done"

            await wait_until(embedded)
        assert len(told.texts) == len(chunks)
        assert all(text.startswith("search_document: ") for text in told.texts)
        space = await harness.row(
            "SELECT s.model, s.dimensions, f.org_id FROM corpus.further_spaces f JOIN corpus.spaces s USING (space_id)"
        )
        assert (space["model"], space["dimensions"], space["org_id"]) == (MODEL, SIZE, "acme")


async def test_a_version_that_is_superseded_leaves_no_vectors(
    harness: IngestHarness, database: HasDsn, further: tuple[SecondModel, str]
) -> None:
    told, url = further
    told.gate.clear()
    async with embedder_with_two_models(url, FakeModel(window=WINDOW)) as embedder:
        document_id = await harness.upload("about.md", article(3))
        # Neither the backfill nor a lease that passes ends what the worker itself should end.
        settings = worker_settings(database, embedder, more_models=MODEL, backfill_seconds=0, lease_seconds=600)
        async with running_worker(settings):
            await harness.until(document_id, "ready")
            await wait_until(lambda: told.calls > 0)  # the first version is being embedded
            await harness.upload("about.md", article(2), document_id=document_id)
            await harness.until(document_id, "ready", 2)
            told.gate.set()

            async def both_ended() -> bool:
                return [await embed_job(harness, document_id, version) for version in (1, 2)] == ["done", "done"]

            await wait_until(both_ended)
        (table,) = await harness.rows("SELECT table_name FROM corpus.spaces WHERE model = %s", MODEL)
        held = await harness.rows(f"SELECT DISTINCT version FROM corpus.{table['table_name']}")  # noqa: S608 # our own name
        assert [row["version"] for row in held] == [2]
        assert told.texts


async def test_without_further_models_nothing_is_queued(
    harness: IngestHarness, database: HasDsn, further: tuple[SecondModel, str]
) -> None:
    told, url = further
    async with embedder_with_two_models(url, FakeModel(window=WINDOW)) as embedder:
        document_id = await harness.upload("about.md", article(2))
        async with running_worker(worker_settings(database, embedder)):
            await harness.until(document_id, "ready")
    assert await embed_job(harness, document_id) == ""
    assert told.calls == 0
