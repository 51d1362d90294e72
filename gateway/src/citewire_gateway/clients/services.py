"""Embedder, retriever and generator over gRPC."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import grpc
from citewire.common.v1 import common_pb2
from citewire.embedder.v1 import embedder_pb2, embedder_pb2_grpc
from citewire.generator.v1 import generator_pb2, generator_pb2_grpc
from citewire.retriever.v1 import retriever_pb2, retriever_pb2_grpc

from citewire_gateway.clients import converters
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
    Decision,
    Delta,
    GenerateEvent,
    GenerateQuery,
    Message,
    RewriteKind,
    Rewritten,
    Suggestions,
)
from citewire_gateway.clients.ports import Embedder, Generator, Retriever
from citewire_gateway.clients.sealers import fallback_message, ref_message
from citewire_gateway.tenants.providers import Chosen, ProviderRef
from citewire_kit import client
from citewire_kit.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Longest calls, in seconds; a call never gets more than its request has left."""

    embed: float
    plan: float
    search: float
    rerank: float
    suggest: float
    judge: float
    chat: float
    request: float


class GrpcEmbedder(Embedder):
    """The embedder service."""

    def __init__(self, channel: grpc.aio.Channel, timeouts: Timeouts) -> None:
        self._stub = embedder_pb2_grpc.EmbedderServiceStub(channel)
        self._timeouts = timeouts

    async def embed_question(
        self, question: str, space: Space | None = None, provider: ProviderRef | None = None, model: str = ""
    ) -> Vector:
        """See `Embedder.embed_question`."""
        request = embedder_pb2.EmbedRequest(
            inputs=[question],
            purpose=embedder_pb2.PURPOSE_QUERY,
            overflow=embedder_pb2.OVERFLOW_TRUNCATE,
            model=model,
        )
        if space is not None:
            request.model, request.dimensions = space.model, space.dimensions
        if provider is not None:
            request.provider.CopyFrom(ref_message(provider))
        response = await client.unary(self._stub.Embed, request, timeout=self._timeouts.embed)
        return Vector(
            data=response.vectors,
            space=converters.space_of(response.space),
            tokens=response.usage.input_tokens,
            token_count=response.token_counts[0] if response.token_counts else 0,
            truncated=bool(response.truncated),
        )

    async def embed_texts(
        self,
        texts: Sequence[str],
        *,
        query: bool,
        model: str = "",
        dimensions: int | None = None,
        provider: ProviderRef | None = None,
    ) -> Vectors:
        """See `Embedder.embed_texts`."""
        request = embedder_pb2.EmbedRequest(
            inputs=texts,
            purpose=embedder_pb2.PURPOSE_QUERY if query else embedder_pb2.PURPOSE_DOCUMENT,
            model=model,
            dimensions=dimensions,
            provider=None if provider is None else ref_message(provider),
        )
        response = await client.unary(self._stub.Embed, request, timeout=self._timeouts.request)
        return Vectors(response.vectors, converters.space_of(response.space), response.usage.input_tokens)

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
        """See `Embedder.rerank`."""
        request = embedder_pb2.RerankRequest(
            query=question, documents=texts, top_n=top_n, first_scores=first_scores, headings=headings
        )
        if provider is not None:
            request.provider.CopyFrom(ref_message(provider))
        timeout = self._timeouts.rerank if dispensable else self._timeouts.request
        response = await client.unary(self._stub.Rerank, request, timeout=timeout)
        return [RerankScore(result.index, result.score) for result in response.results]


class GrpcRetriever(Retriever):
    """The retriever service's reading side."""

    def __init__(self, channel: grpc.aio.Channel, timeouts: Timeouts) -> None:
        self._stub = retriever_pb2_grpc.RetrieverServiceStub(channel)
        self._timeouts = timeouts

    async def plan(self, scope: Scope, strategy: Strategy, max_tokens: int | None = None) -> Plan:
        """See `Retriever.plan`."""
        request = retriever_pb2.PlanRequest(
            scope=converters.scope_message(scope), strategy=converters.STRATEGIES[strategy], max_tokens=max_tokens
        )
        return converters.plan_of(await client.unary(self._stub.Plan, request, timeout=self._timeouts.plan))

    async def search(self, query: SearchQuery) -> Sequence[Hit]:
        """See `Retriever.search`."""
        request = converters.search_message(query)
        return converters.hits_of(await client.unary(self._stub.Search, request, timeout=self._timeouts.search))

    async def get_context(self, scope: Scope, max_tokens: int) -> LongContext:
        """See `Retriever.get_context`."""
        request = retriever_pb2.GetContextRequest(scope=converters.scope_message(scope), max_tokens=max_tokens)
        chunks: list[Chunk] = []
        counts: ScopeCounts | None = None
        async with aclosing(client.stream(self._stub.GetContext, request, timeout=self._timeouts.request)) as items:
            async for item in items:
                chunks += [converters.chunk_of(chunk) for chunk in item.chunks]
                if item.HasField("counts"):
                    counts = converters.counts_of(item.counts)
        if counts is None:
            raise Unavailable(
                "the library's texts broke off before their end", reason="SERVICE_UNAVAILABLE", retry_after=1.0
            )
        return LongContext(tuple(chunks), counts)

    async def get_chunks(self, chunk_ids: Sequence[int]) -> Sequence[Chunk]:
        """See `Retriever.get_chunks`."""
        request = retriever_pb2.GetChunksRequest(chunk_ids=chunk_ids)
        response = await client.unary(self._stub.GetChunks, request, timeout=self._timeouts.request)
        return [converters.chunk_of(chunk) for chunk in response.chunks]


