"""Questions: what a chat takes, over each API."""

import math
from typing import Annotated, Any, Literal, Self, cast
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field, StrictBool, StrictInt, StrictStr, model_validator

from citewire_dialects.profile import EventType
from citewire_dialects.schemas import ScopeFields, Score
from citewire_dialects.schemas.profiles import ProfileOptions
from citewire_dialects.schemas.tools import ResponseFormat, ToolCallParam, ToolChoice, ToolParam, check_choice
from citewire_http.api.schemas import RequestModel

MAX_MESSAGES = 200


class MessagePart(BaseModel):
    """A part of a message, as the AI SDK's clients send it. An answer's parts are accepted; only texts are read."""

    type: StrictStr
    text: StrictStr = ""
    url: StrictStr = Field(
        default="", description="For a part of type `file`: `https://…`, or `data:image/png;base64,…`."
    )
    media_type: StrictStr = Field(default="", alias="mediaType", description="For a part of type `file`.")


class PlainMessage(RequestModel):
    """A message of the request's conversation, with its text as `content` or in `parts`."""

    role: Literal["user", "assistant"]
    content: StrictStr = ""
    parts: list[MessagePart] = Field(default_factory=list[MessagePart])
    id: Any = Field(default=None, description="From the AI SDK's clients; ignored.", exclude=True)
    metadata: Any = Field(default=None, description="From the AI SDK's clients; ignored.", exclude=True)
    created_at: Any = Field(
        default=None, alias="createdAt", description="From the AI SDK's clients; ignored.", exclude=True
    )

    @model_validator(mode="before")
    @classmethod
    def _require_text(cls, value: object) -> object:
        if isinstance(value, dict) and not {"content", "parts", "tool_calls"} & value.keys():
            raise ValueError("content is required (or parts)")
        return cast("object", value)

    @model_validator(mode="after")
    def _join_parts(self) -> Self:
        for part in self.parts if self.role == "user" else ():
            _check_readable(part)
        if not self.content and self.parts:
            self.content = "".join(part.text for part in self.parts if part.type == "text")
        return self

    @property
    def pictures(self) -> list[str]:
        """URLs of a question's images."""
        return [part.url for part in self.parts if part.type == "file"] if self.role == "user" else []


def _check_readable(part: MessagePart) -> None:
    if part.type == "file" and part.media_type.startswith("image/"):
        if not part.url:
            raise ValueError("url is required in a part of type file")
    elif part.type == "file":
        kind = part.media_type[:64] or "no mediaType"
        raise ValueError(
            f"a file of {kind} can't be read with a question: add it to the library with POST /v1/documents"
        )
    elif part.type != "text":
        raise ValueError(f"a question's parts must be of type text or file: {part.type[:64]} isn't supported")


class ChatMessage(PlainMessage):
    """A message of the conversation; with role `tool`, a tool's result."""

    role: Literal["user", "assistant", "tool"]  # pyright: ignore[reportIncompatibleVariableOverride] # nobody sets it
    tool_calls: list[ToolCallParam] | None = Field(default=None, description="For an answer that called tools.")
    tool_call_id: StrictStr | None = Field(default=None, description="For role `tool`: the id of its call.")

    @model_validator(mode="after")
    def _fits_its_role(self) -> Self:
        if self.role != "assistant" and self.tool_calls:
            raise ValueError("tool_calls are allowed only for the assistant")
        if (self.role == "tool") != (self.tool_call_id is not None):
            raise ValueError("tool_call_id is required in a message of role tool, and in no other")
        return self


def _ends_with_the_user(messages: list[PlainMessage]) -> list[PlainMessage]:
    if messages[-1].role != "user":
        raise ValueError("the last message must be the user's")
    return messages


def _ends_with_what_is_asked(messages: list[ChatMessage]) -> list[ChatMessage]:
    if not any(message.role == "user" for message in messages):
        raise ValueError("there must be a message of role user")
    if messages[-1].role == "assistant":
        raise ValueError("the last message must be the user's, or a tool's result")
    return messages


