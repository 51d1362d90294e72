"""Callers of a retriever that runs for one test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from corpus_calls import MINE, THEIRS
from retriever_process import Caller, running_retriever

if TYPE_CHECKING:
    from databases import Database


@pytest.fixture
def retriever_settings() -> dict[str, Any]:
    """Settings that differ from the retriever's defaults; test modules override this fixture."""
    return {}


@pytest.fixture
async def me(database: Database, retriever_settings: dict[str, Any]) -> AsyncIterator[Caller]:
    async with running_retriever(database, **retriever_settings) as running:
        yield Caller(running, MINE)


@pytest.fixture
def them(me: Caller) -> Caller:
    return Caller(me.running, THEIRS)


@pytest.fixture
def owner(database: Database) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        yield connection
