"""The way of a copy: changes are noted, rows copied in bulk, changes caught up with, and all of it compared.

Each step may be killed and run again: what was done is found done.
"""

import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import psycopg
from psycopg import sql

from citewire_kit.queries import Query
from citewire_retriever.citus.cluster import Say
from citewire_retriever.citus.copying.graphs import build_graphs, drop_graphs
from citewire_retriever.citus.copying.notes import (
    change_schema,
    changed_organisations,
    drop_triggers,
    forget_notes,
    read_notes,
    start_noting,
)
from citewire_retriever.citus.copying.rows import DifferenceError, compare_pair, copy_changes, copy_pair
from citewire_retriever.citus.copying.side import SQL, CopyError, Side, Table

FROM, TO = "CITEWIRE_RETRIEVER_MIGRATE_DSN", "CITEWIRE_RETRIEVER_COPY_DSN"
_SAY_SECONDS: Final = 2.0
_TRIES: Final = 5
_ROUNDS: Final = 1000
_SHORT_SECONDS: Final = 0.5
"""Maximum duration of a round of changes after which few are left for the switch."""


class Copying:
    """A copy between two open databases."""

    def __init__(self, source: Side, target: Side, say: Say) -> None:
        self.source: Final = source
        self.target: Final = target
        self.say: Final = say
        self.tables: dict[str, Table] = {}
        """The source's tables, whose changes are recorded."""

    @staticmethod
    @asynccontextmanager
    async def open(source_dsn: str, target_dsn: str, say: Say) -> AsyncGenerator["Copying", None]:
        """Connects to both databases.

        Raises:
            CopyError: One can't be reached or used, or another command is copying from or into it.
        """
        async with (
            Side.open(source_dsn, "the source", FROM) as source,
            Side.open(target_dsn, "the target", TO) as target,
        ):
            identities = [await side.rows(SQL["identity"]) for side in (source, target)]
            if identities[0] == identities[1]:
                raise CopyError(f"{FROM} and {TO} name the same database")
            for side in (source, target):
                if not await side.lock():
                    raise CopyError(f"another command is copying from or into {side.what}: wait for it, or end it")
            yield Copying(source, target, say)

    async def obstacles(self) -> list[str]:
        """The obstacles to a copy, which may begin if there are none."""
        obstacles: list[str] = []
        if await self.source.rows(SQL["migrations"]) != await self.target.rows(SQL["migrations"]):
            obstacles.append("the migrations of the two differ: run `python -m citewire_retriever migrate` on both")
        state, other = await self.source.state(), await self.target.state()
        if state is not None and state.part == "retired":
            obstacles.append("the source was copied and switched away from: nobody writes there")
        if state is not None and state.part == "target":
            obstacles.append("the source is itself the target of a copy")
        if other is not None and other.part == "source":
            obstacles.append("the target is itself the source of a copy")
        if other is not None and other.part == "target" and (state is None or state.copy_id != other.copy_id):
            obstacles.append("the target has rows of another copy: give that up first (--give-up)")
        if other is None and (name := await self.target.has_rows(list((await self.target.tables()).values()))):
            obstacles.append(f"the target has rows in corpus.{name} that no copy put there")
        spaces = {row[0]: row[1:4] for row in await self.source.rows(SQL["spaces"])}
        obstacles += [
            f"embedding space {space_id} of the target is {'/'.join(map(str, name))}, which differs from the source"
            for space_id, *name, _ in await self.target.rows(SQL["spaces"])
            if spaces.get(space_id) != tuple(name)
        ]
        return obstacles

    async def run(self) -> int:
        """Copies everything that isn't copied yet, catches up with changes, and compares everything; returns the rows.

        Raises:
            CopyError: Something stands in the way, or the target isn't like the source.
        """
        await self.copy()
        return await self.compare(again=True)

    async def copy(self) -> None:
        """Copies everything that isn't copied yet, and catches up with changes.

        Raises:
            CopyError: Something stands in the way.
        """
        if obstacles := await self.obstacles():
            raise CopyError("; ".join(obstacles))
        await self._begin()
        await self.catch_up()

    async def _begin(self) -> None:
        state = await self.source.state()
        copy_id = state.copy_id if state is not None else str(uuid.uuid4())
        source: list[Query] = [
            SQL["remember"],
            SQL["make_notes"],
            sql.SQL(
                "INSERT INTO citewire_copy.state (part, copy_id) VALUES ('source', {}) ON CONFLICT (alone) DO NOTHING"
            ).format(copy_id),
        ]
        if self.source.spread:
            source.append(SQL["spread_notes"])
        await change_schema(self.source, source)
        other = await self.target.state()
        if other is None or other.part == "retired":
            if other is not None:
                # Nobody writes there, because its roles stay read-only, so there is nothing to reject any more.
                await drop_triggers(self.target)
            await change_schema(self.target, await self._first_steps(copy_id, was_empty=other is None))
        # Before anything else, so that new connections don't write to it.
        await self.target.close_to_services()
        await self.target.end_sessions()
        definition = (await self.source.rows(SQL["hidden_id"]))[0][0]
        if (await self.target.rows(SQL["hidden_id"]))[0][0] != definition:
            await self.target.run(definition.encode())

    async def _first_steps(self, copy_id: str, *, was_empty: bool) -> list[Query]:
        """Statements that mark the target as such."""
        hidden_id = (await self.target.rows(SQL["hidden_id"]))[0][0]
        spaces = [row[0] for row in await self.target.rows(SQL["spaces"])]
        return [
            SQL["forget"],
            SQL["remember"],
            SQL["make_copied"],
            sql.SQL(
                "INSERT INTO citewire_copy.state (part, copy_id, was_empty, hidden_id, spaces)"
                " VALUES ('target', {}, {}, {}, {}::bigint[])"
            ).format(copy_id, was_empty, hidden_id, spaces),
        ]

    async def catch_up(self) -> None:
        """Copies everything that isn't copied yet, then changes, until few changes occur meanwhile.

        Raises:
            CopyError: Changes arrive faster than they can be copied.
        """
        for _ in range(_ROUNDS):
            started = time.monotonic()
            new = await self.follow_tables()
            await self._copy_pairs(new)
            changes = await self.copy_noted()
            seconds = time.monotonic() - started
            if changes:
                self.say(f"{changes} changes copied in {seconds:.1f} s")
            if seconds <= _SHORT_SECONDS or not changes:
                return
        raise CopyError("changes come faster than they can be copied: try again when less is written")

    async def follow_tables(self) -> bool:
        """Creates the source's tables at the target, with the vectors of new spaces, and records their changes.

        Returns:
            Whether there are tables that this command didn't record before.

        Raises:
            CopyError: Tables differ.
        """
        tables = await self.source.tables()
        if changed := [name for name, table in self.tables.items() if tables.get(name) != table]:
            names = ", ".join(sorted(changed))
            raise CopyError(
                f"tables of the source were changed while they were copied: {names};"
                " run the command again to copy these anew"
            )
        if tables.keys() == self.tables.keys():
            return False
        # Recorded first, then copied: rows written in between are in both.
        await start_noting(self.source, tables.values())
        known = {row[0] for row in await self.target.rows(SQL["spaces"])}
        for space_id, model, revision, dimensions, created_at in await self.source.rows(SQL["spaces"]):
            if space_id not in known:
                values = {"space_id": space_id, "model": model, "revision": revision, "created_at": created_at}
                async with self.target.connection.transaction():
                    await self.target.run(SQL["add_space"], {**values, "dimensions": dimensions})
                    table = f"vectors_{space_id}"
                    await self.target.rows(SQL["make_vectors"], {"table": table, "dimensions": dimensions})
        targets = await self.target.tables()
        if differing := [name for name in tables.keys() | targets.keys() if not _alike(tables, targets, name)]:
            raise CopyError(f"tables of the two differ: {', '.join(sorted(differing))}")
        await drop_graphs(self.target)
        self.tables = tables
        return True

    async def _copy_pairs(self, new: bool) -> None:  # whether there may be new pairs
        if not new:
            return
        copied = await self._copied()
        pairs = [pair for pair in await self._pairs() if (pair[1].name, pair[0]) not in copied]
        rows = 0
        last_line = time.monotonic()
        for place, (org, table) in enumerate(pairs, 1):
            rows += await copy_pair(self.source, self.target, table, org)
            if time.monotonic() - last_line > _SAY_SECONDS or place == len(pairs):
                self.say(f"copied {place} of {len(pairs)} tables of organisations, {rows} rows")
                last_line = time.monotonic()
        await build_graphs(self.target, self.say)

    async def _copied(self) -> dict[tuple[str, str], bool]:
        """Copied pairs of table and organisation, and whether they were compared, unless the columns changed since."""
        columns = {name: table.definitions for name, table in self.tables.items()}
        rows = await self.target.rows(SQL["copied"])
        return {(table, org): checked for table, org, copied, checked in rows if copied == columns.get(table)}

    async def _pairs(self) -> list[tuple[str, Table]]:
        """Pairs of organisation and table in which either side has rows, by organisation."""
        pairs: set[tuple[str, str]] = set()
        for table in self.tables.values():
            orgs = await self.source.organisations(table) | await self.target.organisations(table)
            pairs.update((org, table.name) for org in orgs)
        return [(org, self.tables[name]) for org, name in sorted(pairs)]

    async def copy_noted(self) -> int:
        """Copies the currently recorded rows; returns the number of notes."""
        total = 0
        for org in await changed_organisations(self.source):
            total += await self._copy_noted_of(org)
        return total

    async def _copy_noted_of(self, org: str) -> int:
        """Retries if a row changes between its note, its copy and the comparison, because it is then recorded again."""
        for attempt in range(_TRIES):
            try:
                async with self.source.transaction(snapshot=True):
                    notes = await read_notes(self.source, org)
                    await copy_changes(self.source, self.target, self.tables, org, notes)
            except (DifferenceError, psycopg.errors.UniqueViolation):
                if attempt == _TRIES - 1:
                    raise
            else:
                await forget_notes(self.source, org, notes)
                return len(notes)
        raise AssertionError("the last attempt ended the loop")

    async def compare(self, *, again: bool) -> int:
        """Compares organisation by organisation and table by table; returns the number of equal rows.

        Args:
            again: Whether to repeat earlier comparisons.

        Raises:
            DifferenceError: They differ. The next run copies the differing rows again.
        """
        checked = {} if again else await self._copied()
        pairs = [pair for pair in await self._pairs() if not checked.get((pair[1].name, pair[0]))]
        differences: list[DifferenceError] = []
        rows = 0
        last_line = time.monotonic()
        for place, (org, table) in enumerate(pairs, 1):
            pair = {"table": table.name, "org": org, "columns": table.definitions}
            try:
                content = await compare_pair(self.source, self.target, table, org)
                rows += content.rows
                await self.target.run(SQL["note_checked"], {**pair, "rows": content.rows})
            except DifferenceError as exc:
                differences.append(exc)
                await self.target.run(SQL["forget_copied"], pair)
            if time.monotonic() - last_line > _SAY_SECONDS or place == len(pairs):
                self.say(f"compared {place} of {len(pairs)} tables of organisations, {rows} rows are identical")
                last_line = time.monotonic()
        if differences:
            raise CopyError(
                "\n".join(map(str, differences))
                + "\nThe target differs from the source; run the command again to copy these anew"
            )
        return rows


def _alike(tables: dict[str, Table], others: dict[str, Table], name: str) -> bool:
    table, other = tables.get(name), others.get(name)
    return table is not None and other is not None and (table.definitions, table.key) == (other.definitions, other.key)
