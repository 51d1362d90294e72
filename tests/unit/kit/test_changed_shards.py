"""A transaction that meets a split or move of its shards is repeated; other failures aren't."""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from citewire_kit import nodes
from citewire_kit.errors import Unavailable
from citewire_kit.nodes import ShardsChanged, repeated
from citewire_kit.postgres import Pool, open_pool, tenant_transaction
from citewire_kit.tenant import Tenant
from citewire_retriever import store

if TYPE_CHECKING:
    from databases import Database

ACME = Tenant("acme", "ann", "pro")
SPLIT = ("could not find valid entry for shard 102059", "XX000")
"""A node's error; the coordinator's is in the test below."""
RAISE = "DO $$ BEGIN RAISE EXCEPTION '{}' USING ERRCODE = '{}'; END $$"


@pytest.fixture
async def pool(plain_database: Database) -> AsyncIterator[Pool]:
    opened = await open_pool(plain_database.dsn("citewire_corpus"), name="split", max_size=1)
    yield opened
    await opened.close()


class Act:
    """A transaction that fails a number of times before it succeeds."""

    def __init__(self, pool: Pool, failures: int, error: tuple[str, str] = SPLIT) -> None:
        self._pool = pool
        self._failures = failures
        self._error = error
        self.begun = 0

    @repeated
    async def run(self, answer: str) -> str:
        async with tenant_transaction(self._pool, ACME) as connection:
            self.begun += 1
            if self.begun <= self._failures:
                await connection.execute(RAISE.format(*self._error).encode())
        return answer


@pytest.mark.parametrize(
    "error",
    [
        SPLIT,
        ("shard for the given value does not exist", "40001"),
        ("canceling the transaction since it was involved in a distributed deadlock", "40P01"),
    ],
)
async def test_a_transaction_that_meets_a_split_or_move_is_repeated(pool: Pool, error: tuple[str, str]) -> None:
    act = Act(pool, 2, error)
    assert await act.run("done") == "done"
    assert act.begun == 3


async def test_a_transaction_that_keeps_meeting_a_split_is_refused(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "_CHANGE_PAUSES", (0.0, 0.0))
    act = Act(pool, 9)
    with pytest.raises(ShardsChanged) as caught:
        await act.run("done")
    assert (caught.value.code, caught.value.reason) == (Unavailable.code, "DATABASE_UNAVAILABLE")
    assert act.begun == 3


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (("could not serialize access due to concurrent update", "40001"), Unavailable),
        (("deadlock detected", "40P01"), Unavailable),
        (("connection to the remote node failed", "XX000"), Unavailable),
        (("could not commit transaction for shard 102155 on at least one active node", "XX000"), Unavailable),
        (("could not find valid entry for shard 102059", "P0001"), psycopg.errors.RaiseException),
    ],
)
async def test_nothing_else_is_repeated(pool: Pool, error: tuple[str, str], expected: type[Exception]) -> None:
    act = Act(pool, 1, error)
    with pytest.raises(expected) as caught:
        await act.run("done")
    assert not isinstance(caught.value, ShardsChanged)
    assert act.begun == 1


def test_every_transaction_of_the_stores_is_repeated() -> None:
    unrepeated: list[str] = []
    for path in sorted(Path(store.__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)):
            functions = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
            calls = {called.id for called in functions if isinstance(called, ast.Name)}
            decorators = {decorator.id for decorator in function.decorator_list if isinstance(decorator, ast.Name)}
            if calls & {"tenant_transaction", "tenant_batch", "tenant_statement"} and "repeated" not in decorators:
                unrepeated.append(f"{path.stem}.{function.name}")
    assert unrepeated == [
        "content._add",  # called by `add`, which is
        "recall.measure",  # in the background; a sample less
        "search._search",  # these two by `search`
        "search._search_words",
    ]
