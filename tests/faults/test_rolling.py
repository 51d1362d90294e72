"""With two replicas of each service, one is terminated under load, and no request fails.

A normal run does this once for each service, `make faults` several times with both replicas in turn.
"""

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from deploy.rehearsal.load import CLIENTS, KINDS, Load
from paced_model_stack import PacedModelStack
from proof_scale import PrintTable, ProofScale
from replicated_stack import GATEWAYS, SERVICES, ReplicatedStack, replicated_stack


@pytest.mark.timeout(1800)
async def test_no_request_fails_while_replicas_leave(
    paced: PacedModelStack,
    proof: ProofScale,
    tmp_path: Path,
    print_table: PrintTable,
) -> None:
    await asyncio.to_thread(paced.upstream.pace, rate=40, tokens=60)
    async with replicated_stack(paced, tmp_path) as two:
        load = Load(two.balancer.url, f"rolling-{time.monotonic_ns()}")
        began = time.monotonic()
        # Searches take most of the CPU, and one client at a time is enough to meet a leaving replica.
        async with load.running(CLIENTS if proof.full else {**CLIENTS, "search": 1}):
            await two.until_used()
            for _ in range(proof.pick(scaled_down=1, full=5)):
                await roll(two, both=proof.full)
            rolled_at = time.monotonic()
            await load.until(
                lambda: all(load.completed(kind, rolled_at) >= 3 for kind in KINDS), "the load doesn't go on"
            )
    failed = [asked for asked in load.asked if asked.end != "complete"]
    assert not failed, f"{len(failed)} of {len(load.asked)}: {failed[:5]}"
    kinds = Counter(asked.kind for asked in load.asked)
    print_table(
        f"Replicas told to end under load, {time.monotonic() - began:.0f} s",
        ["replicas ended", *KINDS, "failed"],
        [[proof.pick(scaled_down=4, full=40), *(kinds[kind] for kind in KINDS), 0]],
    )


async def roll(two: ReplicatedStack, *, both: bool) -> None:
    """Terminates one replica of each service and a gateway; or both of each, one after the other."""
    if both:
        for name in SERVICES:
            await two.roll(name)
            await two.roll_own(name)
        for name in GATEWAYS:
            await two.roll_gateway(name)
    else:
        await asyncio.gather(*(two.roll_own(name) for name in SERVICES))
        await two.roll_gateway(GATEWAYS[0])
