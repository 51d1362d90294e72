"""Answers, their events in every dialect, and conversations."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import MISSING, AfterValidator, Field

from citewire_dialects import events
from citewire_dialects.schemas import OF_BROUGHT, PLACE_NAMES, CitedId, KnownType, PlaceFields, Similarity, StreamError
from citewire_dialects.schemas.tools import ToolCallParam
from citewire_http.api.reading import Names
from citewire_http.api.schemas import Count, Id, JsonObject, Ratio, ResponseModel, Time, Uuid


class RunCancelled(ResponseModel):
    """A run that was asked to stop."""

    run_id: Uuid = Field(examples=["01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e12"])
    state: Literal["running", "done", "cancelled", "failed"] = Field(
        description="The state before cancelling: a `running` run stops now; others had already ended.",
        examples=["running"],
    )


class ConversationCreated(ResponseModel):
    """A conversation was created for this question."""

    conversation_id: Uuid = Field(examples=["01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11"])


class Step(ResponseModel):
    """A decision or an omission during the chat, in words for users."""

    name: str = Field(examples=["plan"])
    text: str = Field(examples=["The documents are searched by meaning."])
    path: str | MISSING = Field(default=MISSING, description="The context path.")
    counts: dict[str, int] | MISSING = MISSING
    reason: str | MISSING = MISSING


class Decision(ResponseModel):
    """Whether the question needs retrieval."""

    parts = ("decision",)

    needs_retrieval: bool = Field(examples=[True])
    reason: str = Field(examples=["It asks about saved content."])


class Citation(PlaceFields):
    """A passage that was placed in the prompt, under the number that markers refer to."""

    place_after = "section"
    parts = ("chunk", "result")
    names: ClassVar[Names] = {
        **PLACE_NAMES,
        "ref": "label",
        "saved_at": "created_at",
        "type": "document_type",
        "url": "chunk.url",
    }

    index: Id = Field(description="The passage's number in the prompt.", examples=[1])
    chunk_id: CitedId = Field(examples=[1042])
    document_id: CitedId = Field(description=OF_BROUGHT, examples=[7])
    version: CitedId = Field(examples=[1])
    title: str = Field(examples=["Annual report"])
    file_name: str = Field(examples=["report.pdf"])
    ref: str = Field(description="Its place, in words.", examples=["report.pdf § Results"])
    snippet: str = Field(
        description="The passage's first 200 characters.", examples=["Revenue grew by 12 %, to 4.2 million …"]
    )
    score: Similarity | None = Field(description="Cosine similarity.", examples=[0.742])
    saved_at: Time | MISSING = Field(
        default=MISSING, description="When the document was saved.", examples=["2026-01-15T09:31:00Z"]
    )
    tags: list[str] | MISSING = Field(default=MISSING, description="The document's.", examples=[["finance"]])
    type: KnownType | MISSING = Field(default=MISSING, description="The document's.", examples=["article"])
    entity_type: str | MISSING = Field(
        default=MISSING, description="The kind of thing the document is about.", examples=["restaurant"]
    )
    category: str | MISSING = Field(default=MISSING, description="The document's.", examples=["Food"])
    url: str | MISSING = MISSING
    computed: bool | MISSING = Field(
        default=MISSING, description="True if the text was computed from rows, so that the document doesn't contain it."
    )
    section: str | MISSING = Field(default=MISSING, examples=["Results"])


class CitationList(ResponseModel):
    """The passages in the prompt, before the first token."""

    citations: list[Citation]


class Token(ResponseModel):
    """A fragment of the answer's text."""

    text: str = Field(examples=["Revenue grew by 12 %."])


class ToolCallDelta(ResponseModel):
    """A fragment of a tool call; the first fragment of each call has its id and name."""

    index: Count = Field(description="The call's number, from 0.", examples=[0])
    id: str | MISSING = Field(default=MISSING, examples=["call_0a1b2c"])
    name: str | MISSING = Field(default=MISSING, examples=["weather"])
    arguments: str = Field(description="The next fragment of its JSON.", examples=['{"city": '])


class ChatEnd(ResponseModel):
    """The chat is complete; nothing follows."""

    finish_reason: str | MISSING = Field(
        default=MISSING, description="Only if it isn't `stop`.", examples=["tool_calls"]
    )
    refusal: str | MISSING = Field(
        default=MISSING,
        description="With `response_format`: why there is no JSON.",
        examples=["The passages don't say a year."],
    )


Support = Annotated[Ratio, AfterValidator(lambda support: round(support, 4))]


