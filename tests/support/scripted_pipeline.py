"""A chat pipeline over scripted parts, which note what they are asked in one list; for unit tests of the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar

from citewire_gateway.background import Aftermath
from citewire_gateway.chat.events import Event
from citewire_gateway.chat.pipeline import ChatPipeline
from citewire_gateway.chat.records import Closing, Exchange, Records
from citewire_gateway.chat.run import Ask, RunControl
from citewire_gateway.clients.domain import (
    Chunk,
    Hit,
    LongContext,
    Plan,
    RerankScore,
    Scope,
    ScopeCounts,
    SearchQuery,
    Space,
    Strategy,
    Vector,
    Vectors,
)
from citewire_gateway.clients.generation import (
    Assessment,
    Completed,
    Decision,
    Delta,
    GenerateEvent,
    GenerateQuery,
    Message,
    Packed,
    RewriteKind,
    Rewritten,
    Started,
    Suggestions,
    TokenUsage,
)
from citewire_gateway.clients.ports import Embedder, Generator, Retriever
from citewire_gateway.profiles.builtin import DOCUMENTS
from citewire_gateway.profiles.model import Profile
from citewire_gateway.tenants.providers import Chosen, ProviderRef
from citewire_kit.errors import CitewireError
from citewire_kit.tenant import LOCAL_TENANT

SPACE = Space("m", "r", 4)
HIT = Hit(Chunk(1, 7, 1, 0, "text", "Title", "a.md", token_count=10), 0.8, 0.8)


T = TypeVar("T")


def _given(scripted: T | CitewireError) -> T:
    if isinstance(scripted, CitewireError):
        raise scripted
    return scripted


class FakeEmbedder(Embedder):
    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.go_on: asyncio.Event | None = None
        self.questions: list[str] = []
        self.models: list[str] = []
        self.rerank_error: CitewireError | None = None

    async def embed_question(
        self, question: str, space: Space | None = None, provider: ProviderRef | None = None, model: str = ""
    ) -> Vector:
        self.log.append("embed")
        self.questions.append(question)
        self.models.append(model)
        if self.go_on is not None:
            await self.go_on.wait()
        named = Space(model, "", 3) if model else SPACE
        return Vector(b"", space or named, 9, 9, False)

    async def embed_texts(
        self,
        texts: Sequence[str],
        *,
        query: bool,
        model: str = "",
        dimensions: int | None = None,
        provider: ProviderRef | None = None,
    ) -> Vectors:
        raise NotImplementedError

    async def rerank(
        self,
        question: str,
        texts: Sequence[str],
        top_n: int,
        provider: ProviderRef | None = None,
        first_scores: Sequence[float] = (),
        headings: Sequence[str] = (),
        *,
        dispensable: bool = False,
    ) -> Sequence[RerankScore]:
        self.log.append("rerank")
        if self.rerank_error is not None:
            raise self.rerank_error
        return [RerankScore(index, 1.0) for index in reversed(range(len(texts)))][:top_n]


class FakeRetriever(Retriever):
    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.on_plan: asyncio.Event | None = None
        self.search_waits: asyncio.Event | None = None
        self.error: Exception | None = None
        self.path, self.counts = "semantic", ScopeCounts()
        self.hits: Sequence[Hit] = [HIT]
        self.hits_under_filter: Sequence[Hit] | None = None
        self.max_tokens: int | None = None
        self.query: SearchQuery | None = None

    async def plan(self, scope: Scope, strategy: Strategy, max_tokens: int | None = None) -> Plan:
        self.log.append("plan")
        self.max_tokens = max_tokens
        if self.on_plan is not None:
            self.on_plan.set()
        return Plan(self.path, "Because.", self.counts, SPACE)

    async def search(self, query: SearchQuery) -> Sequence[Hit]:
        self.log.append("search")
        self.query = query
        if self.search_waits is not None:
            await self.search_waits.wait()
        if self.error is not None:
            raise self.error
        if query.scope.filter is not None and self.hits_under_filter is not None:
            return self.hits_under_filter
        return self.hits

    async def get_context(self, scope: Scope, max_tokens: int) -> LongContext:
        self.log.append("context")
        return LongContext(tuple(hit.chunk for hit in self.hits), self.counts)

    async def get_chunks(self, chunk_ids: Sequence[int]) -> Sequence[Chunk]:
        raise NotImplementedError


class FakeGenerator(Generator):
    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.events: list[GenerateEvent] = [
            Started("fake", "fake-1", (Packed(1, 0),)),
            Delta(("one",)),
            Completed(TokenUsage(1, 2), "stop"),
        ]
        self.queries: list[GenerateQuery] = []
        self.decision: Decision | CitewireError = Decision(True, "It asks for saved content.", usage=TokenUsage(10, 1))
        self.decide_waits: asyncio.Event | None = None
        self.assessment: Assessment | CitewireError = Assessment(True, 0.9, usage=TokenUsage(20, 2))
        self.rewritten: Rewritten | CitewireError = Rewritten("What is it?", usage=TokenUsage(5, 3))
        self.assessed: tuple[str, Sequence[Hit]] | None = None
        self.rewrites: list[tuple[RewriteKind, str, Sequence[Message]]] = []

    async def decide(self, question: str, model: str, own: Chosen) -> Decision:
        self.log.append("decide")
        if self.decide_waits is not None:
            await self.decide_waits.wait()
        return _given(self.decision)

    async def assess(self, question: str, answer: str, passages: Sequence[Hit], model: str, own: Chosen) -> Assessment:
        self.log.append("assess")
        self.assessed = answer, passages
        return _given(self.assessment)

    async def rewrite(
        self, kind: RewriteKind, question: str, history: Sequence[Message], model: str, own: Chosen
    ) -> Rewritten:
        self.log.append("rewrite")
        self.rewrites.append((kind, question, history))
        return _given(self.rewritten)

    async def generate(self, query: GenerateQuery, own: Chosen) -> AsyncGenerator[GenerateEvent, None]:
        self.log.append("generate")
        self.queries.append(query)
        try:
            for event in self.events:
                if isinstance(event, Started):
                    given = len(query.passages)
                    yield replace(event, packed=tuple(one for one in event.packed if one.index < given))
                else:
                    yield event
        finally:
            self.log.append("generator closed")

    async def suggest_questions(
        self, question: str, passages: Sequence[Hit], count: int, language: str, own: Chosen
    ) -> Suggestions:
        raise NotImplementedError


class FakeRecords(Records):
    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.open_error: Exception | None = None
        self.close_error: Exception | None = None
        self.begin_waits: asyncio.Event | None = None
        self.close_waits: asyncio.Event | None = None
        self.closings: list[Closing] = []

    async def open(self, exchange: Exchange) -> None:
        await asyncio.sleep(0)
        if self.open_error is not None:
            raise self.open_error
        self.log.append("open")

    async def history(self, exchange: Exchange, most: int) -> Sequence[Message]:
        self.log.append("history")
        return [Message("user", "Earlier?"), Message("assistant", "Yes.")]

    async def begin(self, exchange: Exchange) -> int:
        if self.begin_waits is not None:
            await self.begin_waits.wait()
        self.log.append("begin")
        return 2

    async def close(self, exchange: Exchange, closing: Closing) -> None:
        if self.close_waits is not None:
            await self.close_waits.wait()
        self.log.append(f"close {closing.state}")
        self.closings.append(closing)
        if self.close_error is not None:
            raise self.close_error


class World:
    """A pipeline and all its parts, which note what they are asked in one list."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.embedder = FakeEmbedder(self.log)
        self.retriever = FakeRetriever(self.log)
        self.generator = FakeGenerator(self.log)
        self.records = FakeRecords(self.log)
        self.aftermath = Aftermath()
        self.control = RunControl()
        self.pipeline = ChatPipeline(
            embedder=self.embedder,
            retriever=self.retriever,
            generator=self.generator,
            records=self.records,
            aftermath=self.aftermath,
            lease_seconds=330,
        )

    def run(self, profile: Profile = DOCUMENTS, **more: Any) -> AsyncGenerator[Event, None]:  # noqa: ANN401 # fields of Ask
        """Runs a question; further fields of `Ask` as given."""
        ask = Ask(LOCAL_TENANT, profile, "What?", Scope(), 5, None, "native", "r")
        return self.pipeline.run(replace(ask, **more), self.control)

    async def events(self, profile: Profile = DOCUMENTS, **more: Any) -> list[Event]:  # noqa: ANN401 # fields of Ask
        """Returns all events of a question."""
        seen: list[Event] = []
        await self.gather(seen, profile, **more)
        return seen

    async def gather(self, seen: list[Event], profile: Profile = DOCUMENTS, **more: Any) -> None:  # noqa: ANN401 # fields of Ask
        """Adds a question's events to `seen`, also where it fails."""
        async with aclosing(self.run(profile, **more)) as events:
            async for event in events:
                seen.append(event)  # noqa: PERF401 - what came before an error is looked at
