"""The worker embeds with the tenant's own provider, which it reads through two views and can't decrypt."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

import grpc
import numpy as np
import psycopg
import pytest
from citewire.common.v1 import common_pb2
from citewire.embedder.v1 import embedder_pb2 as pb
from citewire.embedder.v1 import embedder_pb2_grpc as pb_grpc

from citewire_kit.errors import CitewireError, FailedPrecondition
from citewire_kit.tenant import Tenant, current_tenant
from citewire_retriever.ingest.model import VersionToIngest
from databases import HasDsn
from ingest_harness import ACME, OTHER, IngestHarness, article, running_worker, worker_settings
from worker_upstream import worker_upstream

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
OWN_SPACE = common_pb2.EmbeddingSpace(model="own-model", revision="own", dimensions=4)
OPERATORS_SPACE = common_pb2.EmbeddingSpace(model="operators", revision="r1", dimensions=4)


class Embedder(pb_grpc.EmbedderServiceServicer):
    """Serves the operator's model and tenants' own models."""

    def __init__(self) -> None:
        self.count_requests: list[pb.CountTokensRequest] = []
        self.embedded: list[tuple[Tenant, pb.EmbedRequest]] = []
        self.error: CitewireError | None = None

    async def CountTokens(self, request: pb.CountTokensRequest, context: Context) -> pb.CountTokensResponse:  # noqa: N802 # gRPC's name
        self.count_requests.append(request)
        own = request.HasField("provider")
        return pb.CountTokensResponse(
            counts=[len(text.split()) for text in request.inputs],
            max_input_tokens=200,
            space=OWN_SPACE if own else OPERATORS_SPACE,
        )

    async def EmbedStream(  # noqa: N802 # gRPC's name
        self, request_iterator: AsyncIterator[pb.EmbedStreamRequest], context: Context
    ) -> AsyncGenerator[pb.EmbedStreamResponse]:
        async for request in request_iterator:
            self.embedded.append((current_tenant(), request.batch))
            if self.error is not None:
                raise self.error
            texts = len(request.batch.inputs)
            batch = pb.EmbedResponse(
                vectors=np.full((texts, 4), 0.5, "<f4").tobytes(),
                space=OWN_SPACE if request.batch.HasField("provider") else OPERATORS_SPACE,
                token_counts=[1] * texts,
            )
            yield pb.EmbedStreamResponse(batch_id=request.batch_id, batch=batch)


def make_embedder() -> Embedder:
    return Embedder()  # pyright: ignore[reportAbstractUsage] # the worker calls nothing else


def serving(embedder: Embedder) -> AbstractAsyncContextManager[str]:
    return worker_upstream("embedder", pb_grpc.add_EmbedderServiceServicer_to_server, embedder)


@pytest.fixture
async def harness(database: HasDsn) -> AsyncIterator[IngestHarness]:
    async with IngestHarness.open(database) as opened:
        yield opened


async def provide(harness: IngestHarness, org: str, user: str, model: str) -> None:
    await harness.owner.execute(
        "INSERT INTO chat.providers (org_id, user_id, type, position, provider, model, sealed_key, updated_by)"
        " VALUES (%s, %s, 'embedding', 0, 'openai', %s, %s, 'test')",
        (org, user, model, f"sealed for {org}/{user}".encode()),
    )


async def require_own(harness: IngestHarness, org: str) -> None:
    await harness.owner.execute("INSERT INTO chat.provider_rules (org_id, require_own) VALUES (%s, true)", (org,))


async def begin(harness: IngestHarness, tenant: Tenant) -> VersionToIngest:
    await harness.upload("a.txt", "text", tenant=tenant)
    job = await harness.worker.claim("ingest", worker="test", lease_seconds=60)
    assert job is not None
    return await harness.worker.begin(job)


async def test_the_uploaders_own_provider_comes_first_and_another_tenants_never(harness: IngestHarness) -> None:
    await provide(harness, OTHER.org_id, "", "others")
    await provide(harness, OTHER.org_id, ACME.user_id, "others-too")
    await provide(harness, ACME.org_id, "somebody-else", "not-mine")
    await require_own(harness, OTHER.org_id)
    version = await begin(harness, ACME)
    assert (version.own, version.only_own) == (None, False)
    await provide(harness, ACME.org_id, "", "the-organisations")
    version = await begin(harness, ACME)
    assert version.own is not None
    assert (version.own.model, version.own.user_id) == ("the-organisations", "")
    await provide(harness, ACME.org_id, ACME.user_id, "mine")
    version = await begin(harness, ACME)
    assert version.own is not None
    assert (version.own.model, version.own.user_id) == ("mine", ACME.user_id)
    assert version.own.sealed_key == f"sealed for {ACME.org_id}/{ACME.user_id}".encode()
    assert (await begin(harness, OTHER)).only_own


async def test_the_worker_sees_its_tenants_embedding_providers_and_nothing_else(
    harness: IngestHarness, database: HasDsn
) -> None:
    await provide(harness, ACME.org_id, "", "a")
    await provide(harness, OTHER.org_id, "", "b")
    async with await psycopg.AsyncConnection.connect(database.dsn("citewire_worker"), autocommit=True) as worker:
        seen = "SELECT model FROM chat.embedding_providers"
        assert await (await worker.execute(seen)).fetchall() == []
        async with worker.transaction():
            await worker.execute("SELECT set_config('citewire.org_id', %s, true)", (ACME.org_id,))
            assert await (await worker.execute(seen)).fetchall() == [("a",)]
        for table in ("providers", "provider_rules", "conversations", "api_keys"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await worker.execute(f"SELECT FROM chat.{table}".encode())  # names of our own tables
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await worker.execute("UPDATE chat.embedding_providers SET model = 'x'")


async def test_a_database_without_the_gateways_schema_has_none(harness: IngestHarness) -> None:
    await harness.owner.execute("DROP SCHEMA chat CASCADE")
    version = await begin(harness, ACME)
    assert (version.own, version.only_own) == (None, False)


async def test_documents_are_embedded_with_the_tenants_own(harness: IngestHarness, database: HasDsn) -> None:
    await provide(harness, ACME.org_id, "", "own-model")
    embedder = make_embedder()
    async with serving(embedder) as target, running_worker(worker_settings(database, target)):
        document_id = await harness.upload("a.md", article(3), tenant=ACME)
        await harness.until(document_id, "ready")
        other_id = await harness.upload("b.md", article(3), tenant=OTHER)
        await harness.until(other_id, "ready")
    own = [request for tenant, request in embedder.embedded if tenant.org_id == ACME.org_id]
    assert own
    assert all(entry.provider.sealed_key == b"sealed for acme/" and entry.model == "" for entry in own)
    others = [request for tenant, request in embedder.embedded if tenant.org_id == OTHER.org_id]
    assert others
    assert not any(element.HasField("provider") for element in others)
    live = await harness.rows(
        "SELECT o.org_id, s.model FROM corpus.org_spaces o JOIN corpus.spaces s ON s.space_id = o.live_space_id"
        " ORDER BY 1"
    )
    assert [tuple(row.values()) for row in live] == [("acme", "own-model"), ("other", "operators")]


async def test_a_library_in_another_space_stays_in_it(harness: IngestHarness, database: HasDsn) -> None:
    embedder = make_embedder()
    async with serving(embedder) as target, running_worker(worker_settings(database, target)):
        await harness.until(await harness.upload("a.md", article(3), tenant=ACME), "ready")
        await provide(harness, ACME.org_id, "", "own-model")
        await harness.until(await harness.upload("b.md", article(2, name="more"), tenant=ACME), "ready")
    assert not any(request.HasField("provider") for _, request in embedder.embedded)


async def test_a_required_but_missing_own_provider_fails_the_document(harness: IngestHarness, database: HasDsn) -> None:
    await require_own(harness, ACME.org_id)
    embedder = make_embedder()
    async with serving(embedder) as target, running_worker(worker_settings(database, target)):
        document_id = await harness.upload("a.md", article(2), tenant=ACME)
        version = await harness.until(document_id, "failed")
    assert version["error_code"] == "PROVIDER"
    assert "no embedding provider is configured" in version["error_message"]
    assert embedder.count_requests == []


async def test_a_permanent_refusal_by_the_provider_fails_the_document(harness: IngestHarness, database: HasDsn) -> None:
    await provide(harness, ACME.org_id, "", "own-model")
    embedder = make_embedder()
    embedder.error = FailedPrecondition("the model provider refused the credentials", reason="PROVIDER_AUTH")
    async with serving(embedder) as target, running_worker(worker_settings(database, target, max_attempts=2)):
        version = await harness.until(await harness.upload("a.md", article(2), tenant=ACME), "failed")
    assert (version["error_code"], version["error_message"]) == (
        "PROVIDER",
        "The model provider refused the credentials.",
    )
