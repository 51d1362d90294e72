"""Uploads of one organisation, slow or merely many, leave the others their share of the slots."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from citewire.retriever.v1 import corpus_pb2 as pb
from citewire.retriever.v1.corpus_pb2_grpc import CorpusServiceStub

from api_keys import bearer, key_for
from citewire_gateway.settings import GatewaySettings
from citewire_kit import client
from citewire_kit.errors import Aborted, ResourceExhausted
from citewire_kit.fair import Holding
from citewire_kit.pace import Pace, paced
from citewire_kit.tasks import end
from citewire_kit.tenant import use_tenant
from citewire_retriever.service.backlogs import Backlogs
from corpus_calls import MINE, THEIRS, rows
from gateway_fake_servers import running_fakes
from gateway_process import Gateway, running_gateway
from retriever_process import Caller
from waiting import BUSY_SECONDS, wait_until

if TYPE_CHECKING:
    import psycopg

    from databases import Database

SLOTS = GatewaySettings.model_fields["max_uploads"].default
HEAD = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\n'


@pytest.fixture
def retriever_settings() -> dict[str, int]:
    return {"max_uploads": 4}


@asynccontextmanager
async def stalled_uploads(gateway: Gateway, key: str, count: int) -> AsyncGenerator[list[asyncio.StreamReader]]:
    """Uploads that have sent the beginning of a form and send no more; yields their readers."""
    host, port = gateway.url.removeprefix("http://").split(":")
    readers: list[asyncio.StreamReader] = []
    writers: list[asyncio.StreamWriter] = []
    request = (
        f"POST /v1/documents HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {key}\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000000\r\n\r\n"
    ).encode() + HEAD
    try:
        for _ in range(count):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(request)
            readers.append(reader)
            writers.append(writer)
        await wait_until(lambda: gateway.services.uploads.total == count, 20)
        yield readers
    finally:
        for writer in writers:
            writer.close()


async def test_stalled_uploads_of_one_organisation_keep_nobody_else_out(database: Database) -> None:
    mine, theirs = [(await key_for(database, org, "ada"))["key"] for org in ("acme", "other")]
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as gateway:
        async with stalled_uploads(gateway, mine, SLOTS) as readers:
            for _ in range(3):
                response = await gateway.http.post(
                    "/v1/documents", files={"file": ("a.md", b"x")}, headers=bearer(theirs)
                )
                assert response.status_code == 202, response.text
            # The organisation that held all slots lost its newest upload: only one, as the slot stayed free.
            answers = [asyncio.create_task(reader.readuntil(b"\r\n\r\n")) for reader in readers]
            done, waiting = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED, timeout=10)
            (answer,) = [task.result() for task in done]
            await end(*waiting)
            assert b" 503 " in answer.splitlines()[0]
            assert b"retry-after" in answer.lower()
            assert gateway.services.uploads.used("acme") == SLOTS - 1
            # Its further uploads get one slot and then none: it can't take slots from organisations with fewer.
            own = await gateway.http.post("/v1/documents", files={"file": ("a.md", b"x")}, headers=bearer(mine))
            assert own.status_code == 202
        await wait_until(lambda: gateway.services.uploads.total == 0, 20)


async def test_an_upload_slower_than_allowed_is_broken_off(database: Database) -> None:
    key = (await key_for(database, "acme", "ada"))["key"]
    slow = {"auth": "keys", "upload_grace_seconds": 0.3}
    async with running_fakes() as fakes, running_gateway(database, fakes, **slow) as gateway:
        async with stalled_uploads(gateway, key, 1) as (reader,), asyncio.timeout(10):
            answer = await reader.readuntil(b"\r\n\r\n")
            assert b" 409 " in answer.splitlines()[0]
            assert b"UPLOAD_ABORTED" in await reader.read(2000)
        assert gateway.services.uploads.total == 0
        assert fakes.corpus.uploads == 0


async def test_stalled_uploads_over_grpc_keep_nobody_else_out(me: Caller, them: Caller) -> None:
    begun, ends = 0, asyncio.Event()

    async def drip() -> AsyncGenerator[pb.UploadDocumentRequest]:
        nonlocal begun
        yield pb.UploadDocumentRequest(header=pb.UploadHeader(file_name="a.md"))
        yield pb.UploadDocumentRequest(data=b"x")
        begun += 1
        await ends.wait()

    async def upload(stub: CorpusServiceStub) -> pb.UploadDocumentResponse:
        with use_tenant(MINE):
            return await client.client_stream(stub.UploadDocument, drip(), timeout=30)

    assert MINE.org_id != THEIRS.org_id
    flood = [asyncio.create_task(upload(me.running.corpus)) for _ in range(4)]
    await wait_until(lambda: begun == 4, 20)
    await asyncio.sleep(0.2)  # until the server has given them slots; a shorter wait could only make this pass
    document = await them.upload(pb.UploadHeader(file_name="b.md"), b"theirs")
    assert document.document_id > 0
    ends.set()
    results = await asyncio.gather(*flood, return_exceptions=True)
    assert [type(result) for result in results].count(ResourceExhausted) == 1


@pytest.mark.parametrize("retriever_settings", [{"max_uploads": 64}])
async def test_storing_faster_than_ingestion_is_slowed_while_others_wait(
    me: Caller, them: Caller, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def begin(callers: Sequence[Caller]) -> list[asyncio.Task[object]]:
        """Begins uploads, and waits until all are stored."""
        header, stored = pb.UploadHeader(file_name="a.md"), "SELECT count(*) FROM corpus.documents"
        before = rows(owner, stored)[0][0]
        assert isinstance(before, int)
        tasks: list[asyncio.Task[object]] = [asyncio.create_task(caller.upload(header, b"text")) for caller in callers]
        await wait_until(lambda: rows(owner, stored) == [(before + len(callers),)], BUSY_SECONDS)
        return tasks

    async def until_answered(callers: Sequence[Caller]) -> None:
        async with asyncio.timeout(BUSY_SECONDS):
            await asyncio.gather(*await begin(callers))

    monkeypatch.setattr("citewire_retriever.service.backlogs._PACE_SECONDS", 600.0)
    await until_answered([me] * 48)  # nothing is ingested here, but no other organisation is waiting
    await until_answered([them, Caller(me.running, replace(MINE, user_id="bob"))])  # others wait for each of these
    held_up = await begin([me] * 3)
    await asyncio.sleep(0.2)  # long enough for answers; a shorter wait could only make this pass
    assert not any(task.done() for task in held_up)
    monkeypatch.setattr("citewire_retriever.service.backlogs._PRESENT_SECONDS", 0.0)
    await end(*held_up)
    await until_answered([me] * 8)  # the others have left


async def test_uploads_of_one_organisation_are_answered_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("citewire_retriever.service.backlogs._PACE_SECONDS", 0.05)
    backlogs = Backlogs()
    backlogs.note_present("acme")
    backlogs.note_present("other")
    began = time.monotonic()
    gone = asyncio.create_task(backlogs.wait("acme"))
    await asyncio.sleep(0)
    waits = [asyncio.create_task(backlogs.wait(org)) for org in ("acme", "acme", "acme", "other")]
    await end(gone)  # an upload that has ended takes no turn
    await asyncio.gather(*waits)
    assert time.monotonic() - began >= 0.15


async def test_time_spent_not_waiting_for_the_sender_does_not_count() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"x"

    async for piece in paced(pieces(), Pace(1.0, 0.05), Holding("a", 1)):
        assert piece == b"x"
        await asyncio.sleep(0.05)  # as if the disk were slow


async def test_a_sender_may_pause_after_being_fast() -> None:
    async def pieces(pause: float) -> AsyncIterator[bytes]:
        yield b"x" * 1000
        await asyncio.sleep(pause)
        yield b"y"

    read = [piece async for piece in paced(pieces(0.2), Pace(1000.0, 0.01), Holding("a", 1))]
    assert len(read) == 2
    with pytest.raises(Aborted):
        async for _ in paced(pieces(5.0), Pace(10_000.0, 0.01), Holding("a", 1)):
            pass


async def test_a_refused_caller_is_refused_by_headers_alone_until_a_slot_is_free(database: Database) -> None:
    mine, theirs = [(await key_for(database, org, "ada"))["key"] for org in ("acme", "other")]
    files = {"file": ("a.md", b"x")}
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys", max_uploads=1) as gateway:
        looked_up: list[bytes] = []
        find = gateway.services.identity.find

        async def find_and_count(key_hash: bytes) -> object:
            looked_up.append(key_hash)
            return await find(key_hash)

        gateway.services.identity.find = find_and_count  # pyright: ignore[reportAttributeAccessIssue] # as the store's own
        async with stalled_uploads(gateway, mine, 1):
            looked_up.clear()
            for _ in range(3):
                response = await gateway.http.post("/v1/documents", files=files, headers=bearer(mine))
                assert (response.status_code, response.json()["reason"]) == (503, "OVERLOADED")
                assert response.headers["retry-after"]
            assert len(looked_up) == 1, "later requests cause no look-up in the database"
            assert (await gateway.http.get("/v1/documents", headers=bearer(mine))).status_code == 200
            assert (await gateway.http.post("/v1/documents", files=files, headers=bearer(theirs))).status_code == 202
        await wait_until(lambda: gateway.services.uploads.total == 0, 20)
        assert (await gateway.http.post("/v1/documents", files=files, headers=bearer(mine))).status_code == 202


async def test_refused_callers_are_looked_up_no_more_often_than_there_are_slots(database: Database) -> None:
    mine = (await key_for(database, "acme", "ada"))["key"]
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys", max_uploads=2) as gateway:
        looked_up, answered = 0, asyncio.Event()
        find = gateway.services.identity.find

        async def held_up(key_hash: bytes) -> object:
            nonlocal looked_up
            looked_up += 1
            await answered.wait()
            return await find(key_hash)

        async def upload() -> int:
            response = await gateway.http.post(
                "/v1/documents", files={"file": ("a.md", b"x")}, headers=bearer(mine), timeout=30
            )
            return response.status_code

        async with stalled_uploads(gateway, mine, 2):
            assert await upload() == 503
        await wait_until(lambda: gateway.services.uploads.total == 0, 20)
        gateway.services.identity.find = held_up  # pyright: ignore[reportAttributeAccessIssue] # as the store's own
        uploads = [asyncio.create_task(upload()) for _ in range(8)]
        await wait_until(lambda: looked_up + sum(task.done() for task in uploads) == 8, 20)
        assert looked_up == 2, "six need no look-up in the database"
        answered.set()
        assert sorted(await asyncio.gather(*uploads)) == [202] * 2 + [503] * 6
        assert await upload() == 202, "slots are released"


async def test_a_refused_caller_waits_for_a_slot_or_the_next_refusal(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("citewire_http.upload_slots._PAUSE_SECONDS", BUSY_SECONDS)
    mine = (await key_for(database, "acme", "ada"))["key"]
    files = {"file": ("a.md", b"x")}
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys", max_uploads=1) as gateway:

        async def upload() -> int:
            response = await gateway.http.post("/v1/documents", files=files, headers=bearer(mine), timeout=60)
            return response.status_code

        async with stalled_uploads(gateway, mine, 1):
            began = time.monotonic()
            assert await upload() == 503
            assert time.monotonic() - began < BUSY_SECONDS, "the first refusal comes at once"
            monkeypatch.setattr("citewire_http.upload_slots._PAUSE_SECONDS", 0.2)
            began = time.monotonic()
            assert await upload() == 503
            assert time.monotonic() - began >= 0.2
            monkeypatch.setattr("citewire_http.upload_slots._PAUSE_SECONDS", 2.0)
            again = asyncio.create_task(upload())
            await asyncio.sleep(0.2)  # until it waits; a shorter wait could only make this pass
        assert await again == 202, "a slot became free in the meantime"
