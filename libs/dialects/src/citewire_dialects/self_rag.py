"""The dialect of `/api/rag-chat/stream`: `decision`, `retrieval`, `content`, `assessment`, then `done`."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StrictBool, StrictInt

from citewire_dialects import events
from citewire_dialects.dialect import AnswerDialect, ChatStreamDialect, quoted
from citewire_dialects.events import Citations, Done, Event, Tokens
from citewire_dialects.schemas import CollectionName, KnownType, Score
from citewire_dialects.schemas.chat import Assessment, Decision, event_payload
from citewire_dialects.schemas.questions import ChatRequest, ForeignRequest, Messages
from citewire_http.api.reading import Names, struct_to_json
from citewire_http.api.schemas import Count, Id, ResponseModel, Rounded
from citewire_kit.errors import CitewireError


class SelfRagRequest(ForeignRequest):
    """A conversation about saved articles and repositories."""

    messages: Messages = Field(description="Oldest first; the last one is the user's question.")
    top_k: Annotated[StrictInt, Field(ge=1, le=30)] = Field(default=10, description="Number of chunks.")
    min_score: Score = Field(default=0.3, description="Lowest cosine similarity of a chunk.")
    collection: CollectionName | None = Field(default=None, description="Only this collection (feed).")
    judge_relevance: StrictBool = Field(default=False, description="Has the model leave out irrelevant passages.")

    def native(self) -> ChatRequest:
        """See `ForeignRequest`; the profile determines whether relevance is judged."""
        return ChatRequest.model_construct(**{name: value for name, value in self if name != "judge_relevance"})


class SelfRagSource(ResponseModel):
    """A retrieved article or repository. Fields that don't apply to its type are null."""

    parts = ("chunk", "result")
    names: ClassVar[Names] = {"content": "text", "source_type": "type", "url": "chunk.url"}

    id: str = Field(examples=["1042"])
    index: Id = Field(examples=[1])
    content: str = Field(examples=["Vector search …"])
    score: Rounded | None = Field(examples=[0.742])
    source_type: KnownType = Field(examples=["article"])
    title: str = Field(examples=["Vector search"])
    url: str | None = Field(examples=["https://example.org/vectors"])
    owner_login: str | None = Field(examples=[None])
    owner_avatar_url: str | None = Field(examples=[None])
    stargazers_count: int | None = Field(examples=[None])
    language: str | None = Field(examples=[None])
    description: str | None = Field(examples=[None])

    @classmethod
    def of(cls, citation: events.Citation) -> Self:
        """Describes a passage that was placed in the prompt."""
        chunk = citation.chunk
        metadata = struct_to_json(chunk.metadata) if chunk.type == "repository" else {}
        stars = metadata.get("stargazers_count")
        return cls.read(
            citation,
            id=str(chunk.chunk_id),
            owner_login=metadata.get("owner_login"),
            owner_avatar_url=metadata.get("owner_avatar_url"),
            stargazers_count=int(stars) if isinstance(stars, int | float) else None,
            language=metadata.get("language"),
            description=metadata.get("description"),
        )


class SelfRagRetrieval(ResponseModel):
    """The retrieved passages."""

    total: Count = Field(examples=[1])
    sources: list[SelfRagSource]


class SelfRagContent(ResponseModel):
    """A fragment of the answer's text."""

    delta: str = Field(examples=["It compares vectors [ref:1]."])


class SelfRagDone(ResponseModel):
    """The end of a stream that succeeded."""

    message: Literal["completed"]


class SelfRagError(ResponseModel):
    """The end of a stream that failed."""

    message: str = Field(examples=["the model provider went away"])


class SelfRagAnswer(ResponseModel):
    """The whole answer as one body."""

    decision: Decision
    retrieval: SelfRagRetrieval | None = Field(description="null if no retrieval was needed.")
    content: str = Field(examples=["It compares vectors [ref:1]."])
    assessment: Assessment


SELF_RAG_EVENTS: Mapping[str, type[ResponseModel]] = {
    "decision": Decision,
    "retrieval": SelfRagRetrieval,
    "content": SelfRagContent,
    "assessment": Assessment,
    "done": SelfRagDone,
    "error": SelfRagError,
}
"""Events of `/api/rag-chat/stream`."""


class SelfRagDialect(ChatStreamDialect):
    """Frames `event: TYPE`, `data: JSON`. If the answer fails, the stream ends with `error`."""

    name: ClassVar[str] = "self_rag"

    def encode(self, event: Event) -> bytes:
        """See `StreamDialect.encode`."""
        match event:
            case Tokens(texts=texts):
                return "".join([f'event: content\ndata: {{"delta": {quoted(text)}}}\n\n' for text in texts]).encode()
            case Citations(citations=citations):
                return _frame("retrieval", _retrieval(citations))
            case events.Decision() | events.Assessment():
                return _frame(event.type, event_payload(event))
            case Done():
                return _frame("done", SelfRagDone(message="completed"))
            case _:
                return b""

    def failed(self, error: CitewireError) -> bytes:
        """See `StreamDialect.failed`."""
        return _frame("error", SelfRagError(message=error.message))


class SelfRagJsonAnswer(AnswerDialect):
    """Decision, sources, answer and assessment in one body."""

    name: ClassVar[str] = "self_rag_json"

    def body(self) -> SelfRagAnswer:
        """See `AnswerDialect.body`."""
        return SelfRagAnswer(
            decision=Decision.read(self.all(events.Decision)[0]),
            retrieval=_retrieval(self.citations) if self.all(Citations) else None,
            content=self.text,
            assessment=Assessment.read(self.all(events.Assessment)[0]),
        )


def _retrieval(citations: Sequence[events.Citation]) -> SelfRagRetrieval:
    sources = [SelfRagSource.of(citation) for citation in citations]
    return SelfRagRetrieval(total=len(sources), sources=sources)


def _frame(name: str, data: ResponseModel) -> bytes:
    return f"event: {name}\n{data.frame()}".encode()
