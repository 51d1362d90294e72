"""Embedding spaces over a real gRPC server, a real Postgres, a real worker and an embedder of two models."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest
from citewire.common.v1 import common_pb2
from citewire.retriever.v1 import corpus_pb2 as pb
from citewire.retriever.v1 import retriever_pb2
from citewire.retriever.v1.calibration_pb2 import Calibration
from google.protobuf.timestamp_pb2 import Timestamp

from callers import signed_channel
from citewire_kit.errors import CitewireError, Code
from citewire_kit.tenant import Tenant, use_tenant
from citewire_retriever.ingest.embedder_client import GrpcEmbedder
from fake_embedding import DIMENSIONS, FakeModel
from ingest_harness import WINDOW, IngestHarness, article, running_worker, worker_settings
from retriever_process import Caller, running_retriever
from second_model import MODEL, SIZE, SecondModel, embedder_with_two_models, second_model_server
from waiting import wait_until

if TYPE_CHECKING:
    from databases import Database

BOSS = Tenant("acme", "ann", "pro", ("owner",))
STAFF = Tenant("acme", "ann", "pro", ("member",))
THEIRS = Tenant("other", "eve", "pro", ("owner",))
OLD = common_pb2.EmbeddingSpace(model="fake", revision="r1", dimensions=DIMENSIONS)


@dataclass
class Stack:
    """A retriever, its database, and an embedder of two models."""

    database: Database
    harness: IngestHarness
    boss: Caller
    embedder: str
    told: SecondModel

    def as_(self, tenant: Tenant) -> Caller:
        """A caller of another tenant."""
        return Caller(self.boss.running, tenant)

    async def list(self, caller: Caller | None = None) -> list[pb.SpaceInfo]:
        """Lists the spaces."""
        me = caller or self.boss
        return list((await me.unary(me.running.corpus.ListSpaces, pb.ListSpacesRequest())).spaces)

    async def prepare(self, space: common_pb2.EmbeddingSpace) -> pb.SpaceInfo:
        """Prepares a space."""
        request = pb.PrepareSpaceRequest(space=space)
        return (await self.boss.unary(self.boss.running.corpus.PrepareSpace, request)).space

    async def switch(self, space: common_pb2.EmbeddingSpace, *, force: bool = False) -> pb.SpaceInfo:
        """Switches to a space."""
        request = pb.SwitchSpaceRequest(space=space, force=force)
        return (await self.boss.unary(self.boss.running.corpus.SwitchSpace, request)).space

    async def calibrate(
        self, space: common_pb2.EmbeddingSpace, calibration: Calibration | None, caller: Caller | None = None
    ) -> pb.SpaceInfo:
        """Stores a space's calibration."""
        me = caller or self.boss
        request = pb.SetCalibrationRequest(space=space, calibration=calibration)
        return (await me.unary(me.running.corpus.SetCalibration, request)).space

    async def search(self, space: common_pb2.EmbeddingSpace) -> int:
        """The number of chunks that a search in a space finds."""
        vector = np.ones(space.dimensions, dtype="<f4").tobytes()
        request = retriever_pb2.SearchRequest(vector=vector, space=space, top_k=50, keep_duplicates=True)
        return len((await self.boss.unary(self.boss.running.retriever.Search, request)).results)

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        """Runs a worker."""
        settings = worker_settings(self.database, self.embedder, backfill_seconds=0.3, backfill_tokens_per_second=0)
        async with running_worker(settings):
            yield

    async def filled(self, role: pb.SpaceRole) -> None:
        """Waits until the space with a role is filled."""

        async def is_filled() -> bool:
            results = [space for space in await self.list() if space.role == role]
            return bool(results) and all(space.documents == space.documents_filled for space in results)

        await wait_until(is_filled)


@pytest.fixture
def further() -> Generator[tuple[SecondModel, str]]:
    with second_model_server() as served:
        yield served


@pytest.fixture
async def stack(database: Database, further: tuple[SecondModel, str]) -> AsyncIterator[Stack]:
    told, url = further
    async with (
        IngestHarness.open(database) as harness,
        embedder_with_two_models(url, FakeModel(window=WINDOW)) as embedder,
        running_retriever(database) as running,
    ):
        yield Stack(database, harness, Caller(running, BOSS), embedder, told)


