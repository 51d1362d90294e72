"""Searches, chunks, and checking answers."""

from typing import Annotated, Any, ClassVar, Literal, Self

from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2
from pydantic import MISSING, Field, StrictBool, StrictInt, StrictStr

from citewire_dialects.schemas import PLACE_NAMES, KnownType, PlaceFields, ScopeFields, Score, Similarity
from citewire_dialects.schemas.chat import UncitedSentence, VerifiedSentence
from citewire_dialects.schemas.profiles import RerankSeconds, SearchOptions
from citewire_http.api.reading import Names, struct_to_json
from citewire_http.api.schemas import Count, Id, JsonObject, RequestModel, ResponseModel, Rounded, Time
from citewire_kit.enums import enum_number

_RERANKED = 40
"""Minimum number of candidates that a rerank model orders."""

SearchModeName = Literal["dense", "lexical", "hybrid"]


class SearchBody(SearchOptions, ScopeFields):
    """A search."""

    query: StrictStr = Field(examples=["revenue growth"])
    top_k: Annotated[StrictInt, Field(ge=1, le=200)] = 10
    mode: SearchModeName = Field(
        default="hybrid", description="Dense (by meaning), lexical (by words), or both; `dense` is the fastest."
    )
    group_by: Literal["document"] | None = Field(
        default=None, description="`document`: the best chunk of each document; `top_k` counts documents."
    )
    rerank: StrictBool = Field(default=False, description="Reranks the results with a rerank model.")
    rerank_seconds: RerankSeconds | None = Field(
        default=None,
        description="Time limit for reranking; results that it doesn't reach follow in the order of the search. "
        "Absent: the operator's setting, 3 by default.",
    )
    min_score: Score | None = Field(default=None, description="Lowest cosine similarity of a result.")
    dense_weight: Score | None = Field(
        default=None,
        description="Weight of the dense leg in `hybrid`, for measuring; absent means the space's calibrated one.",
    )
    diversity: Score = Field(
        default=0.0,
        description="How much similarity to previous results counts against a result's relevance; 0 in `lexical`.",
    )
    keep_duplicates: StrictBool = Field(
        default=False,
        description="Keeps near-duplicates of better results; otherwise they are left out and listed in "
        "`duplicate_chunk_ids`.",
    )
    include: tuple[Literal["metadata"], ...] = Field(
        default=(), description="`metadata`: include each document's metadata and tags."
    )

    def to_proto(self) -> retriever_pb2.SearchRequest:
        """Returns the search without its vector."""
        return self.to_message(
            retriever_pb2.SearchRequest,
            scope=self.scope(),
            mode=enum_number(retriever_pb2.SearchMode, self.mode),
            query=self.query,
            top_k=max(self.top_k, _RERANKED) if self.rerank else self.top_k,
            group_by=retriever_pb2.GROUP_BY_DOCUMENT if self.group_by == "document" else retriever_pb2.GROUP_BY_CHUNK,
            diversity=self.diversity or None,
        )


