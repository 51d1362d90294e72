"""Searches, chunks, and checking answers."""

from typing import Annotated, Any, Literal, Self

from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2
from pydantic import MISSING, Field, StrictBool, StrictInt, StrictStr

from citewire_gateway.api.filters import parse_filter
from citewire_gateway.api.schemas.base import (
    FILTER,
    CollectionName,
    Count,
    DocumentIds,
    Id,
    KnownType,
    Ratio,
    RequestModel,
    ResponseModel,
    Score,
    Time,
    chunk_ref,
    place_fields,
    rounded,
)
from citewire_gateway.api.schemas.chat import AnswerSpan, UncitedSentence, Verdict, verdict_from_proto
from citewire_gateway.profiles.model import RerankSeconds
from citewire_kit.enums import enum_number

_RERANKED = 40
"""Candidates that a rerank model orders, at least."""

SearchModeName = Literal["dense", "lexical", "hybrid"]


class SearchBody(RequestModel):
    """A search."""

    query: StrictStr = Field(examples=["revenue growth"])
    top_k: Annotated[StrictInt, Field(ge=1, le=200)] = 10
    mode: SearchModeName = "dense"
    group_by: Literal["document"] | None = Field(
        default=None, description="`document`: the best chunk of each document; `top_k` counts documents."
    )
    rerank: StrictBool = Field(default=False, description="Puts the results into the order of a rerank model.")
    rerank_seconds: RerankSeconds | None = Field(
        default=None,
        description="How long that may take; what it had no time for follows in the order of the search. Absent means "
        "what the operator set, 3 unless changed.",
    )
    min_score: Score | None = Field(default=None, description="Lowest cosine similarity of a result.")
    dense_weight: Score | None = Field(
        default=None,
        description="Weight of the dense leg in `hybrid`, for measuring; absent means the space's calibrated one.",
    )
    diversity: Score = Field(
        default=0.0,
        description="How much a result's likeness to those before it counts against its relevance; 0 in `lexical`.",
    )
    keep_duplicates: StrictBool = Field(
        default=False,
        description="Keeps chunks whose text is nearly that of a better one, which else are left out and named by it.",
    )
    max_per_document: Annotated[StrictInt, Field(ge=1, le=200)] | None = Field(
        default=None, description="Most chunks of one document; absent means no limit."
    )
    document_ids: DocumentIds | None = None
    collection: CollectionName | None = None
    filter: Any = FILTER

    def to_proto(self) -> retriever_pb2.SearchRequest:
        """Returns the search without its vector."""
        scope = retriever_pb2.Scope(collection=self.collection or "")
        if self.document_ids is not None:
            scope.selection.document_ids.extend(self.document_ids)
        if self.filter is not None:
            scope.filter.CopyFrom(parse_filter(self.filter))
        return retriever_pb2.SearchRequest(
            scope=scope,
            mode=enum_number(retriever_pb2.SearchMode, self.mode),
            query="" if self.mode == "dense" else self.query,  # a dense search needs no text, which may be long
            top_k=max(self.top_k, _RERANKED) if self.rerank else self.top_k,
            min_score=self.min_score,
            group_by=retriever_pb2.GROUP_BY_DOCUMENT if self.group_by == "document" else retriever_pb2.GROUP_BY_CHUNK,
            dense_weight=self.dense_weight,
            diversity=self.diversity or None,
            keep_duplicates=self.keep_duplicates,
            max_per_document=self.max_per_document,
        )