Messages = Annotated[
    list[PlainMessage], Field(min_length=1, max_length=MAX_MESSAGES), AfterValidator(_ends_with_the_user)
]


class ChatRequest(ScopeFields):
    """A question, as `question` or as the last of `messages`."""

    question: StrictStr | None = Field(
        default=None,
        description="Required unless `messages` is given. 1 byte to 32 KiB.",
        examples=["How much did revenue grow?"],
    )
    messages: (
        Annotated[
            list[ChatMessage],
            Field(min_length=1, max_length=MAX_MESSAGES),
            AfterValidator(_ends_with_what_is_asked),
        ]
        | None
    ) = Field(
        default=None,
        description="The conversation, oldest first. The last user message is the question; only tool calls and their "
        "results may follow it.",
    )
    profile: StrictStr | None = Field(default=None, description="See `GET /v1/profiles`; none means `documents`.")
    conversation_id: UUID | None = Field(default=None, description="Continues a conversation; absent: starts one.")
    top_k: StrictInt | None = Field(default=None, description="Number of chunks, within the profile's limits.")
    min_score: Score | None = Field(default=None, description="Lowest cosine similarity of a chunk.")
    model: Annotated[StrictStr, Field(max_length=200)] | None = Field(default=None, description="The chat model.")
    stream: StrictBool = Field(default=True, description="False answers with one JSON body.")
    include: tuple[Literal["step", "assessment", "citation", "uncited", "cost"], ...] = Field(
        default=(),
        description="Events to show beyond those that the profile shows; `cost` adds `cost_usd` and `path` to `usage`.",
    )
    options: ProfileOptions | None = Field(
        default=None, description="Overrides fields of the profile for this question, within its limits."
    )
    tools: list[ToolParam] | None = Field(
        default=None, description="Up to 128 functions that the caller runs, if the model supports tools."
    )
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: StrictBool | None = None
    response_format: ResponseFormat | None = Field(
        default=None, description="JSON instead of text. An answer that doesn't fit is a `refusal`."
    )
    keep: StrictBool | None = Field(
        default=None,
        description="True stores the chat as a conversation, if the profile leaves that to the request; false doesn't.",
    )
    time_zone: Annotated[StrictStr, Field(max_length=64)] | None = Field(
        default=None,
        description="IANA name of the time zone in which the question's days begin (`yesterday`); none means UTC.",
        examples=["Europe/Berlin"],
    )
    grace_seconds: Annotated[StrictInt, Field(ge=0, le=60)] = Field(
        default=0,
        description="How long the run continues without a reader after its first frame; 0 stops it when its reader "
        "leaves. If above 0, `GET /v1/chat/{run_id}/events` resumes it.",
    )
    detach: StrictBool = Field(default=False, description="True lets the run continue to its end without a client.")
    id: Any = Field(
        default=None,
        description="From the AI SDK's clients: their chat is a conversation, with the dialect `ui-message`.",
        exclude=True,
    )
    trigger: Any = Field(default=None, description="From the AI SDK's clients; ignored.", exclude=True)
    message_id: Any = Field(
        default=None, alias="messageId", description="From the AI SDK's clients; ignored.", exclude=True
    )

    @model_validator(mode="after")
    def _has_what_it_chooses(self) -> Self:
        check_choice(self.tool_choice, self.tools)
        return self

    @property
    def patience(self) -> float:
        """How long the run continues without a reader, in seconds."""
        return math.inf if self.detach else float(self.grace_seconds)

    def events(self) -> frozenset[EventType]:
        """The events to show beyond those that the profile shows."""
        return frozenset(EventType(name) for name in self.include if name != "cost")


class ForeignRequest(RequestModel):
    """A request of another API; its fields are those of `ChatRequest`."""

    def native(self) -> ChatRequest:
        """Returns it as a request of our own API, without validating again."""
        return ChatRequest.model_construct(**dict(self))
