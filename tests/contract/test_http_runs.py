"""Chat runs that outlive their reader: resumed or stopped on any gateway, and only by their user."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from citewire.generator.v1 import generator_pb2
from prometheus_client import REGISTRY

from api_keys import bearer, key_for
from citewire_http.runs.store import RunState, RunStore
from citewire_kit.postgres import open_pool, tenant_transaction
from citewire_kit.tenant import LOCAL_TENANT, Tenant
from gateway_fake_servers import Fakes, running_fakes
from gateway_fakes import completed, delta, result, started
from gateway_process import Frame, Gateway, frames_of, rows, running_gateway, text_of, until_rows, write
from waiting import BUSY_SECONDS, wait_until

if TYPE_CHECKING:
    from databases import Database

QUESTION: dict[str, Any] = {"question": "How much did revenue grow?"}
WORDS = [f"w{number} " for number in range(40)]
STATES = "SELECT state, reason FROM chat.exchanges ORDER BY started_at"


class SlowAnswer:
    """An answer of 40 words: `free` of them come at once, the others when `go_on` is set."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.go_on = asyncio.Event()
        self.stopped_at: float | None = None

    async def __call__(self, _: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        try:
            yield started((1, 0))
            for number, word in enumerate(WORDS):
                if number == self.free:
                    await self.go_on.wait()
                yield delta(word)
            yield completed()
        except (asyncio.CancelledError, GeneratorExit):
            self.stopped_at = time.monotonic()
            raise


@pytest.fixture
async def fakes() -> AsyncIterator[Fakes]:
    async with running_fakes() as running:
        yield running


@asynccontextmanager
async def begun_run(gateway: Gateway, words: int, **more: object) -> AsyncGenerator[tuple[str, list[Frame]]]:
    """Asks, and yields the run's id and its frames once so many words have come; the reader leaves at the end."""
    async with gateway.http.stream("POST", "/v1/chat", json={**QUESTION, **more}) as response:
        assert response.status_code == 200
        text, pieces = "", response.aiter_text()
        async for piece in pieces:
            text += piece
            if text.endswith("\n\n") and text.count("event: token") >= words:
                break
        yield response.headers["citewire-run"], frames_of(text)


async def resume(gateway: Gateway, run: str, after: str | None = None) -> list[Frame]:
    """Returns the rest of a run's frames."""
    headers = {} if after is None else {"Last-Event-ID": after}
    response = await gateway.http.get(f"/v1/chat/{run}/events", headers=headers)
    assert response.status_code == 200, response.text
    return frames_of(response.text)


def assert_numbered(frames: list[Frame]) -> None:
    assert [frame.id for frame in frames] == [str(number) for number in range(1, len(frames) + 1)]


async def test_an_answer_goes_on_and_is_resumed_on_another_gateway(database: Database, fakes: Fakes) -> None:
    before = ends()
    fakes.generator.script = answer = SlowAnswer(free=7)
    async with running_gateway(database, fakes) as first, running_gateway(database, fakes) as second:
        async with begun_run(first, words=7, grace_seconds=15) as (run, seen):
            pass
        reading = asyncio.create_task(resume(second, run, seen[-1].id))
        await asyncio.sleep(0.6)
        answer.go_on.set()
        rest = await reading
        assert_numbered([*seen, *rest])
        assert text_of([*seen, *rest]) == "".join(WORDS)
        assert rest[-1].event == "done"
        whole = await resume(second, run)
        assert [frame.raw for frame in whole] == [frame.raw for frame in [*seen, *rest]]
        assert rows(database, STATES) == [("done", None)]
        assert ends() - before == Counter(done=1)
        conversation = whole[0].data["conversation_id"]
        messages = (await second.http.get(f"/v1/conversations/{conversation}")).json()["messages"]
        assert messages[-1]["content"] == "".join(WORDS)


async def test_a_reader_who_leaves_stops_a_run_without_grace(database: Database, fakes: Fakes) -> None:
    fakes.generator.script = answer = SlowAnswer(free=7)
    async with running_gateway(database, fakes) as gateway:
        async with begun_run(gateway, words=7) as (run, _):
            pass
        left = time.monotonic()
        await until_rows(database, STATES, [("cancelled", "client")])
        assert answer.stopped_at is not None
        assert answer.stopped_at - left < BUSY_SECONDS
        assert rows(database, "SELECT count(*) FROM chat.run_events") == [(0,)]
        response = await gateway.http.get(f"/v1/chat/{run}/events")
        assert (response.status_code, response.json()["reason"]) == (404, "RUN_NOT_FOUND")


async def test_a_run_without_a_reader_stops_after_its_grace_period(database: Database, fakes: Fakes) -> None:
    fakes.generator.script = answer = SlowAnswer(free=7)
    async with running_gateway(database, fakes) as gateway:
        async with begun_run(gateway, words=7, grace_seconds=1) as (run, seen):
            pass
        left = time.monotonic()
        await until_rows(database, STATES, [("cancelled", "client")])
        assert answer.stopped_at is not None
        assert 0.9 < answer.stopped_at - left < 1 + BUSY_SECONDS
        frames = await resume(gateway, run)
        assert [frame.raw for frame in frames[:-2]] == [frame.raw for frame in seen]
        assert frames[-2].data == {
            "text": "the answer was stopped: nobody was reading it",
            "reason": "RUN_CANCELLED",
            "last_sequence": int(seen[-1].id or 0),
        }
        assert frames[-1].event == "done"


async def test_a_reader_elsewhere_keeps_a_run_alive(database: Database, fakes: Fakes) -> None:
    fakes.generator.script = answer = SlowAnswer(free=7)
    async with running_gateway(database, fakes) as first, running_gateway(database, fakes) as second:
        async with begun_run(first, words=7, grace_seconds=1) as (run, seen):
            reading = asyncio.create_task(resume(second, run, seen[-1].id))
            await until_rows(database, "SELECT count(read_at) FROM chat.exchanges", [(1,)])
        await asyncio.sleep(4)
        assert answer.stopped_at is None
        answer.go_on.set()
        assert (await reading)[-1].event == "done"


async def test_a_detached_run_needs_no_reader(database: Database, fakes: Fakes) -> None:
    fakes.generator.script = answer = SlowAnswer(free=7)
    async with running_gateway(database, fakes) as gateway:
        async with begun_run(gateway, words=7, detach=True) as (run, seen):
            pass
        await asyncio.sleep(1)
        answer.go_on.set()
        await until_rows(database, STATES, [("done", None)])
        assert_numbered([*seen, *await resume(gateway, run, seen[-1].id)])


@pytest.mark.parametrize("stream", [True, False])
async def test_a_run_is_stopped_from_another_gateway(database: Database, fakes: Fakes, stream: bool) -> None:
    fakes.generator.script = answer = SlowAnswer(free=7)
    async with running_gateway(database, fakes) as first, running_gateway(database, fakes) as second:
        body = {**QUESTION, "grace_seconds": 15, "stream": stream}
        answering = asyncio.create_task(first.http.post("/v1/chat", json=body))
        await until_rows(database, "SELECT max(last_sequence) FROM chat.run_events", [(9,)])
        [(run,)] = rows(database, "SELECT exchange_id::text FROM chat.exchanges")
        cancelled = time.monotonic()
        for gateway in (second, first, second):
            response = await gateway.http.post(f"/v1/chat/{run}/cancel")
            assert (response.status_code, response.json()["run_id"]) == (202, run)
        response = await answering
        assert answer.stopped_at is not None
        assert answer.stopped_at - cancelled < BUSY_SECONDS
        await until_rows(database, STATES, [("cancelled", "cancel")])
        if not stream:
            assert (response.status_code, response.json()["reason"]) == (409, "RUN_CANCELLED")
            return
        frames = frames_of(response.text)
        assert frames[-2].data["reason"] == "RUN_CANCELLED"
        assert [frame.raw for frame in await resume(second, run)] == [frame.raw for frame in frames]
        assert (await second.http.post(f"/v1/chat/{run}/cancel")).json()["state"] == "cancelled"


async def test_a_run_without_grace_is_stopped_too(database: Database, fakes: Fakes) -> None:
    fakes.generator.script = answer = SlowAnswer(free=7)
    async with running_gateway(database, fakes) as first, running_gateway(database, fakes) as second:
        async with begun_run(first, words=7) as (run, _):
            assert (await second.http.post(f"/v1/chat/{run}/cancel")).json()["state"] == "running"
            await wait_until(lambda: answer.stopped_at is not None)


def ends() -> Counter[str]:
    """The numbers of runs by outcome, over the gateways of this process."""
    outcomes = ("done", "cancelled", "failed", "lost")
    values = {
        outcome: REGISTRY.get_sample_value("citewire_runs_total", {"outcome": outcome}) or 0 for outcome in outcomes
    }
    return Counter({outcome: int(value) for outcome, value in values.items()})


async def test_a_run_whose_gateway_is_gone_is_lost(
    database: Database, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ends()
    fakes.generator.script = SlowAnswer(free=7)
    gone, back = asyncio.Event(), asyncio.Event()
    async with running_gateway(database, fakes) as first, running_gateway(database, fakes) as second:
        watch = RunStore.watch

        async def watch_again(self: RunStore, runs: Mapping[UUID, str], lease_seconds: float) -> list[RunState]:
            if self is first.services.run_store:
                gone.set()
                await back.wait()
            return await watch(self, runs, lease_seconds)

        async with begun_run(first, words=7, grace_seconds=15) as (run, seen):
            await until_rows(database, "SELECT max(last_sequence) FROM chat.run_events", [(9,)])
            monkeypatch.setattr(RunStore, "watch", watch_again)
            await gone.wait()  # otherwise it would renew the lease before the other gateway looks
            await write(database, "UPDATE chat.exchanges SET lease_until = now() - interval '1 second' RETURNING 1")
            frames = await resume(second, run, seen[3].id)
            assert [frame.raw for frame in frames[:-2]] == [frame.raw for frame in seen[4:]]
            assert frames[-2].event == "error"
            assert (frames[-2].data["reason"], frames[-2].data["last_sequence"]) == ("RUN_LOST", int(seen[-1].id or 0))
            assert [frame.id for frame in frames[-2:]] == [str(len(seen) + 1), str(len(seen) + 2)]
        back.set()
        # Its gateway is alive after all: it notices, and stops the run that readers were told is lost.
        await until_rows(database, STATES, [("failed", "ORPHANED")])
        await wait_until(lambda: fakes.generator.ended == ["cancelled"])
        again = await resume(second, run, "20")
        assert [frame.id for frame in again] == ["21", "22"]
    assert ends() - before == Counter(lost=1)


async def test_a_run_that_was_read_to_its_end_is_not_sent_again(database: Database, fakes: Fakes) -> None:
    async with running_gateway(database, fakes) as gateway:
        response = await gateway.http.post("/v1/chat", json={**QUESTION, "grace_seconds": 1})
        frames, run = frames_of(response.text), response.headers["citewire-run"]
        last = await gateway.http.get(f"/v1/chat/{run}/events", headers={"Last-Event-ID": frames[-1].id or ""})
        assert last.status_code == 204
        assert [frame.raw for frame in await resume(gateway, run, frames[-2].id)] == [frames[-1].raw]


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "9999999999", "٣"])
async def test_a_number_that_no_frame_has_is_refused(database: Database, fakes: Fakes, value: str) -> None:
    async with running_gateway(database, fakes) as gateway:
        response = await gateway.http.post("/v1/chat", json={**QUESTION, "grace_seconds": 1})
        path = f"/v1/chat/{response.headers['citewire-run']}/events"
        answer = await gateway.http.get(path, headers={b"Last-Event-ID": value.encode()})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "Last-Event-ID")


