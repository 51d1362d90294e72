"""A tenant's own models describe its documents, in their order; if they are required and missing, none does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import psycopg
import pytest
from citewire.generator.v1 import generator_pb2 as generator_pb
from citewire.generator.v1 import generator_pb2_grpc as pb_grpc
from citewire.retriever.v1 import corpus_pb2 as pb

from citewire_kit import client
from citewire_kit.errors import CitewireError
from citewire_kit.tenant import Tenant, current_tenant, use_tenant
from databases import Database, HasDsn
from enrichment_library import ANSWER, EnrichmentLibrary, answer
from fake_embedding import FakeModel
from generator_server import running_generator
from generator_with_ledger import MODEL, write_catalogue
from ingest_harness import ACME, OTHER, WINDOW, embedder_address, running_worker, worker_settings
from raw_upstream import Exchange, RawUpstream
from worker_upstream import worker_upstream

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class Generator(pb_grpc.GeneratorServiceServicer):
    """Records the requests for enrichment."""

    def __init__(self) -> None:
        self.asked: list[tuple[Tenant, generator_pb.EnrichRequest]] = []

    async def Enrich(  # noqa: N802 # gRPC's name
        self, request: generator_pb.EnrichRequest, context: Context
    ) -> generator_pb.EnrichResponse:
        self.asked.append((current_tenant(), request))
        return generator_pb.EnrichResponse(category="food", provider="p", model="m")


def serving(generator: Generator) -> AbstractAsyncContextManager[str]:
    return worker_upstream("generator", pb_grpc.add_GeneratorServiceServicer_to_server, generator)


@pytest.fixture
async def library(database: HasDsn) -> AsyncIterator[EnrichmentLibrary]:
    async with EnrichmentLibrary.open(database) as opened:
        yield opened


def provide(database: HasDsn, user_id: str, position: int, provider: str, model: str, org_id: str = "acme") -> None:
    with psycopg.connect(database.dsn("postgres")) as owner:
        owner.execute(
            "INSERT INTO chat.providers (org_id, user_id, type, position, provider, model, sealed_key, updated_by)"
            " VALUES (%s, %s, 'chat', %s, %s, %s, %s, 'admin')",
            (org_id, user_id, position, provider, model, f"sealed {model}".encode() if provider else b""),
        )


def require_own_once_live(database: HasDsn) -> None:
    """Requires own providers as soon as a document is live; before that, its ingest needs the operator's embedder."""
    with psycopg.connect(database.dsn("postgres"), autocommit=True) as owner:
        owner.execute("INSERT INTO chat.provider_rules (org_id, require_own) VALUES ('acme', false)")
        owner.execute(
            "CREATE FUNCTION demand() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS"
            " $$ BEGIN UPDATE chat.provider_rules SET require_own = true; RETURN NULL; END $$"
        )
        owner.execute(
            "CREATE TRIGGER demand AFTER INSERT ON corpus.ingest_jobs"
            " FOR EACH ROW WHEN (NEW.kind = 'enrich') EXECUTE FUNCTION demand()"
        )


async def test_the_tenants_own_chain_is_asked_in_its_order(library: EnrichmentLibrary, database: HasDsn) -> None:
    generator = Generator()  # pyright: ignore[reportAbstractUsage] # the worker calls nothing else
    async with embedder_address(FakeModel(window=WINDOW)) as embedder, serving(generator) as target:
        async with running_worker(worker_settings(database, embedder, generator_target=target)):
            await library.until_done(await library.save())
            assert not generator.asked[-1][1].HasField("provider"), "no provider means the operator's"
            provide(database, "", 0, "openai", "the-organisations")
            provide(database, "", 0, "openai", "foreign", org_id="other")
            await library.until_done(await library.save())
            assert generator.asked[-1][1].provider.model == "the-organisations"
            provide(database, ACME.user_id, 0, "anthropic", "mine")
            provide(database, ACME.user_id, 1, "", "gpt-of-the-operator")
            provide(database, ACME.user_id, 2, "ollama", "mine-too")
            await library.until_done(await library.save())
            tenant, request = generator.asked[-1]
            assert (tenant.org_id, tenant.user_id) == (ACME.org_id, ACME.user_id)
            assert (request.provider.model, request.provider.sealed_key) == ("mine", b"sealed mine")
            assert [fallback.model or fallback.provider.model for fallback in request.fallbacks] == [
                "gpt-of-the-operator",
                "mine-too",
            ]
            # In a thread: it may wait for a transaction of the worker, which runs in this loop.
            await asyncio.to_thread(require_own_once_live, database)
            await library.until_done(await library.save())
            assert [fallback.provider.model for fallback in generator.asked[-1][1].fallbacks] == ["mine-too"]


