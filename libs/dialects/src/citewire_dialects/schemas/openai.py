"""Bodies of the compatible APIs.

What they know of the originals' members is honoured; of the others those values that change nothing are taken, as
clients send many. Any other value, and any other member, is refused by name: nothing is passed over.
"""

import json
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import (
    MISSING,
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    field_validator,
    model_validator,
)

from citewire_dialects.schemas import ScopeFields, Score
from citewire_dialects.schemas.chat import VerifiedCitation
from citewire_dialects.schemas.questions import MAX_MESSAGES
from citewire_http.api.schemas import Count, OpenAiError, RequestModel, ResponseModel


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
_NO_MEDIA = "answers are text"


def _readable(kind: object) -> object:
    """Says of a part that can't be read what to do with it."""
    if kind in ("file", "input_audio"):
        raise ValueError(f"a part of type {kind} can't be read: add it to the library with POST /v1/documents")
    return kind


def _is_function(kind: object) -> object:
    if kind == "custom":
        raise ValueError("must be function: a custom tool's text has no form that every provider takes")
    return kind


Unread = Annotated[Any, Field(default=None, description="Not read: it changes no answer.", exclude=True)]


class ImageUrl(RequestModel):
    """A picture."""

    url: StrictStr = Field(description="`https://…`, or `data:image/png;base64,…`.")
    detail: Literal["auto", "low", "high"] | None = None


class ContentPart(RequestModel):
    """A part of a message: text, or in a user's message a picture, where the model reads pictures."""

    type: Annotated[Literal["text", "image_url", "refusal"], BeforeValidator(_readable)]
    text: StrictStr = ""
    image_url: ImageUrl | None = None
    refusal: StrictStr = ""
    annotations: Unread
    prompt_cache_breakpoint: Unread

    @model_validator(mode="after")
    def _has_what_its_type_says(self) -> Self:
        if self.type not in self.model_fields_set:
            raise ValueError(f"{self.type} is required in a part of type {self.type}")
        return self


class FunctionCall(BaseModel):
    """What is called."""

    name: StrictStr = Field(examples=["weather"])
    arguments: StrictStr = Field(description="JSON, as the model wrote it.", examples=['{"city": "Oslo"}'])


class ToolCallParam(BaseModel):
    """A call of a tool that the caller runs."""

    id: StrictStr = Field(examples=["call_0a1b2c"])
    type: Literal["function"]
    function: FunctionCall


class CompletionMessage(RequestModel):
    """A message of the conversation. An answer may be sent back with all that it came with."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: (
        Annotated[
            Annotated[StrictStr, Tag("text")] | Annotated[list[ContentPart], Tag("parts")],
            Discriminator(lambda value: "parts" if isinstance(value, list) else "text"),
        ]
        | None
    ) = None
    name: Unread
    annotations: Unread
    citewire: Unread
    parsed: Unread
    refusal: StrictStr | None = None
    tool_calls: list[ToolCallParam] | None = None
    tool_call_id: StrictStr | None = None
    audio: Annotated[Any, only(why=_NO_MEDIA)] = absent()
    function_call: Annotated[Any, only(why="use tool_calls")] = absent()

    @model_validator(mode="after")
    def _fits_its_role(self) -> Self:
        if self.role != "assistant" and (self.tool_calls or self.refusal):
            raise ValueError("tool_calls and refusal are the assistant's alone")
        if (self.role == "tool") != (self.tool_call_id is not None):
            raise ValueError("tool_call_id is required in a message of role tool, and in no other")
        if self.content is None and not (self.role == "assistant" and (self.tool_calls or self.refusal)):
            raise ValueError("content is required")
        if self.role != "user" and self.images:
            raise ValueError("images can be read in messages of role user alone")
        return self

    @property
    def text(self) -> str:
        """The message's text."""
        if isinstance(self.content, list):
            return "".join(part.text or part.refusal for part in self.content)
        return self.content or self.refusal or ""

    @property
    def images(self) -> list[ImageUrl]:
        """Its pictures."""
        parts = self.content if isinstance(self.content, list) else []
        return [part.image_url for part in parts if part.image_url is not None]


class FunctionParam(RequestModel):
    """A function that the caller runs."""

    name: StrictStr = Field(examples=["weather"])
    description: StrictStr | None = None
    parameters: dict[str, Any] | None = Field(default=None, description="JSON schema of the object that it takes.")
    strict: StrictBool | None = None


class ToolParam(RequestModel):
    """A tool."""

    type: Annotated[Literal["function"], BeforeValidator(_is_function)]
    function: FunctionParam


class FunctionName(RequestModel):
    """The function to call."""

    name: StrictStr


class NamedTool(RequestModel):
    """The one tool that is to be called."""

    type: Annotated[Literal["function"], BeforeValidator(_is_function)]
    function: FunctionName


class JsonSchemaParam(RequestModel):
    """What a JSON answer follows."""

    name: StrictStr = Field(examples=["invoice"])
    description: StrictStr | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema", description="JSON schema, 2020-12.")
    strict: StrictBool | None = None


