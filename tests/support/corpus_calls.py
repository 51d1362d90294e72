"""Shared by the tests of CorpusService: tenants, limits small enough to be reached, and stored content."""

from __future__ import annotations

from typing import Any, cast

import psycopg
from google.protobuf.struct_pb2 import Struct
from psycopg import sql

from citewire_kit.tenant import Tenant

MINE = Tenant("acme", "ada", "pro")
THEIRS = Tenant("other", "eve", "pro")
MIB = 1024 * 1024
UPLOAD_LIMIT = 3 * MIB
LIMITS = {"upload_max_bytes": UPLOAD_LIMIT, "text_max_bytes": 1000, "watch_poll_seconds": 30}


def rows(owner: psycopg.Connection, statement: str) -> list[tuple[object, ...]]:
    return owner.execute(statement.encode()).fetchall()


def metadata(**values: object) -> Struct:
    struct = Struct()
    struct.update(cast("dict[str, Any]", values))
    return struct


def assert_nothing_stored(owner: psycopg.Connection) -> None:
    for table in ("documents", "versions", "originals", "ingest_jobs", "collections"):
        statement = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier("corpus", table))
        assert owner.execute(statement).fetchone() == (0,), table