async def test_if_own_models_are_required_and_missing_no_model_sees_the_text(
    library: EnrichmentLibrary, database: HasDsn
) -> None:
    require_own_once_live(database)
    generator = Generator()  # pyright: ignore[reportAbstractUsage] # the worker calls nothing else
    async with embedder_address(FakeModel(window=WINDOW)) as embedder, serving(generator) as target:
        async with running_worker(worker_settings(database, embedder, generator_target=target)):
            document_id = await library.save("A restaurant in Rome. The restaurant serves fish.")
            labels = await library.until_done(document_id)
            assert labels["entity_type"] == "restaurant"
            document = await library.get(document_id)
            assert document.enrichment.source == pb.ENRICHMENT_SOURCE_RULES
    assert generator.asked == []


async def test_only_labels_of_the_owners_documents_are_sent(library: EnrichmentLibrary, database: HasDsn) -> None:
    neighbour = Tenant(ACME.org_id, "neighbour", "pro")
    generator = Generator()  # pyright: ignore[reportAbstractUsage] # the worker calls nothing else
    async with embedder_address(FakeModel(window=WINDOW)) as embedder, serving(generator) as target:
        async with running_worker(worker_settings(database, embedder, generator_target=target)):
            await library.until_done(await library.save(tags=["mine"], metadata={"entity_type": "Cafe"}))
            await library.save(tags=["secret"], tenant=neighbour)
            await library.save(tags=["foreign"], tenant=OTHER, collection="")
            await library.until_done(await library.save())
    request = [request for tenant, request in generator.asked if tenant.user_id == ACME.user_id][-1]
    assert list(request.labels.tags) == ["mine"]
    assert list(request.labels.entity_types) == ["Cafe"]


async def test_the_worker_sees_its_tenants_chat_providers_and_no_table(database: HasDsn) -> None:
    provide(database, "", 0, "openai", "a")
    provide(database, "", 0, "openai", "b", org_id="other")
    async with await psycopg.AsyncConnection.connect(database.dsn("citewire_worker"), autocommit=True) as worker:
        assert await (await worker.execute("SELECT model FROM chat.chat_providers")).fetchall() == []
        async with worker.transaction():
            await worker.execute("SELECT set_config('citewire.org_id', 'acme', true)")
            assert await (await worker.execute("SELECT model FROM chat.chat_providers")).fetchall() == [("a",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await worker.execute("UPDATE chat.chat_providers SET model = 'x'")


async def test_a_call_is_in_the_ledger_and_a_budget_refuses_it(database: Database, tmp_path: Path) -> None:
    async def behave(exchange: Exchange) -> None:
        choice = {"index": 0, "message": {"role": "assistant", "content": answer()}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 400, "completion_tokens": 50}
        await exchange.head(200, "application/json")
        await exchange.send(json.dumps({"choices": [choice], "usage": usage}).encode())

    upstream = RawUpstream(behave)
    request = generator_pb.EnrichRequest(text="Fish.", fields=[generator_pb.ENRICHMENT_FIELD_CATEGORY])
    async with upstream.running() as base:
        options: dict[str, Any] = {"provider": "openai-compatible", "api_base": base, "model": MODEL, "auth": "keys"}
        async with running_generator(
            **options, catalogue=write_catalogue(tmp_path), ledger_dsn=database.dsn("citewire_ledger")
        ) as running:
            with use_tenant(ACME):
                response = await client.unary(running.stub.Enrich, request, timeout=10)
                assert response.category == ANSWER["category"]
                put_budget(database, Decimal("0.000001"))
                with pytest.raises(CitewireError) as caught:
                    await client.unary(running.stub.Enrich, request, timeout=10)
            assert caught.value.reason == "BUDGET_EXCEEDED"
    with psycopg.connect(database.owner_dsn) as connection:
        rows = connection.execute("SELECT org_id, user_id, purpose, input_tokens, output_tokens FROM ledger.calls")
        assert rows.fetchall() == [("acme", "ann", "enrichment", 400, 50)]
    assert len(upstream.requests) == 1


def put_budget(database: Database, usd: Decimal) -> None:
    with psycopg.connect(database.dsn("citewire_chat")) as connection:
        connection.execute("SELECT set_config('citewire.org_id', 'acme', true)")
        connection.execute("SELECT ledger.put_budget('', 'day', %s, 'ann')", (int(usd * 10**9),))
