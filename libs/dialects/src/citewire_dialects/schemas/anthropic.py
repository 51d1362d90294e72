"""Bodies of Anthropic's Messages API, as its clients send and read them.

As with OpenAI's: what would change an answer and isn't done is refused by name; what changes none is passed over.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StrictBool, StrictStr, model_validator

from citewire_dialects.schemas.anthropic_blocks import (
    MAX_BROUGHT,
    AnthropicTool,
    MessageParam,
    TextParam,
    ToolChoiceParam,
    text_of,
)
from citewire_dialects.schemas.chat import VerifiedCitation
from citewire_dialects.schemas.compatible import (
    NO_SAMPLING,
    NO_TEMPERATURE,
    CompatibleRequest,
    MaxTokens,
    Unread,
    absent,
    only,
)
from citewire_dialects.schemas.questions import MAX_MESSAGES
from citewire_http.api.schemas import Count, JsonObject, ResponseModel
from citewire_kit.token_estimate import MESSAGE_OVERHEAD, estimate_tokens


def _end_with_a_question(messages: list[MessageParam]) -> list[MessageParam]:
    last = messages[-1]
    if last.role != "user":
        raise ValueError("the last message must be the user's: prefilled answers aren't supported")
    if not last.has_question and not last.results:
        raise ValueError("the last message must contain a question or a tool's result")
    if not any(message.has_question for message in messages):
        raise ValueError("must contain a text by the user, which is the question")
    if (count := sum(len(result.content) for message in messages for result in message.search_results)) > MAX_BROUGHT:
        raise ValueError(f"must contain at most {MAX_BROUGHT:,} texts of search results, but has {count:,}")
    return messages


NO_SERVERS = "tools are run by the caller"


class MessagesRequest(CompatibleRequest):
    """A conversation whose last message is the question."""

    messages: Annotated[
        list[MessageParam], Field(min_length=1, max_length=MAX_MESSAGES), AfterValidator(_end_with_a_question)
    ] = Field(description="Oldest first.")
    max_tokens: MaxTokens
    system: StrictStr | list[TextParam] = Field(default="", description="Instructions in addition to ours.")
    stream: StrictBool = False
    temperature: Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)] | None = Field(
        default=None, description=NO_TEMPERATURE
    )
    tools: list[AnthropicTool] | None = Field(default=None, description="Tools that the caller runs.")
    tool_choice: ToolChoiceParam | None = None
    mcp_servers: Annotated[Any, only([], why=NO_SERVERS)] = absent()
    container: Annotated[Any, only(why=NO_SERVERS)] = absent()
    stop_sequences: Annotated[Any, only([], why="an answer ends where its model ends it")] = absent()
    thinking: Annotated[Any, only({"type": "disabled"}, why="only the operator can set it")] = absent()
    output_config: Annotated[Any, only({}, why="an answer is text with citations")] = absent()
    output_format: Annotated[Any, only(why="an answer is text with citations")] = absent()
    top_k: Annotated[Any, only(why=f"{NO_SAMPLING}; how many passages are searched is `citewire.top_k`")] = absent()
    top_p: Annotated[Any, only(1, why=NO_SAMPLING)] = absent()
    service_tier: Annotated[Any, only("auto", "standard_only", why="there is only one tier")] = absent()
    metadata: Unread
    cache_control: Unread

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        choice = self.tool_choice
        if choice is not None and choice.type in ("any", "tool") and not self.tools:
            raise ValueError("tool_choice requires tools")
        if self.citewire.conversation_id is not None and any(message.search_results for message in self.messages):
            raise ValueError("citewire.conversation_id: must be absent with search results, because they aren't stored")
        return self


class CountRequest(MessagesRequest):
    """A conversation for counting tokens."""

    max_tokens: MaxTokens = Field(default=1, description="Ignored.")


class CountDetails(ResponseModel):
    """The result of a token count."""

    estimated: Literal[True] = Field(
        description="Estimated from the text's length and script, because models' vocabularies differ."
    )
    passages: Literal["not_counted"] = Field(description="Passages are found only when the question is asked.")


class TokenCount(ResponseModel):
    """Tokens of the messages and the system prompt, as they are budgeted here."""

    input_tokens: Count = Field(examples=[14])
    citewire: CountDetails = Field(description="Anthropic's clients pass it through.")

    @classmethod
    def of(cls, body: CountRequest) -> Self:
        """Counts a conversation."""
        texts = [text for message in body.messages for text in message.texts if text]
        texts += [system] if (system := text_of(body.system)) else []
        texts += [tool.model_dump_json(exclude_none=True) for tool in body.tools or ()]
        count = sum(estimate_tokens(text) + MESSAGE_OVERHEAD for text in texts)
        return cls(input_tokens=count, citewire=CountDetails(estimated=True, passages="not_counted"))


_NOT_RELEASED = datetime.fromtimestamp(0, UTC)


class ModelEntry(ResponseModel):
    """A profile as a model."""

    id: str = Field(examples=["grounded"])
    type: Literal["model"]
    display_name: str = Field(examples=["grounded"])
    created_at: datetime = Field(description="1970 for built-in profiles.")
    lifecycle: Literal["active"]

    @classmethod
    def of(cls, name: str, created_at: datetime | None = None) -> Self:
        """Returns the entry of a profile."""
        created = created_at or _NOT_RELEASED
        return cls(id=name, type="model", display_name=name, created_at=created, lifecycle="active")


class ModelEntries(ResponseModel):
    """A page of profiles, by name."""

    data: list[ModelEntry]
    has_more: bool
    first_id: str | None = Field(examples=["grounded"])
    last_id: str | None = Field(examples=["simple"])

    @classmethod
    def page(cls, entries: Iterable[ModelEntry], limit: int, after: str | None, before: str | None) -> Self:
        """Returns the page after an entry, or before another, or else the first."""
        rest = sorted(entries, key=lambda entry: entry.id)
        if after is not None:
            rest = [entry for entry in rest if entry.id > after]
        elif before is not None:
            rest = [entry for entry in rest if entry.id < before]
        data = rest[-limit:] if after is None and before is not None else rest[:limit]
        ends = {"first_id": data[0].id if data else None, "last_id": data[-1].id if data else None}
        return cls(data=data, has_more=len(rest) > len(data), **ends)


class CharLocation(ResponseModel):
    """A text span of a document, by offsets in its stored text (`GET /v1/documents/{document_id}/text`)."""

    type: Literal["char_location"]
    cited_text: str = Field(examples=["Revenue grew by 12 %"])
    document_index: Count = Field(description="Number of the passage, from 0.", examples=[0])
    document_title: str = Field(examples=["report.pdf § Results"])
    start_char_index: Count = Field(examples=[2210])
    end_char_index: Count = Field(description="Exclusive.", examples=[2230])
    file_id: str = Field(description="The document's id.", examples=["7"])
    citewire: VerifiedCitation = Field(description="Anthropic's clients pass it through.")


class SearchResultLocation(ResponseModel):
    """A text of a search result in the request, or a passage whose text differs from its document's stored text."""

    type: Literal["search_result_location"]
    cited_text: str = Field(description="The whole text, or passage.", examples=["| Region | Amount |"])
    search_result_index: Count = Field(
        description="Number of the search result in the request, from 0; the library's passages come after them.",
        examples=[0],
    )
    source: str = Field(examples=["http://127.0.0.1:8080/v1/documents/7/content?version=1#row=3"])
    title: str = Field(examples=["sales.csv § row 3"])
    start_block_index: Count = Field(examples=[0])
    end_block_index: Count = Field(examples=[1])
    citewire: VerifiedCitation = Field(description="Anthropic's clients pass it through.")


