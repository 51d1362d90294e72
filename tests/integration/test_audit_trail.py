"""The audit trail in Postgres: only added to, visible to its organisation alone, and verifiable from outside."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from citewire_accounts.tenants.audit import AuditQuery, AuditReader, AuditRetention
from citewire_kit.audit import AuditTrail
from citewire_kit.audit_chain import FIRST_PREV, make_block
from citewire_kit.audit_events import AuditEvent
from citewire_kit.audit_store import AuditStore
from citewire_kit.ids import uuid7
from citewire_kit.postgres import Pool, open_pool, transaction
from citewire_kit.tenant import Tenant
from gateway_process import rows
from operator_commands import run_command

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from databases import Database

ALWAYS = AuditQuery(datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))


def make(org: str, number: int) -> AuditEvent:
    at = datetime(2026, 1, 1, 12, 0, 0, number, tzinfo=UTC)
    objects = (f"document:{number}", "collection:Ä 'quoted' \"b\"")
    return AuditEvent(at, org, "ada", "key_1", "", "search", objects, "ok", "", "192.0.2.1", "cürl", f"r{number}")


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    pool = await open_pool(database.dsn("citewire_chat"), max_size=2, name="audit")
    yield pool
    await pool.close()


@pytest.fixture
async def trail(pool: Pool) -> AuditTrail:
    """A trail with three blocks of two organisations."""
    trail = AuditTrail(AuditStore(pool).write, process="gateway")
    for block in range(3):
        for number in range(4):
            trail.add(make("acme" if number % 2 else "other", block * 4 + number))
        await trail.flush()
    return trail


def verify(database: Database, *arguments: str, role: str = "postgres") -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "CITEWIRE_GATEWAY_MIGRATE_DSN": database.dsn(role)}
    return run_command(("audit", "verify", *arguments), environ)


def problems(database: Database, *arguments: str) -> list[str]:
    done = verify(database, "--json", *arguments)
    report = json.loads(done.stdout)
    assert done.returncode == (1 if report["problems"] else 0), done.stderr
    return report["problems"]


async def test_an_organisation_sees_its_own_events_page_by_page(pool: Pool, trail: AuditTrail) -> None:
    reader, acme = AuditReader(pool), Tenant("acme", "boss", "pro", ("owner",))
    first = await reader.page(acme, ALWAYS, None, 4)
    rest = await reader.page(acme, ALWAYS, first[-1][0], 100)
    assert [event for _, event in first + rest] == [make("acme", number) for number in range(1, 12, 2)]
    only = AuditQuery(ALWAYS.start, ALWAYS.end, user_id="ada", action="search", object_name="document:3")
    assert [event.request_id for _, event in await reader.page(acme, only, None, 10)] == ["r3"]
    for nothing in (
        AuditQuery(ALWAYS.start, ALWAYS.start + timedelta(days=1)),
        AuditQuery(ALWAYS.start, ALWAYS.end, user_id="bob"),
        AuditQuery(ALWAYS.start, ALWAYS.end, action="chat"),
        AuditQuery(ALWAYS.start, ALWAYS.end, object_name="document:2"),
    ):
        assert await reader.page(acme, nothing, None, 10) == []
    del trail


async def test_the_role_may_only_add(database: Database, trail: AuditTrail) -> None:
    del trail
    with psycopg.connect(database.dsn("citewire_chat"), autocommit=True) as connection:
        for statement in (
            "UPDATE chat.audit_events SET user_id = 'eve'",
            "DELETE FROM chat.audit_events",
            "INSERT INTO chat.audit_events SELECT * FROM chat.audit_events",
            "SELECT FROM chat.audit_blocks",
            "DELETE FROM chat.audit_blocks",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())


async def test_an_intact_trail_passes(database: Database, trail: AuditTrail, tmp_path: Path) -> None:
    done = verify(database)
    assert (done.returncode, "12 events in 3 blocks of 1 chains" in done.stderr) == (0, True), done.stderr
    heads = tmp_path / "heads"
    heads.write_text(done.stdout)
    assert problems(database, "--heads", str(heads)) == []
    assert json.loads(done.stdout)["process_id"] == str(trail.process_id)
    heads.write_text("no json\n")
    assert verify(database, "--heads", str(heads)).returncode == 2


async def test_only_the_owner_can_verify(database: Database, trail: AuditTrail) -> None:
    del trail
    done = verify(database, role="citewire_chat")
    assert (done.returncode, "only the owner" in done.stderr) == (1, True), done.stderr


async def test_another_block_under_the_same_number_is_refused(database: Database, pool: Pool) -> None:
    first, second = (AuditTrail(AuditStore(pool).write, process="gateway") for _ in range(2))
    second._process_id = first.process_id  # pyright: ignore[reportPrivateUsage] # as an impostor would
    first.add(make("acme", 1))
    await first.flush()
    second.add(make("acme", 2))
    with pytest.raises(psycopg.errors.RaiseException):
        await second.flush()
    assert problems(database) == []


TAMPERING = {
    "an event is changed": ("UPDATE chat.audit_events SET user_id = 'eve' WHERE request_id = 'r5'", "were changed"),
    "a time is changed": ("UPDATE chat.audit_events SET at = at + interval '1 us' WHERE request_id = 'r5'", "changed"),
    "an event is removed": ("DELETE FROM chat.audit_events WHERE request_id = 'r11'", "1 events instead of 2"),
    "an event changes hands": ("UPDATE chat.audit_events SET org_id = 'new' WHERE request_id = 'r5'", "were added"),
    "events are reordered": (
        "UPDATE chat.audit_events SET ordinal = 10 - ordinal WHERE seq = 1",
        "were changed or moved",
    ),
    "an event is added": (
        "INSERT INTO chat.audit_events SELECT org_id, process_id, seq, 99, at, user_id, key_id, issuer, action,"
        " objects, outcome, reason, address, agent, request_id FROM chat.audit_events WHERE request_id = 'r5'",
        "3 events instead of 2",
    ),
    "a block is removed": ("DELETE FROM chat.audit_blocks WHERE seq = 1", "blocks are missing"),
    "the last block is removed": ("DELETE FROM chat.audit_blocks WHERE seq = 2", "is missing, and has 4 events"),
    "a block is changed": ("UPDATE chat.audit_blocks SET at = at - interval '1 day' WHERE seq = 1", "was changed"),
    "an organisation's time is said to be over": ("DELETE FROM chat.audit_events WHERE org_id = 'acme'", "0 events"),
}


@pytest.mark.parametrize("case", TAMPERING)
async def test_tampering_as_the_owner_is_found(database: Database, trail: AuditTrail, case: str) -> None:
    del trail
    statement, expected = TAMPERING[case]
    with psycopg.connect(database.owner_dsn, autocommit=True) as owner:
        assert owner.execute(statement.encode()).rowcount > 0
    assert any(expected in problem for problem in problems(database)), problems(database)


async def test_a_cut_end_is_found_with_earlier_heads(database: Database, trail: AuditTrail, tmp_path: Path) -> None:
    del trail
    heads = tmp_path / "heads"
    heads.write_text(verify(database).stdout)
    with psycopg.connect(database.owner_dsn, autocommit=True) as owner:
        owner.execute("DELETE FROM chat.audit_events WHERE seq = 2")
        owner.execute("DELETE FROM chat.audit_blocks WHERE seq = 2")
    assert problems(database) == []  # the database alone can't tell
    assert ["was logged as written" in problem for problem in problems(database, "--heads", str(heads))] == [True]


async def test_old_events_are_cut_and_the_trail_says_so(database: Database, pool: Pool) -> None:
    """Two organisations with old and new events; one keeps them for longer."""
    past = datetime.now(UTC) - timedelta(days=60)
    events = [replace(make(org, 1), at=past) for org in ("acme", "other")]
    await AuditStore(pool).write(make_block(uuid7(), "gateway", 0, FIRST_PREV, past, events), events)
    with psycopg.connect(database.owner_dsn, autocommit=True) as owner:
        owner.execute("INSERT INTO chat.orgs (org_id) VALUES ('other')")
        owner.execute("INSERT INTO chat.audit_policies VALUES ('other', 90)")
    assert problems(database) == []
    trail = AuditTrail(AuditStore(pool).write, process="gateway")
    trail.add(replace(make("acme", 2), at=datetime.now(UTC)))
    await trail.flush()
    await AuditRetention(pool, trail, 30).cut()
    report = json.loads(verify(database, "--json").stdout)
    assert (report["problems"], report["cut_events"]) == ([], 1)
    left = rows(database, "SELECT org_id, action FROM chat.audit_events ORDER BY at, org_id, action")
    assert left == [("other", "search"), ("acme", "search"), ("acme", "audit.cut")]
    # Without the event about the cut, the missing events are a problem.
    with psycopg.connect(database.owner_dsn, autocommit=True) as owner:
        owner.execute("DELETE FROM chat.audit_events WHERE action = 'audit.cut'")
    assert len(problems(database)) == 2


async def test_no_cut_is_silent_or_too_early(database: Database, pool: Pool, trail: AuditTrail) -> None:
    del trail
    async with transaction(pool) as connection:
        with pytest.raises(psycopg.errors.RaiseException, match="does not say"):
            await connection.execute("SELECT chat.cut_audit('acme', now() - interval '31 days')")
    async with transaction(pool) as connection:
        with pytest.raises(psycopg.errors.RaiseException, match="at least 30 days"):
            await connection.execute("SELECT chat.cut_audit('acme', now() - interval '29 days')")
    assert problems(database) == []
