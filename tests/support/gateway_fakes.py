"""The three services, scripted by tests; in the process, or behind the gRPC servers of `gateway_fake_servers`."""

from __future__ import annotations

import asyncio
import hashlib
import struct
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any, TypeAlias

from citewire.common.v1 import common_pb2, place_pb2
from citewire.embedder.v1 import embedder_pb2
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2, table_pb2
from citewire.retriever.v1.calibration_pb2 import Calibration

from citewire_gateway.clients.embedder import Embedder
from citewire_gateway.clients.generator import Generator
from citewire_gateway.clients.retriever import Retriever
from citewire_kit.deadline import remaining
from citewire_kit.errors import CitewireError, NotFound
from citewire_kit.tenant import Tenant, current_tenant, find_tenant

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
        "heading": "Annual report",
    }
    values |= fields
    names = [name for name in (values["file_name"] or values["title"], values.get("section")) if name]
    values.setdefault("label", " § ".join(names))
    return retriever_pb2.Chunk(chunk_id=chunk_id, text=text, **values)


def result(chunk_id: int, similarity: float = 0.8, **fields: Any) -> retriever_pb2.SearchResult:  # noqa: ANN401 # any type is intended
    """A result of a dense search."""
    return retriever_pb2.SearchResult(
        chunk=chunk(chunk_id, **fields), rank_score=similarity, score=similarity, first_score=similarity
    )


def delta(*texts: str) -> generator_pb2.GenerateResponse:
    """A message of text."""
    return generator_pb2.GenerateResponse(delta=generator_pb2.TextDelta(texts=texts))


def completed(**fields: Any) -> generator_pb2.GenerateResponse:  # noqa: ANN401 # any type is intended
    """The end of an answer that spent 100 and 20 tokens."""
    values: dict[str, Any] = {
        "usage": generator_pb2.TokenUsage(prompt_tokens=100, completion_tokens=20),
        "finish_reason": generator_pb2.FINISH_REASON_STOP,
        "attempts": 1,
    }
    return generator_pb2.GenerateResponse(completed=generator_pb2.Completed(**{**values, **fields}))


def started(
    *citations: tuple[int, int], provider: str = "fake", model: str = "fake-1"
) -> generator_pb2.GenerateResponse:
    """The start, with citations (number, index of the passage)."""
    message = generator_pb2.Started(provider=provider, model=model)
    message.citations.extend(generator_pb2.Citation(number=number, passage_index=index) for number, index in citations)
    return generator_pb2.GenerateResponse(started=message)


def sealed(spec: common_pb2.ProviderSpec, tenant: Tenant, master_key: str) -> common_pb2.ProviderRef:
    """A fake ciphertext: a digest with owner and master key."""
    owner = f"{tenant.org_id}|{spec.user_id}|{spec.provider}|{spec.api_key}|{spec.api_base}"
    return common_pb2.ProviderRef(
        provider=spec.provider,
        model=spec.model or f"{spec.provider}-default",
        sealed_key=f"{master_key}:{hashlib.sha256(owner.encode()).hexdigest()}".encode(),
        type=spec.type,
        user_id=spec.user_id,
        dimensions=spec.dimensions,
    )


class FakeSealing:
    """Shared by embedder and generator: sealing with a master key that a test may change."""

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
        """Writes the current master key into the ciphertext, and merges parts that an earlier version sealed apart."""
        changed = common_pb2.ProviderRef()
        changed.CopyFrom(ref)
        changed.sealed_key = (
            self.master_key.encode() + b":" + (ref.sealed_key or ref.sealed_api_base).partition(b":")[2]
        )
        changed.ClearField("sealed_api_base")
        return changed, changed != ref


class CallLog:
    """Records the calls of one or more fakes, and lets each wait or fail as scripted by a test."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.reached: dict[str, asyncio.Event] = {}
        """Set when the call begins."""
        self.gates: dict[str, asyncio.Event] = {}
        """The event that the call waits for."""
        self.errors: dict[str, Exception] = {}

    async def note(self, call: str) -> None:
        """Records a call, waits at its gate, and raises its error."""
        self.calls.append(call)
        if call in self.reached:
            self.reached[call].set()
        await self.wait(call)
        if call in self.errors:
            raise self.errors[call]

    async def wait(self, call: str) -> None:
        """Waits at the call's gate, if it has one."""
        if call in self.gates:
            await self.gates[call].wait()


