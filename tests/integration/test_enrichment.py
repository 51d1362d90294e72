"""Enrichment: the worker has a model describe live documents in the background, and fills in empty fields."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import psycopg
import pytest
from citewire.retriever.v1 import corpus_pb2 as pb

from callers import keyed_environment
from citewire_generator.providers.base import ChatProvider
from citewire_kit.errors import FailedPrecondition, PermissionDenied, ResourceExhausted, Unavailable
from citewire_kit.postgres import open_pool
from citewire_retriever.ingest.enrichment.model import Description, EnrichmentSource, Field
from citewire_retriever.ingest.enrichment.store import PostgresEnrichmentStore
from citewire_retriever.ingest.model import Job, LeaseLostError
from citewire_retriever.ingest.settings import WorkerSettings
from citewire_retriever.model import Scope, Strategy
from citewire_retriever.service.retrieval import RetrievalService
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.tuning import SearchTuning
from databases import HasDsn
from enrichment_library import ANSWER, COLLECTION, EnrichmentLibrary, answer
from fake_embedding import FakeModel
from generator_server import running_generator
from ingest_harness import ACME, WINDOW, embedder_address, running_worker, worker_settings
from scripted_chat import ScriptedChat, ScriptedTurns

PENDING, FAILED = pb.ENRICHMENT_STATE_PENDING, pb.ENRICHMENT_STATE_FAILED
QUESTIONS = ("What restaurants did I save?", "Welche Restaurants habe ich gespeichert?", "我保存了哪些餐厅？")


@pytest.fixture
async def library(database: HasDsn) -> AsyncIterator[EnrichmentLibrary]:
    async with EnrichmentLibrary.open(database) as opened:
        yield opened


@asynccontextmanager
async def settings_with(database: HasDsn, *models: ChatProvider, **changes: object) -> AsyncGenerator[WorkerSettings]:
    """Settings of a worker with a real embedder and a real generator with these models."""
    async with AsyncExitStack() as stack:
        embedder = await stack.enter_async_context(embedder_address(FakeModel(window=WINDOW)))
        generator = await stack.enter_async_context(running_generator(models or None, auth="keys", attempts=1))
        target = f"127.0.0.1:{generator.server.port}"
        yield worker_settings(database, embedder, generator_target=target, **changes)


async def test_missing_fields_are_filled_once_the_document_is_searchable(
    library: EnrichmentLibrary, database: HasDsn
) -> None:
    gate = asyncio.Event()
    model = ScriptedChat(gate, answer())
    async with settings_with(database, model, concurrency=1) as settings, running_worker(settings):
        document_id = await library.save()
        document = await library.until(document_id, PENDING)
        async with asyncio.timeout(20):
            await model.waiting.wait()
        # While the model thinks, this one can be searched, and the only loop for uploads takes the next.
        assert document.status == pb.DOCUMENT_STATUS_READY
        other = await library.save(title="Other")
        await library.until(other, PENDING)
        gate.set()
        assert await library.until_done(document_id) == ANSWER
        document = await library.get(document_id)
        assert list(document.enrichment.fields) == ["category", "entity_type", "summary", "tags"]
        assert document.enrichment.source == pb.ENRICHMENT_SOURCE_MODEL
        await library.until_done(other)


async def test_a_collection_without_enrichment_is_left_alone(library: EnrichmentLibrary, database: HasDsn) -> None:
    await library.collections.create(ACME, "plain", enrich=False)
    model = ScriptedChat(answer())
    async with settings_with(database, model) as settings, running_worker(settings):
        plain, nowhere = await library.save(collection="plain"), await library.save(collection="")
        await library.until_done(await library.save())
        for document_id in (plain, nowhere):
            document = await library.get(document_id)
            assert document.status == pb.DOCUMENT_STATUS_READY
            assert not document.HasField("enrichment")
            assert await library.labels(document_id) == {"tags": []}
    assert len(model.tasks) == 1


async def test_labels_of_more_restricted_documents_are_not_proposed(
    library: EnrichmentLibrary, database: HasDsn
) -> None:
    boss, model = replace(ACME, roles=("owner",)), ScriptedChat(answer(), answer(), answer())
    for name in ("plain", "payroll"):
        await library.collections.create(boss, name, enrich=name == "payroll")
    async with settings_with(database, model) as settings, running_worker(settings):
        grants = [(f"user:{ACME.user_id}", "write")]
        await library.collections.set_grants(boss, "payroll", grants)
        for label, collection in {"harbours": "plain", "layoffs": "payroll", "warnings": "plain"}.items():
            metadata = {"entity_type": f"of {label}", "category": f"about {label}", "summary": "Set."}
            document_id = await library.save(tags=[label], metadata=metadata, collection=collection)
            if label == "warnings":
                await library.patch(document_id, readers=(f"user:{ACME.user_id}",))
            await library.until_ready(document_id)
        for collection, proposed in {COLLECTION: {"harbours"}, "payroll": {"harbours", "layoffs"}}.items():
            await library.until_done(await library.save(collection=collection))
            asked = "".join(message.content for message in model.tasks[-1].messages)
            assert {label for label in ("harbours", "layoffs", "warnings") if label in asked} == proposed


async def test_fields_set_by_a_person_stay_and_are_not_requested(library: EnrichmentLibrary, database: HasDsn) -> None:
    model = ScriptedChat(answer())
    async with settings_with(database, model) as settings, running_worker(settings):
        labelled = await library.save(tags=["mine"], metadata={"entity_type": "cafe", "stars": 5, "tags": "theirs"})
        labels = await library.until_done(labelled)
        assert labels == {
            "entity_type": "cafe",
            "stars": 5,
            "tags": ["mine"],
            "summary": ANSWER["summary"],
            "category": "food",
        }
        system = model.tasks[0].messages[0].content
        assert "`summary`" in system
        assert "`entity_type`" not in system
        assert "`tags`" not in system
        full = {"entity_type": "cafe", "category": "drinks", "summary": "Mine."}
        whole = await library.save(tags=["mine"], metadata=full)
        assert await library.until_done(whole) == {**full, "tags": ["mine"]}
    assert len(model.tasks) == 1, "nothing was missing"


async def test_a_persons_change_wins_even_while_the_model_thinks(library: EnrichmentLibrary, database: HasDsn) -> None:
    gate = asyncio.Event()
    model = ScriptedTurns("scripted", [gate, answer()], [answer(category="drinks", tags=["x"], summary="Another.")])
    async with settings_with(database, model) as settings, running_worker(settings):
        document_id = await library.save()
        async with asyncio.timeout(20):
            await model.waiting.wait()
        await library.patch(document_id, tags=("mine",), metadata={"entity_type": None, "stars": 3})
        gate.set()
        labels = await library.until_done(document_id)
        expected = {"stars": 3, "entity_type": None, "category": "food", "summary": ANSWER["summary"], "tags": ["mine"]}
        assert labels == expected
        assert list((await library.get(document_id)).enrichment.fields) == ["category", "summary"]
        # A new version updates only the fields that enrichment wrote.
        await library.save("Another text. It is longer.", document_id=document_id)
        labels = await library.until_done(document_id, 2)
        assert labels == {**expected, "category": "drinks", "summary": "Another."}


async def test_a_field_that_a_person_emptied_stays_empty_for_ever(library: EnrichmentLibrary, database: HasDsn) -> None:
    model = ScriptedChat(answer())
    async with settings_with(database, model) as settings, running_worker(settings):
        document_id = await library.save()
        await library.until_done(document_id)
        await library.patch(document_id, tags=(), metadata={"category": "food"})
        await library.save("Another text.", document_id=document_id)
        assert await library.until_done(document_id, 2) == {"category": "food", "tags": []}
        # Also if it was emptied before the first description.
        early = await library.save(collection="")
        await library.patch(early, tags=())
        await library.patch(early, collection=COLLECTION)
        assert (await library.until_done(early))["tags"] == []


async def test_a_new_version_with_labels_of_its_own_keeps_them(library: EnrichmentLibrary, database: HasDsn) -> None:
    gate = asyncio.Event()
    model = ScriptedTurns("scripted", [answer()], [gate, answer(category="drinks", summary="Another.")])
    async with settings_with(database, model) as settings, running_worker(settings):
        document_id = await library.save()
        await library.until_done(document_id)
        await library.save("Another text.", document_id=document_id, metadata={"entity_type": "bar", "stars": 1})
        # Enrichment's fields stay until it writes new ones.
        assert await library.labels(document_id) == {**ANSWER, "entity_type": "bar", "stars": 1}
        gate.set()
        labels = await library.until_done(document_id, 2)
        assert labels == {**ANSWER, "entity_type": "bar", "stars": 1, "category": "drinks", "summary": "Another."}


async def test_changes_by_an_older_version_count_as_a_persons(library: EnrichmentLibrary, database: HasDsn) -> None:
    async with settings_with(database, ScriptedChat(answer(tags=["new"]))) as settings, running_worker(settings):
        document_id = await library.save()
        await library.until_done(document_id)
        with psycopg.connect(database.dsn("postgres"), autocommit=True) as owner:
            owner.execute("UPDATE corpus.documents SET tags = '{theirs}', metadata = metadata - 'category'")
        await library.save("Another text.", document_id=document_id)
        labels = await library.until_done(document_id, 2)
        assert labels["tags"] == ["theirs"]
        assert "category" not in labels
        assert labels["entity_type"] == "restaurant"


async def test_a_failing_model_leaves_the_document_searchable_and_says_why(
    library: EnrichmentLibrary, database: HasDsn
) -> None:
    broken = Unavailable("the model provider can't be reached", reason="PROVIDER_UNAVAILABLE")
    refusing = PermissionDenied("the model provider refused the key", reason="PROVIDER_AUTH")
    model = ScriptedTurns("scripted", [broken], [refusing], [refusing], [answer()])
    async with settings_with(database, model, max_attempts=3) as settings, running_worker(settings):
        document_id = await library.save()
        document = await library.until(document_id, FAILED)
        assert document.status == pb.DOCUMENT_STATUS_READY
        assert document.enrichment.error.code == "PROVIDER"
        message = "The model provider scripted refused the key (model scripted-model)."
        assert document.enrichment.error.message == message
        assert await library.labels(document_id) == {"tags": []}
        await library.documents.retry(ACME, document_id)
        assert await library.until_done(document_id) == ANSWER
        assert not (await library.get(document_id)).enrichment.HasField("error")
        with pytest.raises(FailedPrecondition):
            await library.documents.retry(ACME, document_id)


async def test_an_unreadable_answer_is_not_paid_for_twice(library: EnrichmentLibrary, database: HasDsn) -> None:
    model = ScriptedChat("I can't do that.")
    async with settings_with(database, model) as settings, running_worker(settings):
        document = await library.until(await library.save(), FAILED)
        assert document.enrichment.error.code == "UNREADABLE"
        assert "scripted/parrot" in document.enrichment.error.message
    assert len(model.tasks) == 1


async def test_enrichment_waits_for_a_new_budget(library: EnrichmentLibrary, database: HasDsn) -> None:
    spent = ResourceExhausted(
        "the organisation's budget has too little left", reason="BUDGET_EXCEEDED", retry_after=86_400
    )
    model = ScriptedTurns("scripted", [spent], [spent], [answer()])
    async with settings_with(database, model, enrich_again_seconds=0.5, max_attempts=1) as settings:
        async with running_worker(settings):
            document_id = await library.save()
            document = await library.until(document_id, PENDING, code="BUDGET")
            assert document.status == pb.DOCUMENT_STATUS_READY
            assert document.enrichment.error.message == "The organisation's budget has too little left."
            assert await library.until_done(document_id) == ANSWER


async def test_existing_documents_are_enriched_too(library: EnrichmentLibrary, database: HasDsn) -> None:
    await library.collections.create(ACME, "old", enrich=False)
    model = ScriptedChat(answer())
    async with settings_with(database, model, backfill_seconds=0.3) as settings, running_worker(settings):
        old = [await library.save(collection="old", title=f"Old {number}") for number in range(3)]
        moved = await library.save(collection="")
        await library.until_done(await library.save())
        await library.collections.update(ACME, "old", None, enrich=True)
        await library.patch(moved, collection=COLLECTION)
        for document_id in (*old, moved):
            assert await library.until_done(document_id) == ANSWER
        # Switched off: filled fields stay, and new documents are left alone.
        await library.collections.update(ACME, "old", None, enrich=False)
        late = await library.save(collection="old")
        await library.until_done(await library.save())
        assert not (await library.get(late)).HasField("enrichment")
        assert await library.labels(old[0]) == ANSWER


async def test_without_a_model_rules_describe_documents_and_questions_find_them(
    library: EnrichmentLibrary, database: HasDsn
) -> None:
    texts = {
        "Da Enzo al 29": "Da Enzo is a small restaurant in Rome. The restaurant serves carbonara.",
        "Gasthaus Adler": "Ein Restaurant in Freiburg. Das Restaurant serviert Maultaschen.",
        "老王川菜馆": "老王川菜馆是成都的一家餐厅。这家餐厅以麻婆豆腐闻名，餐厅周一休息。",
        "Notes": "We met at ten and spoke about the budget. The budget is small.",
    }
    async with settings_with(database) as settings, running_worker(settings):
        ids = {title: await library.save(text, title=title) for title, text in texts.items()}
        labels = {title: await library.until_done(document_id) for title, document_id in ids.items()}
        assert [labels[title].get("entity_type") for title in texts] == ["restaurant"] * 3 + [None]
        assert not {tag.casefold() for fields in labels.values() for tag in fields["tags"]} & {"restaurant", "餐厅"}
        assert labels["Notes"]["summary"]
        assert (await library.get(ids["Notes"])).enrichment.source == pb.ENRICHMENT_SOURCE_RULES
    pool = await open_pool(database.dsn("citewire_corpus"), name="questions")
    try:
        service = RetrievalService(PostgresSearch(pool, SearchTuning()))
        for question in QUESTIONS:
            plan = await service.plan(ACME, Scope(own=True), Strategy.LIBRARY, query=question)
            assert list(plan.query_filter.phrases) == ["entity type restaurant"], question
            assert plan.counts.items == 3
    finally:
        await pool.close()


async def test_two_workers_describe_a_document_once(library: EnrichmentLibrary, database: HasDsn) -> None:
    model = ScriptedChat(answer())
    async with settings_with(database, model) as settings, running_worker(settings), running_worker(settings):
        ids = [await library.save(title=f"Document {number}") for number in range(6)]
        for document_id in ids:
            assert await library.until_done(document_id) == ANSWER
    assert len(model.tasks) == 6


async def test_another_worker_takes_over_from_one_killed_while_a_model_thinks(
    library: EnrichmentLibrary, database: HasDsn
) -> None:
    gate = asyncio.Event()
    model = ScriptedTurns("scripted", [gate, answer(summary="Lost.")], [answer()])
    async with settings_with(database, model) as settings:
        variables = {
            **keyed_environment("worker"),
            "CITEWIRE_WORKER_DSN": database.dsn("citewire_worker"),
            "CITEWIRE_WORKER_EMBEDDER_TARGET": settings.embedder_target,
            "CITEWIRE_WORKER_GENERATOR_TARGET": settings.generator_target,
            "CITEWIRE_WORKER_METRICS_PORT": "0",
            "CITEWIRE_WORKER_LEASE_SECONDS": "3",
            "CITEWIRE_WORKER_POLL_SECONDS": "0.2",
            "CITEWIRE_WORKER_CONFINEMENT": "available",
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "citewire_retriever", "worker"), env={**os.environ, **variables}, stderr=DEVNULL
        )
        try:
            document_id = await library.save()
            async with asyncio.timeout(60):
                await model.waiting.wait()
            await library.until(document_id, PENDING)
        finally:
            process.kill()
            await process.wait()
        with psycopg.connect(database.dsn("postgres")) as owner:
            states = owner.execute("SELECT state, fence FROM corpus.ingest_jobs WHERE kind = 'enrich'").fetchall()
        assert states == [("running", 1)], "the killed worker still holds its job"
        async with running_worker(settings):
            assert await library.until_done(document_id) == ANSWER
        gate.set()
        # The previous holder of the job may write nothing.
        store = PostgresEnrichmentStore(pool := await open_pool(database.dsn("citewire_worker"), name="late"))
        try:
            job = Job(job_id_of(database), document_id, 1, "enrich", 1, 1, ACME, {}, 0.0)
            with pytest.raises(LeaseLostError):
                await store.write(job, frozenset(Field), Description(EnrichmentSource.MODEL, summary="Late."))
        finally:
            await pool.close()
        assert await library.labels(document_id) == ANSWER
    assert len(model.tasks) == 2


def job_id_of(database: HasDsn) -> int:
    with psycopg.connect(database.dsn("postgres")) as owner:
        row = owner.execute("SELECT job_id FROM corpus.ingest_jobs WHERE kind = 'enrich'").fetchone()
    assert row is not None
    return int(row[0])
