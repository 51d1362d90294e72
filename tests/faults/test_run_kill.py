"""A gateway is killed at each frame of an answer: clients of another get the stored frames, and learn of the loss.

A normal run kills it at three frames, `make faults` at every one of an answer's sixty frames.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any, LiteralString

import httpx
import psycopg
import pytest

from gateway_process import Frame, frames_of
from paced_model_stack import PacedModelStack
from proof_scale import PrintTable, ProofScale
from replicated_stack import Replica, further_gateway
from waiting import wait_until

QUESTION = {"question": "What is the pace of the upstream?", "grace_seconds": 15}
TOKENS = 56
BEHIND = 32
"""Frames that may be lost: each has an event, and no further event is sent while so many aren't stored."""


@pytest.mark.timeout(1800)
async def test_killed_at_every_frame(
    paced: PacedModelStack, proof: ProofScale, tmp_path: Path, print_table: PrintTable
) -> None:
    await asyncio.to_thread(paced.upstream.pace, rate=60, tokens=TOKENS)
    doomed = further_gateway(paced, tmp_path, CITEWIRE_GATEWAY_RUN_LEASE_SECONDS="2")
    ends, runs, behind = Counter[str](), list[str](), 0
    async with httpx.AsyncClient(base_url=paced.stack.base_url, timeout=60, trust_env=False) as survivor:
        try:
            _, whole = await ask(doomed, None)
            some = {2, len(whole) // 2, len(whole)}
            indexes = range(1, len(whole) + 1) if proof.full else sorted(some)
            for index in indexes:
                run, seen = await ask(doomed, index)
                runs.append(run)
                stored = await resume(survivor, run, 0)
                rest = await resume(survivor, run, index)
                end = check(seen, stored, rest, index)
                ends[end] += 1
                behind = max(behind, index - (len(stored) - 2)) if end == "RUN_LOST" else behind
        finally:
            doomed.kill()
    assert behind <= BEHIND
    await wait_until(lambda: rows_of(paced, _OPEN, runs) == [(0,)], 30)
    assert dict(rows_of(paced, _EXCHANGES, runs)) == dict.fromkeys(runs, 1)
    assert dict(rows_of(paced, _CALLS, runs)) == dict.fromkeys(runs, 1)
    print_table(
        f"Gateway killed at {len(runs)} frames of an answer of {len(whole)}",
        ["killed", "the rest came", "RUN_LOST", "gaps", "doubles", "most frames behind", "exchanges", "ledger calls"],
        [[len(runs), ends["done"], ends["RUN_LOST"], 0, 0, behind, len(runs), len(runs)]],
    )


async def ask(doomed: Replica, index: int | None) -> tuple[str, list[Frame]]:
    """Asks the gateway and kills it after `index` frames; returns the run's id and those frames."""
    if doomed.process is None or doomed.process.poll() is not None:
        doomed.start()
    async with httpx.AsyncClient(base_url=doomed.url, timeout=60, trust_env=False) as http:
        await wait_until(lambda: is_ready(http), 60)
        async with http.stream("POST", "/v1/chat", json=QUESTION) as response:
            assert response.status_code == 200
            text = ""
            try:
                async for line in response.aiter_lines():
                    text += line + "\n"
                    if index is not None and line == "" and len(frames_of(text)) == index:
                        doomed.kill()
                        break
            except httpx.TransportError:
                pass
            return response.headers["citewire-run"], frames_of(text)


async def is_ready(http: httpx.AsyncClient) -> bool:
    try:
        return (await http.get("/readyz")).status_code == 200
    except httpx.TransportError:
        return False


async def resume(survivor: httpx.AsyncClient, run: str, after: int) -> list[Frame]:
    """Returns the run's frames from another gateway."""
    response = await survivor.get(f"/v1/chat/{run}/events", headers={"Last-Event-ID": str(after)} if after else {})
    return [] if response.status_code == 204 else frames_of(response.text)


def check(seen: list[Frame], stored: list[Frame], rest: list[Frame], index: int) -> str:
    """Checks for gaps and doubles, from the first frame on and after the last received one; returns the run's end."""
    assert len(seen) == index
    assert [frame.id for frame in stored] == [str(number) for number in range(1, len(stored) + 1)]
    both = min(len(seen), len(stored) - 2)
    assert [frame.raw for frame in stored[:both]] == [frame.raw for frame in seen[:both]]
    assert [frame.id for frame in rest] == [str(number) for number in range(index + 1, index + 1 + len(rest))]
    if stored[-2].event != "error":
        assert [frame.raw for frame in [*seen, *rest]] == [frame.raw for frame in stored]
        return "done"
    for frames in (stored, rest):
        assert (frames[-2].data["reason"], frames[-1].event) == ("RUN_LOST", "done")
    assert stored[-2].data["last_sequence"] == len(stored) - 2
    return "RUN_LOST"


_OPEN = """SELECT
    (SELECT count(*) FROM chat.exchanges WHERE exchange_id = ANY (%(runs)s::uuid[]) AND state = 'running')
    + (SELECT count(*) FROM ledger.calls WHERE exchange_id = ANY (%(runs)s::uuid[]) AND state = 'open')"""
_EXCHANGES = (
    "SELECT exchange_id::text, count(*) FROM chat.exchanges WHERE exchange_id = ANY (%(runs)s::uuid[]) GROUP BY 1"
)
_CALLS = "SELECT exchange_id::text, count(*) FROM ledger.calls WHERE exchange_id = ANY (%(runs)s::uuid[]) GROUP BY 1"


def rows_of(paced: PacedModelStack, statement: LiteralString, runs: list[str]) -> list[tuple[Any, ...]]:
    """Queries the database about these runs."""
    with psycopg.connect(paced.stack.dsn(), autocommit=True) as connection:
        return connection.execute(statement, {"runs": runs}).fetchall()
