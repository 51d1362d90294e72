"""Explains the stores' statements on a Citus cluster before they run, by their names in the `.sql` files."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import psycopg
import pytest
from psycopg import sql

from citewire_kit.queries import load_queries

ON_COORDINATOR = 0
"""Tasks of a statement that involves no node."""
_EXECUTE, _EXECUTEMANY = psycopg.AsyncCursor.execute, psycopg.AsyncCursor.executemany
_BLANK = re.compile(r"\{\{|\}\}|\{\w*\}")


class ExplainedStatements:
    """The number of node tasks in the plan of each named query, or part of one."""

    def __init__(self, files: Mapping[str, tuple[str, str]]) -> None:
        """Takes the files: package and path, by the prefix of their queries' names."""
        self.names = {
            f"{prefix}.{name}": _pattern(text)
            for prefix, (package, file) in files.items()
            for name, text in load_queries(package, file).items()
        }
        self.tasks: defaultdict[str, set[int]] = defaultdict(set)
        self._named = cache(self._find_names)
        self._beside: dict[str, psycopg.Connection[tuple[Any, ...]]] = {}

    def explain(self, connection: psycopg.AsyncConnection[Any], query: Any, values: Any) -> None:  # noqa: ANN401 # as psycopg takes them
        """Explains a named statement as the role that will run it.

        It uses another transaction: if its own has written as the owner, Citus explains nothing.
        """
        text = query.as_string(connection) if isinstance(query, sql.Composable) else query
        text = text.decode() if isinstance(text, bytes) else text
        if not (names := self._named(text)):
            return
        beside = self._beside.get(connection.info.dsn)
        if beside is None:
            beside = psycopg.connect(connection.info.dsn, autocommit=True)
            beside.execute("SET lock_timeout = '5s'")
            self._beside[connection.info.dsn] = beside
        rows = beside.execute(f"EXPLAIN (COSTS OFF) {text}".encode(), values).fetchall()
        plan = "\n".join(str(row[0]) for row in rows)
        for name in names:
            self.tasks[name] |= {int(count) for count in re.findall(r"Task Count: (\d+)", plan)} or _without_count(
                plan, text
            )

    def close(self) -> None:
        """Closes its connections."""
        for connection in self._beside.values():
            connection.close()

    def _find_names(self, text: str) -> tuple[str, ...]:
        return tuple(name for name, pattern in self.names.items() if pattern.search(text))


@contextmanager
def explain_statements(files: Mapping[str, tuple[str, str]]) -> Generator[ExplainedStatements]:
    """Explains the statements sent during the block, on any connection."""
    statements = ExplainedStatements(files)

    async def execute(cursor: Any, query: Any, params: Any = None, **options: Any) -> Any:  # noqa: ANN401 # as psycopg takes them
        statements.explain(cursor.connection, query, params)
        return await _EXECUTE(cursor, query, params, **options)

    async def executemany(cursor: Any, query: Any, params_seq: Iterable[Any], **options: Any) -> None:  # noqa: ANN401 # as psycopg takes them
        rows: Sequence[Any] = list(params_seq)
        if rows:
            statements.explain(cursor.connection, query, rows[0])
        await _EXECUTEMANY(cursor, query, rows, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.AsyncCursor, "execute", execute)
        patch.setattr(psycopg.AsyncCursor, "executemany", executemany)
        try:
            yield statements
        finally:
            statements.close()


def _pattern(template: str) -> re.Pattern[str]:
    """The pattern of a query with its placeholders filled."""
    return re.compile(".*?".join(map(re.escape, _BLANK.split(template))), re.DOTALL)


def _without_count(plan: str, text: str) -> set[int]:
    """Interprets a plan that doesn't mention tasks."""
    if "Citus" not in plan:
        return {ON_COORDINATOR}
    # Rows combined on the coordinator go to the shards of their organisations: here of one.
    if "method: pull to coordinator" in plan and re.search(r"\bSELECT %\(org_id\)s, ", text):
        return {1}
    raise AssertionError(f"a plan for nodes that says nothing of its tasks:\n{plan}")
