"""Bodies of the compatible APIs.

What they know of the originals' members is honoured; of the others those values that change nothing are taken, as
clients send many. Any other value, and any other member, is refused by name: nothing is passed over.
"""

import json
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import MISSING, AfterValidator, BeforeValidator, Field, StrictBool, StrictInt, StrictStr, field_validator

from citewire_dialects.schemas import ScopeFields, Score
from citewire_dialects.schemas.chat import VerifiedCitation
from citewire_dialects.schemas.questions import MAX_MESSAGES
from citewire_http.api.schemas import Count, OpenAiError, RequestModel, ResponseModel

MAX_INPUTS = 256
MAX_TEXTS = 1000


def only(*values: object, why: str) -> BeforeValidator:
    """Takes a member whose value changes nothing, null among them."""

    def check(value: object) -> object:
        if value is not None and value not in values:
            shown = ", ".join(json.dumps(value) for value in values)
            raise ValueError(f"must be {shown or 'null'} or absent: {why}")
        return value

    return BeforeValidator(check)


def absent() -> Any:  # noqa: ANN401 # as `Field` itself
    """The default of a member that isn't kept."""
    return Field(default=None, exclude=True)


NO_SAMPLING = "how tokens are chosen is set by temperature alone"
NO_TOOLS = "answers come from documents, not from tools"
_NO_MEDIA = "questions and answers are text"
Unread = Annotated[Any, Field(default=None, description="Not read: it changes no answer.", exclude=True)]


class ContentPart(RequestModel):
    """A part of a message; only parts of type `text` can be read."""

    type: Literal["text"]
    text: StrictStr
    annotations: Unread


class CompletionMessage(RequestModel):
    """A message of the conversation. An answer may be sent back with all that it came with."""

    role: Literal["system", "developer", "user", "assistant"]
    content: StrictStr | list[ContentPart]
    name: Unread
    annotations: Unread
    citewire: Unread
    refusal: Annotated[Any, only(why="it would be an answer of another kind")] = absent()
    audio: Annotated[Any, only(why=_NO_MEDIA)] = absent()
    tool_calls: Annotated[Any, only([], why=NO_TOOLS)] = absent()
    function_call: Annotated[Any, only(why=NO_TOOLS)] = absent()

    @property
    def text(self) -> str:
        """The message's text."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class StreamOptions(RequestModel):
    """What a stream says beyond the text."""

    include_usage: StrictBool = False
    include_obfuscation: Annotated[Any, only(False, why="nothing is obfuscated")] = absent()


class Extras(ScopeFields):
    """What Citewire takes beyond OpenAI's fields, as `extra_body={"citewire": {…}}`."""

    top_k: StrictInt | None = None
    min_score: Score | None = None
    conversation_id: UUID | None = None
    grace_seconds: Annotated[StrictInt, Field(ge=0, le=60)] = 0
    detach: StrictBool = False


def _ends_with_the_user(messages: list[CompletionMessage]) -> list[CompletionMessage]:
    if messages[-1].role != "user":
        raise ValueError("the last message must be the user's")
    return messages