class FakeEmbedder(Embedder):
    """Vectors of any requested space."""

    def __init__(self, log: CallLog | None = None) -> None:
        self.log = log or CallLog()
        self.sealing = FakeSealing()
        self.own_space: common_pb2.EmbeddingSpace | None = None
        self.space = SPACE
        self.models: list[embedder_pb2.Model] = []
        self.requests: list[embedder_pb2.EmbedRequest] = []
        self.tenants: list[Tenant | None] = []
        self.truncated = False
        self.reranked: list[embedder_pb2.RerankRequest] = []
        self.rerank_seconds: list[float] = []
        """The remaining time of each call."""
        self.scored: int | None = None
        """Number of documents for which a rerank has time; None: all."""

    async def embed(self, request: embedder_pb2.EmbedRequest, *, patient: bool = False) -> embedder_pb2.EmbedResponse:
        self.requests.append(request)
        self.tenants.append(find_tenant())
        await self.log.note("embed")
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

    async def rerank(self, request: embedder_pb2.RerankRequest) -> embedder_pb2.RerankResponse:
        self.reranked.append(request)
        self.rerank_seconds.append(remaining() or 0)
        await self.log.note("rerank")
        documents = len(request.documents)
        scored = documents if self.scored is None else min(self.scored, documents)
        order = [*sorted(range(scored), reverse=True), *range(scored, documents)][: request.top_n]
        results = [
            embedder_pb2.RerankResult(index=index, score=1.0 + index if index < scored else 0.0) for index in order
        ]
        return embedder_pb2.RerankResponse(results=results, model="rerank", scored=scored)

    async def list_models(self, request: embedder_pb2.ListModelsRequest) -> embedder_pb2.ListModelsResponse:  # pyright: ignore[reportIncompatibleMethodOverride] - only behind its server
        return embedder_pb2.ListModelsResponse(models=self.models)

    async def seal_provider(self, request: embedder_pb2.SealProviderRequest) -> embedder_pb2.SealProviderResponse:
        ref, test = self.sealing.seal(request.spec)
        return embedder_pb2.SealProviderResponse(ref=ref, test=test, space=self.own_space)

    async def rewrap_provider(self, request: embedder_pb2.RewrapProviderRequest) -> embedder_pb2.RewrapProviderResponse:
        ref, changed = self.sealing.rewrap(request.ref)
        return embedder_pb2.RewrapProviderResponse(ref=ref, changed=changed)

    async def test_provider(self, request: embedder_pb2.TestProviderRequest) -> embedder_pb2.TestProviderResponse:
        return embedder_pb2.TestProviderResponse(test=self.sealing.test)


