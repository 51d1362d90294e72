"""The costs of a job's turn for its organisation."""

from __future__ import annotations

import time

import pytest

from citewire_retriever.ingest.turn import Turn


async def nobody_waits() -> bool:
    return False


def compute(seconds: float) -> str:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(100))
    return "done"


async def test_computing_counts_and_waiting_does_not() -> None:
    turn = Turn(5.0, nobody_waits)
    assert await turn.compute(lambda: compute(0.05)) == "done"
    await turn.compute(lambda: time.sleep(0.05))
    turn.embedded(300)
    assert turn.spent == pytest.approx(0.05 + 0.1, abs=0.02)
