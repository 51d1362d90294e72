"""Cost of the audit trail for a retriever that is called by your own service: CPU of its process per `Search`.

Two retrievers on one database, one with the trail and one without, alternate under the same load of signed calls,
which both verify. `python -m benchmarks.audit` takes about three minutes.
On a shared machine, many short pairs are more informative than a few long ones.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

import grpc
import psutil
from citewire.common.v1 import common_pb2
from citewire.retriever.v1 import retriever_pb2 as pb
from citewire.retriever.v1.retriever_pb2_grpc import RetrieverServiceStub

from benchmarks.ratios import Verdict, median_ratio
from benchmarks.search_data import SPACE, Data, loaded, sample
from benchmarks.search_ways import CLIENTS, tenant
from benchmarks.tables import describe_machine
from citewire_kit import client
from citewire_kit.callers.__main__ import make_keys
from citewire_kit.callers.signer import Signer
from citewire_kit.channel import open_channel
from citewire_kit.tenant import use_tenant

LIMIT = 1.05


@contextlib.contextmanager
def retriever(environment: Mapping[str, str], log: Path) -> Generator[tuple[psutil.Process, int]]:
    """Runs a retriever during the block; yields its process and port."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "citewire_retriever", "serve"], env=environment, stdout=output, stderr=output
        )
    try:
        while not (ports := [line for line in log.read_text().splitlines() if '"listening"' in line]):
            if process.poll() is not None:
                raise RuntimeError(log.read_text()[-2000:])
            time.sleep(0.1)
        yield psutil.Process(process.pid), int(json.loads(ports[0])["port"])
    finally:
        process.terminate()
        process.wait(30)


async def search(channel: grpc.aio.Channel, orgs: Sequence[str], count: int) -> None:
    """Makes this many searches, `CLIENTS` at a time."""
    space = common_pb2.EmbeddingSpace(model=SPACE.model, revision=SPACE.revision, dimensions=SPACE.dimensions)
    vectors = [vector.astype("<f4").tobytes() for vector in sample(777, 64)]
    stub, numbers = RetrieverServiceStub(channel), iter(range(count))

    async def run() -> None:
        for number in numbers:
            request = pb.SearchRequest(vector=vectors[number % 64], space=space, keep_duplicates=True)
            with use_tenant(tenant(orgs[number % len(orgs)])):
                assert (await client.unary(stub.Search, request, timeout=30)).results

    await asyncio.gather(*(run() for _ in range(CLIENTS)))


async def measure(process: psutil.Process, channel: grpc.aio.Channel, orgs: Sequence[str], count: int) -> float:
    """CPU microseconds of the process per search, including its trail writes in the second after."""
    before = cpu_seconds(process)
    await search(channel, orgs, count)
    await asyncio.sleep(1.2)  # for the last block of the trail
    return (cpu_seconds(process) - before) / count * 1e6


def cpu_seconds(process: psutil.Process) -> float:
    """CPU time of the process's threads, in nanoseconds; the process's own time is only counted in hundredths."""
    threads = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


async def compare(data: Data, pairs: int, count: int) -> list[tuple[float, float]]:
    """Pairs of CPU microseconds, with and without the trail."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        make_keys(folder / "keys", {"service": ()})
        orgs = [org for org, size in data.sizes.items() if size >= 200]
        common = {
            **{name: value for name, value in os.environ.items() if not name.startswith("CITEWIRE_")},
            "CITEWIRE_AUTH": "keys",
            "CITEWIRE_CALLER_ISSUERS": str(folder / "keys" / "issuers.json"),
            "CITEWIRE_LOG_FORMAT": "json",
            "CITEWIRE_RETRIEVER_DSN": data.dsn("citewire_corpus"),
            "CITEWIRE_RETRIEVER_PORT": "0",
            "CITEWIRE_RETRIEVER_METRICS_PORT": "0",
        }
        running = [
            stack.enter_context(retriever({**common, "CITEWIRE_AUDIT": audit}, folder / f"{audit}.log"))
            for audit in ("on", "off")
        ]
        signer = Signer("citewire-service", folder / "keys" / "service.pem")
        async with (
            open_channel(f"127.0.0.1:{running[0][1]}", signer=signer) as on,
            open_channel(f"127.0.0.1:{running[1][1]}", signer=signer) as off,
        ):
            sides = [(running[0][0], on), (running[1][0], off)]
            for process, channel in sides:
                await measure(process, channel, orgs, count)
            results: list[tuple[float, float]] = []
            for pair in range(pairs):
                order = sides if pair % 2 else sides[::-1]
                costs = {process.pid: await measure(process, channel, orgs, count) for process, channel in order}
                results.append((costs[sides[0][0].pid], costs[sides[1][0].pid]))
                print(f"{results[-1][0]:.0f} {results[-1][1]:.0f}", flush=True)
        noted = (folder / "on.log").read_text().count("citewire-service")
        assert noted > pairs * count / 2, f"the trail has {noted} searches"
        return results


def main(arguments: Sequence[str]) -> int:
    """Runs the comparison; returns 1 if the limit is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--searches", type=int, default=80, help="searches of each side of a pair")
    options = parser.parse_args(arguments)
    with loaded(12_000) as data:
        pairs = asyncio.run(compare(data, options.pairs, options.searches))
    ratio = median_ratio([on / off for on, off in pairs])
    verdict = ratio.verdict(LIMIT)
    print(describe_machine())
    print(f"CPU per Search, with the trail / without: {ratio.median:.3f} ({ratio.low:.3f}–{ratio.high:.3f}), {verdict}")
    return 1 if verdict is Verdict.MISSED else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
