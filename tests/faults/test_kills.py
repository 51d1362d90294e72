"""A process is killed, or told to end, while clients ask: they hear of it in order, and all works again by itself.

Once for each process and signal in the normal run, several times in full (`make faults`), where a process that dies
again and again stays away longer each time.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import pytest

from outage import HEADINGS, Outage, end_under_load
from paced_stack import PacedStack

PrintTable = Callable[[str, Sequence[str], Sequence[Sequence[object]]], None]


class Proof(Protocol):
    """See tests/conftest.py."""

    def pick(self, *, scaled_down: int, full: int) -> int: ...


@pytest.fixture(scope="module")
def outages(print_table: PrintTable) -> Iterator[list[Outage]]:
    """What the tests have seen; printed at their end."""
    outages: list[Outage] = []
    yield outages
    print_table("Processes ended under load", HEADINGS, [outage.row() for outage in outages])


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["embedder", "retriever", "generator", "worker", "postgres", "gateway"])
async def test_sigkill(paced: PacedStack, proof: Proof, outages: list[Outage], name: str) -> None:
    await end_again_and_again(paced, name, signal.SIGKILL, proof, outages)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["embedder", "retriever", "generator", "worker", "gateway"])
async def test_sigterm(paced: PacedStack, proof: Proof, outages: list[Outage], name: str) -> None:
    await end_again_and_again(paced, name, signal.SIGTERM, proof, outages)


async def end_again_and_again(
    paced: PacedStack, name: str, number: signal.Signals, proof: Proof, outages: list[Outage]
) -> None:
    for _ in range(proof.pick(scaled_down=1, full=5)):
        outage = await end_under_load(paced, name, number)
        outages.append(outage)
