"""A cluster's node is killed, frozen, cut off or slow, or its coordinator restarts: only its own organisations fail.

They get a named error within seconds, others keep working, and everything recovers by itself once the node is back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from citewire.retriever.v1 import corpus_pb2, retriever_pb2
from grpc_health.v1.health_pb2 import HealthCheckResponse

from citewire_kit.errors import CitewireError, Unavailable
from citewire_kit.nodes import ANSWER_SECONDS, SUSPECT_SECONDS
from citewire_kit.tenant import Tenant
from citewire_retriever.ingest.model import VectorTable
from citewire_retriever.model import Space
from fake_embedding import FakeModel
from faulty_cluster import FaultyCluster, FaultyNode, start_faulty_cluster
from ingest_harness import WINDOW, IngestHarness, article, embedder_address, running_worker, worker_settings
from proof_scale import PrintTable, ProofScale
from retriever_process import Caller, Retriever, running_retriever
from waiting import wait_until

NOTICED_SECONDS = SUSPECT_SECONDS + ANSWER_SECONDS + 5
"""The longest wait of a request for a node that is away; five seconds of it are for a busy machine."""
PAUSE_SECONDS = 2.5
"""The longest wait of others: shorter than a caller's wait for a connection, so nobody was refused."""
BACK_SECONDS = 30
FAULTS: dict[str, Callable[[FaultyNode], None]] = {
    "killed": lambda node: node.server.kill(),
    "frozen": lambda node: node.freeze(),
    "cut off": lambda node: node.proxy.cut(),
}


@pytest.fixture(scope="module")
def cluster(citus_archive: Path) -> Iterator[FaultyCluster]:
    with start_faulty_cluster(citus_archive) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _healed(cluster: FaultyCluster) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] # pytest calls it: autouse
    yield
    for node in cluster.nodes:
        node.heal()


def tenant(org: str) -> Tenant:
    return Tenant(org, "ann", "pro")


