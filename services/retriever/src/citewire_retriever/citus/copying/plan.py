"""The plan of a copy: `cluster copy --dry-run`."""

from collections.abc import Iterator
from dataclasses import dataclass

from psycopg import sql

from citewire_retriever.citus.copying.notes import changed_organisations
from citewire_retriever.citus.copying.process import Copying
from citewire_retriever.citus.copying.side import SQL, Side, Table


@dataclass(frozen=True, slots=True)
class TablePlan:
    """A table of the source."""

    name: str
    organisations: int
    rows: int
    bytes: int
    """Including indexes."""
    copied: int
    """Number of organisations that the target already has."""


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """The plan of a copy."""

    tables: list[TablePlan]
    organisations: int
    changes: int
    """Recorded changes that haven't been copied yet."""
    obstacles: list[str]

    def to_lines(self) -> Iterator[str]:
        """Formats it as a table."""
        yield f"{'TABLE':24} {'ORGS':>7} {'COPIED':>7} {'ROWS':>12} {'MiB':>9}"
        for table in self.tables:
            counts = f"{table.organisations:>7} {table.copied:>7} {table.rows:>12}"
            yield f"{table.name:24} {counts} {table.bytes / 2**20:>9.1f}"
        rows, size = sum(table.rows for table in self.tables), sum(table.bytes for table in self.tables)
        yield f"{self.organisations} organisations, {rows} rows, {size / 2**20:.1f} MiB with indexes"
        if self.changes:
            yield f"{self.changes} changes are noted and not copied yet"
        for obstacle in self.obstacles:
            yield f"in the way: {obstacle}"
        if not self.obstacles:
            yield "nothing stands in the way"


async def read_plan(copying: Copying) -> CopyPlan:
    """Queries both databases without changing anything."""
    source = copying.source
    state, other = await source.state(), await copying.target.state()
    copied: dict[str, int] = {}
    if other is not None and other.part == "target":
        for table, *_ in await copying.target.rows(SQL["copied"]):
            copied[table] = copied.get(table, 0) + 1
    tables = [await _table(source, table, copied.get(name, 0)) for name, table in (await source.tables()).items()]
    orgs: set[str] = set()
    for table in (await source.tables()).values():
        orgs |= await source.organisations(table)
    changes = 0
    if state is not None and state.part == "source":
        changes = sum((await changed_organisations(source)).values())
    return CopyPlan(tables, len(orgs - {""}), changes, await copying.obstacles())


async def _table(source: Side, table: Table, copied: int) -> TablePlan:
    rows, orgs = (await source.rows(sql.SQL(SQL["size"]).format(table=table.identifier)))[0]
    query = "bytes_on_nodes" if table.on_nodes else "bytes"
    size = (await source.rows(SQL[query], {"table": f"corpus.{table.name}"}))[0][0]
    return TablePlan(table.name, orgs, rows, int(size or 0), copied)
