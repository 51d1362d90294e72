"""Further spaces: documents are embedded once more, after they went live, and their failures delay nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator

import pytest

from fake_embedding import FakeModel
from ingest_world import (
    WINDOW,
    HasDsn,
    World,
    article,
    eventually,
    running_worker,
    worker_settings,
)
from second_model import MODEL, SIZE, Further, embedder_of_two, serving_second_model


@pytest.fixture
def further() -> Generator[tuple[Further, str]]:
    with serving_second_model() as served:
        yield served


@pytest.fixture
async def world(database: HasDsn) -> AsyncIterator[World]:
    async with World.open(database) as opened:
        yield opened


async def embed_job(world: World, document_id: int, version: int = 1) -> str:
    rows = await world.rows(
        "SELECT state FROM corpus.ingest_jobs WHERE kind = 'embed' AND document_id = %s AND version = %s",
        document_id,
        version,
    )
    return rows[0]["state"] if rows else ""


async def test_a_document_is_embedded_in_the_further_space_after_it_went_live(
    world: World, database: HasDsn, further: tuple[Further, str]
) -> None:
    told, url = further
    told.status = 500
    async with embedder_of_two(url, FakeModel(window=WINDOW)) as embedder:
        document_id = await world.upload("about.md", article(3))
        async with running_worker(worker_settings(database, embedder, more_models=MODEL)):
            await world.until(document_id, "ready")
            chunks = await world.chunks(document_id)
            assert len(await world.vectors(document_id)) == len(chunks)

            async def tried_twice() -> bool:
                return told.calls >= 2

            await eventually(tried_twice)
            assert await world.rows("SELECT 1 FROM corpus.further_spaces") == []
            assert (await world.version(document_id))["status"] == "ready"
            told.status = 200

            async def embedded() -> bool:
                return await embed_job(world, document_id) == "done"

            await eventually(embedded)
        assert len(told.texts) == len(chunks)
        assert all(text.startswith("search_document: ") for text in told.texts)
        space = await world.row(
            "SELECT s.model, s.dimensions, f.org_id FROM corpus.further_spaces f JOIN corpus.spaces s USING (space_id)"
        )
        assert (space["model"], space["dimensions"], space["org_id"]) == (MODEL, SIZE, "acme")


async def test_a_version_that_is_superseded_leaves_no_vectors(
    world: World, database: HasDsn, further: tuple[Further, str]
) -> None:
    told, url = further
    async with embedder_of_two(url, FakeModel(window=WINDOW)) as embedder:
        document_id = await world.upload("about.md", article(3))
        async with running_worker(worker_settings(database, embedder, more_models=MODEL)):
            await world.until(document_id, "ready")
            await world.upload("about.md", article(2), document_id=document_id)
            await world.until(document_id, "ready", 2)

            async def both_ended() -> bool:
                return [await embed_job(world, document_id, version) for version in (1, 2)] == ["done", "done"]

            await eventually(both_ended, seconds=40)
        (table,) = await world.rows("SELECT table_name FROM corpus.spaces WHERE model = %s", MODEL)
        held = await world.rows(f"SELECT DISTINCT version FROM corpus.{table['table_name']}")  # noqa: S608 # our own name
        assert [row["version"] for row in held] == [2]
        assert told.texts


async def test_without_further_models_nothing_is_queued(
    world: World, database: HasDsn, further: tuple[Further, str]
) -> None:
    told, url = further
    async with embedder_of_two(url, FakeModel(window=WINDOW)) as embedder:
        document_id = await world.upload("about.md", article(2))
        async with running_worker(worker_settings(database, embedder)):
            await world.until(document_id, "ready")
    assert await embed_job(world, document_id) == ""
    assert told.calls == 0
