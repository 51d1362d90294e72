"""Many clients leave after the second token: all work on their answers stops within a second.

`make faults` has 200 clients, a normal run a few.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import get_args

import pytest

from client_disconnects import TOKEN, CancellationTimes, Disconnect, disconnect_probe
from paced_model_stack import PacedModelStack
from proof_scale import PrintTable, ProofScale

COLUMNS = {
    "socket": "provider's socket closed",
    "rpc": "RPC seen as cancelled in the generator's metrics, gauge 0",
    "gateway": "seen as cancelled in the gateway's metrics, gauge 0",
    "exchange": "exchange closed as cancelled",
}


@pytest.mark.system(program="curl", package="curl")
@pytest.mark.timeout(1200)
async def test_all_work_stops_for_clients_that_left(
    proof: ProofScale,
    paced: PacedModelStack,
    print_table: PrintTable,
) -> None:
    choices, count = proof.random(), proof.pick(scaled_down=3, full=200)
    paced.upstream.pace(rate=50, tokens=500)
    results: list[CancellationTimes] = []
    async with disconnect_probe(paced) as clients:
        for _ in range(count):
            path, how = choices.choice(list(TOKEN)), choices.choice(get_args(Disconnect))
            results.append(await clients.disconnect_from_stream(path, how, tokens=2))
    rows: list[list[object]] = []
    for name, title in COLUMNS.items():
        times = sorted(asdict(signs)[name] * 1000 for signs in results)
        rows.append([title, *(round(_quantile(times, part), 1) for part in (0.5, 0.99, 1.0))])
    print_table(
        f"{count} clients left in the middle of an answer, seed {proof.seed}: milliseconds until",
        ["", "p50", "p99", "most"],
        rows,
    )


def _quantile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
