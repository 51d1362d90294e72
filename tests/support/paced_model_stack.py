"""A whole stack whose model is the paced upstream: a real provider over HTTP, at a pace set by tests.

It is started like by a user, with `citewire up`; only the provider and some time limits differ.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg

from local_stack import LocalStack, local_stack

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL = "paced"
CHAT_SECONDS = 12.0
ORPHAN_SECONDS = 1.0
LIBRARY = {
    "pace.md": "# The pace of the upstream\n\nThe upstream says one token after the other, at an even pace.\n",
    "tides.md": "# Tides at the pier\n\nHigh water at the pier comes six hours after low water.\n",
    "ropes.md": "# Ropes of the ferry\n\nThe ferry is made fast with six ropes of forty metres each.\n",
}
_ENVIRONMENT = {
    "CITEWIRE_GENERATOR_PROVIDER": "openai-compatible",
    "CITEWIRE_GENERATOR_MODEL": MODEL,
    # An exchange whose gateway died is closed when its chat can no longer be running: soon, here.
    "CITEWIRE_GATEWAY_CHAT_SECONDS": str(CHAT_SECONDS),
    "CITEWIRE_GATEWAY_ORPHAN_SECONDS": str(ORPHAN_SECONDS),
    "CITEWIRE_GATEWAY_SWEEPER_SECONDS": "0.5",
    # A killed worker's job is taken up again when its lease has passed.
    "CITEWIRE_WORKER_LEASE_SECONDS": "2",
    "CITEWIRE_WORKER_CONFINEMENT": "available",
    "CITEWIRE_WORKER_POLL_SECONDS": "0.5",
}


class PacedModelServer:
    """The upstream in a separate process, which outlives the event loops of tests."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, trust_env=False, timeout=10)

    def pace(self, *, rate: float, tokens: int, first_delay: float = 0.0) -> None:
        """Sets the pace of the next answers: tokens per second, number of tokens, seconds before the first one."""
        settings = {"rate": rate, "tokens": tokens, "first_delay": first_delay}
        self._http.patch("/settings", json=settings).raise_for_status()

    def stats(self) -> dict[str, Any]:
        """Its statistics so far; times are of the monotonic clock, which all processes of a machine share."""
        return self._http.get("/stats").raise_for_status().json()

    def close(self) -> None:
        """Closes the connection to it."""
        self._http.close()


@dataclass(frozen=True, slots=True)
class PacedModelStack:
    """The stack, its upstream and its database."""

    stack: LocalStack
    upstream: PacedModelServer
    environment: Mapping[str, str]
    """The settings of its processes besides addresses."""

    def exchanges(self, request_ids: list[str]) -> dict[str, tuple[str, str | None]]:
        """State and reason of the exchanges of these requests, by request id."""
        with psycopg.connect(self.stack.dsn(), autocommit=True) as connection:
            rows = connection.execute(
                "SELECT request_id, state, reason FROM chat.exchanges WHERE request_id = ANY(%s)", (request_ids,)
            ).fetchall()
        assert len(rows) == len({row[0] for row in rows}), "a request has two exchanges"
        return {row[0]: (row[1], row[2]) for row in rows}


@contextmanager
def paced_model_server() -> Generator[PacedModelServer]:
    """Runs the upstream until the block ends."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.upstream"], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        upstream = PacedModelServer(f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}")
        try:
            yield upstream
        finally:
            upstream.close()
    finally:
        process.terminate()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def paced_model_stack(
    folder: Path, settings: Callable[[PacedModelServer], Mapping[str, str]] | None = None
) -> Generator[PacedModelStack]:
    """Starts stack and upstream, with a small library; ends them afterwards.

    Args:
        folder: The stack's.
        settings: The stack's variables, instead of those that make the upstream its provider.
    """
    with paced_model_server() as upstream:
        environment = {**_ENVIRONMENT, "CITEWIRE_GENERATOR_API_BASE": upstream.url}
        if settings is not None:
            environment = dict(settings(upstream))
        with local_stack(folder, environ=environment) as stack:
            _fill(stack)
            yield PacedModelStack(stack, upstream, environment)


def _fill(stack: LocalStack) -> None:
    with httpx.Client(base_url=stack.base_url, trust_env=False, timeout=30) as http:
        for name, text in LIBRARY.items():
            stored = http.post("/v1/documents", files={"file": (name, text.encode())})
            assert stored.status_code == 202, stored.text
        deadline = time.monotonic() + 60
        while True:
            documents = http.get("/v1/documents").json()["documents"]
            if [document["status"] for document in documents] == ["ready"] * len(LIBRARY):
                return
            assert time.monotonic() < deadline, documents
            time.sleep(0.05)  # nothing announces it