@pytest.fixture
async def new(stack: Stack) -> common_pb2.EmbeddingSpace:
    """The second model's space, as the embedder names it."""
    channel = signed_channel(stack.embedder)
    try:
        with use_tenant(BOSS):
            space = (await GrpcEmbedder(channel, batch_seconds=10).window(MODEL)).space
    finally:
        await channel.close()
    return common_pb2.EmbeddingSpace(model=space.model, revision=space.revision, dimensions=space.dimensions)


async def refusal(call: Awaitable[object]) -> tuple[Code, str, dict[str, str]]:
    with pytest.raises(CitewireError) as refused:
        await call
    return refused.value.code, refused.value.reason, dict(refused.value.metadata)


async def test_an_organisation_without_documents_has_no_space(stack: Stack, new: common_pb2.EmbeddingSpace) -> None:
    assert await stack.list() == []
    assert (await refusal(stack.switch(new)))[:2] == (Code.NOT_FOUND, "SPACE_NOT_FOUND")
    prepared = await stack.prepare(new)
    assert (prepared.role, prepared.documents, prepared.live) == (pb.SPACE_ROLE_NEXT, 0, False)
    # The first document determines the live space; until then there is nothing to switch.
    assert (await refusal(stack.switch(new, force=True)))[:2] == (Code.NOT_FOUND, "SPACE_NOT_FOUND")


async def test_a_model_is_changed_and_changed_back(stack: Stack, new: common_pb2.EmbeddingSpace) -> None:
    document_id = await stack.harness.upload("about.md", article(5))
    async with stack.working():
        await stack.harness.until(document_id, "ready")
    chunks = len(await stack.harness.chunks(document_id))
    (live,) = await stack.list()
    assert (live.space, live.role, live.live) == (OLD, pb.SPACE_ROLE_LIVE, True)
    assert (live.documents, live.documents_filled, live.chunks, live.chunks_filled) == (1, 1, chunks, chunks)

    prepared = await stack.prepare(new)
    assert (prepared.space, prepared.documents, prepared.documents_filled, prepared.chunks_filled) == (new, 1, 0, 0)
    code, reason, metadata = await refusal(stack.switch(new))
    assert (code, reason, metadata) == (Code.FAILED_PRECONDITION, "WRONG_STATE", {"items": "1", "missing": "1"})
    # Not even with force: no worker has confirmed that a model serves it.
    assert (await refusal(stack.switch(new, force=True)))[:2] == (Code.FAILED_PRECONDITION, "WRONG_STATE")
    assert (await refusal(stack.search(new)))[:2] == (Code.FAILED_PRECONDITION, "SPACE_MISMATCH")

    async with stack.working():
        await stack.filled(pb.SPACE_ROLE_NEXT)
        assert len(stack.told.texts) == chunks
        # A filled space isn't live yet: searches still use the old one.
        assert await stack.search(OLD) == chunks
        assert (await refusal(stack.search(new)))[:2] == (Code.FAILED_PRECONDITION, "SPACE_MISMATCH")
        switched = await stack.switch(new)
        assert (switched.space, switched.role, switched.documents_filled) == (new, pb.SPACE_ROLE_LIVE, 1)
        assert await stack.search(new) == await stack.search(OLD) == chunks
        assert [(space.space, space.role) for space in await stack.list()] == [
            (new, pb.SPACE_ROLE_LIVE),
            (OLD, pb.SPACE_ROLE_PREVIOUS),
        ]
        # A new document is in the new space only, so switching back needs force; the old space is then filled up.
        later = await stack.harness.upload("later.md", article(2))
        await stack.harness.until(later, "ready")
        more = len(await stack.harness.chunks(later))
        assert (await stack.search(new), await stack.search(OLD)) == (chunks + more, chunks)
        assert (await refusal(stack.switch(OLD)))[2] == {"items": "2", "missing": "1"}
        back = await stack.switch(OLD, force=True)
        assert (back.space, back.role) == (OLD, pb.SPACE_ROLE_LIVE)
        await stack.filled(pb.SPACE_ROLE_LIVE)
        assert await stack.search(OLD) == chunks + more


