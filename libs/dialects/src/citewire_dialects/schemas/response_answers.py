"""Answers of OpenAI's Responses API, as its clients read them: whole, and as events."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field

from citewire_dialects.schemas.chat import VerifiedCitation
from citewire_dialects.schemas.responses import ResponsesRequest
from citewire_http.api.schemas import Count, ResponseModel


class FileCitation(ResponseModel):
    """A document that supports a sentence, at the sentence's end."""

    type: Literal["file_citation"]
    file_id: str = Field(description="The document's id.", examples=["7"])
    filename: str = Field(examples=["report.pdf"])
    index: Count = Field(description="Its position in the text.", examples=[21])
    citewire: VerifiedCitation = Field(description="OpenAI's clients pass it through.")


class OutputText(ResponseModel):
    """The answer's text and its citations."""

    type: Literal["output_text"]
    text: str = Field(examples=["Revenue grew by 12 %."])
    annotations: list[FileCitation]
    logprobs: list[None]


class OutputMessage(ResponseModel):
    """The answer."""

    id: str = Field(examples=["msg_01938f2e4c5a7b109d3e5f0c2a6b7e12"])
    type: Literal["message"]
    role: Literal["assistant"]
    status: Literal["in_progress", "completed", "incomplete"]
    content: list[OutputText]


class FileSearchResult(ResponseModel):
    """A passage that was placed in the prompt."""

    file_id: str = Field(examples=["7"])
    filename: str = Field(examples=["report.pdf"])
    score: float | None = Field(description="Cosine similarity.", examples=[0.742])
    text: str = Field(examples=["Revenue grew by 12 %, …"])
    attributes: dict[str, str | float | bool] = Field(examples=[{}])


class FileSearchCall(ResponseModel):
    """The search of the documents."""

    id: str = Field(examples=["fs_01938f2e4c5a7b109d3e5f0c2a6b7e12"])
    type: Literal["file_search_call"]
    status: Literal["in_progress", "completed"]
    queries: list[str] = Field(examples=[["How much did revenue grow?"]])
    results: list[FileSearchResult] | None


class ResponseFailure(ResponseModel):
    """Why a response failed."""

    code: str = Field(examples=["server_error"])
    message: str = Field(examples=["the model provider went away"])


class Incomplete(ResponseModel):
    """Why an answer is incomplete."""

    reason: Literal["max_output_tokens", "content_filter"]


class InputTokensDetails(ResponseModel):
    """Details of the prompt's tokens."""

    cached_tokens: Count = Field(examples=[0])


class OutputTokensDetails(ResponseModel):
    """Details of the answer's tokens."""

    reasoning_tokens: Count = Field(examples=[0])


class ResponseUsage(ResponseModel):
    """Tokens of the chat model."""

    input_tokens: Count = Field(examples=[812])
    input_tokens_details: InputTokensDetails
    output_tokens: Count = Field(examples=[44])
    output_tokens_details: OutputTokensDetails
    total_tokens: Count = Field(examples=[856])


class ResponseConversation(ResponseModel):
    """The conversation in which question and answer are stored."""

    id: str = Field(examples=["01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11"])


class ResponseSettings(ResponseModel):
    """The fields of a request that its response repeats; stored with the answer."""

    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    metadata: dict[str, str]
    model: str = Field(examples=["grounded"])
    parallel_tool_calls: bool
    previous_response_id: str | None
    store: bool
    temperature: float | None
    text: dict[str, Any] = Field(examples=[{"format": {"type": "text"}}])
    tool_choice: Any = Field(examples=["auto"])
    tools: list[dict[str, Any]]
    truncation: Literal["auto"]

    @classmethod
    def of(cls, request: ResponsesRequest, *, store: bool) -> Self:
        """Returns what a request says; `store`: whether its answer is kept."""
        return cls(
            instructions=request.instructions,
            max_output_tokens=request.max_output_tokens,
            max_tool_calls=request.max_tool_calls,
            metadata=request.metadata or {},
            model=request.model,
            parallel_tool_calls=request.parallel_tool_calls is not False,
            previous_response_id=request.previous_response_id,
            store=store,
            temperature=request.temperature,
            text={"format": {"type": "text"}, "verbosity": "medium"},
            tool_choice=request.tool_choice or "auto",
            tools=[tool.model_dump(mode="json", exclude_none=True) for tool in request.tools or ()],
            truncation="auto",
        )


