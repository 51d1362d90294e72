"""The three services as a test scripts them, on real gRPC servers; for contract tests of the gateway."""

from __future__ import annotations

import asyncio
import hashlib
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import grpc
from citewire.common.v1 import common_pb2, place_pb2
from citewire.embedder.v1 import embedder_pb2, embedder_pb2_grpc
from citewire.generator.v1 import generator_pb2, generator_pb2_grpc
from citewire.retriever.v1 import corpus_pb2_grpc, retriever_pb2, retriever_pb2_grpc
from citewire.retriever.v1.calibration_pb2 import Calibration

from citewire_kit.errors import CitewireError, NotFound
from citewire_kit.server import GrpcServer
from citewire_kit.settings import ProcessSettings
from citewire_kit.tenant import Tenant, current_tenant
from gateway_fake_corpus import FakeCorpus

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
SPACE = common_pb2.EmbeddingSpace(model="test-model", revision="r1", dimensions=4)
NOT_FOUND = "I could not find this information in the uploaded documents."


def chunk(chunk_id: int, text: str = "Revenue grew by 12 %.", **fields: Any) -> retriever_pb2.Chunk:  # noqa: ANN401 - fields of the message
    """A chunk of document 7."""
    values: dict[str, Any] = {
        "document_id": 7,
        "version": 1,
        "chunk_index": chunk_id,
        "title": "Annual report",
        "file_name": "report.pdf",
        "type": "file",
        "token_count": 10,
        "live": True,
    }
    return retriever_pb2.Chunk(chunk_id=chunk_id, text=text, **{**values, **fields})


def hit(chunk_id: int, similarity: float = 0.8, **fields: Any) -> retriever_pb2.SearchResult:  # noqa: ANN401 # values of any kind are meant
    """A dense hit."""
    return retriever_pb2.SearchResult(chunk=chunk(chunk_id, **fields), rank_score=similarity, score=similarity)


def delta(*texts: str) -> generator_pb2.GenerateResponse:
    """A message of text."""
    return generator_pb2.GenerateResponse(delta=generator_pb2.TextDelta(texts=texts))


def completed(**fields: Any) -> generator_pb2.GenerateResponse:  # noqa: ANN401 # values of any kind are meant
    """The end of an answer that spent 100 and 20 tokens."""
    values: dict[str, Any] = {
        "usage": generator_pb2.TokenUsage(prompt_tokens=100, completion_tokens=20),
        "finish_reason": generator_pb2.FINISH_REASON_STOP,
        "attempts": 1,
    }
    return generator_pb2.GenerateResponse(completed=generator_pb2.Completed(**{**values, **fields}))


def started(*packed: tuple[int, int]) -> generator_pb2.GenerateResponse:
    """The start, with passages (number, index) packed."""
    message = generator_pb2.Started(provider="fake", model="fake-1")
    message.citations.extend(generator_pb2.Citation(number=number, passage_index=index) for number, index in packed)
    return generator_pb2.GenerateResponse(started=message)


def sealed(spec: common_pb2.ProviderSpec, tenant: Tenant, master_key: str) -> common_pb2.ProviderRef:
    """What looks like ciphertext: digests that name owner and master key."""

    def digest(secret: str) -> bytes:
        if not secret:
            return b""
        owner = f"{tenant.org_id}|{spec.user_id}|{spec.provider}|{secret}"
        return f"{master_key}:{hashlib.sha256(owner.encode()).hexdigest()}".encode()

    return common_pb2.ProviderRef(
        provider=spec.provider,
        model=spec.model or f"{spec.provider}-default",
        sealed_api_base=digest(spec.api_base),
        sealed_key=digest(spec.api_key),
        type=spec.type,
        user_id=spec.user_id,
        dimensions=spec.dimensions,
    )


class FakeSealing:
    """What embedder and generator share: sealing under a master key that a test may change."""

    def __init__(self) -> None:
        self.specs: list[common_pb2.ProviderSpec] = []
        self.test = common_pb2.ProviderTest(tried=True, ok=True, text="The provider answered.", status=200)
        self.seal_error: CitewireError | None = None
        self.master_key = "k1"

    def seal(self, spec: common_pb2.ProviderSpec) -> tuple[common_pb2.ProviderRef, common_pb2.ProviderTest]:
        """Seals, or fails as scripted."""
        self.specs.append(spec)
        if self.seal_error is not None:
            raise self.seal_error
        test = common_pb2.ProviderTest() if spec.skip_test else self.test
        return sealed(spec, current_tenant(), self.master_key), test

    def rewrap(self, ref: common_pb2.ProviderRef) -> tuple[common_pb2.ProviderRef, bool]:
        """Names the present master key in both ciphertexts."""
        changed = common_pb2.ProviderRef()
        changed.CopyFrom(ref)
        for name in ("sealed_api_base", "sealed_key"):
            old: bytes = getattr(ref, name)
            if old:
                setattr(changed, name, self.master_key.encode() + b":" + old.partition(b":")[2])
        return changed, changed != ref