Reference = CharLocation | SearchResultLocation


class TextBlock(ResponseModel):
    """A sentence of the answer, or several without citations."""

    type: Literal["text"]
    text: str = Field(examples=["Revenue grew by 12 %."])
    citations: list[Reference] | None


class ToolUseBlock(ResponseModel):
    """A call of a tool that the caller runs."""

    type: Literal["tool_use"]
    id: str = Field(examples=["call_0a1b2c"])
    name: str = Field(examples=["weather"])
    input: JsonObject = Field(description="Empty at the start of the block.", examples=[{"city": "Oslo"}])


ContentBlock = TextBlock | ToolUseBlock


class MessageUsage(ResponseModel):
    """Tokens of the chat model."""

    input_tokens: Count = Field(examples=[812])
    cache_read_input_tokens: Count = Field(default=0, examples=[640])
    cache_creation_input_tokens: Count = Field(default=0, examples=[0])
    output_tokens: Count = Field(examples=[44])


StopReason = Literal["end_turn", "max_tokens", "tool_use", "refusal"]


class Message(ResponseModel):
    """An answer."""

    id: str = Field(examples=["msg_0a1b2c"])
    type: Literal["message"]
    role: Literal["assistant"]
    model: str = Field(examples=["grounded"])
    content: list[ContentBlock]
    stop_reason: StopReason | None = Field(examples=["end_turn"])
    stop_sequence: None
    usage: MessageUsage


class MessageStart(ResponseModel):
    """The answer begins; its content is empty and its tokens aren't counted yet."""

    type: Literal["message_start"]
    message: Message


class BlockStart(ResponseModel):
    """A block begins."""

    type: Literal["content_block_start"]
    index: Count = Field(examples=[0])
    content_block: ContentBlock


class TextDelta(ResponseModel):
    """Text of the block."""

    type: Literal["text_delta"]
    text: str = Field(examples=["Revenue grew"])


class InputJsonDelta(ResponseModel):
    """The next piece of the JSON of a call."""

    type: Literal["input_json_delta"]
    partial_json: str = Field(examples=['{"city": '])


class CitationsDelta(ResponseModel):
    """A citation of the block."""

    type: Literal["citations_delta"]
    citation: Reference


class BlockDelta(ResponseModel):
    """The new part of a block."""

    type: Literal["content_block_delta"]
    index: Count = Field(examples=[0])
    delta: TextDelta | InputJsonDelta | CitationsDelta


class BlockStop(ResponseModel):
    """A block is complete."""

    type: Literal["content_block_stop"]
    index: Count = Field(examples=[0])


class MessageEnd(ResponseModel):
    """Why the answer ended."""

    stop_reason: StopReason
    stop_sequence: None


class MessageDelta(ResponseModel):
    """The answer is complete."""

    type: Literal["message_delta"]
    delta: MessageEnd
    usage: MessageUsage


class MessageStop(ResponseModel):
    """Nothing follows."""

    type: Literal["message_stop"]


class AnthropicError(ResponseModel):
    """An error as Anthropic's clients read it."""

    type: str = Field(examples=["api_error"])
    message: str = Field(examples=["the model provider went away"])


class MessageFault(ResponseModel):
    """The end of a stream that failed."""

    type: Literal["error"]
    error: AnthropicError


MessageEvent = MessageStart | BlockStart | BlockDelta | BlockStop | MessageDelta | MessageStop | MessageFault

MESSAGE_EVENTS: Mapping[str, type[ResponseModel]] = {
    "message_start": MessageStart,
    "content_block_start": BlockStart,
    "content_block_delta": BlockDelta,
    "content_block_stop": BlockStop,
    "message_delta": MessageDelta,
    "message_stop": MessageStop,
    "error": MessageFault,
}
"""Events of a stream."""