async def test_the_previous_space_is_prepared_and_reached_without_force(
    stack: Stack, new: common_pb2.EmbeddingSpace
) -> None:
    document_id = await stack.harness.upload("about.md", article(2))
    async with stack.working():
        await stack.harness.until(document_id, "ready")
        await stack.prepare(new)
        await stack.filled(pb.SPACE_ROLE_NEXT)
        await stack.switch(new)
        later = await stack.harness.upload("later.md", article(2))
        await stack.harness.until(later, "ready")
        assert (await stack.prepare(OLD)).role == pb.SPACE_ROLE_NEXT
        await stack.filled(pb.SPACE_ROLE_NEXT)
        assert (await stack.switch(OLD)).documents_filled == 2
        # Switching to the space that is already live changes nothing.
        assert [(space.space, space.role) for space in await stack.list()] == [
            (OLD, pb.SPACE_ROLE_LIVE),
            (new, pb.SPACE_ROLE_PREVIOUS),
        ]
        await stack.switch(OLD)
        assert [space.space for space in await stack.list()] == [OLD, new]


async def test_preparing_the_live_space_ends_the_preparation(stack: Stack, new: common_pb2.EmbeddingSpace) -> None:
    document_id = await stack.harness.upload("about.md", article(2))
    async with stack.working():
        await stack.harness.until(document_id, "ready")
    await stack.prepare(common_pb2.EmbeddingSpace(model="never", revision="r", dimensions=3))
    assert [space.space.model for space in await stack.list()] == ["fake", "never"]
    await stack.prepare(new)
    assert [space.space for space in await stack.list()] == [OLD, new]
    assert (await stack.prepare(OLD)).role == pb.SPACE_ROLE_LIVE
    assert [space.space for space in await stack.list()] == [OLD]


async def test_a_space_without_a_model_is_never_registered(stack: Stack) -> None:
    document_id = await stack.harness.upload("about.md", article(2))
    async with stack.working():
        await stack.harness.until(document_id, "ready")
        await stack.prepare(common_pb2.EmbeddingSpace(model="fake", revision="another", dimensions=DIMENSIONS))

        async def was_checked() -> bool:
            return bool(
                await stack.harness.rows(
                    "SELECT 1 FROM corpus.backfill_checks c, corpus.next_spaces n WHERE c.next_at > n.since + '1.2 s'"
                )
            )

        await wait_until(was_checked)
    assert await stack.harness.rows("SELECT revision FROM corpus.spaces") == [{"revision": "r1"}]
    assert [(space.documents, space.documents_filled) for space in await stack.list()] == [(1, 1), (1, 0)]


@pytest.mark.parametrize("calibrated", [True, False])
async def test_thresholds_are_kept_with_a_space(stack: Stack, *, calibrated: bool) -> None:
    document_id = await stack.harness.upload("about.md", article(2))
    async with stack.working():
        await stack.harness.until(document_id, "ready")
    (before,) = await stack.list()
    assert not before.HasField("calibration")  # this model hasn't been calibrated
    expected = Calibration(relevance_threshold=0.0, dense_weight=0.5, off_topic_threshold=0.125)
    expected.report.update({"questions": 12, "sets": ["a"]})
    stored = await stack.calibrate(OLD, expected)
    assert (stored.space, stored.documents) == (OLD, 1)
    calibration = stored.calibration
    assert (calibration.relevance_threshold, calibration.dense_weight, calibration.off_topic_threshold) == (
        0.0,
        0.5,
        0.125,
    )
    assert (calibration.HasField("relevance_threshold"), calibration.HasField("answerable_threshold")) == (True, False)
    assert dict(calibration.report) == {"questions": 12, "sets": ["a"]}
    assert abs(calibration.measured_at.ToDatetime(UTC) - datetime.now(UTC)) < timedelta(minutes=1)
    assert [space.calibration for space in await stack.list()] == [calibration]
    # The answers of Plan and Search contain it, without the report.
    calibration.ClearField("report")
    planned = await stack.boss.unary(stack.boss.running.retriever.Plan, retriever_pb2.PlanRequest())
    vector = np.ones(DIMENSIONS, dtype="<f4").tobytes()
    request = retriever_pb2.SearchRequest(vector=vector, space=OLD, top_k=50, min_score=1.0)
    request.min_score_calibrated = calibrated
    result = await stack.boss.unary(stack.boss.running.retriever.Search, request)
    assert planned.calibration == result.calibration == calibration
    # If the request asks for it, the space's threshold replaces the request's.
    assert bool(result.results) == calibrated
    # Other tenants have their own calibrations, and a later one replaces the whole of an earlier one.
    assert (await refusal(stack.calibrate(OLD, expected, stack.as_(THEIRS))))[1] == "SPACE_NOT_FOUND"
    moment = Timestamp(seconds=1_700_000_000)
    later = await stack.calibrate(OLD, Calibration(answerable_threshold=0.4, measured_at=moment))
    assert later.calibration == Calibration(answerable_threshold=0.4, measured_at=moment, report={})
    assert not (await stack.calibrate(OLD, None)).HasField("calibration")
    result = await stack.boss.unary(stack.boss.running.retriever.Search, request)
    assert (result.results, result.HasField("calibration")) == ([], False)


