"""Constant requests of several organisations, their responses, and a check of the acknowledged data."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import psycopg
from citewire.common.v1.common_pb2 import EmbeddingSpace
from citewire.retriever.v1 import corpus_pb2, retriever_pb2

from citewire_kit.errors import CitewireError
from citewire_kit.tenant import Tenant
from fake_embedding import DIMENSIONS, expected
from retriever_process import Caller, Retriever
from waiting import wait_until

WAITS = {"upload": 2.0, "search": 0.1, "replace": 3.0, "delete": 5.0}
"""Seconds between two requests of an organisation, by kind."""
ANSWER_SECONDS = 60
STORED = """
    SELECT d.document_id, d.live_version = d.latest_version AND v.status = 'ready', t.body, v.chunks
    FROM corpus.documents d
    JOIN corpus.versions v ON v.org_id = d.org_id AND v.document_id = d.document_id AND v.version = d.latest_version
    LEFT JOIN corpus.texts t
        ON t.org_id = v.org_id AND t.document_id = v.document_id AND t.version = v.version AND t.part = 0
    WHERE d.org_id = %(org)s AND d.document_id = ANY (%(ids)s)
"""
VECTORS = """
    SELECT d.document_id, count(*) FROM corpus.documents d
    JOIN corpus.vectors_1 x ON x.org_id = d.org_id AND x.document_id = d.document_id AND x.version = d.live_version
    WHERE d.org_id = %(org)s AND x.org_id = %(org)s AND d.document_id = ANY (%(ids)s) GROUP BY d.document_id
"""
LEFT = """
    SELECT document_id FROM corpus.documents WHERE org_id = %(org)s AND document_id = ANY (%(ids)s)
    UNION SELECT document_id FROM corpus.versions WHERE org_id = %(org)s AND document_id = ANY (%(ids)s)
    UNION SELECT document_id FROM corpus.chunks WHERE org_id = %(org)s AND document_id = ANY (%(ids)s)
    UNION SELECT document_id FROM corpus.vectors_1 WHERE org_id = %(org)s AND document_id = ANY (%(ids)s)
"""


@dataclass(frozen=True, slots=True)
class Absence:
    """A node that was taken away, whose organisations may have seen errors."""

    orgs: frozenset[str]
    began: float
    ended: float


@dataclass(slots=True)
class Record:
    """The requests and responses of one organisation."""

    org: str
    words: dict[int, set[str]] = field(default_factory=dict[int, set[str]])
    """The possible contents of each acknowledged document; several after a failed replacement."""
    deleted: list[int] = field(default_factory=list[int])
    """Documents removed by acknowledged deletions. After a failed one the effect is unknown: it is in neither."""
    asked: dict[str, int] = field(default_factory=lambda: defaultdict[str, int](int))
    answered: dict[str, list[float]] = field(default_factory=lambda: defaultdict[str, list[float]](list))
    """Times at which each kind of request was answered."""
    failures: list[tuple[float, float, str]] = field(default_factory=list[tuple[float, float, str]])
    """Start, end and reason of each failure."""

    def unexcused(self, absences: Sequence[Absence]) -> list[tuple[float, float, str]]:
        """Failures while the organisation's node was there."""
        return [failure for failure in self.failures if not self._is_excused(*failure[:2], absences)]

    def longest_pause(self, kind: str, absences: Sequence[Absence]) -> tuple[float, float]:
        """Maximum seconds between two answers, besides the caller's waits: while the node was there, and overall."""
        moments = self.answered[kind]
        gaps = [(before, after, after - before - WAITS[kind]) for before, after in itertools.pairwise(moments)]
        there = [gap for before, after, gap in gaps if not self._is_excused(before, after, absences)]
        return max(there, default=0.0), max((gap for *_, gap in gaps), default=0.0)

    def _is_excused(self, began: float, ended: float, absences: Sequence[Absence]) -> bool:
        return any(
            self.org in absence.orgs and began <= absence.ended and ended >= absence.began for absence in absences
        )

    def check(self, connection: psycopg.Connection) -> None:
        """Checks that each acknowledged document exists, is ready, has the right content, and a vector per chunk."""
        values = {"org": self.org, "ids": list(self.words)}
        rows = connection.execute(STORED.encode(), values).fetchall()
        assert sorted(row[0] for row in rows) == sorted(self.words), self.org
        wrong = [
            (document_id, is_ready, body)
            for document_id, is_ready, body, _ in rows
            if not (is_ready and any(f" {word}." in body for word in self.words[document_id]))
        ]
        assert wrong == [], self.org
        vectors = dict(connection.execute(VECTORS.encode(), values).fetchall())
        assert vectors == {document_id: chunks for document_id, *_, chunks in rows}, self.org
        left = connection.execute(LEFT.encode(), {"org": self.org, "ids": self.deleted}).fetchall()
        assert left == [], self.org