class AnswerSpan(ResponseModel):
    """A sentence of the answer, in Unicode code points; `end` is exclusive."""

    start: Count = Field(examples=[0])
    end: Count = Field(examples=[21])


class Verdict(StrEnum):
    """How far a text supports a sentence."""

    SUPPORTED = "supported"
    PARTIAL = "partial"
    UNSUPPORTED = "unsupported"
    UNVERIFIED = "unverified"

    @classmethod
    def _missing_(cls, value: object) -> "Verdict":
        del value  # an unknown verdict counts as unsupported
        return cls.UNSUPPORTED


class CitedSentence(ResponseModel):
    """A sentence of the answer, and a number that it cites."""

    index: Id = Field(description="The citation's number.", examples=[1])
    sentence: AnswerSpan


class QuotePlace(PlaceFields):
    """The place of the words that support a sentence."""

    place_after = "version"

    chunk_id: CitedId = Field(examples=[1042])
    document_id: CitedId = Field(description=OF_BROUGHT, examples=[7])
    version: CitedId = Field(examples=[1])
    start_line: Id | MISSING = Field(default=MISSING, description="The quote's first line.")
    document_start: Count | MISSING = Field(
        default=MISSING, description="Where the quote starts in the version's stored text.", examples=[2210]
    )
    document_end: Count | MISSING = Field(default=MISSING, examples=[2253])


class QuoteVerdict(ResponseModel):
    """What a passage says about a sentence, in its own words. Offsets are Unicode code points."""

    names: ClassVar[Names] = {"index": "number"}

    quote: str = Field(
        description="Text from the passage; empty if nothing in the passage is close, or if the passage was computed.",
        examples=["Revenue grew by 12 %, to 4.2 million euros."],
    )
    quote_start: Count = Field(description="Where the quote starts in the passage's text.", examples=[0])
    quote_end: Count = Field(examples=[43])
    support: Support = Field(description="How far the passage supports the sentence.", examples=[0.97])
    verdict: Verdict = Field(description="On this passage alone.", examples=["supported"])
    sentence_verdict: Verdict = Field(
        description="On all passages that the sentence cites together.", examples=["supported"]
    )
    mismatches: list[str] = Field(
        description="Numbers, names and negations of the sentence that the passage doesn't have.", examples=[[]]
    )


class VerifiedSentence(QuoteVerdict, CitedSentence):
    """A sentence of the answer with the verdict of a cited passage."""


class VerifiedCitation(QuoteVerdict, QuotePlace, CitedSentence):
    """A sentence of the answer with the verdict of the cited passage."""

    parts = ("verified", "chunk")
    names: ClassVar[Names] = {**PLACE_NAMES, "index": "number"}

    pointer: str | MISSING = Field(
        default=MISSING, description="In a JSON answer: JSON pointer of the value.", examples=["/growth"]
    )


class UncitedSentence(ResponseModel):
    """A sentence of the answer that states facts and cites nothing."""

    sentence: AnswerSpan


class Source(ResponseModel):
    """A source for a list under the answer; `sources[N-1]` is `[SOURCE N]`."""

    parts = ("chunk",)
    names: ClassVar[Names] = {**PLACE_NAMES, "file_name": "document_name", "ref": "label"}

    file_name: str = Field(examples=["report.pdf"])
    ref: str = Field(examples=["report.pdf § Results"])
    snippet: str = Field(examples=["Revenue grew by 12 %, to 4.2 million …"])
    page_number: Id | None = Field(examples=[3])
    row_number: Id | None = Field(description="The row, or else the first line.", examples=[None])
    document_id: str = Field(examples=["7"])
    url: str = Field(
        description="Opens the original at the page or row; without a host, it is this server's.",
        examples=["/v1/documents/7/content?version=1#page=3"],
    )

    @classmethod
    def of(cls, citation: events.Citation) -> Self:
        """Describes a passage that was placed in the prompt."""
        place = citation.chunk.place
        row_number = place.row if place.HasField("row") else place.start_line or None
        document_id = str(citation.chunk.document_id)
        return cls.read(citation, row_number=row_number, document_id=document_id)


class SourceList(ResponseModel):
    """The same passages as `citations`, repeated after the last token."""

    sources: list[Source]


class Assessment(ResponseModel):
    """Whether the passages support the answer, and how useful it is."""

    parts = ("assessment",)

    supported: bool = Field(examples=[True])
    utility: Ratio = Field(examples=[0.9])
    fallback: Literal[True] | MISSING = Field(default=MISSING, description="Only if the answer could not be assessed.")