async def test_only_a_registered_space_is_calibrated(stack: Stack) -> None:
    never = common_pb2.EmbeddingSpace(model="never", revision="r", dimensions=3)
    assert (await refusal(stack.calibrate(never, Calibration())))[:2] == (Code.NOT_FOUND, "SPACE_NOT_FOUND")
    await stack.prepare(never)
    assert (await refusal(stack.calibrate(never, None)))[:2] == (Code.FAILED_PRECONDITION, "WRONG_STATE")


async def test_a_known_model_has_the_servers_calibration_until_one_is_stored(stack: Stack) -> None:
    known = common_pb2.EmbeddingSpace(model="all-MiniLM-L6-v2", revision="any", dimensions=384)
    (entry,) = (entry for entry in [await stack.prepare(known)] if entry.HasField("calibration"))
    assert entry.calibration.relevance_threshold > 0
    assert not entry.calibration.HasField("measured_at")
    assert entry.calibration.report
    other = common_pb2.EmbeddingSpace(model="all-MiniLM-L6-v2", revision="any", dimensions=128)
    assert not (await stack.prepare(other)).HasField("calibration")


async def test_only_administrators_change_spaces(stack: Stack, new: common_pb2.EmbeddingSpace) -> None:
    document_id = await stack.harness.upload("about.md", article(2))
    async with stack.working():
        await stack.harness.until(document_id, "ready")
    staff, them = stack.as_(STAFF), stack.as_(THEIRS)
    assert len(await stack.list(staff)) == 1
    for call in (
        staff.unary(staff.running.corpus.PrepareSpace, pb.PrepareSpaceRequest(space=new)),
        staff.unary(staff.running.corpus.SwitchSpace, pb.SwitchSpaceRequest(space=OLD)),
        stack.calibrate(OLD, Calibration(), staff),
    ):
        assert (await refusal(call))[:2] == (Code.PERMISSION_DENIED, "PERMISSION_DENIED")
    assert await stack.list(them) == []
    switching = them.unary(them.running.corpus.SwitchSpace, pb.SwitchSpaceRequest(space=OLD))
    assert (await refusal(switching))[:2] == (Code.NOT_FOUND, "SPACE_NOT_FOUND")


async def test_wrong_fields_are_named(stack: Stack) -> None:
    corpus = stack.boss.running.corpus
    empty = common_pb2.EmbeddingSpace()
    large = common_pb2.EmbeddingSpace(model="m", revision="r", dimensions=SIZE * 10)
    for call in (
        stack.boss.unary(corpus.PrepareSpace, pb.PrepareSpaceRequest(space=empty)),
        stack.boss.unary(corpus.SwitchSpace, pb.SwitchSpaceRequest()),
        stack.calibrate(empty, None),
    ):
        with pytest.raises(CitewireError) as refused:
            await call
        assert {violation.field for violation in refused.value.violations} == {
            "space.model",
            "space.revision",
            "space.dimensions",
        }
    with pytest.raises(CitewireError) as refused:
        await stack.boss.unary(corpus.PrepareSpace, pb.PrepareSpaceRequest(space=large))
    assert [violation.field for violation in refused.value.violations] == ["space.dimensions"]


async def test_wrong_calibrations_are_named(stack: Stack) -> None:
    wrong = Calibration(
        relevance_threshold=-0.1,
        answerable_threshold=1.5,
        dense_weight=float("nan"),
        measured_at=Timestamp(seconds=2**60),
        report={"large": "x" * 70_000},
    )
    with pytest.raises(CitewireError) as refused:
        await stack.calibrate(OLD, wrong)
    assert {violation.field for violation in refused.value.violations} == {
        f"calibration.{name}"
        for name in ("relevance_threshold", "answerable_threshold", "dense_weight", "measured_at", "report")
    }
