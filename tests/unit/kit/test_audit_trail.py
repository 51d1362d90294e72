"""The audit trail of a process: nothing is lost while there is room, and a loss is never silent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from prometheus_client import REGISTRY

from citewire_kit.audit import (
    NO_TRAIL,
    AuditTrail,
    current_record,
    note,
    running_trail,
    touch,
    use_record,
)
from citewire_kit.audit_chain import Block, ChainCheck
from citewire_kit.audit_events import Action, AuditEvent, Outcome
from citewire_kit.errors import Unavailable
from citewire_kit.tenant import Tenant, use_request_id, use_tenant
from waiting import wait_until


class Database:
    """Stores blocks; can be made to fail, or to report a failure after writing."""

    def __init__(self) -> None:
        self.written: dict[int, tuple[Block, list[AuditEvent]]] = {}
        self.away = False
        self.lies = 0

    async def write(self, block: Block, events: Sequence[AuditEvent]) -> None:
        await asyncio.sleep(0)
        if self.away:
            raise Unavailable("away", reason="DATABASE_UNAVAILABLE")
        assert self.written.setdefault(block.seq, (block, list(events)))[0].hash == block.hash
        if self.lies:
            self.lies -= 1
            raise Unavailable("the connection was lost after the commit", reason="DATABASE_UNAVAILABLE")

    def events(self) -> list[AuditEvent]:
        checking = ChainCheck({})
        for block, events in self.written.values():
            checking.add(block, events)
        assert checking.finish().problems == []
        return [event for _, events in self.written.values() for event in events]


def make(number: int, org: str = "acme") -> AuditEvent:
    return AuditEvent(datetime.now(UTC), org, "ada", "", "", "search", (f"document:{number}",), "ok", "", "", "", "r")


def dropped() -> float:
    return REGISTRY.get_sample_value("citewire_audit_dropped_total") or 0.0


async def test_events_are_written_in_their_order() -> None:
    database = Database()
    trail = AuditTrail(database.write, process="gateway")
    events = [make(number) for number in range(2500)]
    for event in events:
        trail.add(event)
    await trail.flush()
    assert database.events() == events
    assert len(database.written) == 3  # blocks are bounded


async def test_events_wait_while_writing_fails_and_a_repeated_block_is_the_same() -> None:
    database = Database()
    trail = AuditTrail(database.write, process="gateway")
    database.away = True
    trail.add(make(1))
    with pytest.raises(Unavailable):
        await trail.flush()
    trail.add(make(2))
    database.away, database.lies = False, 1
    with pytest.raises(Unavailable):
        await trail.flush()
    await trail.flush()
    assert [event.objects for event in database.events()] == [("document:1",), ("document:2",)]


async def test_events_that_do_not_fit_are_counted_and_their_number_recorded() -> None:
    database, before = Database(), dropped()
    trail = AuditTrail(database.write, process="gateway", max_waiting=10)
    for number in range(13):
        trail.add(make(number))
    trail.add(make(14, "other"))
    trail.check()  # this trail isn't required
    assert dropped() - before == 4
    await trail.flush()
    lost = [(event.org_id, event.objects) for event in database.events() if event.action == Action.AUDIT_DROPPED]
    assert lost == [("acme", ("events:3",)), ("other", ("events:1",))]
    assert len(database.events()) == 12


async def test_a_required_trail_without_room_refuses() -> None:
    database = Database()
    trail = AuditTrail(database.write, process="gateway", required=True, max_waiting=2)
    for number in range(2):
        trail.check()
        trail.add(make(number))
    with pytest.raises(Unavailable, match="audit trail"):
        trail.check()
    await trail.flush()
    trail.check()


async def test_waiting_events_are_written_at_the_end_of_the_process() -> None:
    database = Database()
    async with running_trail(AuditTrail(database.write, process="gateway")) as trail:
        trail.add(make(1))
    assert len(database.events()) == 1


async def test_events_that_cannot_be_written_at_the_end_are_counted() -> None:
    database, before = Database(), dropped()
    database.away = True
    async with running_trail(AuditTrail(database.write, process="gateway")) as trail:
        trail.add(make(1))
    assert dropped() - before == 1


async def test_the_trail_survives_a_defect_of_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("citewire_kit.audit.BLOCK_SECONDS", 0.0)
    monkeypatch.setattr("citewire_kit.audit._RETRY_SECONDS", (0.0,))
    database, failures = Database(), 3

    async def write(block: Block, events: Sequence[AuditEvent]) -> None:
        nonlocal failures
        failures -= 1
        if failures > 0:
            raise TypeError("a defect")
        await database.write(block, events)

    async with running_trail(AuditTrail(write, process="gateway")) as trail:
        trail.add(make(1))
        await wait_until(lambda: bool(database.written))
    assert len(database.events()) == 1


async def test_a_request_records_itself_its_objects_and_further_actions() -> None:
    database = Database()
    trail = AuditTrail(database.write, process="gateway")
    tenant = Tenant("acme", "ada", "pro", ("owner",), "key_7")
    with use_request_id("r1"), use_record(trail, "192.0.2.1", "cu\x00rl") as record, use_tenant(tenant):
        assert current_record() is record
        touch("document:1", "document:2")
        note(Action.KEY_REVOKE, "key:key_9", outcome=Outcome.REFUSED, reason="PERMISSION_DENIED")
        record.add(Action.SEARCH, Outcome.OK, record.objects)
    note(Action.CHAT)  # outside of a request
    touch("document:3")
    await trail.flush()
    revoked, search = database.events()
    who = ("acme", "ada", "key_7", "192.0.2.1", "cu?rl", "r1")
    for event in (revoked, search):
        assert (event.org_id, event.user_id, event.key_id, event.address, event.agent, event.request_id) == who
    assert (revoked.action, revoked.objects) == ("key.revoke", ("key:key_9",))
    assert (revoked.outcome, revoked.reason) == ("refused", "PERMISSION_DENIED")
    assert (search.objects, search.outcome) == (("document:1", "document:2"), "ok")


async def test_unknown_callers_are_recorded_too() -> None:
    database = Database()
    trail = AuditTrail(database.write, process="gateway")
    with use_record(trail, "192.0.2.1", "") as record:
        record.add(Action.SEARCH, Outcome.REFUSED, (), "API_KEY_INVALID")
    await trail.flush()
    assert [(event.org_id, event.reason) for event in database.events()] == [("?", "API_KEY_INVALID")]


def test_a_trail_that_is_off_records_nothing() -> None:
    NO_TRAIL.add(make(1))
    NO_TRAIL.check()