class CompletionRequest(RequestModel):
    """A conversation whose last message is the question."""

    model: Annotated[StrictStr, Field(max_length=300)] = Field(
        description="A profile, such as `grounded`; a chat model may follow a slash: `grounded/openai/gpt-4.1`."
    )
    messages: Annotated[
        list[CompletionMessage], Field(min_length=1, max_length=MAX_MESSAGES), AfterValidator(_ends_with_the_user)
    ] = Field(description="Oldest first. System messages are instructions beyond our own.")
    stream: StrictBool = False
    stream_options: StreamOptions = Field(default_factory=StreamOptions)
    max_tokens: Annotated[StrictInt, Field(ge=1, le=32_768)] | None = None
    max_completion_tokens: Annotated[StrictInt, Field(ge=1, le=32_768)] | None = None
    temperature: Annotated[float, Field(strict=True, ge=0, le=2, allow_inf_nan=False)] | None = Field(
        default=None, description="A provider that takes none says so in a step."
    )
    n: Annotated[Any, only(1, why="there is one answer")] = absent()
    tools: Annotated[Any, only([], why=NO_TOOLS)] = absent()
    functions: Annotated[Any, only([], why=NO_TOOLS)] = absent()
    tool_choice: Annotated[Any, only("none", "auto", why=NO_TOOLS)] = absent()
    function_call: Annotated[Any, only("none", "auto", why=NO_TOOLS)] = absent()
    parallel_tool_calls: Annotated[Any, only(True, False, why=NO_TOOLS)] = absent()
    response_format: Annotated[Any, only({"type": "text"}, why="an answer is text with citations")] = absent()
    modalities: Annotated[Any, only(["text"], why=_NO_MEDIA)] = absent()
    audio: Annotated[Any, only(why=_NO_MEDIA)] = absent()
    top_p: Annotated[Any, only(1, why=NO_SAMPLING)] = absent()
    frequency_penalty: Annotated[Any, only(0, why=NO_SAMPLING)] = absent()
    presence_penalty: Annotated[Any, only(0, why=NO_SAMPLING)] = absent()
    logit_bias: Annotated[Any, only({}, why=NO_SAMPLING)] = absent()
    seed: Annotated[Any, only(why=NO_SAMPLING)] = absent()
    stop: Annotated[Any, only([], why="an answer ends where its model ends it")] = absent()
    logprobs: Annotated[Any, only(False, why="no provider's are passed on")] = absent()
    top_logprobs: Annotated[Any, only(0, why="no provider's are passed on")] = absent()
    prediction: Annotated[Any, only(why="nothing is predicted")] = absent()
    reasoning_effort: Annotated[Any, only(why="it is the operator's to set")] = absent()
    verbosity: Annotated[Any, only("medium", why="it is the profile's instructions that say how long")] = absent()
    web_search_options: Annotated[Any, only(why="answers come from documents")] = absent()
    store: Annotated[Any, only(False, why="a profile says what is kept")] = absent()
    service_tier: Annotated[Any, only("auto", "default", why="there is one")] = absent()
    metadata: Unread
    user: Unread
    safety_identifier: Unread
    prompt_cache_key: Unread
    prompt_cache_retention: Unread
    citewire: Extras = Field(default_factory=Extras)

    @field_validator("stream_options", "citewire", mode="before")
    @classmethod
    def _null_is_absent(cls, value: object) -> object:
        return {} if value is None else value


