"""A process is killed or terminated under load: clients get proper errors, and everything recovers by itself.

A normal run does it once for each process and signal, `make faults` several times; then a process that keeps dying
stays away longer each time.
"""

import signal
from collections.abc import Iterator

import pytest

from outage_check import HEADINGS, OutageReport, end_under_load
from paced_model_stack import PacedModelStack
from proof_scale import PrintTable, ProofScale


@pytest.fixture(scope="module")
def outages(print_table: PrintTable) -> Iterator[list[OutageReport]]:
    """Reports of the tests, printed after the last one."""
    outages: list[OutageReport] = []
    yield outages
    print_table("Processes ended under load", HEADINGS, [outage.row() for outage in outages])


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["embedder", "retriever", "generator", "worker", "postgres", "gateway"])
async def test_sigkill(paced: PacedModelStack, proof: ProofScale, outages: list[OutageReport], name: str) -> None:
    choices = proof.random()
    for _ in range(proof.pick(scaled_down=1, full=4)):
        times = choices.randint(1, proof.pick(scaled_down=1, full=5))
        outages.append(await end_under_load(paced, name, signal.SIGKILL, times=times))


async def test_a_database_that_keeps_dying(paced: PacedModelStack, outages: list[OutageReport]) -> None:
    outages.append(await end_under_load(paced, "postgres", signal.SIGKILL, times=4))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("embedder", signal.SIGTERM),
        ("retriever", signal.SIGTERM),
        ("generator", signal.SIGTERM),
        ("worker", signal.SIGTERM),
        ("postgres", signal.SIGINT),  # on SIGTERM, Postgres waits until all clients have left
        ("gateway", signal.SIGTERM),
    ],
)
async def test_termination(
    paced: PacedModelStack, proof: ProofScale, outages: list[OutageReport], name: str, number: signal.Signals
) -> None:
    for _ in range(proof.pick(scaled_down=1, full=5)):
        outage = await end_under_load(paced, name, number)
        outages.append(outage)
