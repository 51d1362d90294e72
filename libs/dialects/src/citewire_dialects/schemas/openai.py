"""The request body of OpenAI's chat completions."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
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

from citewire_dialects.schemas.compatible import MaxTokens, OpenAiRequest, Unread, absent, only
from citewire_dialects.schemas.questions import MAX_MESSAGES
from citewire_dialects.schemas.tools import ResponseFormat, ToolCallParam, ToolChoice, ToolParam, check_choice
from citewire_http.api.schemas import RequestModel

_NO_MEDIA = "answers are text"


def _readable(kind: object) -> object:
    """Raises an error that says what to do with an unsupported part."""
    if kind in ("file", "input_audio"):
        raise ValueError(f"a part of type {kind} can't be read: add it to the library with POST /v1/documents")
    return kind


class ImageUrl(RequestModel):
    """A picture."""

    url: StrictStr = Field(description="`https://…`, or `data:image/png;base64,…`.")
    detail: Literal["auto", "low", "high"] | None = None


class ContentPart(RequestModel):
    """A part of a message: text or, in a user's message, an image if the model reads images."""

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


class CompletionMessage(RequestModel):
    """A message of the conversation. An answer may be sent back with all its fields."""

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
            raise ValueError("tool_calls and refusal are allowed only for the assistant")
        if (self.role == "tool") != (self.tool_call_id is not None):
            raise ValueError("tool_call_id is required in a message of role tool, and in no other")
        if self.content is None and not (self.role == "assistant" and (self.tool_calls or self.refusal)):
            raise ValueError("content is required")
        if self.role != "user" and self.images:
            raise ValueError("images are supported only in messages of role user")
        return self

    @property
    def text(self) -> str:
        """The message's text."""
        if isinstance(self.content, list):
            return "".join(part.text or part.refusal for part in self.content)
        return self.content or self.refusal or ""

    @property
    def images(self) -> list[ImageUrl]:
        """The message's images."""
        parts = self.content if isinstance(self.content, list) else []
        return [part.image_url for part in parts if part.image_url is not None]


class StreamOptions(RequestModel):
    """Additional information in a stream."""

    include_usage: StrictBool = False
    include_obfuscation: Annotated[Any, only(False, why="nothing is obfuscated")] = absent()


def _ends_with_the_user(messages: list[CompletionMessage]) -> list[CompletionMessage]:
    if not any(message.role == "user" for message in messages):
        raise ValueError("there must be a message of role user")
    if messages[-1].role not in ("user", "tool"):
        raise ValueError("the last message must be the user's, or a tool's result")
    return messages


Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
Penalty = Annotated[float, Field(strict=True, ge=-2, le=2, allow_inf_nan=False)]


class CompletionRequest(OpenAiRequest):
    """A conversation whose last message is the question."""

    messages: Annotated[
        list[CompletionMessage], Field(min_length=1, max_length=MAX_MESSAGES), AfterValidator(_ends_with_the_user)
    ] = Field(description="Oldest first. System messages are additional instructions.")
    stream: StrictBool = False
    stream_options: StreamOptions = Field(default_factory=StreamOptions)
    max_tokens: MaxTokens | None = None
    max_completion_tokens: MaxTokens | None = None
    n: Annotated[Any, only(1, why="there is always one answer")] = absent()
    tools: list[ToolParam] | None = Field(
        default=None, description="Up to 128 functions that the caller runs, if the model supports tools."
    )
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: StrictBool | None = None
    functions: Annotated[Any, only([], why="use tools")] = absent()
    function_call: Annotated[Any, only("none", "auto", why="use tool_choice")] = absent()
    response_format: ResponseFormat | None = Field(
        default=None, description="JSON instead of text. An answer that doesn't fit is a `refusal`."
    )
    modalities: Annotated[Any, only(["text"], why=_NO_MEDIA)] = absent()
    audio: Annotated[Any, only(why=_NO_MEDIA)] = absent()
    top_p: Share | None = Field(
        default=None, description="Rejected if the provider doesn't support it, like those below."
    )
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    seed: Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: StrictStr | Annotated[list[StrictStr], Field(max_length=4)] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    logit_bias: Annotated[Any, only({}, why="token ids differ between models")] = absent()
    logprobs: Annotated[Any, only(False, why="log probabilities of providers aren't passed on")] = absent()
    prediction: Annotated[Any, only(why="nothing is predicted")] = absent()
    web_search_options: Annotated[Any, only(why="answers come from documents")] = absent()
    store: StrictBool | None = Field(
        default=None, description="False stores no conversation, true stores one; absent: as the profile says."
    )
    metadata: Unread

    @field_validator("stream_options", mode="before")
    @classmethod
    def _null_is_absent(cls, value: object) -> object:
        return {} if value is None else value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.store is False and self.citewire.conversation_id is not None:
            raise ValueError("store must not be false if citewire.conversation_id continues a conversation")
        check_choice(self.tool_choice, self.tools)
        return self