class SearchResult(ResponseModel):
    """A chunk that a search found."""

    chunk_id: Id = Field(examples=[1042])
    document_id: Id = Field(examples=[7])
    version: Id = Field(examples=[1])
    chunk_index: Count = Field(description="Its order in the version, from 0.", examples=[3])
    content: str = Field(examples=["Revenue grew by 12 %, …"])
    score: float = Field(description="Orders within one mode only.", examples=[0.742])
    similarity: Ratio | MISSING = Field(default=MISSING, description="Cosine similarity.", examples=[0.742])
    lexical_score: float | MISSING = MISSING
    rerank_score: float | MISSING = MISSING
    duplicate_chunk_ids: list[Id] | MISSING = Field(
        default=MISSING, description="Left out: their text is nearly this one's."
    )
    title: str = Field(examples=["Annual report"])
    file_name: str = Field(examples=["report.pdf"])
    url: str | MISSING = MISSING
    section: str | MISSING = Field(default=MISSING, examples=["Results"])
    page_number: Id | MISSING = Field(default=MISSING, examples=[3])
    row_number: Id | MISSING = Field(default=MISSING, description="Line of the sheet, header = 1.")
    start_line: Id | MISSING = MISSING
    end_line: Id | MISSING = MISSING

    @classmethod
    def from_proto(cls, message: retriever_pb2.SearchResult, rerank_score: float | None = None) -> Self:
        """As the retriever found it; `rerank_score` is the rerank model's."""
        chunk = message.chunk
        return cls(
            chunk_id=chunk.chunk_id,
            document_id=chunk.document_id,
            version=chunk.version,
            chunk_index=chunk.chunk_index,
            content=chunk.text,
            score=rounded(message.rank_score),
            similarity=rounded(message.score) if message.HasField("score") else MISSING,
            lexical_score=rounded(message.lexical_score) if message.HasField("lexical_score") else MISSING,
            rerank_score=MISSING if rerank_score is None else rounded(rerank_score),
            duplicate_chunk_ids=list(message.duplicate_chunk_ids) or MISSING,
            title=chunk.title,
            file_name=chunk.file_name,
            url=chunk.url or MISSING,
            section=chunk.section or MISSING,
            **place_fields(chunk.place),
        )


class SearchUsage(ResponseModel):
    """Tokens that a search spent."""

    embedding_tokens: Count = Field(examples=[4])


class RerankSummary(ResponseModel):
    """What a rerank model did in its time."""

    candidates: Count = Field(description="Results that it was given.", examples=[40])
    ranked: Count = Field(description="Results that it scored: all, unless its time was over first.", examples=[40])


class SearchResults(ResponseModel):
    """The best matches, best first."""

    results: list[SearchResult]
    mode: SearchModeName = Field(examples=["dense"])
    rerank: RerankSummary | MISSING = Field(default=MISSING, description="With `rerank`.")
    usage: SearchUsage


class Chunk(ResponseModel):
    """A chunk with its place in its document."""

    chunk_id: Id = Field(examples=[1042])
    document_id: Id = Field(examples=[7])
    version: Id = Field(examples=[1])
    live: bool = Field(description="False if a newer version has superseded this one.", examples=[True])
    chunk_index: Count = Field(description="Its order in the version, from 0.", examples=[3])
    content: str = Field(examples=["Revenue grew by 12 %, …"])
    token_count: Count = Field(examples=[118])
    content_hash: str = Field(description="SHA-256 of the text.", examples=["9f86d081…"])
    char_start: Count = Field(
        description="Where it starts in the version's stored text, in Unicode code points.", examples=[2210]
    )
    char_end: Count = Field(description="Where it ends, exclusive.", examples=[2764])
    title: str = Field(examples=["Annual report"])
    file_name: str = Field(examples=["report.pdf"])
    ref: str = Field(description="Where it stands, as a person would say it.", examples=["report.pdf § Results"])
    type: KnownType = Field(examples=["file"])
    created_at: Time | MISSING = Field(default=MISSING, examples=["2026-01-15T09:30:00Z"])
    url: str | MISSING = MISSING
    section: str | MISSING = Field(default=MISSING, examples=["Results"])
    page_number: Id | MISSING = Field(default=MISSING, examples=[3])
    row_number: Id | MISSING = Field(default=MISSING, description="Line of the sheet, header = 1.")
    start_line: Id | MISSING = MISSING
    end_line: Id | MISSING = MISSING

    @classmethod
    def from_proto(cls, message: retriever_pb2.Chunk) -> Self:
        """As the retriever stores it."""
        return cls(
            chunk_id=message.chunk_id,
            document_id=message.document_id,
            version=message.version,
            live=message.live,
            chunk_index=message.chunk_index,
            content=message.text,
            token_count=message.token_count,
            content_hash=message.content_hash,
            char_start=message.char_start,
            char_end=message.char_end,
            title=message.title,
            file_name=message.file_name,
            ref=chunk_ref(message),
            type=message.type,
            created_at=message.created_at.ToJsonString() if message.HasField("created_at") else MISSING,
            url=message.url or MISSING,
            section=message.section or MISSING,
            **place_fields(message.place),
        )