class FakeEmbedder(embedder_pb2_grpc.EmbedderServiceServicer):
    """Vectors of whichever space it is asked for."""

    def __init__(self) -> None:
        self.sealing = FakeSealing()
        self.own_space: common_pb2.EmbeddingSpace | None = None
        self.space = SPACE
        self.requests: list[embedder_pb2.EmbedRequest] = []
        self.tenants: list[Tenant] = []
        self.truncated = False
        self.error: CitewireError | None = None
        self.reranked: list[embedder_pb2.RerankRequest] = []
        self.rerank_seconds: list[float] = []
        """That each call had left."""

    async def Embed(self, request: embedder_pb2.EmbedRequest, context: Context) -> embedder_pb2.EmbedResponse:  # noqa: N802 # the name that gRPC gives it
        self.requests.append(request)
        self.tenants.append(current_tenant())
        if self.error is not None:
            raise self.error
        space = self.space
        if request.HasField("provider"):
            assert self.own_space is not None
            space = self.own_space
        if request.model:
            space = common_pb2.EmbeddingSpace(
                model=request.model, revision=f"{request.model}-r", dimensions=request.dimensions
            )
        return embedder_pb2.EmbedResponse(
            vectors=struct.pack(f"<{space.dimensions}f", *([0.5] * space.dimensions)),
            space=space,
            usage=embedder_pb2.EmbeddingUsage(input_tokens=9),
            token_counts=[9],
            truncated=[0] if self.truncated else [],
        )

    async def Rerank(self, request: embedder_pb2.RerankRequest, context: Context) -> embedder_pb2.RerankResponse:  # noqa: N802 # the name that gRPC gives it
        self.reranked.append(request)
        self.rerank_seconds.append(context.time_remaining() or 0)
        order = sorted(range(len(request.documents)), key=lambda index: -index)[: request.top_n]
        results = [embedder_pb2.RerankResult(index=index, score=1.0 + index) for index in order]
        return embedder_pb2.RerankResponse(results=results, model="rerank")

    async def SealProvider(  # noqa: N802 # the name that gRPC gives it
        self, request: embedder_pb2.SealProviderRequest, context: Context
    ) -> embedder_pb2.SealProviderResponse:
        ref, test = self.sealing.seal(request.spec)
        return embedder_pb2.SealProviderResponse(ref=ref, test=test, space=self.own_space)

    async def RewrapProvider(  # noqa: N802 # the name that gRPC gives it
        self, request: embedder_pb2.RewrapProviderRequest, context: Context
    ) -> embedder_pb2.RewrapProviderResponse:
        ref, changed = self.sealing.rewrap(request.ref)
        return embedder_pb2.RewrapProviderResponse(ref=ref, changed=changed)