class GrpcGenerator(Generator):
    """The generator service. Streams have a channel of their own: see `open_channel`."""

    def __init__(self, channel: grpc.aio.Channel, streams: grpc.aio.Channel, timeouts: Timeouts) -> None:
        self._stub = generator_pb2_grpc.GeneratorServiceStub(channel)
        self._streams = generator_pb2_grpc.GeneratorServiceStub(streams)
        self._timeouts = timeouts

    async def generate(self, query: GenerateQuery, own: Chosen) -> AsyncGenerator[GenerateEvent, None]:
        """See `Generator.generate`."""
        request = converters.generate_message(query)
        if own.chat is not None:
            request.provider.CopyFrom(ref_message(own.chat))
            if query.model:  # one of the provider's models, whatever the operator offers under that name
                request.provider.model = query.model
        request.fallbacks.extend(_fallbacks(own))
        stream = client.stream(self._streams.Generate, request, timeout=self._timeouts.chat)
        completed = False
        async with aclosing(stream) as messages:
            async for message in messages:
                kind = message.WhichOneof("event")
                if kind == "delta":
                    yield Delta(tuple(message.delta.texts))
                elif kind == "started":
                    yield converters.started_of(message.started)
                elif kind == "notice":
                    yield converters.notice_of(message.notice)
                elif kind == "verified_citation":
                    yield converters.verified_of(message.verified_citation)
                elif kind == "uncited_sentence":
                    yield converters.uncited_of(message.uncited_sentence)
                elif kind == "completed":
                    completed = True
                    yield converters.completed_of(message.completed)
        if not completed:
            raise Unavailable("the answer broke off before its end", reason="PROVIDER_STREAM_BROKEN", retry_after=1.0)

    async def suggest_questions(
        self, question: str, passages: Sequence[Hit], count: int, language: str, own: Chosen
    ) -> Suggestions:
        """See `Generator.suggest_questions`."""
        request = generator_pb2.SuggestQuestionsRequest(
            question=question,
            passages=converters.passage_messages(passages),
            count=count,
            language=language,
            provider=_ref(own),
        )
        response = await client.unary(self._stub.SuggestQuestions, request, timeout=self._timeouts.suggest)
        return Suggestions(tuple(response.questions), converters.usage_of(response.usage))

    async def decide(self, question: str, model: str, own: Chosen) -> Decision:
        """See `Generator.decide`."""
        request = generator_pb2.DecideRequest(
            question=question, model=model, provider=_ref(own), fallbacks=_fallbacks(own)
        )
        response = await client.unary(self._stub.Decide, request, timeout=self._timeouts.judge)
        usage = converters.usage_of(response.usage)
        return Decision(response.needs_retrieval, response.reason, response.fallback, usage)

    async def assess(self, question: str, answer: str, passages: Sequence[Hit], model: str, own: Chosen) -> Assessment:
        """See `Generator.assess`."""
        request = generator_pb2.AssessRequest(
            question=question,
            answer=answer,
            passages=converters.passage_messages(passages),
            model=model,
            provider=_ref(own),
            fallbacks=_fallbacks(own),
        )
        response = await client.unary(self._stub.Assess, request, timeout=self._timeouts.judge)
        usage = converters.usage_of(response.usage)
        return Assessment(response.supported, response.utility, response.fallback, usage)

    async def rewrite(
        self, kind: RewriteKind, question: str, history: Sequence[Message], model: str, own: Chosen
    ) -> Rewritten:
        """See `Generator.rewrite`."""
        request = generator_pb2.RewriteRequest(
            kind=converters.REWRITES[kind],
            question=question,
            history=converters.history_messages(history),
            model=model,
            provider=_ref(own),
            fallbacks=_fallbacks(own),
        )
        response = await client.unary(self._stub.Rewrite, request, timeout=self._timeouts.judge)
        return Rewritten(response.text, response.fallback, converters.usage_of(response.usage))


def _ref(own: Chosen) -> common_pb2.ProviderRef | None:
    """The tenant's own chat provider; None is the operator's."""
    return None if own.chat is None else ref_message(own.chat)


def _fallbacks(own: Chosen) -> list[generator_pb2.Fallback]:
    """Who takes over from it."""
    return [fallback_message(one) for one in own.fallbacks]