class ResponseFormat(RequestModel):
    """Whether the answer is JSON. Each annotation of the message says the value's pointer."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaParam | None = None

    @model_validator(mode="after")
    def _has_its_schema(self) -> Self:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise ValueError("json_schema is required with the type json_schema, and has no meaning with others")
        return self


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
    if not any(message.role == "user" for message in messages):
        raise ValueError("there must be a message of role user, which asks")
    if messages[-1].role not in ("user", "tool"):
        raise ValueError("the last message must be the user's, or what a tool gave back")
    return messages


Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
Penalty = Annotated[float, Field(strict=True, ge=-2, le=2, allow_inf_nan=False)]


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
    tools: list[ToolParam] | None = Field(
        default=None, description="Up to 128 functions that the caller runs, where the model has tools."
    )
    tool_choice: (
        Annotated[
            Annotated[Literal["none", "auto", "required"], Tag("mode")] | Annotated[NamedTool, Tag("named")],
            Discriminator(lambda value: "mode" if isinstance(value, str) else "named"),
        ]
        | None
    ) = None
    parallel_tool_calls: StrictBool | None = None
    functions: Annotated[Any, only([], why="use tools")] = absent()
    function_call: Annotated[Any, only("none", "auto", why="use tool_choice")] = absent()
    response_format: ResponseFormat | None = Field(
        default=None, description="JSON instead of text. What can't be given in that form is a `refusal`."
    )
    modalities: Annotated[Any, only(["text"], why=_NO_MEDIA)] = absent()
    audio: Annotated[Any, only(why=_NO_MEDIA)] = absent()
    top_p: Share | None = Field(
        default=None, description="Refused where the provider doesn't take it; so are those below."
    )
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    seed: Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: StrictStr | Annotated[list[StrictStr], Field(max_length=4)] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    logit_bias: Annotated[Any, only({}, why="models number their tokens differently")] = absent()
    logprobs: Annotated[Any, only(False, why="no provider's are passed on")] = absent()
    top_logprobs: Annotated[Any, only(0, why="no provider's are passed on")] = absent()
    prediction: Annotated[Any, only(why="nothing is predicted")] = absent()
    web_search_options: Annotated[Any, only(why="answers come from documents")] = absent()
    store: StrictBool | None = Field(
        default=None, description="False keeps no conversation, true keeps one; absent, the profile says what is kept."
    )
    moderation: Annotated[Any, only(why="nothing is moderated here; the model's provider may")] = absent()
    service_tier: Annotated[Any, only("auto", "default", why="there is one")] = absent()
    metadata: Unread
    user: Unread
    safety_identifier: Unread
    prompt_cache_key: Unread
    prompt_cache_options: Unread
    prompt_cache_retention: Unread
    citewire: Extras = Field(default_factory=Extras)

    @field_validator("stream_options", "citewire", mode="before")
    @classmethod
    def _null_is_absent(cls, value: object) -> object:
        return {} if value is None else value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.store is False and self.citewire.conversation_id is not None:
            raise ValueError("store must not be false where citewire.conversation_id continues a conversation")
        if not self.tools and (isinstance(self.tool_choice, NamedTool) or self.tool_choice == "required"):
            raise ValueError("tool_choice names tools, and there are none: give tools")
        return self


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
    content: str = Field(
        description="Empty where there is a refusal, or nothing but tool calls.",
        examples=["Revenue grew by 12 %[ref:1]."],
    )
    refusal: str | None = Field(description="Why there is no JSON, with `response_format`.", examples=[None])
    annotations: list[Annotation]
    tool_calls: list[ToolCallParam] | MISSING = MISSING


class CompletionChoice(ResponseModel):
    """There is one."""

    index: Count = Field(examples=[0])
    message: AnswerMessage
    logprobs: None
    finish_reason: Literal["stop", "length", "content_filter", "tool_calls"]


class Completion(ResponseModel):
    """A chat completion."""

    id: str = Field(examples=["chatcmpl-0a1b2c"])
    created: Count = Field(examples=[1768470000])
    model: str = Field(examples=["grounded"])
    object: Literal["chat.completion"]
    choices: list[CompletionChoice]
    usage: CompletionUsage


class FunctionChunk(ResponseModel):
    """What is new of a call's function."""

    name: str | MISSING = Field(default=MISSING, description="Of a call's first delta.", examples=["weather"])
    arguments: str = Field(examples=['{"ci'])


class ToolCallChunk(ResponseModel):
    """What is new of a tool call."""

    index: Count = Field(examples=[0])
    id: str | MISSING = Field(default=MISSING, description="Of a call's first delta.", examples=["call_0a1b2c"])
    type: Literal["function"] | MISSING = MISSING
    function: FunctionChunk


class Delta(ResponseModel):
    """What is new."""

    role: Literal["assistant"] | MISSING = MISSING
    content: str | MISSING = Field(default=MISSING, examples=["Revenue grew"])
    refusal: str | MISSING = Field(default=MISSING, description="Why there is no JSON, with `response_format`.")
    tool_calls: list[ToolCallChunk] | MISSING = MISSING
    annotations: list[Annotation] | MISSING = Field(default=MISSING, description="Of the last delta with a choice.")


class ChunkChoice(ResponseModel):
    """There is one."""

    index: Count = Field(examples=[0])
    delta: Delta
    logprobs: None
    finish_reason: Literal["stop", "length", "content_filter", "tool_calls"] | None = Field(examples=[None])


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