@pytest.mark.parametrize(
    "fields", [{"grace_seconds": 61}, {"grace_seconds": -1}, {"grace_seconds": 1.5}, {"detach": 1}]
)
async def test_a_grace_out_of_range_is_refused(database: Database, fakes: Fakes, fields: dict[str, Any]) -> None:
    async with running_gateway(database, fakes) as gateway:
        response = await gateway.http.post("/v1/chat", json={**QUESTION, **fields})
        assert (response.status_code, response.json()["errors"][0]["field"]) == (422, next(iter(fields)))


async def test_expired_events_are_swept(database: Database, fakes: Fakes) -> None:
    async with running_gateway(database, fakes) as gateway:
        response = await gateway.http.post("/v1/chat", json={**QUESTION, "grace_seconds": 1})
        run = response.headers["citewire-run"]
        seconds = "SELECT round(extract(epoch FROM events_until - ended_at)) FROM chat.exchanges"
        assert rows(database, seconds) == [(300,)]
        await gateway.services.run_store.sweep()
        assert await resume(gateway, run)
        await write(database, "UPDATE chat.exchanges SET events_until = now() - interval '1 second' RETURNING 1")
        await gateway.services.run_store.sweep()
        assert rows(database, "SELECT count(*) FROM chat.run_events") == [(0,)]
        assert (await gateway.http.get(f"/v1/chat/{run}/events")).json()["reason"] == "RUN_NOT_FOUND"