class Load:
    """Uploads, searches, replacements and deletions of all organisations."""

    def __init__(self, running: Retriever, orgs: Sequence[str], chance: random.Random) -> None:
        self._running = running
        self._chance = chance
        self._taken: set[int] = set()
        """Documents that a replacement or a deletion is at work on."""
        self.records = {org: Record(org) for org in orgs}

    @asynccontextmanager
    async def running_requests(self) -> AsyncGenerator[None]:
        """All organisations send requests repeatedly during the block."""
        requests = {"upload": self._upload, "search": self._search, "replace": self._replace, "delete": self._delete}
        tasks = [
            asyncio.create_task(self._repeat(record, kind, request))
            for record in self.records.values()
            for kind, request in requests.items()
        ]
        try:
            yield
            for task in tasks:
                assert not task.done(), task.exception()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def all_answered(self) -> None:
        """Waits until each organisation has had one more upload and one more search answered."""
        before = {org: {kind: len(record.answered[kind]) for kind in WAITS} for org, record in self.records.items()}
        await wait_until(
            lambda: all(
                len(self.records[org].answered[kind]) > counts[kind]
                for org, counts in before.items()
                for kind in ("upload", "search")
            ),
            ANSWER_SECONDS,
        )

    async def _repeat(
        self, record: Record, kind: str, request: Callable[[Record, Caller, int], Awaitable[bool]]
    ) -> None:
        caller = Caller(self._running, Tenant(record.org, "ann", "pro"))
        while True:
            began = time.monotonic()
            try:
                if await request(record, caller, record.asked[kind]):
                    record.answered[kind].append(time.monotonic())
            except CitewireError as error:
                record.failures.append((began, time.monotonic(), f"{kind}: {error.reason}, {error.message}"))
            record.asked[kind] += 1
            await asyncio.sleep(WAITS[kind])

    async def _upload(self, record: Record, caller: Caller, number: int) -> bool:
        word = f"w{number}x{record.org}"
        document = await caller.put(content=_text(word))
        record.words[document.document_id] = {word}
        return True

    async def _search(self, record: Record, caller: Caller, number: int) -> bool:
        request = retriever_pb2.SearchRequest(
            mode=retriever_pb2.SEARCH_MODE_HYBRID,
            query=f"which word is w{number % 10}x{record.org}?",
            vector=expected("which word").tobytes(),
            space=EmbeddingSpace(model="fake", revision="r1", dimensions=DIMENSIONS),
        )
        await caller.unary(self._running.retriever.Search, request)
        return True

    async def _replace(self, record: Record, caller: Caller, number: int) -> bool:
        document_id = self._choose(record)
        if document_id is None:
            return False
        word = f"r{number}x{record.org}"
        before = record.words[document_id]
        record.words[document_id] = before | {word}
        self._taken.add(document_id)
        try:
            await caller.put(document_id=document_id, content=_text(word))
        finally:
            self._taken.discard(document_id)
        record.words[document_id] = {word}
        return True

    async def _delete(self, record: Record, caller: Caller, number: int) -> bool:
        document_id = self._choose(record)
        if document_id is None or number == 0:  # so that something is left at the beginning
            return False
        del record.words[document_id]
        request = corpus_pb2.DeleteDocumentRequest(document_id=document_id)
        await caller.unary(self._running.corpus.DeleteDocument, request)
        record.deleted.append(document_id)
        return True

    def _choose(self, record: Record) -> int | None:
        free = [document_id for document_id in record.words if document_id not in self._taken]
        return self._chance.choice(free) if free else None


def _text(word: str) -> str:
    return f"# A note\n\nThe word is {word}. Nothing else is said."