class PassageBody(RequestModel):
    """A passage that an answer cites. Its headings count as said by it."""

    text: StrictStr = Field(examples=["Revenue grew by 12 %, to 4.2 million euros."])
    title: StrictStr = ""
    file_name: StrictStr = ""
    section: StrictStr = ""


class VerifyBody(RequestModel):
    """An answer that any system wrote, and the passages that it cites."""

    answer: StrictStr = Field(description="Up to 128 KiB.", examples=["Revenue grew by 12 % [ref:1]."])
    passages: Annotated[list[PassageBody], Field(min_length=1, max_length=1000)] = Field(
        description="Markers refer to them by number, from 1 in this order."
    )
    marker_style: Literal["none", "ref", "source", "number"] = Field(
        default="none",
        description="`[ref:N]`, `[SOURCE N]`, or numbers in brackets of any form. Without markers a sentence counts as "
        "citing the passage that supports it best.",
        examples=["ref"],
    )

    def to_proto(self) -> generator_pb2.VerifyRequest:
        """As the generator takes it."""
        return generator_pb2.VerifyRequest(
            answer=self.answer,
            passages=[
                generator_pb2.Passage(
                    text=passage.text, title=passage.title, file_name=passage.file_name, section=passage.section
                )
                for passage in self.passages
            ],
            marker_style=enum_number(generator_pb2.MarkerStyle, self.marker_style),
        )


class VerifiedSentence(ResponseModel):
    """A sentence of the answer and what a passage that it cites says about it. Offsets are Unicode code points."""

    index: Id = Field(description="The passage's number.", examples=[1])
    sentence: AnswerSpan
    quote: str = Field(
        description="The passage's own words; empty if nothing in it comes near.",
        examples=["Revenue grew by 12 %, to 4.2 million euros."],
    )
    quote_start: Count = Field(description="Where the quote starts in the passage's text.", examples=[0])
    quote_end: Count = Field(examples=[43])
    support: Ratio = Field(description="How far the passage supports the sentence.", examples=[0.97])
    verdict: Verdict = Field(description="On this passage alone.", examples=["supported"])
    sentence_verdict: Verdict = Field(
        description="On all passages that the sentence cites together.", examples=["supported"]
    )
    mismatches: list[str] = Field(
        description="What the sentence states and the passage doesn't: numbers, names, negations.", examples=[[]]
    )

    @classmethod
    def from_proto(cls, message: generator_pb2.VerifiedCitation) -> Self:
        """As the generator found out."""
        return cls(
            index=message.number,
            sentence=AnswerSpan.from_proto(message.sentence),
            quote=message.quote,
            quote_start=message.quote_start,
            quote_end=message.quote_end,
            support=round(message.support, 4),
            verdict=verdict_from_proto(message.verdict),
            sentence_verdict=verdict_from_proto(message.sentence_verdict),
            mismatches=list(message.mismatches),
        )


class Verification(ResponseModel):
    """What an answer's sentences state and what the passages say."""

    verified: list[VerifiedSentence] = Field(description="In the order of the sentences.")
    uncited: list[UncitedSentence] = Field(description="Sentences that state facts and cite nothing.")
    cited: list[int] = Field(description="Numbers of the passages that markers refer to.", examples=[[1]])
    invalid_markers: Count = Field(description="Markers whose number isn't a passage's.", examples=[0])

    @classmethod
    def from_proto(cls, message: generator_pb2.VerifyResponse) -> Self:
        """As the generator found out."""
        return cls(
            verified=[VerifiedSentence.from_proto(verified) for verified in message.verified_citations],
            uncited=[
                UncitedSentence(sentence=AnswerSpan.from_proto(uncited.sentence))
                for uncited in message.uncited_sentences
            ],
            cited=list(message.cited_numbers),
            invalid_markers=message.invalid_markers,
        )