async def test_events_are_deleted_with_their_conversation(database: Database, fakes: Fakes) -> None:
    async with running_gateway(database, fakes) as gateway:
        response = await gateway.http.post("/v1/chat", json={**QUESTION, "grace_seconds": 1})
        conversation = frames_of(response.text)[0].data["conversation_id"]
        assert rows(database, "SELECT count(*) > 0 FROM chat.run_events") == [(True,)]
        assert (await gateway.http.delete(f"/v1/conversations/{conversation}")).status_code == 204
        assert rows(database, "SELECT count(*) FROM chat.run_events") == [(0,)]


async def test_nobody_else_reads_or_stops_a_run(database: Database, fakes: Fakes) -> None:
    fakes.generator.script = answer = SlowAnswer(free=7)
    async with running_gateway(database, fakes, auth="keys") as gateway:
        people = {
            user: bearer((await key_for(database, org, user))["key"])  # ada is the organisation's owner
            for org, user in (("acme", "ada"), ("acme", "bob"), ("other", "mallory"))
        }
        made = await gateway.http.post("/v1/keys", json={"scopes": ["read"]}, headers=people["bob"])
        people["reader"] = bearer(made.json()["key"])
        gateway.http.headers.update(people["bob"])
        async with begun_run(gateway, words=7, grace_seconds=15) as (run, _):
            await until_rows(database, "SELECT max(last_sequence) FROM chat.run_events", [(9,)])
            for user, status in (("ada", 404), ("mallory", 404), ("reader", 403)):
                for method, what in (("GET", "events"), ("POST", "cancel")):
                    response = await gateway.http.request(method, f"/v1/chat/{run}/{what}", headers=people[user])
                    assert response.status_code == status, (user, what, response.text)
            assert rows(database, "SELECT count(*) FROM chat.exchanges WHERE cancel_requested") == [(0,)]
            answer.go_on.set()
        assert (await resume(gateway, run))[-1].event == "done"
    pool = await open_pool(database.dsn("citewire_chat"), max_size=1, name="rls")
    try:
        # Row-level security alone, without the queries' own conditions.
        for user, sees in (("bob", True), ("ada", False)):
            async with tenant_transaction(pool, Tenant("acme", user, "pro")) as connection:
                row = await (await connection.execute("SELECT count(*) > 0 FROM chat.run_events")).fetchone()
                assert row == (sees,)
    finally:
        await pool.close()


