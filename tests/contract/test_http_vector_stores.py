"""`/v1/vector_stores` and `/v1/files` by OpenAI's own client, unchanged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
import pytest
from citewire.retriever.v1 import corpus_pb2
from google.protobuf import struct_pb2

from gateway_fake_servers import running_fakes
from gateway_fakes import result
from gateway_process import Gateway, running_gateway

if TYPE_CHECKING:
    from databases import Database

FILE = ("report.txt", b"Revenue grew by 12 %.", "text/plain")


@pytest.fixture
async def gateway(database: Database, tmp_path: Path) -> AsyncIterator[Gateway]:
    async with (
        running_fakes() as fakes,
        running_gateway(database, fakes, max_upload_bytes=4096, spool_dir=str(tmp_path)) as running,
    ):
        yield running


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none is asked for", max_retries=0) as made:
        yield made


@pytest.mark.client("openai", "Files, from upload to deletion")
async def test_a_file_is_a_document_from_upload_to_deletion(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    made = await client.files.create(file=FILE, purpose="assistants", extra_body={"tags": "2025"})
    assert (made.filename, made.bytes, made.status, made.object) == ("report.txt", len(FILE[1]), "uploaded", "file")
    assert list(gateway.fakes.corpus.headers[-1].tags) == ["2025"]
    assert (await client.files.retrieve(made.id)).id == made.id
    assert (await client.files.content(made.id)).content == FILE[1]
    others = [(await client.files.create(file=FILE, purpose="user_data")).id for _ in range(2)]
    assert {file.id async for file in client.files.list()} == {made.id, *others}
    assert [file.id async for file in client.files.list(limit=1)] == [made.id, *others]  # page by page
    deleted = await client.files.delete(made.id)
    assert (deleted.deleted, deleted.id) == (True, made.id)
    for gone in (made.id, "file-abc"):
        with pytest.raises(openai.NotFoundError) as caught:
            await client.files.retrieve(gone)
        assert caught.value.code == "document_not_found"


async def test_the_same_key_stores_a_file_once(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    headers = {"Idempotency-Key": "k1"}
    first = await client.files.create(file=FILE, purpose="user_data", extra_headers=headers)
    again = await client.files.create(file=FILE, purpose="user_data", extra_headers=headers)
    assert (again.id, gateway.fakes.corpus.uploads) == (first.id, 1)


async def test_an_invalid_upload_is_refused_by_name(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        await client.files.create(file=FILE, purpose="fine-tune")
    assert caught.value.param == "purpose"
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        await client.files.create(
            file=FILE, purpose="user_data", expires_after={"anchor": "created_at", "seconds": 3600}
        )
    assert (caught.value.param or "").startswith("expires_after[")  # whichever field the client sends first
    with pytest.raises(openai.APIStatusError) as large:
        await client.files.create(file=("a.txt", b"x" * 5000), purpose="user_data")
    assert large.value.status_code == 413
    response = await gateway.http.post("/v1/files", json={"purpose": "user_data"})
    assert response.status_code == 415
    assert gateway.fakes.corpus.uploads == 0


@pytest.mark.client("openai", "Vector stores")
async def test_a_vector_store_is_a_collection_by_its_name(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    store = await client.vector_stores.create(name="reports/2025")
    assert (store.id, store.name, store.status) == ("reports/2025", "reports/2025", "completed")
    assert (await client.vector_stores.retrieve("reports/2025")).file_counts.total == 0
    await client.vector_stores.create(name="notes")
    assert {store.id async for store in client.vector_stores.list(limit=1)} == {"notes", "reports/2025"}
    for refused in ({"metadata": {"a": "b"}}, {"expires_after": {"anchor": "last_active_at", "days": 1}}):
        changes: Any = refused
        with pytest.raises(openai.UnprocessableEntityError) as caught:
            await client.vector_stores.create(name="more", **changes)
        assert caught.value.param == next(iter(refused))
    assert (await client.vector_stores.delete("notes")).deleted
    gateway.fakes.corpus.collections["reports/2025"] = 1
    with pytest.raises(openai.ConflictError):
        await client.vector_stores.delete("reports/2025")
    with pytest.raises(openai.NotFoundError) as missing:
        await client.vector_stores.retrieve("plans")
    assert missing.value.code == "collection_not_found"


@pytest.mark.client("openai", "Files of vector stores")
async def test_files_are_added_to_a_vector_store_and_removed(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    for name in ("reports", "notes"):
        await client.vector_stores.create(name=name)
    made = await client.files.create(file=FILE, purpose="assistants")
    put = await client.vector_stores.files.create(
        vector_store_id="reports", file_id=made.id, attributes={"year": 2025, "final": True}
    )
    assert (put.id, put.vector_store_id, put.status, put.usage_bytes) == (made.id, "reports", "in_progress", 21)
    assert put.attributes == {"year": 2025, "final": True}
    stored = gateway.fakes.corpus.stored["local", int(made.id)].document
    assert stored.collection == "reports"
    with pytest.raises(openai.ConflictError, match="reports"):
        await client.vector_stores.files.create(vector_store_id="notes", file_id=made.id)
    stored.status = corpus_pb2.DOCUMENT_STATUS_FAILED
    stored.error.message = "The file has no text."
    read = await client.vector_stores.files.retrieve(made.id, vector_store_id="reports")
    assert read.last_error is not None
    assert (read.status, read.last_error.message) == ("failed", "The file has no text.")
    failed = client.vector_stores.files.list("reports", filter="failed")
    assert [file.id async for file in failed] == [made.id]
    assert gateway.fakes.corpus.lists[-1].collection == "reports"
    assert [file.id async for file in client.vector_stores.files.list("reports", filter="completed")] == []
    with pytest.raises(openai.NotFoundError):
        await client.vector_stores.files.retrieve(made.id, vector_store_id="notes")
    assert (await client.vector_stores.files.delete(made.id, vector_store_id="reports")).deleted
    assert stored.collection == ""
    assert (await client.files.retrieve(made.id)).id == made.id


@pytest.mark.client("openai", "Search of vector stores, filtered")
async def test_a_search_is_limited_to_the_collection_and_filtered(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    metadata = struct_pb2.Struct()
    metadata.update({"year": 2025, "parts": ["a"], "team": "a"})
    gateway.fakes.retriever.results = [result(1, metadata=metadata)]
    await client.vector_stores.create(name="reports")
    matches = await client.vector_stores.search(
        "reports",
        query="growth",
        filters={"type": "eq", "key": "year", "value": 2025},
        max_num_results=3,
        ranking_options={"score_threshold": 0.25},
    )
    (match,) = matches.data
    assert (match.file_id, match.filename, match.score) == ("7", "report.pdf", 0.8)
    assert match.attributes == {"year": 2025, "team": "a"}  # plain values only
    assert [part.text for part in match.content] == ["Revenue grew by 12 %."]
    search = gateway.fakes.retriever.searches[-1]
    assert (search.scope.collection, search.top_k, search.min_score) == ("reports", 3, 0.25)
    assert search.scope.filter.comparison.field == "metadata.year"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"query": " "}, "query"),
        ({"query": ["a", "b"]}, "query"),
        ({"filters": {"type": "like"}}, "filters.type"),
        ({"rewrite_query": True}, "rewrite_query"),
        ({"max_num_results": 51}, "max_num_results"),
    ]
    for changes, at in wrong:
        body = {"query": "growth"} | changes
        with pytest.raises(openai.UnprocessableEntityError) as caught:
            await client.post("/vector_stores/reports/search", body=body, cast_to=object)
        assert caught.value.param == at
    with pytest.raises(openai.NotFoundError):
        await client.vector_stores.search("plans", query="growth")
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        _ = [file async for file in client.files.list(after="9")]
    assert caught.value.param == "after"