class TokenUsage(ResponseModel):
    """Tokens of all the chat's calls."""

    names: ClassVar[Names] = {
        "cached_prompt_tokens": "cached_tokens",
        "cache_write_prompt_tokens": "cache_write_tokens",
    }

    embedding_tokens: Count = Field(examples=[9])
    prompt_tokens: Count = Field(examples=[812])
    completion_tokens: Count = Field(examples=[44])
    path: str | MISSING = Field(
        default=MISSING, description="The context path; only in profiles that show it, or with `include: [cost]`."
    )
    cost_usd: float | MISSING = Field(
        default=MISSING, description="Only in profiles that show it, or with `include: [cost]`."
    )
    cached_prompt_tokens: Count | MISSING = Field(
        default=MISSING,
        description="Prompt tokens that the provider read from its cache, if any.",
        examples=[640],
    )
    cache_write_prompt_tokens: Count | MISSING = Field(
        default=MISSING,
        description="Prompt tokens that the provider wrote to its cache, if any and if it bills that.",
        examples=[128],
    )


CHAT_EVENTS: Mapping[str, type[ResponseModel]] = {
    "conversation": ConversationCreated,
    "step": Step,
    "decision": Decision,
    "citations": CitationList,
    "token": Token,
    "tool_call": ToolCallDelta,
    "citation": VerifiedCitation,
    "uncited": UncitedSentence,
    "sources": SourceList,
    "assessment": Assessment,
    "usage": TokenUsage,
    "error": StreamError,
    "done": ChatEnd,
}
"""The native dialect's events."""


def event_payload(event: events.Event) -> ResponseModel:
    """Returns an event's data, for dialects that use these event names."""
    match event:
        case events.Tokens(texts=texts):
            return Token(text="".join(texts))
        case events.ToolCall(piece=piece):
            name, arguments = piece.name or MISSING, piece.arguments
            return ToolCallDelta(index=piece.index, id=piece.id or MISSING, name=name, arguments=arguments)
        case events.Done(outcome=outcome):
            reason = outcome.finish_reason if outcome.finish_reason != "stop" else MISSING
            return ChatEnd(finish_reason=reason, refusal=outcome.refusal or MISSING)
        case events.Sources(citations=citations):
            return SourceList(sources=[Source.of(citation) for citation in citations])
        case _:
            return CHAT_EVENTS[event.type].read(event)


class ChatAnswer(ResponseModel):
    """A whole chat as one body."""

    conversation_id: Uuid | MISSING = Field(default=MISSING, examples=["01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11"])
    exchange_id: Uuid = Field(examples=["01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e12"])
    profile: str = Field(examples=["documents"])
    answer: str = Field(examples=["Revenue grew by 12 %."])
    tool_calls: list[ToolCallParam] | MISSING = Field(default=MISSING, description="For the request's tools.")
    refusal: str | MISSING = Field(default=MISSING, description="With `response_format`: why there is no JSON.")
    citations: list[Citation]
    sources: list[Source] | MISSING = MISSING
    decision: Decision | MISSING = MISSING
    assessment: Assessment | MISSING = MISSING
    usage: TokenUsage
    verified: list[VerifiedCitation] | MISSING = MISSING
    uncited: list[UncitedSentence] | MISSING = MISSING
    not_found: bool = Field(examples=[False])
    answerable_score: Ratio | MISSING = MISSING
    finish_reason: str = Field(examples=["stop"])
    provider: str | None = Field(examples=["extractive"])
    model: str | None = Field(examples=["extractive"])
    steps: list[Step]


class StoredUsage(TokenUsage):
    """Tokens that an answer used."""

    estimated: Literal[True] | MISSING = Field(
        default=MISSING, description="Only if the answer was cut off, so that the counts are estimates."
    )


class AnswerDetails(ResponseModel):
    """The details stored with an answer."""

    decision: Decision | MISSING = MISSING
    assessment: Assessment | MISSING = MISSING
    verified: list[VerifiedCitation] | MISSING = MISSING
    uncited: list[UncitedSentence] | MISSING = MISSING
    citations: list[Citation]
    cited: list[int] = Field(description="The numbers that the answer cites.", examples=[[1]])
    usage: StoredUsage
    steps: list[Step]
    provider: str = Field(examples=["extractive"])
    model: str = Field(examples=["extractive"])
    finish_reason: str | MISSING = Field(
        default=MISSING, description="Absent if the answer was cut off: see `state`.", examples=["stop"]
    )
    not_found: bool = Field(examples=[False])
    history: Count | MISSING = Field(
        default=MISSING, description="Number of conversation messages sent to the model.", examples=[0]
    )
    request: JsonObject | MISSING = Field(
        default=MISSING, description="For an answer to `POST /v1/responses`: the request's parameters."
    )