class EmbeddingsRequest(RequestModel):
    """Texts to embed."""

    input: StrictStr | Annotated[list[StrictStr], Field(min_length=1, max_length=MAX_INPUTS)] = Field(
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
    user: Unread

    def texts(self) -> list[str]:
        """The texts, also where it is one."""
        return [self.input] if isinstance(self.input, str) else self.input


class RerankDocument(RequestModel):
    """A text in an object, as some clients send it."""

    text: StrictStr


class RerankBody(RequestModel):
    """Texts to order by their relevance to a query."""

    query: Annotated[StrictStr, Field(min_length=1)]
    documents: Annotated[list[StrictStr | RerankDocument], Field(min_length=1, max_length=MAX_TEXTS)]
    model: Annotated[StrictStr, Field(max_length=200)] | None = None
    top_n: Annotated[StrictInt, Field(ge=1)] | None = None
    return_documents: StrictBool = False

    def texts(self) -> list[str]:
        """The texts alone."""
        return [document if isinstance(document, str) else document.text for document in self.documents]


class UrlCitation(ResponseModel):
    """Where a marker stands in the text, and what it leads to."""

    start_index: Count = Field(examples=[20])
    end_index: Count = Field(examples=[27])
    url: str = Field(examples=["http://127.0.0.1:8080/v1/documents/7/content?version=1#page=3"])
    title: str = Field(examples=["report.pdf § Results"])


class Annotation(ResponseModel):
    """A citation as OpenAI's clients read it."""

    citewire: VerifiedCitation | MISSING = Field(
        default=MISSING, description="Of a verified sentence; OpenAI's clients don't know it, and pass it on."
    )
    type: Literal["url_citation"]
    url_citation: UrlCitation


class CompletionUsage(ResponseModel):
    """Tokens of the chat model."""

    prompt_tokens: Count = Field(examples=[812])
    completion_tokens: Count = Field(examples=[44])
    total_tokens: Count = Field(examples=[856])


class AnswerMessage(ResponseModel):
    """The answer."""

    role: Literal["assistant"]
    content: str = Field(examples=["Revenue grew by 12 %[ref:1]."])
    refusal: None
    annotations: list[Annotation]


class CompletionChoice(ResponseModel):
    """There is one."""

    index: Count = Field(examples=[0])
    message: AnswerMessage
    logprobs: None
    finish_reason: Literal["stop", "length", "content_filter"]


class Completion(ResponseModel):
    """A chat completion."""

    id: str = Field(examples=["chatcmpl-0a1b2c"])
    created: Count = Field(examples=[1768470000])
    model: str = Field(examples=["grounded"])
    object: Literal["chat.completion"]
    choices: list[CompletionChoice]
    usage: CompletionUsage


class Delta(ResponseModel):
    """What is new."""

    role: Literal["assistant"] | MISSING = MISSING
    content: str | MISSING = Field(default=MISSING, examples=["Revenue grew"])
    annotations: list[Annotation] | MISSING = Field(default=MISSING, description="Of the last delta with a choice.")


class ChunkChoice(ResponseModel):
    """There is one."""

    index: Count = Field(examples=[0])
    delta: Delta
    logprobs: None
    finish_reason: Literal["stop", "length", "content_filter"] | None = Field(examples=[None])


class CompletionChunk(ResponseModel):
    """A piece of a chat completion."""

    id: str = Field(examples=["chatcmpl-0a1b2c"])
    created: Count = Field(examples=[1768470000])
    model: str = Field(examples=["grounded"])
    object: Literal["chat.completion.chunk"]
    choices: list[ChunkChoice]
    usage: CompletionUsage | MISSING | None = Field(
        default=MISSING,
        description="With `include_usage`: null, and on the last chunk, which has no choice, the tokens.",
    )


class CompletionFault(ResponseModel):
    """The end of a stream that failed."""

    error: OpenAiError


COMPLETION_STREAM = (CompletionChunk, CompletionFault)


class ModelInfo(ResponseModel):
    """A profile as a model to ask."""

    id: str = Field(examples=["grounded"])
    object: Literal["model"]
    created: int = Field(examples=[1767225600])
    owned_by: str = Field(examples=["citewire"])


class ModelList(ResponseModel):
    """The profiles."""

    object: Literal["list"]
    data: list[ModelInfo]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


class Embedding(ResponseModel):
    """A text's vector."""

    object: Literal["embedding"]
    index: Count = Field(examples=[0])
    embedding: list[float] | str = Field(
        description="Numbers, or with `base64` little-endian float32.", examples=[[0.0123, -0.0456]]
    )


class EmbeddingUsage(ResponseModel):
    """Tokens of the embedding model."""

    prompt_tokens: Count = Field(examples=[5])
    total_tokens: Count = Field(examples=[5])


class Embeddings(ResponseModel):
    """A vector per text, in order."""

    object: Literal["list"]
    data: list[Embedding]
    model: str = Field(examples=["all-MiniLM-L6-v2"])
    usage: EmbeddingUsage


class RerankResult(ResponseModel):
    """A text's relevance."""

    index: Count = Field(description="Of the text in the request.", examples=[1])
    relevance_score: float = Field(examples=[0.91])
    document: RerankDocument | MISSING = Field(default=MISSING, description="With `return_documents`.")


class RerankResults(ResponseModel):
    """Indices and scores, best first."""

    id: str = Field(examples=["0a1b2c"])
    model: str = Field(examples=["default"])
    results: list[RerankResult]
