"""Bodies of the compatible APIs. Members that they don't know are passed over, as clients send many."""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field, StrictBool, StrictInt, StrictStr, field_validator

from citewire_gateway.api.schemas import MAX_DOCUMENT_IDS, MAX_MESSAGES, CollectionName, DocumentId, Score, Strict

_MAX_INPUTS = 256
_MAX_TEXTS = 1000


class ContentPart(BaseModel):
    """A part of a message; only parts of type `text` can be read."""

    type: Literal["text"]
    text: StrictStr


class CompletionMessage(BaseModel):
    """A message of the conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: StrictStr | list[ContentPart]

    @property
    def text(self) -> str:
        """The message's text."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class StreamOptions(BaseModel):
    """What a stream says beyond the text."""

    include_usage: StrictBool = False


class Extras(Strict):
    """What Citewire takes beyond OpenAI's fields, as `extra_body={"citewire": {…}}`."""

    document_ids: Annotated[list[DocumentId], Field(max_length=MAX_DOCUMENT_IDS)] | None = None
    collection: CollectionName | None = None
    filter: Any = None
    top_k: StrictInt | None = None
    min_score: Score | None = None
    conversation_id: UUID | None = None


def _asks(messages: list[CompletionMessage]) -> list[CompletionMessage]:
    if messages[-1].role != "user":
        raise ValueError("the last one must be the user's")
    return messages


class CompletionRequest(BaseModel):
    """A conversation whose last message is the question."""

    model: Annotated[StrictStr, Field(max_length=300)] = Field(
        description="A profile, such as `grounded`; a chat model may follow a slash: `grounded/openai/gpt-4.1`."
    )
    messages: Annotated[
        list[CompletionMessage], Field(min_length=1, max_length=MAX_MESSAGES), AfterValidator(_asks)
    ] = Field(description="Oldest first. System messages are instructions beyond our own.")
    stream: StrictBool = False
    stream_options: StreamOptions = Field(default_factory=StreamOptions)
    max_tokens: Annotated[StrictInt, Field(ge=1, le=32_768)] | None = None
    max_completion_tokens: Annotated[StrictInt, Field(ge=1, le=32_768)] | None = None
    n: StrictInt | None = None
    tools: list[Any] | None = None
    citewire: Extras = Field(default_factory=Extras)

    @field_validator("stream_options", "citewire", mode="before")
    @classmethod
    def _null_is_absent(cls, value: object) -> object:
        return {} if value is None else value

    @field_validator("n")
    @classmethod
    def _one_answer(cls, value: int | None) -> int | None:
        if value not in (None, 1):
            raise ValueError("must be 1: there is one answer")
        return value

    @field_validator("tools")
    @classmethod
    def _no_tools(cls, value: list[Any] | None) -> list[Any] | None:
        if value:
            raise ValueError("can't be used: answers come from documents")
        return value


class EmbeddingsRequest(BaseModel):
    """Texts to embed."""

    input: StrictStr | Annotated[list[StrictStr], Field(min_length=1, max_length=_MAX_INPUTS)] = Field(
        description="One text or up to 256; none empty. Token ids can't be taken: models differ."
    )
    model: Annotated[StrictStr, Field(max_length=200)] | None = Field(
        default=None, description="An embedding model; absent or empty means the caller's default."
    )
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[StrictInt, Field(ge=1, le=4096)] | None = None
    input_type: Literal["query", "document"] = Field(
        default="document", description="What for: some models embed questions and passages differently."
    )

    def texts(self) -> list[str]:
        """The texts, also where it is one."""
        return [self.input] if isinstance(self.input, str) else self.input


class RerankDocument(BaseModel):
    """A text in an object, as some clients send it."""

    text: StrictStr


class RerankBody(BaseModel):
    """Texts to order by their relevance to a query."""

    query: Annotated[StrictStr, Field(min_length=1)]
    documents: Annotated[list[StrictStr | RerankDocument], Field(min_length=1, max_length=_MAX_TEXTS)]
    model: Annotated[StrictStr, Field(max_length=200)] | None = None
    top_n: Annotated[StrictInt, Field(ge=1)] | None = None
    return_documents: StrictBool = False

    def texts(self) -> list[str]:
        """The texts alone."""
        return [one if isinstance(one, str) else one.text for one in self.documents]