class FakeRetriever(Retriever):
    """Results as scripted; knows documents 7 and 8."""

    def __init__(self, log: CallLog | None = None) -> None:
        self.log = log or CallLog()
        self.space: common_pb2.EmbeddingSpace | None = SPACE
        self.calibration: Calibration | None = None
        self.results: list[retriever_pb2.SearchResult] = [result(1), result(2, 0.7)]
        self.filtered_results: list[retriever_pb2.SearchResult] | None = None
        """Results of a search with a filter, if they differ."""
        self.query_filter: retriever_pb2.QueryFilter | None = None
        """The filters derived from a question."""
        self.listing: retriever_pb2.ItemListing | None = None
        """The list of documents that a question wants."""
        self.off_topic: bool | None = None
        """Whether all results are off topic; None: determined by the scores."""
        self.known = {7, 8}
        self.hidden: dict[str, set[int]] = {}
        """Documents that a user may not see."""
        self.stored: Callable[[], Iterable[tuple[str, int]]] = tuple
        """Organisation and id of documents that were uploaded."""
        self.path = retriever_pb2.CONTEXT_PATH_SEMANTIC
        self.reason = "2 items are searched."
        self.counts = retriever_pb2.ScopeCounts(items=2, kept=2, chunks=9)
        self.context_counts = retriever_pb2.ScopeCounts(items=2, kept=1, trimmed=1, chunks=9)
        self.contexts: list[retriever_pb2.GetContextRequest] = []
        self.plans: list[retriever_pb2.PlanRequest] = []
        self.searches: list[retriever_pb2.SearchRequest] = []
        self.search_errors: list[CitewireError] = []
        self.computed: table_pb2.ComputedAnswer | CitewireError | None = None
        """The answer to a question over tables."""
        self.tables: list[table_pb2.TableInReach] = []
        """The tables for which a model may write a query, if requested; `computed` then answers that query."""
        self.table_questions: list[table_pb2.AnswerFromTablesRequest] = []
        self.tenants: list[Tenant | None] = []

    async def plan(self, request: retriever_pb2.PlanRequest) -> retriever_pb2.PlanResponse:
        self.plans.append(request)
        self.tenants.append(find_tenant())
        await self.log.note("plan")
        self._check(request.scope)
        restricted = request.scope.HasField("filter") or request.scope.HasField("selection")
        return retriever_pb2.PlanResponse(
            path=self.path,
            reason=self.reason,
            counts=self.counts,
            space=self.space,
            calibration=self.calibration,
            query_filter=self.query_filter if request.derive_filter and not restricted else None,
            listing=self.listing if request.derive_filter else None,
        )

    async def search(self, request: retriever_pb2.SearchRequest) -> retriever_pb2.SearchResponse:
        self.searches.append(request)
        await self.log.note("search")
        self._check(request.scope)
        if self.search_errors:
            raise self.search_errors.pop(0)
        filtered = request.scope.HasField("filter") and self.filtered_results is not None
        candidates = self.filtered_results or [] if filtered else self.results
        results = [result for result in candidates if not request.min_score or result.score >= request.min_score]
        off_topic = bool(results) and all(result.HasField("score") and result.score <= 0 for result in results)
        off_topic = off_topic if self.off_topic is None else self.off_topic
        return retriever_pb2.SearchResponse(results=results[: request.top_k], space=request.space, off_topic=off_topic)

    async def answer_from_tables(
        self, request: table_pb2.AnswerFromTablesRequest
    ) -> table_pb2.AnswerFromTablesResponse:
        self.table_questions.append(table_pb2.AnswerFromTablesRequest.FromString(request.SerializeToString()))
        if request.describe and self.tables and not request.HasField("query"):
            return table_pb2.AnswerFromTablesResponse(tables=self.tables)
        if isinstance(self.computed, CitewireError):
            raise self.computed
        return table_pb2.AnswerFromTablesResponse(computed=self.computed)

    async def get_context(
        self, request: retriever_pb2.GetContextRequest
    ) -> AsyncGenerator[retriever_pb2.GetContextResponse, None]:
        self.contexts.append(request)
        await self.log.note("get_context")
        self._check(request.scope)
        yield retriever_pb2.GetContextResponse(chunks=[result.chunk for result in self.results])
        yield retriever_pb2.GetContextResponse(counts=self.context_counts)

    async def get_chunks(self, request: retriever_pb2.GetChunksRequest) -> retriever_pb2.GetChunksResponse:
        if 1 not in request.chunk_ids:
            raise NotFound(f"no such chunk: {request.chunk_ids[0]}", reason="CHUNK_NOT_FOUND")
        wide_chunk = chunk(1, section="Results > 2025", place=place_pb2.Place(page=3), char_start=10, char_end=31)
        return retriever_pb2.GetChunksResponse(chunks=[wide_chunk])

    async def find_documents(  # pyright: ignore[reportIncompatibleMethodOverride] - only behind its server
        self, request: retriever_pb2.FindDocumentsRequest
    ) -> retriever_pb2.FindDocumentsResponse:
        tenant = current_tenant()
        known = self.known | {document_id for org, document_id in self.stored() if org == tenant.org_id}
        seen = known - self.hidden.get(tenant.user_id, set())
        return retriever_pb2.FindDocumentsResponse(
            document_ids=[number for number in request.document_ids if number in seen]
        )

    def _check(self, scope: retriever_pb2.Scope) -> None:
        if scope.collection == "gone":
            raise NotFound("there is no collection 'gone'", reason="COLLECTION_NOT_FOUND")
        unknown = [number for number in scope.selection.document_ids if number not in self.known]
        if unknown:
            named = ", ".join(map(str, unknown))
            raise NotFound(f"no such documents: {named}", reason="DOCUMENT_NOT_FOUND", metadata={"document_ids": named})


Script: TypeAlias = Callable[[generator_pb2.GenerateRequest], AsyncGenerator[generator_pb2.GenerateResponse, None]]


