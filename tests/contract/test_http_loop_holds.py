"""No answer, however hostile, blocks the event loop for long: a real generator and gateway in one loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING

import pytest
from citewire.retriever.v1 import retriever_pb2

from citewire_generator.model import FinishReason, Usage
from citewire_generator.providers.base import ChatTask, Delta, End
from gateway_fakes import result
from gateway_process import Gateway
from generator_behind_gateway import WAYS, generator_behind_gateway
from loop_holds import measured_holds
from scripted_chat import ScriptedChat

if TYPE_CHECKING:
    from databases import Database
    from proof_scale import ProofScale

MOST_MS = 5.0
TRIES = 8
"""The least of the tries counts, as processor time sometimes doubles on a shared machine."""
PASSAGE = "The limit is 500 euros per day if the tenant must not pay at least 500 euros. " * 30
UNITS = [
    "[1] ", "Pay 500 euros [ref:1]. ", 'a\u0301\u0301 \u05d0\u05d1 **_`[ref:1]`_**. "\u2028\x01`',
]  # fmt: skip
PASSAGES = 150


class Burst(ScriptedChat):
    """Answers with one text in one delta."""

    text = ""

    async def stream(self, task: ChatTask) -> AsyncGenerator[Delta | End, None]:
        del task
        yield Delta((self.text,))
        yield End(FinishReason.STOP, Usage())


@pytest.fixture
def model() -> Burst:
    return Burst()


@pytest.fixture
async def gateway(database: Database, model: Burst) -> AsyncIterator[Gateway]:
    async with generator_behind_gateway(database, model, PASSAGE) as running:
        yield running


async def read(gateway: Gateway, way: str) -> int:
    path, body = WAYS[way]
    async with gateway.http.stream("POST", path, json=body) as response:
        assert response.status_code == 200
        return sum([len(part) async for part in response.aiter_raw()])


async def worst_hold(gateway: Gateway, way: str, least: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """The milliseconds of the longest hold: the least over several tries."""
    worst: list[float] = []
    while len(worst) < TRIES and min(worst, default=MOST_MS) >= MOST_MS:
        with measured_holds(monkeypatch) as holds:
            assert await read(gateway, way) > least
        worst.append(max(holds))
    return min(worst)


@pytest.mark.parametrize("way", WAYS)
async def test_a_hostile_answer_does_not_block_the_loop(
    gateway: Gateway, model: Burst, way: str, proof: ProofScale, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.text = "Warm up [ref:1]."
    await read(gateway, way)
    chars = proof.pick(scaled_down=8_000, full=131_072)
    for unit in UNITS:
        model.text = (unit * chars)[:chars]
        assert await worst_hold(gateway, way, chars, monkeypatch) < MOST_MS, unit
    # As many citations as in a long context.
    retriever = gateway.fakes.retriever
    retriever.path = retriever_pb2.CONTEXT_PATH_LONG_CONTEXT
    retriever.results = [result(number, text=PASSAGE[:2_000]) for number in range(1, PASSAGES + 1)]
    model.text = "Pay 500 euros [ref:1, 99]. Pay 500 euros [ref:2]."
    assert await worst_hold(gateway, way, 200, monkeypatch) < MOST_MS, "passages"