class ResponseBody(ResponseSettings):
    """A response: the answer, and the request's parameters."""

    id: str = Field(examples=["resp_01938f2e4c5a7b109d3e5f0c2a6b7e12"])
    object: Literal["response"]
    created_at: Count = Field(examples=[1768470000])
    completed_at: Count | None = Field(examples=[1768470002])
    status: Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]
    background: Literal[False]
    error: ResponseFailure | None
    incomplete_details: Incomplete | None
    output: list[FileSearchCall | OutputMessage]
    conversation: ResponseConversation | None
    reasoning: None
    service_tier: Literal["default"]
    top_logprobs: Literal[0]
    top_p: Literal[1]
    usage: ResponseUsage | None
    user: None


class ResponseDeleted(ResponseModel):
    """A response was deleted."""

    id: str = Field(examples=["resp_01938f2e4c5a7b109d3e5f0c2a6b7e12"])
    object: Literal["response"]
    deleted: Literal[True]


class StoredInput(ResponseModel):
    """A message with a question."""

    id: str = Field(examples=["msg_01938f2e4c5a7b109d3e5f0c2a6b7e12_in"])
    type: Literal["message"]
    role: Literal["user"]
    status: Literal["completed"]
    content: list[dict[str, str]] = Field(examples=[[{"type": "input_text", "text": "How much did revenue grow?"}]])


class StoredInputs(ResponseModel):
    """The input that a response answers."""

    object: Literal["list"]
    data: list[StoredInput]
    first_id: str | None
    last_id: str | None
    has_more: Literal[False]


class Numbered(ResponseModel):
    """An event's number in its stream, from 0."""

    sequence_number: Count = Field(examples=[0])


class ResponseEvent(Numbered):
    """The response as it is now."""

    type: Literal[
        "response.created", "response.in_progress", "response.completed", "response.incomplete", "response.failed"
    ]
    response: ResponseBody


class ItemEvent(Numbered):
    """An output item starts, or is complete."""

    type: Literal["response.output_item.added", "response.output_item.done"]
    output_index: Count = Field(examples=[0])
    item: FileSearchCall | OutputMessage


class SearchEvent(Numbered):
    """The state of the search."""

    type: Literal[
        "response.file_search_call.in_progress",
        "response.file_search_call.searching",
        "response.file_search_call.completed",
    ]
    output_index: Count = Field(examples=[0])
    item_id: str = Field(examples=["fs_01938f2e4c5a7b109d3e5f0c2a6b7e12"])


class _OfPart(Numbered):
    item_id: str = Field(examples=["msg_01938f2e4c5a7b109d3e5f0c2a6b7e12"])
    output_index: Count = Field(examples=[0])
    content_index: Count = Field(examples=[0])


class PartEvent(_OfPart):
    """The message's text starts, or is complete."""

    type: Literal["response.content_part.added", "response.content_part.done"]
    part: OutputText


class TextDeltaEvent(_OfPart):
    """New text."""

    type: Literal["response.output_text.delta"]
    delta: str = Field(examples=["Revenue grew"])
    logprobs: list[None]


class AnnotationEvent(_OfPart):
    """A citation of a preceding sentence."""

    type: Literal["response.output_text.annotation.added"]
    annotation_index: Count = Field(examples=[0])
    annotation: FileCitation


class TextDoneEvent(_OfPart):
    """The text is complete."""

    type: Literal["response.output_text.done"]
    text: str = Field(examples=["Revenue grew by 12 %."])
    logprobs: list[None]


StreamedEvent = ResponseEvent | ItemEvent | SearchEvent | PartEvent | TextDeltaEvent | AnnotationEvent | TextDoneEvent

RESPONSE_EVENTS: Mapping[str, type[ResponseModel]] = {
    "response.created": ResponseEvent,
    "response.in_progress": ResponseEvent,
    "response.output_item.added": ItemEvent,
    "response.file_search_call.in_progress": SearchEvent,
    "response.file_search_call.searching": SearchEvent,
    "response.file_search_call.completed": SearchEvent,
    "response.content_part.added": PartEvent,
    "response.output_text.delta": TextDeltaEvent,
    "response.output_text.annotation.added": AnnotationEvent,
    "response.output_text.done": TextDoneEvent,
    "response.content_part.done": PartEvent,
    "response.output_item.done": ItemEvent,
    "response.completed": ResponseEvent,
    "response.incomplete": ResponseEvent,
    "response.failed": ResponseEvent,
}
"""Events of a stream, in their order."""
