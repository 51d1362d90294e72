"""An organisation that writes constantly while its shards are copied, and the responses to it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass, field

import psycopg

from citewire_kit.nodes import met_change
from corpus_rows import set_tenant

INSERT = (
    "INSERT INTO corpus.documents (org_id, owner, type, title, title_given)"
    " VALUES (%(org)s, 'u', 'file', 'new', true) RETURNING document_id"
)
CHANGE = (
    "UPDATE corpus.documents SET title = 'changed' WHERE org_id = %(org)s AND document_id = %(id)s"
    " RETURNING document_id"
)
DELETE = "DELETE FROM corpus.documents WHERE org_id = %(org)s AND document_id = %(id)s RETURNING document_id"
REPEAT_SECONDS = 0.75


@dataclass
class Writer:
    """Saves documents one after another, changes each, and deletes every second one; reconnects when necessary."""

    dsn: str
    org: str
    saved: list[int] = field(default_factory=list[int])
    changed: list[int] = field(default_factory=list[int])
    deleted: list[int] = field(default_factory=list[int])
    refused: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    """Times and messages of the database's errors."""
    pauses: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """Start of each failure, and seconds until the next acknowledgement."""

    @property
    def longest(self) -> float:
        """Maximum seconds between two acknowledgements."""
        return max((seconds for _, seconds in self.pauses), default=0.0)

    @contextlib.contextmanager
    def running(self) -> Generator[None]:
        """Writes during the block."""
        ended = threading.Event()
        thread = threading.Thread(target=self._write, args=(ended,))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def check(self) -> None:
        """Checks that all acknowledged data is unchanged."""
        assert self.deleted
        with psycopg.connect(self.dsn) as connection:
            set_tenant(connection, self.org)
            rows = connection.execute(
                "SELECT document_id, title FROM corpus.documents WHERE org_id = %s AND document_id = ANY (%s)",
                (self.org, [*self.saved, *self.deleted]),
            ).fetchall()
        assert sorted(row[0] for row in rows) == sorted(self.saved)
        assert {row[0] for row in rows if row[1] == "changed"} >= set(self.changed)

    def _write(self, ended: threading.Event) -> None:
        self._last = time.monotonic()
        while not ended.is_set():
            try:
                with psycopg.connect(self.dsn, autocommit=True) as connection:
                    while not ended.is_set():
                        self._write_two(connection)
                        ended.wait(0.01)
            except psycopg.Error as exc:
                self.refused.append((time.monotonic(), str(exc)))
                ended.wait(0.1)

    def _write_two(self, connection: psycopg.Connection) -> None:
        self.saved.append(self._commit(connection, INSERT))
        self.changed.append(self._commit(connection, CHANGE, self.saved[-1]))
        self.deleted.append(self._commit(connection, DELETE, self._commit(connection, INSERT)))

    def _commit(self, connection: psycopg.Connection, statement: str, document_id: int | None = None) -> int:
        """Repeats statements that meet a split, like the services."""
        until: float | None = None
        while True:
            try:
                with connection.transaction():
                    set_tenant(connection, self.org)
                    row = connection.execute(statement.encode(), {"org": self.org, "id": document_id}).fetchone()
                break
            except psycopg.Error as exc:
                until = until or time.monotonic() + REPEAT_SECONDS
                if not met_change(exc) or time.monotonic() > until:
                    raise
        assert row is not None
        now = time.monotonic()
        self.pauses.append((self._last, now - self._last))
        self._last = now
        return int(row[0])