async def test_a_reader_who_loses_access_gets_nothing_more_of_a_run(database: Database, fakes: Fakes) -> None:
    """Also if all documents were named at the beginning, and only text follows."""
    fakes.retriever.results = [result(1)]
    fakes.generator.script = answer = SlowAnswer(free=7)
    async with running_gateway(database, fakes) as gateway:
        async with begun_run(gateway, words=7, detach=True) as (run, seen):
            await until_rows(database, "SELECT max(last_sequence) FROM chat.run_events", [(int(seen[-1].id or 0),)])
        async with gateway.http.stream("GET", f"/v1/chat/{run}/events") as response:
            text, pieces = "", response.aiter_text()
            async for piece in pieces:
                text += piece
                if text.count("event: token") >= 7:
                    break
            fakes.retriever.hidden[LOCAL_TENANT.user_id] = {7}
            await asyncio.sleep(1.1)  # for a second the last decision counts
            answer.go_on.set()
            text += "".join([piece async for piece in pieces])
        frames = frames_of(text)
        assert text_of(frames) == "".join(WORDS[:7])
        assert [frame.event for frame in frames[-2:]] == ["error", "done"]
        assert "there is no run" in frames[-2].data["text"]


async def test_a_run_is_erased_with_a_document_that_it_cites(database: Database, fakes: Fakes) -> None:
    fakes.retriever.results = [result(1)]
    async with running_gateway(database, fakes) as gateway:
        response = await gateway.http.post(
            "/v1/chat", json={**QUESTION, "grace_seconds": 1}, headers={"Idempotency-Key": "k"}
        )
        run = response.headers["citewire-run"]
        [(named,)] = rows(database, "SELECT max((chat.named_documents(payload))[1]) FROM chat.run_events")
        assert rows(database, "SELECT exchange_id::text FROM chat.idempotency_keys") == [(run,)]
        await gateway.services.eraser.erase(LOCAL_TENANT, [named + 1])
        assert rows(database, "SELECT count(*) > 0 FROM chat.run_events") == [(True,)]
        await gateway.services.eraser.erase(LOCAL_TENANT, [named])
        assert rows(database, "SELECT count(*) FROM chat.run_events") == [(0,)]
        assert rows(database, "SELECT count(*) FROM chat.idempotency_keys") == [(0,)]
        gone = await gateway.http.get(f"/v1/chat/{run}/events")
        assert frames_of(gone.text)[0].event == "error"


async def test_a_user_who_lost_access_to_a_document_cannot_resume_the_run(database: Database, fakes: Fakes) -> None:
    async with running_gateway(database, fakes) as gateway:
        response = await gateway.http.post("/v1/chat", json={**QUESTION, "grace_seconds": 1})
        fakes.retriever.hidden["local"] = {7}
        frames = await resume(gateway, response.headers["citewire-run"])
        assert [frame.event for frame in frames] == ["error", "done"]


async def test_a_run_without_a_conversation_can_be_resumed_in_every_dialect(database: Database, fakes: Fakes) -> None:
    """A run of OpenAI's API is resumed as a native stream."""
    async with running_gateway(database, fakes) as gateway:
        body = {
            "model": "documents",
            "messages": [{"role": "user", "content": "How much?"}],
            "citewire": {"grace_seconds": 1},
        }
        for stream in (True, False):
            response = await gateway.http.post("/v1/chat/completions", json={**body, "stream": stream})
            frames = await resume(gateway, response.headers["citewire-run"])
            assert_numbered(frames)
            assert frames[-1].event == "done"
            assert text_of(frames) == 'Revenue grew by "12" %.'
