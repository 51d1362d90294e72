"""A chat pipeline over scripted services, which record their calls in one log; for unit tests of the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2

from citewire_dialects.events import Event
from citewire_dialects.profile import Profile
from citewire_dialects.run_codec import EVENT_CODEC
from citewire_gateway.api.answer_details import answer_details
from citewire_gateway.chat.pipeline import ChatPipeline
from citewire_gateway.chat.records import AnswerSources, Closing, Exchange
from citewire_gateway.chat.run import ChatInput
from citewire_gateway.chat.store import ChatStore
from citewire_gateway.profiles.builtin import DOCUMENTS
from citewire_http.background import BackgroundTasks
from citewire_http.runs.live import LiveRuns
from citewire_http.runs.store import Batch, RunStore
from citewire_http.supervision import StreamControl
from citewire_kit.errors import Unavailable
from citewire_kit.limit_store import MemoryStore
from citewire_kit.limiter import Limiter
from citewire_kit.tenant import LOCAL_TENANT, Tenant
from gateway_fakes import CallLog, FakeEmbedder, FakeGenerator, FakeRetriever, completed, delta, result, started

RESULT = result(1)


def usage(prompt: int, completion: int, *, estimated: bool = False) -> generator_pb2.TokenUsage:
    """Tokens of a call."""
    return generator_pb2.TokenUsage(prompt_tokens=prompt, completion_tokens=completion, estimated=estimated)


class FakeRecords(ChatStore):
    """Records only how chats were closed."""

    def __init__(self, log: CallLog) -> None:
        self.log = log
        self.closings: list[Closing] = []

    async def open(self, exchange: Exchange) -> None:
        await asyncio.sleep(0)
        await self.log.note("open")

    async def history(
        self, tenant: Tenant, conversation_id: UUID, most: int
    ) -> Sequence[tuple[int, str, str, Sequence[int]]]:
        await self.log.note("history")
        return [(1, "user", "Earlier?", []), (2, "assistant", "Yes.", [])]

    async def answer_sources(
        self, tenant: Tenant, conversation_ids: Collection[UUID]
    ) -> dict[UUID, list[AnswerSources]]:
        return {}

    async def begin(self, exchange: Exchange) -> int:
        await self.log.wait("begin")
        await self.log.note("begin")
        return 2

    async def close(self, exchange: Exchange, closing: Closing) -> None:
        await self.log.wait("close")
        self.closings.append(closing)
        await self.log.note(f"close {closing.state}")


class FakeRunStore:
    """Keeps the batches that a run's recorder stores."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.failures = 0
        """Number of next batches that can't be stored."""
        self.lost = False
        """Whether the run was declared lost."""
        self.seconds = 0.0
        """How long storing a batch takes."""

    async def append(self, _tenant: Tenant, _run_id: UUID, batch: Batch) -> bool:
        """See `RunStore.append`."""
        await asyncio.sleep(self.seconds)
        if self.failures:
            self.failures -= 1
            raise Unavailable("the database is away", reason="DATABASE_UNAVAILABLE")
        if not self.lost:
            self.batches.append(batch)
        return not self.lost


class PipelineHarness:
    """A pipeline and all its parts; `log` records the order of calls, delays them and makes them fail."""

    def __init__(self) -> None:
        self.log = CallLog()
        self.embedder = FakeEmbedder(self.log)
        self.retriever = FakeRetriever(self.log)
        self.retriever.results = [RESULT]
        self.generator = FakeGenerator(self.log)
        self.generator.script = self._answer
        self.generator.decision.reason = "It asks for saved content."
        self.generator.decision.usage.CopyFrom(usage(10, 1))
        self.generator.assessment.usage.CopyFrom(usage(20, 2))
        self.generator.rewritten = generator_pb2.RewriteResponse(text="What is it?", usage=usage(5, 3))
        self.messages = [started((1, 0)), delta("one"), completed(usage=usage(1, 2))]
        """The generator's answer; citations without a given passage are left out."""
        self.records = FakeRecords(self.log)
        self.background = BackgroundTasks()
        self.run_store = FakeRunStore()
        self.control = StreamControl()
        self.pipeline = ChatPipeline(
            embedder=self.embedder,
            retriever=self.retriever,
            generator=self.generator,
            records=self.records,
            limiter=Limiter(MemoryStore(), None),
            background=self.background,
            runs=LiveRuns(EVENT_CODEC, cast("RunStore", self.run_store), 10),
            lease_seconds=330,
            keep_seconds=300,
            keep_for_key_seconds=86_400,
            details_json=lambda run, usage, done: answer_details(run, usage, done=done).stored(),
        )

    @property
    def calls(self) -> list[str]:
        """The calls so far, in order."""
        return self.log.calls

    def run(self, profile: Profile = DOCUMENTS, **more: Any) -> AsyncGenerator[Event, None]:  # noqa: ANN401 # fields of ChatInput
        """Runs a question; further fields of `ChatInput` as given."""
        chat = ChatInput(LOCAL_TENANT, profile, "What?", retriever_pb2.Scope(), 5, None, "native", "r")
        return self.pipeline.run(replace(chat, **more), self.control)

    async def events(self, profile: Profile = DOCUMENTS, **more: Any) -> list[Event]:  # noqa: ANN401 # fields of ChatInput
        """Returns all events of a question."""
        seen: list[Event] = []
        await self.gather(seen, profile, **more)
        return seen

    async def gather(self, seen: list[Event], profile: Profile = DOCUMENTS, **more: Any) -> None:  # noqa: ANN401 # fields of ChatInput
        """Adds a question's events to `seen`, even if it fails."""
        async with aclosing(self.run(profile, **more)) as events:
            async for event in events:
                seen.append(event)  # noqa: PERF401 - what came before an error is looked at

    async def _answer(
        self, request: generator_pb2.GenerateRequest
    ) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        for message in self.messages:
            if not message.HasField("started"):
                yield message
                continue
            given = len(request.passages)
            citations = [(citation.number, citation.passage_index) for citation in message.started.citations]
            yield started(
                *(citation for citation in citations if citation[1] < given),
                provider=message.started.provider,
                model=message.started.model,
            )