@dataclass
class Searches:
    """The results of callers that search all the time, for some organisations."""

    running: Retriever
    orgs: list[str]
    seconds: list[float] = field(default_factory=list[float])
    """How long each answered search took."""
    refusals: list[tuple[float, float, str]] = field(default_factory=list[tuple[float, float, str]])
    """The other searches: when each ended, the seconds it took, and the reason."""

    async def search(self, org: str) -> None:
        request = retriever_pb2.SearchRequest(mode=retriever_pb2.SEARCH_MODE_LEXICAL, query="sentence topic")
        began = time.monotonic()
        try:
            await Caller(self.running, tenant(org)).unary(self.running.retriever.Search, request)
        except CitewireError as error:
            reason = error.reason if isinstance(error, Unavailable) else f"{error.code}, {error.reason}"
            self.refusals.append((time.monotonic(), time.monotonic() - began, reason))
        else:
            self.seconds.append(time.monotonic() - began)

    async def _repeat(self, number: int) -> None:
        while True:
            await self.search(self.orgs[number % len(self.orgs)])
            await asyncio.sleep(0.2)  # without it, 24 callers that are refused at once would take all of the CPU

    @asynccontextmanager
    async def running_searches(self, at_once: int) -> AsyncGenerator[None]:
        tasks = [asyncio.create_task(self._repeat(number)) for number in range(at_once)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def wait_for_answer(self) -> None:
        """Waits until one more search is answered."""
        before = len(self.seconds)
        await wait_until(lambda: len(self.seconds) > before, BACK_SECONDS)


async def put(running: Retriever, org: str, **fields: Any) -> int:  # noqa: ANN401 # fields of the request
    return (await Caller(running, tenant(org)).put(content=article(2), **fields)).document_id


async def wait_until_ready(running: Retriever, org: str, document_id: int) -> None:
    async def ready() -> bool:
        document = await Caller(running, tenant(org)).get(document_id)
        return document.status == corpus_pb2.DOCUMENT_STATUS_READY

    await wait_until(ready, BACK_SECONDS)


@asynccontextmanager
async def services(cluster: FaultyCluster, model: FakeModel, **settings: object) -> AsyncGenerator[Retriever]:
    """A retriever and a worker."""
    async with embedder_address(model) as embedder, running_retriever(cluster.database) as running:
        options = {"backfill_seconds": 0, "lease_seconds": 6, **settings}
        async with running_worker(worker_settings(cluster.database, embedder, **options)):
            yield running


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failed_node_affects_only_its_organisations(
    cluster: FaultyCluster, fault: str, proof: ProofScale, print_table: PrintTable
) -> None:
    ill_node, well_node = cluster.nodes
    model = FakeModel(window=WINDOW)
    async with services(cluster, model) as running:
        ill = Searches(running, cluster.organisations(ill_node, 3, f"ill-{fault[:3]}-"))
        well = Searches(running, cluster.organisations(well_node, 2, f"well-{fault[:3]}-"))
        for org in (*ill.orgs, *well.orgs):
            await wait_until_ready(running, org, await put(running, org))
        async with ill.running_searches(24), well.running_searches(2):
            await ill.wait_for_answer()
            await well.wait_for_answer()
            model.gate.clear()
            model.computing.clear()
            in_work = await put(running, ill.orgs[0])
            async with asyncio.timeout(BACK_SECONDS):
                await model.computing.wait()
            before = len(ill.seconds)
            began = time.monotonic()
            FAULTS[fault](ill_node)
            model.gate.set()
            await wait_until_ready(running, well.orgs[0], await put(running, well.orgs[0]))
            ingested = time.monotonic() - began
            # Once the fault is noticed, searches are refused at once.
            await wait_until(lambda: any(seconds < 0.5 for _, seconds, _ in ill.refusals), BACK_SECONDS)
            await asyncio.sleep(proof.pick(scaled_down=2, full=60))
            refused = sorted(seconds for ended, seconds, _ in ill.refusals if ended > began + NOTICED_SECONDS)
            answered_away = len(ill.seconds) - before
            ill_node.heal()
            healed = time.monotonic()
            await ill.wait_for_answer()
            back = time.monotonic() - healed
            await wait_until_ready(running, ill.orgs[0], in_work)
            await wait_until_ready(running, ill.orgs[1], await put(running, ill.orgs[1]))
    slowest = max(seconds for _, seconds, _ in ill.refusals)
    print_table(
        f"A node is {fault} while 24 callers of its organisations and 2 of another's search",
        ["what", "figure"],
        [
            ("searches of the other node's organisations, answered", len(well.seconds)),
            ("longest of them, s", f"{max(well.seconds):.2f}"),
            ("until a new document of theirs was ingested, s", f"{ingested:.1f}"),
            ("searches refused by name", len(ill.refusals)),
            ("longest wait of a refused one, s", f"{slowest:.2f}"),
            ("median once noticed, s", f"{refused[len(refused) // 2]:.3f}" if refused else "-"),
            ("from the node's return until the first answer, s", f"{back:.1f}"),
        ],
    )
    assert well.refusals == []
    assert max(well.seconds) < PAUSE_SECONDS
    assert {reason for _, _, reason in ill.refusals} == {"DATABASE_UNAVAILABLE"}
    assert slowest < NOTICED_SECONDS
    assert answered_away <= 24  # searches that were already running


async def test_a_slow_node_slows_only_its_organisations(cluster: FaultyCluster, print_table: PrintTable) -> None:
    ill_node, well_node = cluster.nodes
    model = FakeModel(window=WINDOW)
    async with services(cluster, model) as running:
        ill = Searches(running, cluster.organisations(ill_node, 3, "slow-"))
        well = Searches(running, cluster.organisations(well_node, 2, "quick-"))
        for org in (*ill.orgs, *well.orgs):
            await wait_until_ready(running, org, await put(running, org))
        ill_node.proxy.delay = 0.1
        async with ill.running_searches(24), well.running_searches(2):
            await wait_until(lambda: len(ill.seconds) > 30 and len(well.seconds) > 30, 4 * BACK_SECONDS)
        ill_node.proxy.delay = 0.0
    print_table(
        "A node answers 0.1 s later each way, 24 callers of its organisations and 2 of another's search",
        ["organisations of", "answered", "median, s", "longest, s", "refused: no connection in time"],
        [
            (
                name,
                len(searches.seconds),
                f"{sorted(searches.seconds)[len(searches.seconds) // 2]:.2f}",
                f"{max(searches.seconds):.2f}",
                len(searches.refusals),
            )
            for name, searches in (("the slow node", ill), ("the other", well))
        ],
    )
    assert well.refusals == []
    assert max(well.seconds) < PAUSE_SECONDS
    assert {reason for _, _, reason in ill.refusals} <= {"DATABASE_UNAVAILABLE"}


async def test_the_coordinator_restarts(cluster: FaultyCluster) -> None:
    """As when a single Postgres restarts: everything waits, and nothing else has to be restarted."""
    model = FakeModel(window=WINDOW)
    async with services(cluster, model) as running:
        orgs = [cluster.organisations(node, 1, "restart-")[0] for node in cluster.nodes]
        searches = Searches(running, orgs)
        documents = {org: await put(running, org) for org in orgs}
        async with searches.running_searches(4):
            await searches.wait_for_answer()
            cluster.coordinator.kill()
            await running.wait_for(HealthCheckResponse.NOT_SERVING)
            await wait_until(lambda: len(searches.refusals) > 4, BACK_SECONDS)
            cluster.coordinator.start()
            await running.wait_for(HealthCheckResponse.SERVING)
            await searches.wait_for_answer()  # the client's channel may learn of it later
            for org, document_id in documents.items():
                await wait_until_ready(running, org, document_id)
    # The second comes from the client's channel while the retriever isn't serving.
    assert {reason for _, _, reason in searches.refusals} <= {"DATABASE_UNAVAILABLE", "SERVICE_UNAVAILABLE"}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_new_space_needs_all_nodes_and_delays_nobody(cluster: FaultyCluster, fault: str) -> None:
    ill_node, well_node = cluster.nodes
    (org,) = cluster.organisations(well_node, 1, f"space-{fault[:3]}-")
    space = Space(f"new-{fault[:3]}", "r1", 8)

    async def expect_refusal(harness: IngestHarness) -> float:
        began = time.monotonic()
        with pytest.raises(Unavailable, match="needs all nodes"):
            await harness.worker.ensure_space(space)
        return time.monotonic() - began

    async with services(cluster, FakeModel(window=WINDOW)) as running, IngestHarness.open(cluster.database) as harness:
        await wait_until_ready(running, org, await put(running, org))
        await harness.worker.claim("ingest", worker="nobody", lease_seconds=1)  # so that its pool is connected
        FAULTS[fault](ill_node)
        trying = [asyncio.create_task(expect_refusal(harness)) for _ in range(4)]
        await wait_until_ready(running, org, await put(running, org))
        assert max(await asyncio.gather(*trying)) < NOTICED_SECONDS
        ill_node.heal()

        async def make_table() -> VectorTable | None:
            try:
                return await harness.worker.ensure_space(space)
            except Unavailable:
                return None

        await wait_until(lambda: _is_made(make_table), BACK_SECONDS)


async def _is_made(make: Callable[[], Awaitable[VectorTable | None]]) -> bool:
    return await make() is not None


async def test_old_versions_are_deleted_on_available_nodes(cluster: FaultyCluster) -> None:
    ill_node, well_node = cluster.nodes
    orgs = [cluster.organisations(node, 1, "sweep-")[0] for node in (well_node, ill_node)]
    async with (
        services(cluster, FakeModel(window=WINDOW), keep_seconds=5) as running,
        IngestHarness.open(cluster.database) as harness,
    ):
        documents: dict[str, int] = {}
        for org in orgs:
            documents[org] = await put(running, org)
            await wait_until_ready(running, org, documents[org])
            await put(running, org, document_id=documents[org], title="Again")
            await wait_until_ready(running, org, documents[org])
        ill_node.server.kill()

        async def is_deleted(org: str) -> bool:
            statement = "SELECT version FROM corpus.versions WHERE org_id = %s AND document_id = %s"
            return [row["version"] for row in await harness.rows(statement, org, documents[org])] == [2]

        await wait_until(lambda: is_deleted(orgs[0]), BACK_SECONDS)
        (job,) = await harness.rows(
            "SELECT state FROM corpus.ingest_jobs WHERE document_id = %s AND kind = 'sweep'", documents[orgs[1]]
        )
        assert job["state"] in ("queued", "running")
        ill_node.heal()
        await wait_until(lambda: is_deleted(orgs[1]), BACK_SECONDS)
