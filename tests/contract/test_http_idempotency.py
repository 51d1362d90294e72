"""Idempotency-Key on documents and chats: once, the same answer, or a conflict."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
from citewire.generator.v1 import generator_pb2

from citewire_kit.errors import Unavailable
from gateway_fake_servers import running_fakes
from gateway_fakes import completed, delta, started
from gateway_process import Gateway, rows, running_gateway, until_rows, write
from waiting import wait_until

if TYPE_CHECKING:
    from databases import Database

KEY = {"Idempotency-Key": "key-1"}
QUESTION = {"question": "How much did revenue grow?"}
TEXT = {"type": "article", "title": "Notes", "content": "# Words"}


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        yield running


async def test_a_document_is_stored_once_and_answered_the_same(gateway: Gateway) -> None:
    first = await gateway.http.post("/v1/documents", json=TEXT, headers=KEY)
    second = await gateway.http.post("/v1/documents", json=TEXT, headers=KEY)
    assert (first.status_code, second.status_code) == (202, 202)
    assert second.json() == first.json()
    assert second.headers["location"] == first.headers["location"]
    assert len(gateway.fakes.corpus.puts) == 1


async def test_a_file_is_the_same_whatever_boundary_wraps_it(gateway: Gateway) -> None:
    def files(content: bytes = b"content", name: str = "a.md") -> dict[str, tuple[str, bytes]]:
        return {"file": (name, content)}

    first = await gateway.http.post("/v1/documents", files=files(), data={"tags": "x"}, headers=KEY)
    second = await gateway.http.post("/v1/documents", files=files(), data={"tags": "x"}, headers=KEY)
    assert (first.status_code, second.json()) == (202, first.json())
    for other in (
        await gateway.http.post("/v1/documents", files=files(b"other"), data={"tags": "x"}, headers=KEY),
        await gateway.http.post("/v1/documents", files=files(name="b.md"), data={"tags": "x"}, headers=KEY),
        await gateway.http.post("/v1/documents", files=files(), data={"tags": "y"}, headers=KEY),
        await gateway.http.post("/v1/documents", json=TEXT, headers=KEY),
        await gateway.http.post("/v1/chat", json=QUESTION, headers=KEY),
    ):
        assert (other.status_code, other.json()["reason"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert gateway.fakes.corpus.uploads == 1


async def test_repeating_a_running_request_is_a_conflict(gateway: Gateway) -> None:
    go_on = asyncio.Event()

    async def gate() -> None:
        await go_on.wait()

    gateway.fakes.corpus.upload_gate = gate
    files = {"file": ("a.md", b"x")}
    running = asyncio.create_task(gateway.http.post("/v1/documents", files=files, headers=KEY))
    await wait_until(lambda: gateway.fakes.corpus.uploads == 1)
    second = await gateway.http.post("/v1/documents", files=files, headers=KEY)
    assert (second.status_code, second.json()["reason"]) == (409, "IDEMPOTENCY_IN_PROGRESS")
    assert second.headers["retry-after"] == "1"
    go_on.set()
    assert (await running).status_code == 202
    assert (await gateway.http.post("/v1/documents", files=files, headers=KEY)).json() == (await running).json()


async def test_a_failed_request_may_be_repeated(gateway: Gateway) -> None:
    async def fail() -> None:
        raise Unavailable("away", reason="DATABASE_UNAVAILABLE")

    gateway.fakes.corpus.upload_gate = fail
    files = {"file": ("a.md", b"x")}
    assert (await gateway.http.post("/v1/documents", files=files, headers=KEY)).status_code == 503
    gateway.fakes.corpus.upload_gate = None
    assert (await gateway.http.post("/v1/documents", files=files, headers=KEY)).status_code == 202


@pytest.mark.parametrize("path", ["/v1/chat", "/api/chat/", "/api/chat/query"])
async def test_a_chat_is_asked_once_and_its_answer_replayed(gateway: Gateway, path: str) -> None:
    first = await gateway.http.post(path, json=QUESTION, headers=KEY)
    second = await gateway.http.post(path, json=QUESTION, headers=KEY)
    assert second.status_code == first.status_code == 200
    assert len(gateway.fakes.generator.requests) == 1
    if path == "/api/chat/query":
        assert second.json() == first.json()
    elif path == "/api/chat/":
        assert second.text.splitlines()[-2:] == first.text.splitlines()[-2:]


async def test_a_replayed_stream_has_the_same_events_in_the_same_order(gateway: Gateway, database: Database) -> None:
    first = await gateway.stream("/v1/chat", QUESTION, headers=KEY)
    second = await gateway.stream("/v1/chat", QUESTION, headers=KEY)
    assert [frame.raw for frame in second] == [frame.raw for frame in first]
    names = dict.fromkeys(frame.event for frame in second)
    assert list(names) == ["conversation", "citations", "token", "usage", "done"]
    assert rows(database, "SELECT count(*) FROM chat.exchanges") == [(1,)]
    other = await gateway.http.post("/v1/chat", json={**QUESTION, "top_k": 3}, headers=KEY)
    assert (other.status_code, other.json()["reason"]) == (409, "IDEMPOTENCY_CONFLICT")


async def test_an_interrupted_chat_may_be_repeated(gateway: Gateway, database: Database) -> None:
    async def silent(_: generator_pb2.GenerateRequest) -> AsyncIterator[generator_pb2.GenerateResponse]:
        yield started((1, 0))
        yield delta("one")
        await asyncio.Event().wait()
        yield completed()

    script = gateway.fakes.generator.script
    gateway.fakes.generator.script = silent  # pyright: ignore[reportAttributeAccessIssue] # replaced for this test
    async with gateway.http.stream("POST", "/v1/chat", json=QUESTION, headers=KEY) as response:
        pieces = response.aiter_text()  # a reference: an iterator that is dropped closes the response, sooner or later
        async for piece in pieces:
            if "one" in piece:
                break
        running = await gateway.http.post("/v1/chat", json=QUESTION, headers=KEY)
        assert (running.status_code, running.json()["reason"]) == (409, "IDEMPOTENCY_IN_PROGRESS")
    await until_rows(database, "SELECT count(*) FROM chat.idempotency_keys", [(0,)])
    gateway.fakes.generator.script = script
    again = await gateway.stream("/v1/chat", QUESTION, headers=KEY)
    assert again[-1].event == "done"


async def test_the_key_of_a_gateway_that_died_is_free_after_its_lease(gateway: Gateway, database: Database) -> None:
    await gateway.http.post("/v1/documents", json=TEXT, headers=KEY)
    # The row that a gateway killed in the middle would leave.
    take = "UPDATE chat.idempotency_keys SET response = NULL, lease_until = now() + interval '1 hour' RETURNING 1"
    assert await write(database, take) == [(1,)]
    held = await gateway.http.post("/v1/documents", json=TEXT, headers=KEY)
    assert held.json()["reason"] == "IDEMPOTENCY_IN_PROGRESS"
    await write(database, "UPDATE chat.idempotency_keys SET lease_until = now() - interval '1 second' RETURNING 1")
    assert (await gateway.http.post("/v1/documents", json=TEXT, headers=KEY)).status_code == 202
    assert len(gateway.fakes.corpus.puts) == 2


async def test_old_answers_are_deleted(gateway: Gateway, database: Database) -> None:
    await gateway.http.post("/v1/documents", json=TEXT, headers=KEY)
    hours_left = "SELECT round(extract(epoch FROM lease_until - now()) / 3600) FROM chat.idempotency_keys"
    assert rows(database, hours_left) == [(24,)]
    await write(database, "UPDATE chat.idempotency_keys SET lease_until = now() - interval '1 second' RETURNING 1")
    await gateway.services.chats.sweep()
    assert rows(database, "SELECT count(*) FROM chat.idempotency_keys") == [(0,)]


@pytest.mark.parametrize("key", [b"", b"x" * 256, "ü".encode()])
async def test_a_malformed_key_is_refused(gateway: Gateway, key: bytes) -> None:
    response = await gateway.http.post("/v1/documents", json=TEXT, headers={b"Idempotency-Key": key})
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "Idempotency-Key"
