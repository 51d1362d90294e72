"""The end of a copy: services are switched from the source to the target, or the copy is given up."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import psycopg
from psycopg import sql

from citewire_kit.nodes import break_off
from citewire_retriever.citus.cluster import Say
from citewire_retriever.citus.copying.graphs import build_graphs
from citewire_retriever.citus.copying.notes import (
    change_schema,
    changed_organisations,
    forget_all,
    read_notes,
    refuse,
)
from citewire_retriever.citus.copying.process import Copying
from citewire_retriever.citus.copying.rows import copy_changes
from citewire_retriever.citus.copying.side import SQL, CopyError, Side

PAUSE_SECONDS: Final = 1.3
"""Time after which the locks are released: the rest of two seconds is for the commit and new connections."""
_CANCEL_SECONDS: Final = 0.3
"""Maximum wait for a statement to be cancelled: a cluster waits for a frozen node to acknowledge it."""
_REPORT_SECONDS: Final = 3.0
_TRIES: Final = 20
_PAUSE_BETWEEN_SECONDS: Final = 2.0
_NUMBERS_AHEAD: Final = 1_000_000
"""Reserve in sequences for rows added before the switch."""


class GivenBackError(Exception):
    """The switch didn't finish in time; nothing has changed, and it can be retried."""


async def switch(copying: Copying, *, pause_seconds: float = PAUSE_SECONDS, tries: int = _TRIES) -> float | None:
    """Copies and compares the rest, and switches; returns for how long nobody could write.

    Args:
        copying: The two databases.
        pause_seconds: Maximum time for which locks are held.
        tries: Maximum number of attempts.

    Returns:
        Seconds from the first lock until services could write to the target; None if it had already been done.

    Raises:
        CopyError: Something stands in the way, the databases differ, or it couldn't be done in time.
    """
    state = await copying.source.state()
    if state is not None and state.part == "retired":
        await _finish(copying)
        return None
    why = ""
    for _ in range(tries):
        await copying.copy()
        await copying.compare(again=False)
        await copying.catch_up()
        await _raise_node_numbers(copying.target)
        for side in (copying.source, copying.target):
            await side.require_nodes()
        started = time.monotonic()
        try:
            await _retire_source(copying, pause_seconds)
        except GivenBackError as exc:
            why = str(exc)
            copying.say(f"not switched, and nothing was changed: {why}; trying again")
            await asyncio.sleep(_PAUSE_BETWEEN_SECONDS)
        else:
            await copying.target.open_to_services()
            pause = time.monotonic() - started
            await _finish(copying)
            return pause
    raise CopyError(f"not switched, and nothing was changed: {why}; try again when less is written")


async def _retire_source(copying: Copying, pause_seconds: float) -> None:
    """Locks the source, copies the last changes, and commits that it rejects writes: the commit is the switch.

    Raises:
        GivenBackError: It didn't finish in time.
        CopyError: A database doesn't answer.
    """
    source = copying.source
    try:
        async with _reported(copying.say), source.transaction():
            async with _limited(copying.target, pause_seconds) as limit:
                await _lock(source, [*copying.tables, "spaces", "schema_migrations"])
                if await source.tables() != copying.tables:
                    raise GivenBackError("tables were added or changed")
                if await source.rows(SQL["migrations"]) != await copying.target.rows(SQL["migrations"]):
                    raise CopyError(
                        "the source was migrated meanwhile: run `python -m citewire_retriever migrate` on the target"
                    )
                for org in await changed_organisations(source):
                    await copy_changes(source, copying.target, copying.tables, org, await read_notes(source, org))
                await _copy_sequences(copying)
                await refuse(source, copying.tables.values())
                await source.close_to_services()
                await source.run(SQL["retire"])
                if limit.expired():
                    raise GivenBackError("it took too long")
                limit.reschedule(None)  # a commit must not be interrupted
    except TimeoutError:
        raise GivenBackError(f"it took longer than {pause_seconds} s") from None
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
        raise GivenBackError("tables were in use") from None


@asynccontextmanager
async def _limited(target: Side, seconds: float) -> AsyncGenerator[asyncio.Timeout, None]:
    """Cancels the block's statement after so many seconds; one that the target doesn't cancel is broken off."""
    late = False

    def give_up() -> None:
        nonlocal late
        late = True
        break_off(target.connection)

    timer = asyncio.get_running_loop().call_later(seconds + _CANCEL_SECONDS, give_up)
    try:
        async with asyncio.timeout(seconds) as limit:
            yield limit
    except (psycopg.OperationalError, TimeoutError) as exc:
        if not late:
            raise
        raise CopyError("not switched, and nothing was changed: the target doesn't answer; run it again") from exc
    finally:
        timer.cancel()


@asynccontextmanager
async def _reported(say: Say) -> AsyncGenerator[None, None]:
    """Says so while the source doesn't answer: it keeps its locks while a statement waits for a frozen node."""
    loop = asyncio.get_running_loop()

    def report() -> None:
        nonlocal timer
        say("the source doesn't answer, and nobody can write: if one of its nodes is frozen, restart that node")
        timer = loop.call_later(_REPORT_SECONDS, report)

    timer = loop.call_later(_REPORT_SECONDS, report)
    try:
        yield
    finally:
        timer.cancel()