async def cite_all(request: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
    """Uses every passage and answers in three pieces, two of them in one message."""
    yield started(*((index + 1, index) for index in range(len(request.passages))))
    yield delta("Revenue")
    yield delta(" grew", ' by "12" %.')
    yield completed(cited_numbers=[1])


class FakeGenerator(Generator):
    """Runs a script per answer, and records how each call ended."""

    def __init__(self, log: CallLog | None = None) -> None:
        self.log = log or CallLog()
        self.sealing = FakeSealing()
        self.script: Script = cite_all
        self.requests: list[generator_pb2.GenerateRequest] = []
        self.tenants: list[Tenant | None] = []
        self.ended: list[str] = []
        self.ended_event = asyncio.Event()
        self.suggestions = ["What grew?", "How much?", "Since when?"]
        self.suggestions_heading = ""
        self.suggest_requests: list[generator_pb2.SuggestQuestionsRequest] = []
        self.decision = generator_pb2.DecideResponse(
            needs_retrieval=True,
            reason="It asks about saved content.",
            usage=generator_pb2.TokenUsage(prompt_tokens=40, completion_tokens=8),
        )
        self.assessment = generator_pb2.AssessResponse(
            supported=True, utility=0.9, usage=generator_pb2.TokenUsage(prompt_tokens=60, completion_tokens=9)
        )
        self.verification = generator_pb2.VerifyResponse()
        self.verify_requests: list[generator_pb2.VerifyRequest] = []
        self.rewritten: generator_pb2.RewriteResponse | None = None
        self.rewrites: list[generator_pb2.RewriteRequest] = []
        self.filled: generator_pb2.FillTableQueryResponse | CitewireError = generator_pb2.FillTableQueryResponse()
        self.fills: list[generator_pb2.FillTableQueryRequest] = []
        self.assessed: list[generator_pb2.AssessRequest] = []
        self.relevance = generator_pb2.JudgeRelevanceResponse()
        self.judged: list[generator_pb2.JudgeRelevanceRequest] = []

    async def generate(
        self, request: generator_pb2.GenerateRequest
    ) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        self.requests.append(request)
        self.tenants.append(find_tenant())
        how = "cancelled"
        try:
            await self.log.note("generate")
            async for message in self.script(request):
                yield message
            how = "ok"
        except CitewireError:
            how = "failed"
            raise
        finally:
            self.log.calls.append("generator closed")
            self.ended.append(how)
            self.ended_event.set()

    async def decide(self, request: generator_pb2.DecideRequest) -> generator_pb2.DecideResponse:
        await self.log.note("decide")
        return self.decision

    async def assess(self, request: generator_pb2.AssessRequest) -> generator_pb2.AssessResponse:
        self.assessed.append(request)
        await self.log.note("assess")
        return self.assessment

    async def judge_relevance(
        self, request: generator_pb2.JudgeRelevanceRequest
    ) -> generator_pb2.JudgeRelevanceResponse:
        self.judged.append(request)
        await self.log.note("judge")
        return self.relevance

    async def verify(self, request: generator_pb2.VerifyRequest) -> generator_pb2.VerifyResponse:
        self.verify_requests.append(request)
        await self.log.note("verify")
        return self.verification

    async def rewrite(self, request: generator_pb2.RewriteRequest) -> generator_pb2.RewriteResponse:
        self.rewrites.append(request)
        await self.log.note("rewrite")
        if self.rewritten is not None:
            return self.rewritten
        usage = generator_pb2.TokenUsage(prompt_tokens=12, completion_tokens=3)
        return generator_pb2.RewriteResponse(text=f"{request.question} (rewritten)", usage=usage)

    async def fill_table_query(
        self, request: generator_pb2.FillTableQueryRequest
    ) -> generator_pb2.FillTableQueryResponse:
        self.fills.append(request)
        await self.log.note("fill_table_query")
        if isinstance(self.filled, CitewireError):
            raise self.filled
        return self.filled

    async def suggest_questions(
        self, request: generator_pb2.SuggestQuestionsRequest
    ) -> generator_pb2.SuggestQuestionsResponse:
        self.suggest_requests.append(request)
        await self.log.note("suggest_questions")
        usage = generator_pb2.TokenUsage(prompt_tokens=30, completion_tokens=6)
        return generator_pb2.SuggestQuestionsResponse(
            questions=self.suggestions[: request.count], usage=usage, heading=self.suggestions_heading
        )

    async def seal_provider(self, request: generator_pb2.SealProviderRequest) -> generator_pb2.SealProviderResponse:
        ref, test = self.sealing.seal(request.spec)
        return generator_pb2.SealProviderResponse(ref=ref, test=test)

    async def rewrap_provider(
        self, request: generator_pb2.RewrapProviderRequest
    ) -> generator_pb2.RewrapProviderResponse:
        ref, changed = self.sealing.rewrap(request.ref)
        return generator_pb2.RewrapProviderResponse(ref=ref, changed=changed)

    async def test_provider(self, request: generator_pb2.TestProviderRequest) -> generator_pb2.TestProviderResponse:
        return generator_pb2.TestProviderResponse(test=self.sealing.test)
