"""An unknown space gets its own threshold in the background, without using other tenants' data."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, cast

import pytest
from citewire.embedder.v1 import embedder_pb2
from citewire.retriever.v1 import retriever_pb2

from citewire_kit.errors import Unavailable
from citewire_kit.postgres import open_pool
from citewire_kit.tenant import Tenant
from citewire_retriever.ingest.backfill.scales import TEXTS, SpaceScales
from citewire_retriever.ingest.backfill.store import PostgresBackfillStore
from citewire_retriever.ingest.embedder_client import GrpcEmbedder
from citewire_retriever.ingest.model import ModelWindow, VectorTable
from citewire_retriever.model import Scope, SearchMode, SearchQuery, Space
from citewire_retriever.service.retrieval import RetrievalService
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.store.spaces import PostgresSpaces
from citewire_retriever.tuning import SearchTuning
from corpus_rows import CorpusRows, NewDocument, Vectors
from hashed_words import DIMENSIONS, embed

if TYPE_CHECKING:
    from databases import Database

ACME, OTHER = Tenant("acme", "ada", "free"), Tenant("other", "bob", "free")
SPACE = Space("hashed-words", "r1", DIMENSIONS)
WINDOW = ModelWindow(SPACE, 500)

PLANTS = ("Tulips", "Olive trees", "Rye", "Barley", "Hops", "Clover", "Lupins", "Spruces", "Beeches", "Nettles")
TEXTS_STORED = [
    f"{plant} are sown in calcareous soil, watered every morning and harvested in autumn, when the seeds have ripened. "
    f"Gardeners protect {plant.lower()} from frost with straw, and from beetles with nets."
    for plant in PLANTS
]
ON_TOPIC = "When are lupins harvested, and how do gardeners protect lupins from beetles?"
OFF_TOPIC = "Explain quantum chromodynamics and lattice gauge theory"


class FakeEmbedder:
    """Embeds with the space's model, and records the texts."""

    def __init__(self) -> None:
        self.purposes: list[int] = []
        self.texts: list[str] = []
        self.away = False

    async def embed(
        self, _window: ModelWindow, batches: Sequence[Sequence[str]], *, truncate: bool, purpose: int
    ) -> AsyncGenerator[Vectors]:
        assert truncate
        if self.away:
            raise Unavailable("away", reason="PROVIDER_UNAVAILABLE")
        self.purposes.append(purpose)
        for batch in batches:
            self.texts += batch
            yield embed(batch)

    async def window(self) -> ModelWindow:
        return WINDOW


class Library:
    """The retriever as tests use it, with the application's role."""

    def __init__(self, retrieval: RetrievalService, spaces: PostgresSpaces) -> None:
        self._retrieval = retrieval
        self.spaces = spaces

    async def search(self, question: str, tenant: Tenant = ACME, **fields: object) -> retriever_pb2.SearchResponse:
        query = SearchQuery(Scope(), vector=embed([question])[0].tobytes(), space=SPACE, text=question, **fields)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # fields of a query
        return await self._retrieval.search(tenant, query)


@pytest.fixture
def rows(database: Database) -> Iterator[CorpusRows]:
    with CorpusRows(database.owner_dsn, dimensions=SPACE.dimensions, model=SPACE.model) as opened:
        for text, name in zip(TEXTS_STORED, PLANTS, strict=True):
            opened.add(NewDocument("acme", embed([text]), title=name, texts=(text,)))
        yield opened


@pytest.fixture
async def library(database: Database) -> AsyncIterator[Library]:
    async with AsyncExitStack() as stack:
        pool = await open_pool(database.dsn("citewire_corpus"), name="topics")
        stack.push_async_callback(pool.close)
        search = PostgresSearch(pool, SearchTuning(statistics_seconds=0))
        yield Library(RetrievalService(search), PostgresSpaces(pool))


@pytest.fixture
async def worker(database: Database) -> AsyncIterator[PostgresBackfillStore]:
    async with AsyncExitStack() as stack:
        pool = await open_pool(database.dsn("citewire_worker"), name="topics-worker")
        stack.push_async_callback(pool.close)
        yield PostgresBackfillStore(pool)


def scales(store: PostgresBackfillStore, embedder: FakeEmbedder) -> SpaceScales:
    return SpaceScales(store, cast("GrpcEmbedder", embedder))