async def _lock(source: Side, names: list[str]) -> None:
    """Blocks writers, but not readers. In a deadlock this session gives up, and autovacuum gives way to it."""
    if source.spread:
        await source.run("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")
    await source.run("SET LOCAL deadlock_timeout = '100ms'; SET LOCAL lock_timeout = '1s'")
    tables = sql.SQL(", ").join(sql.Identifier("corpus", name) for name in names)
    await source.run(sql.SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(tables))


async def _copy_sequences(copying: Copying) -> None:
    """Continues the source's sequences at the target, unless the target's are further ahead."""
    names = [row[0] for row in await copying.source.rows(SQL["sequences"])]
    reading = sql.SQL(" UNION ALL ").join(
        sql.SQL("SELECT {}, last_value, is_called FROM {}").format(name, sql.Identifier("corpus", name))
        for name in names
    )
    sources, targets = [
        {name: value if called else 0 for name, value, called in await side.rows(reading)}
        for side in (copying.source, copying.target)
    ]
    if ahead := [(name, value) for name, value in sources.items() if value > targets[name]]:
        calls = sql.SQL(", ").join(
            sql.SQL("setval({}::regclass, {})").format(f"corpus.{name}", value) for name, value in ahead
        )
        await copying.target.rows(sql.SQL("SELECT {}").format(calls))


async def _raise_node_numbers(target: Side) -> None:
    """Adjusts the nodes' sequences, because rows from another cluster may have numbers from their ranges."""
    if not target.spread:
        return
    for group, number in await target.rows(SQL["node_numbers"]):
        values = {"group": group, "number": min(number + _NUMBERS_AHEAD, (group + 1 << 48) - 1)}
        for host, port, success, result in await target.rows(SQL["raise_node_numbers"], values):
            if not success:
                raise CopyError(f"the node {host}:{port} of the target doesn't answer: {result}")


async def _finish(copying: Copying) -> None:
    """Completes the switch, even one that was killed: opens the target, and leaves the source."""
    state, other = await copying.source.state(), await copying.target.state()
    if other is None and await copying.target.has_rows(list((await copying.target.tables()).values())):
        return  # it was opened, and the copy's objects there are gone
    if other is None or other.part != "target" or state is None or other.copy_id != state.copy_id:
        raise CopyError("the source was switched away from, and not to this target")
    await copying.target.open_to_services()
    await copying.source.end_sessions()
    await forget_all(copying.target)


async def give_up(source: Side, target: Side | None, say: Say) -> bool:
    """Removes everything that a copy created, in both databases; False if there was nothing.

    A target that was empty is empty again. One that was switched away from before has lost its rows, and
    stays read-only for the services.

    Args:
        source: The database to which services write.
        target: None if it is gone, or will be dropped as a whole.
        say: Receives messages about long operations.

    Raises:
        CopyError: The switch was made.
    """
    state = await source.state()
    other = None if target is None else await target.state()
    if state is not None and state.part != "source":
        raise CopyError(f"the source is {_PARTS[state.part]}: the way back is a copy in the other direction")
    if target is not None and other is not None and other.part == "target":
        # It may be in use by now, if that copy ended with a switch.
        if state is None or state.copy_id != other.copy_id:
            raise CopyError("the target has rows of another copy: give that up from its own source")
        await _clear(target, say)
    elif other is not None and other.part == "source":
        raise CopyError("the target is itself the source of a copy")
    if state is not None:
        await forget_all(source)
    return state is not None


_PARTS: Final = {"target": "itself the target of a copy", "retired": "switched away from"}


async def _clear(target: Side, say: Say) -> None:
    was_empty, hidden_id, spaces = (await target.rows(SQL["target_before"]))[0]
    if not was_empty:
        await build_graphs(target, say)
        await change_schema(target, [sql.SQL("DROP TABLE citewire_copy.copied"), SQL["retire"]])
        return
    tables = sql.SQL(", ").join(table.identifier for table in (await target.tables()).values())
    # Together: otherwise a command that is killed in between leaves an empty target that counts as copied.
    await change_schema(target, [sql.SQL("TRUNCATE {}, citewire_copy.copied").format(tables)])
    for row in await target.rows(SQL["spaces"]):
        if row[0] not in spaces:
            vectors = sql.Identifier("corpus", f"vectors_{row[0]}")
            forget = sql.SQL("DELETE FROM corpus.spaces WHERE space_id = {}").format(row[0])
            await change_schema(target, [sql.SQL("DROP TABLE {}").format(vectors), forget])
    await target.run(SQL["forget_graphs"])
    await build_graphs(target, say)
    if (await target.rows(SQL["hidden_id"]))[0][0] != hidden_id:
        await target.run(hidden_id.encode())
    await target.open_to_services()
    await forget_all(target)