class FakeRetriever(retriever_pb2_grpc.RetrieverServiceServicer):
    """Hits as scripted; knows documents 7 and 8."""

    def __init__(self) -> None:
        self.space: common_pb2.EmbeddingSpace | None = SPACE
        self.calibration: Calibration | None = None
        self.hits: list[retriever_pb2.SearchResult] = [hit(1), hit(2, 0.7)]
        self.known = {7, 8}
        self.not_ready = 0
        self.path = retriever_pb2.CONTEXT_PATH_SEMANTIC
        self.contexts: list[retriever_pb2.GetContextRequest] = []
        self.plans: list[retriever_pb2.PlanRequest] = []
        self.searches: list[retriever_pb2.SearchRequest] = []
        self.search_errors: list[CitewireError] = []
        self.tenants: list[Tenant] = []

    async def Plan(self, request: retriever_pb2.PlanRequest, context: Context) -> retriever_pb2.PlanResponse:  # noqa: N802 # the name that gRPC gives it
        self.plans.append(request)
        self.tenants.append(current_tenant())
        self._check(request.scope)
        return retriever_pb2.PlanResponse(
            path=self.path,
            reason="2 items are searched.",
            counts=retriever_pb2.ScopeCounts(items=2, kept=2, not_ready=self.not_ready, chunks=9),
            space=self.space,
            calibration=self.calibration,
        )

    async def Search(self, request: retriever_pb2.SearchRequest, context: Context) -> retriever_pb2.SearchResponse:  # noqa: N802 # the name that gRPC gives it
        self.searches.append(request)
        self._check(request.scope)
        if self.search_errors:
            raise self.search_errors.pop(0)
        results = [one for one in self.hits if not request.min_score or one.score >= request.min_score]
        return retriever_pb2.SearchResponse(results=results[: request.top_k], space=request.space)

    async def GetContext(  # noqa: N802 # the name that gRPC gives it
        self, request: retriever_pb2.GetContextRequest, context: Context
    ) -> AsyncIterator[retriever_pb2.GetContextResponse]:
        self.contexts.append(request)
        self._check(request.scope)
        counts = retriever_pb2.ScopeCounts(items=2, kept=1, trimmed=1, without_embedding=0, chunks=9)
        yield retriever_pb2.GetContextResponse(chunks=[one.chunk for one in self.hits])
        yield retriever_pb2.GetContextResponse(counts=counts)

    async def GetChunks(  # noqa: N802 # the name that gRPC gives it
        self, request: retriever_pb2.GetChunksRequest, context: Context
    ) -> retriever_pb2.GetChunksResponse:
        if request.chunk_ids[0] != 1:
            raise NotFound(f"no such chunk: {request.chunk_ids[0]}", reason="CHUNK_NOT_FOUND")
        found = chunk(1, section="Results > 2025", place=place_pb2.Place(page=3), char_start=10, char_end=31)
        return retriever_pb2.GetChunksResponse(chunks=[found])

    def _check(self, scope: retriever_pb2.Scope) -> None:
        unknown = [number for number in scope.selection.document_ids if number not in self.known]
        if unknown:
            named = ", ".join(map(str, unknown))
            raise NotFound(f"no such documents: {named}", reason="DOCUMENT_NOT_FOUND", metadata={"document_ids": named})


Script: TypeAlias = Callable[[generator_pb2.GenerateRequest], AsyncGenerator[generator_pb2.GenerateResponse, None]]