async def test_an_unknown_space_gets_its_own_threshold(
    rows: CorpusRows, library: Library, worker: PostgresBackfillStore
) -> None:
    # All texts are similar in this space, so another model's threshold would call nothing off topic.
    before = await library.search(OFF_TOPIC)
    assert min(result.score for result in before.results) > 0.5
    assert not before.off_topic
    assert not before.HasField("topic_margin")
    embedder, table = FakeEmbedder(), VectorTable(rows.space_id, f"vectors_{rows.space_id}")
    await scales(worker, embedder).refresh("acme", table, SPACE, embedder.window)
    assert embedder.purposes == [embedder_pb2.PURPOSE_QUERY, embedder_pb2.PURPOSE_DOCUMENT]
    assert len(embedder.texts) == sum(2 * len(texts.questions) for texts in TEXTS.values())
    scale = (await library.spaces.spaces(ACME))[0].scale
    assert scale.unrelated > 0.5
    assert 0 < scale.deviation < 0.1
    for mode in (SearchMode.DENSE, SearchMode.HYBRID):
        assert (await library.search(OFF_TOPIC, mode=mode)).off_topic
        answered = await library.search(ON_TOPIC, mode=mode)
        assert not answered.off_topic
        assert answered.topic_margin > 0
    assert not (await library.search(OFF_TOPIC, recent=3)).off_topic
    assert not (await library.search("Summarize the documents")).off_topic


async def test_another_organisation_is_measured_separately(
    rows: CorpusRows, library: Library, worker: PostgresBackfillStore
) -> None:
    rows.add(NewDocument("other", embed(TEXTS_STORED[:2]), texts=TEXTS_STORED[:2]))
    embedder, table = FakeEmbedder(), VectorTable(rows.space_id, f"vectors_{rows.space_id}")
    measuring = scales(worker, embedder)
    await measuring.refresh("acme", table, SPACE, embedder.window)
    assert not (await library.search(OFF_TOPIC, OTHER)).HasField("topic_margin")
    texts = len(embedder.texts)
    await measuring.refresh("other", table, SPACE, embedder.window)
    assert (await library.search(OFF_TOPIC, OTHER)).off_topic
    assert len(embedder.texts) == texts  # the operator's model is the same for all
    assert [row[0] for row in rows.all("SELECT chunks FROM corpus.centroids ORDER BY org_id")] == [10, 2]


async def test_a_library_is_not_measured_again_until_it_has_changed(
    rows: CorpusRows, worker: PostgresBackfillStore
) -> None:
    embedder, table = FakeEmbedder(), VectorTable(rows.space_id, f"vectors_{rows.space_id}")
    await scales(worker, embedder).refresh("acme", table, SPACE, embedder.window)
    texts = len(embedder.texts)
    rows.run("UPDATE corpus.centroids SET centroid = array_fill(0, ARRAY[%s])::real[]::halfvec", (SPACE.dimensions,))
    await scales(worker, embedder).refresh("acme", table, SPACE, embedder.window)
    assert len(embedder.texts) == texts
    length = "SELECT round(100 * l2_norm(centroid)) FROM corpus.centroids WHERE collection_id = 0"
    assert rows.scalar(length) == 0
    for text in TEXTS_STORED[:4]:
        rows.add(NewDocument("acme", embed([text]), texts=(text,)))
    await scales(worker, embedder).refresh("acme", table, SPACE, embedder.window)
    assert rows.scalar(length) > 50
    assert rows.scalar("SELECT chunks FROM corpus.centroids WHERE collection_id = 0") == 14


async def test_a_large_collection_has_its_own_centroid(rows: CorpusRows, worker: PostgresBackfillStore) -> None:
    rows.add(NewDocument("acme", embed(["Volcanoes erupt"] * 60), collection="Volcanoes"))
    rows.add(NewDocument("acme", embed(["Glaciers melting"] * 5), collection="Glaciers"))
    embedder, table = FakeEmbedder(), VectorTable(rows.space_id, f"vectors_{rows.space_id}")
    await scales(worker, embedder).refresh("acme", table, SPACE, embedder.window)
    own = rows.all(
        "SELECT k.name, c.chunks FROM corpus.centroids c LEFT JOIN corpus.collections k USING (org_id, collection_id)"
        " ORDER BY c.collection_id"
    )
    assert own == [(None, 75), ("Volcanoes", 60)]


async def test_an_unreachable_model_is_measured_later(
    rows: CorpusRows, library: Library, worker: PostgresBackfillStore
) -> None:
    embedder, table = FakeEmbedder(), VectorTable(rows.space_id, f"vectors_{rows.space_id}")
    embedder.away = True
    measuring = scales(worker, embedder)
    await measuring.refresh("acme", table, SPACE, embedder.window)
    assert not (await library.search(OFF_TOPIC)).off_topic
    embedder.away = False
    await measuring.refresh("acme", table, SPACE, embedder.window)
    assert (await library.search(OFF_TOPIC)).off_topic
