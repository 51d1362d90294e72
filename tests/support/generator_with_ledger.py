"""A generator with a ledger in a test's database, and a catalogue with a price for its model."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from citewire.generator.v1 import generator_pb2 as pb
from psycopg.rows import dict_row

from raw_upstream import RawRequest

MODEL = "scripted"
INPUT_USD, OUTPUT_USD = 2, 10
"""Per million tokens."""

_NUMBER = re.compile(r"number (\d+) of many")


def write_catalogue(folder: Path) -> Path:
    """Writes a catalogue with the model's prices."""
    path = folder / "catalogue.toml"
    path.write_text(
        f'[[models]]\nprovider = "openai-compatible"\nname = "{MODEL}"\ninput = {INPUT_USD}\noutput = {OUTPUT_USD}\n'
    )
    return path


def question(number: int) -> pb.GenerateRequest:
    """A question that the provider identifies by its number."""
    return pb.GenerateRequest(
        question=f"What is number {number} of many?",
        passages=[pb.Passage(chunk_id=1, document_id=1, text="So.")],
        max_completion_tokens=100,
    )


def number_of(request: RawRequest) -> int:
    """The number of the question that a provider was asked."""
    match = _NUMBER.search(str(request.body["messages"]))
    assert match is not None, request.body
    return int(match[1])


def numbers_of(requests: list[RawRequest]) -> Counter[int]:
    """Number of times that the provider received each question."""
    return Counter(number_of(request) for request in requests)


class Accounts:
    """The rows of a database, read as its owner."""

    def __init__(self, dsn: str) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True)

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def rows(self, query: LiteralString) -> list[dict[str, Any]]:
        """The rows of a query."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query).fetchall()

    def calls(self) -> list[dict[str, Any]]:
        """All calls, in the order in which they began."""
        return self.rows("SELECT * FROM ledger.calls ORDER BY started_at, call_id")

    def latest(self) -> dict[str, Any]:
        """The call that began last."""
        return self.rows("SELECT * FROM ledger.calls ORDER BY started_at DESC, call_id DESC LIMIT 1")[0]

    def open(self) -> int:
        """Number of unsettled calls."""
        return int(self.rows("SELECT count(*) AS calls FROM ledger.calls WHERE state = 'open'")[0]["calls"])

    def budgets(self) -> list[dict[str, Any]]:
        """Budgets as they are now."""
        return self.rows("SELECT * FROM ledger.budgets_now ORDER BY org_id, key_id, period")

    def put_budget(self, nano: int, *, org: str = "local") -> None:
        """Gives an organisation a monthly budget."""
        with self._connection.transaction():
            self._connection.execute("SELECT set_config('citewire.org_id', %s, true)", (org,))
            self._connection.execute("SELECT ledger.put_budget('', 'month', %s, 'test')", (nano,))
