"""What the worker does after a failed attempt: retry, give up, or leave the job."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from citewire_kit.errors import (
    CitewireError,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    ResourceExhausted,
    Unavailable,
)
from citewire_kit.tenant import Tenant, current_request_id, current_tenant
from citewire_kit.tracing import current_ids
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.model import Job, JobKind, LeaseLostError, Published, QueueState
from citewire_retriever.ingest.pipeline import Outcome, Pipeline
from citewire_retriever.ingest.settings import WorkerSettings
from citewire_retriever.ingest.store import PostgresJobStore
from citewire_retriever.ingest.turn import Turn
from citewire_retriever.ingest.worker import Worker

TRACE = "0af7651916cd43dd8448eb211c80319c"
JOB = Job(
    job_id=16,
    document_id=1,
    version=1,
    kind="ingest",
    attempt=1,
    fence=1,
    tenant=Tenant("acme", "ann", "pro"),
    trace_context={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "x-request-id": "req-1"},
    age_seconds=5,
)
Ended = tuple[str, object]


class FakeStore:
    """A store with one job that records its end; it has only the methods that the worker calls."""

    def __init__(self, job: Job) -> None:
        self.job: Job | None = job
        self.ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self.renewed = 0
        self.charged: dict[str, float] = {}
        self.held = True
        self.error: CitewireError | LeaseLostError | None = None
        self.spread = False
        self.put_back_after: list[float] = []

    async def claim(
        self,
        kind: JobKind,
        *,
        worker: str,
        lease_seconds: float,
        most_bytes: int | None = None,
        full: Sequence[str] = (),
    ) -> Job | None:
        if self.job is None or self.job.kind != kind or most_bytes is not None:
            return None
        job, self.job = self.job, None
        return job

    async def is_waited_for(self, job: Job) -> bool:
        return True

    async def pass_on(self, job: Job) -> None:
        self._end("passed on", job.job_id)

    async def charge(self, spent: Mapping[str, float]) -> None:
        self.charged = dict(spent)

    async def requeue_expired(self) -> int:
        return 0

    async def release_all(self, worker: str) -> int:
        return 0

    async def renew(self, job: Job, *, lease_seconds: float) -> bool:
        self.renewed += 1
        return self.held

    async def fail(self, job: Job, error: IngestError) -> None:
        self._end("failed", error.code)

    async def retry(self, job: Job, *, delay_seconds: float, uncount: bool = False) -> None:
        self._end("released" if uncount else "retried", delay_seconds)

    async def put_back(self, job: Job, *, delay_seconds: float) -> bool:
        if self.spread:
            self.put_back_after.append(delay_seconds)
        return self.spread

    async def forget_orphan(self, job: Job) -> bool:
        return False

    async def sweep(self, job: Job) -> None:
        self._end("swept", job.version)

    async def queue_state(self) -> QueueState:
        return QueueState(3, 7.5)

    async def wake_ups(self) -> AsyncGenerator[None]:
        yield
        await asyncio.Event().wait()

    def _end(self, how: str, what: object) -> None:
        if not self.ended.done():
            self.ended.set_result((how, what))
        if self.error is not None:
            raise self.error


class FakePipeline:
    """Runs a given function instead of ingesting."""

    def __init__(self, act: Callable[[Job], Any]) -> None:
        self.act = act

    async def ingest(self, job: Job, turn: Turn) -> Outcome:
        result = self.act(job)
        if asyncio.iscoroutine(result):
            await result
        return Outcome(Published.LIVE, 1, 0)


def fails_with(error: Exception) -> Callable[[Job], None]:
    def act(_job: Job) -> None:
        raise error

    return act


def settings(**changes: object) -> WorkerSettings:
    values: dict[str, object] = {
        "dsn": "postgresql://x",
        "concurrency": 1,
        "poll_seconds": 0.01,
        "metrics_port": 0,
        "auth": "off",
    }
    return WorkerSettings.model_validate({**values, **changes})


async def work(job: Job, act: Callable[[Job], Any], **changes: object) -> Ended:
    """Lets a worker make one attempt, and returns how the job ended."""
    store = FakeStore(job)
    worker = Worker(cast("PostgresJobStore", store), cast("Pipeline", FakePipeline(act)), settings(**changes))
    stop = asyncio.Event()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(worker.run(stop))
        ended = await store.ended
        stop.set()
    return ended


@pytest.mark.parametrize("code", list(IngestCode))
async def test_a_permanent_error_ends_the_job(code: IngestCode) -> None:
    assert await work(JOB, fails_with(IngestError(code, "Because."))) == ("failed", code)


@pytest.mark.parametrize(("attempt", "delay"), [(1, 1), (2, 2), (4, 8), (9, 60), (80, 60)])
async def test_temporary_failures_are_retried_again_and_again(attempt: int, delay: float) -> None:
    job = replace(JOB, attempt=attempt)
    assert await work(job, fails_with(Unavailable("no", reason="SERVICE_UNAVAILABLE"))) == ("retried", delay)


async def test_the_embedders_retry_after_is_followed() -> None:
    error = ResourceExhausted("full", reason="OVERLOADED", retry_after=9)
    assert await work(JOB, fails_with(error)) == ("retried", 9)


async def test_database_failures_are_retried_without_end() -> None:
    """Its node may be down for days, and the upload was acknowledged."""
    old = replace(JOB, attempt=50, age_seconds=25 * 3600)
    how, _ = await work(old, fails_with(Unavailable("no", reason="DATABASE_UNAVAILABLE")))
    assert how == "retried"


async def test_a_lasting_failure_is_given_up_after_a_day() -> None:
    error = FailedPrecondition("other model", reason="SPACE_MISMATCH")
    old = replace(JOB, attempt=50, age_seconds=25 * 3600)
    assert await work(old, fails_with(error)) == ("failed", IngestCode.INTERNAL)


@pytest.mark.parametrize(
    "error", [ValueError("bug"), InvalidArgument("x", reason="INPUT_TOO_LONG"), Internal("x", reason="INTERNAL")]
)
async def test_internal_errors_are_retried_a_few_times(error: Exception) -> None:
    how, _ = await work(replace(JOB, attempt=9), fails_with(error))
    assert how == "retried"
    assert await work(replace(JOB, attempt=10), fails_with(error)) == ("failed", IngestCode.INTERNAL)


async def test_a_document_that_keeps_killing_workers_is_given_up() -> None:
    assert await work(replace(JOB, attempt=101), lambda _job: pytest.fail("tried again")) == (
        "failed",
        IngestCode.INTERNAL,
    )


async def test_a_job_runs_as_its_tenant_and_in_its_trace() -> None:
    seen: list[object] = []

    def act(_job: Job) -> None:
        seen.extend([current_tenant(), current_request_id(), (current_ids() or ("",))[0]])
        raise IngestError(IngestCode.EMPTY, "Empty.")

    await work(JOB, act)
    assert seen == [JOB.tenant, "req-1", TRACE]


async def test_a_sweep_is_a_job_like_any_other() -> None:
    assert await work(replace(JOB, kind="sweep", version=3), lambda _job: None) == ("swept", 3)


async def test_a_stopped_worker_returns_its_job() -> None:
    store = FakeStore(JOB)
    working, stop = asyncio.Event(), asyncio.Event()

    async def act() -> None:
        working.set()
        await asyncio.Event().wait()

    worker = Worker(cast("PostgresJobStore", store), cast("Pipeline", FakePipeline(lambda _job: act())), settings())
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(worker.run(stop))
        await working.wait()
        stop.set()
    assert store.ended.result() == ("released", 0)


async def test_an_attempt_whose_lease_is_lost_is_cancelled() -> None:
    store = FakeStore(JOB)
    store.held = False
    working, cancelled, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def act() -> None:
        working.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    worker = Worker(
        cast("PostgresJobStore", store), cast("Pipeline", FakePipeline(lambda _job: act())), settings(lease_seconds=1)
    )
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(worker.run(stop))
        await cancelled.wait()
        stop.set()
    assert store.renewed == 1
    assert not store.ended.done()


@pytest.mark.parametrize("error", [Unavailable("no", reason="DATABASE_UNAVAILABLE"), LeaseLostError()])
async def test_a_worker_that_cannot_store_a_jobs_end_goes_on(error: CitewireError | LeaseLostError) -> None:
    store = FakeStore(JOB)
    store.error = error
    seen: list[Job] = []
    again = asyncio.Event()

    def act(job: Job) -> None:
        seen.append(job)
        if job.attempt == 2:
            again.set()
        raise IngestError(IngestCode.EMPTY, "Empty.")

    stop = asyncio.Event()
    worker = Worker(cast("PostgresJobStore", store), cast("Pipeline", FakePipeline(act)), settings())
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(worker.run(stop))
        await store.ended
        store.job = replace(JOB, attempt=2)
        await again.wait()
        stop.set()
    assert [job.attempt for job in seen] == [1, 2]


@pytest.mark.parametrize("spread", [True, False])
async def test_a_job_whose_node_is_down_is_put_back_into_the_queue(*, spread: bool) -> None:
    labels = {"kind": "ingest", "outcome": "retried" if spread else "lost"}
    before = REGISTRY.get_sample_value("citewire_ingest_jobs_total", labels) or 0
    store = FakeStore(JOB)
    store.error, store.spread = Unavailable("no", reason="DATABASE_UNAVAILABLE"), spread
    stop = asyncio.Event()
    worker = Worker(
        cast("PostgresJobStore", store), cast("Pipeline", FakePipeline(fails_with(store.error))), settings()
    )
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(worker.run(stop))
        await store.ended
        stop.set()
    assert store.put_back_after == ([1.0] if spread else [])
    assert (REGISTRY.get_sample_value("citewire_ingest_jobs_total", labels) or 0) == before + 1


async def test_queue_and_outcomes_are_measured() -> None:
    labels = {"kind": "ingest", "outcome": "failed"}
    before = REGISTRY.get_sample_value("citewire_ingest_jobs_total", labels) or 0
    await work(JOB, fails_with(IngestError(IngestCode.EMPTY, "Empty.")))
    assert REGISTRY.get_sample_value("citewire_ingest_jobs_total", labels) == before + 1
    assert REGISTRY.get_sample_value("citewire_ingest_queue_depth") == 3
    assert REGISTRY.get_sample_value("citewire_ingest_queue_oldest_seconds") == 7.5
    for outcome in ("done", "retried", "released", "lost"):
        assert (
            REGISTRY.get_sample_value("citewire_ingest_jobs_total", {"kind": "sweep", "outcome": outcome}) is not None
        )