class SearchResult(PlaceFields):
    """A chunk that a search found."""

    place_after = "section"
    parts = ("chunk",)
    names: ClassVar[Names] = {
        **PLACE_NAMES,
        "content": "text",
        "similarity": "score",
        **dict.fromkeys(("metadata", "tags"), "only where they are asked for"),
    }

    chunk_id: Id = Field(examples=[1042])
    document_id: Id = Field(examples=[7])
    version: Id = Field(examples=[1])
    chunk_index: Count = Field(description="Its order in the version, from 0.", examples=[3])
    content: str = Field(examples=["Revenue grew by 12 %, …"])
    score: Similarity | None = Field(
        description="Cosine similarity, in every mode; null for a chunk without a vector.", examples=[0.742]
    )
    rank_score: Rounded = Field(description="Orders results within one mode: cosine, BM25 or fused.", examples=[0.742])
    similarity: Similarity | MISSING = Field(default=MISSING, description="The same as `score`.", examples=[0.742])
    lexical_score: Rounded | MISSING = MISSING
    rerank_score: Rounded | MISSING = MISSING
    duplicate_chunk_ids: list[Id] | MISSING = Field(default=MISSING, description="Near-duplicates that were left out.")
    title: str = Field(examples=["Annual report"])
    file_name: str = Field(examples=["report.pdf"])
    url: str | MISSING = MISSING
    section: str | MISSING = Field(default=MISSING, examples=["Results"])
    metadata: JsonObject | MISSING = Field(
        default=MISSING,
        description="The document's metadata, with `include: [metadata]`; left out of results that would bring the "
        "total above 4 MiB.",
    )
    tags: list[str] | MISSING = Field(default=MISSING, description="The document's tags, with `include: [metadata]`.")

    @classmethod
    def from_proto(
        cls, message: retriever_pb2.SearchResult, rerank_score: Rounded | None = None, *, described: bool = False
    ) -> Self:
        """Reads the retriever's result; `rerank_score` is the rerank model's, `described` adds document metadata."""
        fields: dict[str, Any] = {"rerank_score": MISSING if rerank_score is None else rerank_score}
        if described:
            chunk = message.chunk
            fields["tags"] = list(chunk.tags)
            fields["metadata"] = struct_to_json(chunk.metadata) if chunk.HasField("metadata") else MISSING
        return cls.read(message, **fields)


class SearchUsage(ResponseModel):
    """Tokens that a search used."""

    embedding_tokens: Count = Field(examples=[4])


class RerankSummary(ResponseModel):
    """The result of reranking within its time limit."""

    candidates: Count = Field(description="Number of results passed to it.", examples=[40])
    ranked: Count = Field(description="Number of results scored: all, unless time ran out.", examples=[40])


class SearchResults(ResponseModel):
    """The best matches, best first."""

    results: list[SearchResult]
    off_topic: bool = Field(
        default=False, description="Whether no result is related to the query; a chat then calls no model."
    )
    topic_margin: float | MISSING = Field(
        default=MISSING,
        description="How much more closely the results are related to the query than off-topic ones would be, in "
        "standard deviations; `off_topic` is true below 0. Absent in `lexical`, and if it can't be determined.",
        examples=[5.1],
    )
    mode: SearchModeName = Field(examples=["hybrid"])
    rerank: RerankSummary | MISSING = Field(default=MISSING, description="With `rerank`.")
    usage: SearchUsage


class Chunk(PlaceFields):
    """A chunk with its place in its document."""

    place_after = "section"
    names: ClassVar[Names] = {**PLACE_NAMES, "content": "text", "ref": "label"}

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
    ref: str = Field(description="Its place, in words.", examples=["report.pdf § Results"])
    type: KnownType = Field(examples=["file"])
    created_at: Time | MISSING = Field(default=MISSING, examples=["2026-01-15T09:30:00Z"])
    url: str | MISSING = MISSING
    section: str | MISSING = Field(default=MISSING, examples=["Results"])


class PassageBody(RequestModel):
    """A passage that an answer cites. Its headings count as part of it."""

    text: StrictStr = Field(examples=["Revenue grew by 12 %, to 4.2 million euros."])
    title: StrictStr = ""
    file_name: StrictStr = ""
    section: StrictStr = ""


class VerifyBody(RequestModel):
    """An answer from any system, and the passages that it cites."""

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
        """Returns it as the generator's message."""
        return self.to_message(
            generator_pb2.VerifyRequest,
            passages=[passage.to_message(generator_pb2.Passage) for passage in self.passages],
            marker_style=enum_number(generator_pb2.MarkerStyle, self.marker_style),
        )


class Verification(ResponseModel):
    """Verdicts on an answer's sentences."""

    names: ClassVar[Names] = {
        "verified": "verified_citations",
        "uncited": "uncited_sentences",
        "cited": "cited_numbers",
    }

    verified: list[VerifiedSentence] = Field(description="In the order of the sentences.")
    uncited: list[UncitedSentence] = Field(description="Sentences that state facts and cite nothing.")
    cited: list[int] = Field(description="Numbers of the passages that markers refer to.", examples=[[1]])
    invalid_markers: Count = Field(description="Number of markers that refer to no passage.", examples=[0])