async def cite_all(request: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
    """Packs every passage and answers in three pieces, two of them in one message."""
    yield started(*((index + 1, index) for index in range(len(request.passages))))
    yield delta("Revenue")
    yield delta(" grew", ' by "12" %.')
    yield completed(cited_numbers=[1])


class FakeGenerator(generator_pb2_grpc.GeneratorServiceServicer):
    """Runs a script per answer, and notes how each call ended."""

    def __init__(self) -> None:
        self.sealing = FakeSealing()
        self.script: Script = cite_all
        self.requests: list[generator_pb2.GenerateRequest] = []
        self.tenants: list[Tenant] = []
        self.ended: list[str] = []
        self.ended_event = asyncio.Event()
        self.suggestions = ["What grew?", "How much?", "Since when?"]
        self.suggest_requests: list[generator_pb2.SuggestQuestionsRequest] = []
        self.suggest_error: CitewireError | None = None
        self.decision = generator_pb2.DecideResponse(
            needs_retrieval=True,
            reason="It asks about saved content.",
            usage=generator_pb2.TokenUsage(prompt_tokens=40, completion_tokens=8),
        )
        self.assessment = generator_pb2.AssessResponse(
            supported=True, utility=0.9, usage=generator_pb2.TokenUsage(prompt_tokens=60, completion_tokens=9)
        )
        self.judge_error: CitewireError | None = None
        self.rewrites: list[generator_pb2.RewriteRequest] = []
        self.assessed: list[generator_pb2.AssessRequest] = []

    async def Generate(  # noqa: N802 # the name that gRPC gives it
        self, request: generator_pb2.GenerateRequest, context: Context
    ) -> AsyncIterator[generator_pb2.GenerateResponse]:
        self.requests.append(request)
        self.tenants.append(current_tenant())
        how = "cancelled"
        try:
            async for message in self.script(request):
                yield message
            how = "ok"
        except CitewireError:
            how = "failed"
            raise
        finally:
            self.ended.append(how)
            self.ended_event.set()

    async def Decide(self, request: generator_pb2.DecideRequest, context: Context) -> generator_pb2.DecideResponse:  # noqa: N802 # the name that gRPC gives it
        if self.judge_error is not None:
            raise self.judge_error
        return self.decision

    async def Assess(self, request: generator_pb2.AssessRequest, context: Context) -> generator_pb2.AssessResponse:  # noqa: N802 # the name that gRPC gives it
        self.assessed.append(request)
        if self.judge_error is not None:
            raise self.judge_error
        return self.assessment

    async def Rewrite(self, request: generator_pb2.RewriteRequest, context: Context) -> generator_pb2.RewriteResponse:  # noqa: N802 # the name that gRPC gives it
        self.rewrites.append(request)
        if self.judge_error is not None:
            raise self.judge_error
        usage = generator_pb2.TokenUsage(prompt_tokens=12, completion_tokens=3)
        return generator_pb2.RewriteResponse(text=f"{request.question} (rewritten)", usage=usage)

    async def SuggestQuestions(  # noqa: N802 # the name that gRPC gives it
        self, request: generator_pb2.SuggestQuestionsRequest, context: Context
    ) -> generator_pb2.SuggestQuestionsResponse:
        self.suggest_requests.append(request)
        if self.suggest_error is not None:
            raise self.suggest_error
        usage = generator_pb2.TokenUsage(prompt_tokens=30, completion_tokens=6)
        return generator_pb2.SuggestQuestionsResponse(questions=self.suggestions[: request.count], usage=usage)

    async def SealProvider(  # noqa: N802 # the name that gRPC gives it
        self, request: generator_pb2.SealProviderRequest, context: Context
    ) -> generator_pb2.SealProviderResponse:
        ref, test = self.sealing.seal(request.spec)
        return generator_pb2.SealProviderResponse(ref=ref, test=test)

    async def RewrapProvider(  # noqa: N802 # the name that gRPC gives it
        self, request: generator_pb2.RewrapProviderRequest, context: Context
    ) -> generator_pb2.RewrapProviderResponse:
        ref, changed = self.sealing.rewrap(request.ref)
        return generator_pb2.RewrapProviderResponse(ref=ref, changed=changed)


@dataclass
class Fakes:
    """The services, and their servers."""

    embedder: FakeEmbedder = field(default_factory=FakeEmbedder)
    retriever: FakeRetriever = field(default_factory=FakeRetriever)
    corpus: FakeCorpus = field(default_factory=FakeCorpus)
    generator: FakeGenerator = field(default_factory=FakeGenerator)
    servers: dict[str, GrpcServer] = field(default_factory=dict[str, GrpcServer])

    def target(self, name: str) -> str:
        """Where a service listens."""
        return f"127.0.0.1:{self.servers[name].port}"

    async def kill(self, name: str) -> None:
        """Stops a service at once, running calls included."""
        stopping = asyncio.ensure_future(self.servers[name].drain_and_stop())
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait((stopping,))

    async def start(self, name: str, port: int = 0) -> None:
        """Starts a service, on a port if that is given."""
        settings = ProcessSettings(port=port, metrics_port=0, auth="keys", drain_seconds=0.1, leave_seconds=0)
        server = GrpcServer(settings, service=name, stream_window=name == "generator")
        if name == "embedder":
            server.add(
                embedder_pb2_grpc.add_EmbedderServiceServicer_to_server,
                self.embedder,
                "citewire.embedder.v1.EmbedderService",
            )
        elif name == "generator":
            server.add(
                generator_pb2_grpc.add_GeneratorServiceServicer_to_server,
                self.generator,
                "citewire.generator.v1.GeneratorService",
            )
        else:
            server.add(
                retriever_pb2_grpc.add_RetrieverServiceServicer_to_server,
                self.retriever,
                "citewire.retriever.v1.RetrieverService",
            )
            server.add(
                corpus_pb2_grpc.add_CorpusServiceServicer_to_server,
                self.corpus,
                "citewire.retriever.v1.CorpusService",
            )
        await server.start()
        server.set_serving(True)
        self.servers[name] = server


@asynccontextmanager
async def running_fakes() -> AsyncGenerator[Fakes, None]:
    """Runs the three services on free ports until the block ends."""
    fakes = Fakes()
    for name in ("embedder", "retriever", "generator"):
        await fakes.start(name)
    try:
        yield fakes
    finally:
        for server in fakes.servers.values():
            await server.drain_and_stop()
