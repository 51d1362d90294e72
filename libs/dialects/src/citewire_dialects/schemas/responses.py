"""Bodies of OpenAI's Responses API, as its clients send and read them.

As with chat completions: what would change an answer and isn't done is refused by name; what changes none is passed
over.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    field_validator,
    model_validator,
)

from citewire_dialects.schemas import CollectionName, Score
from citewire_dialects.schemas.chat import VerifiedCitation
from citewire_dialects.schemas.openai import NO_SAMPLING, Extras, Unread, absent, only
from citewire_dialects.schemas.questions import MAX_MESSAGES
from citewire_http.api.schemas import Count, RequestModel, ResponseModel

MAX_STORES = 20
_NO_OTHER_TOOLS = "answers come from documents, which are searched by the tool file_search alone"
_TEXT_ALONE = "an answer is text with citations"


def _one_text(value: object) -> object:
    return [{"type": "input_text", "text": value}] if isinstance(value, str) else value


def _one_message(value: object) -> object:
    return [{"role": "user", "content": value}] if isinstance(value, str) else value


class InputText(RequestModel):
    """A part of a message; only text can be read, an answer's among it."""

    type: Annotated[
        Literal["input_text", "output_text"],
        Field(description="Files and images aren't read: add documents with `POST /v1/files`, and search them."),
    ]
    text: StrictStr
    annotations: Unread
    logprobs: Unread
    prompt_cache_breakpoint: Unread


class InputItem(RequestModel):
    """A message of the conversation; or what an answer came with, sent back: it is passed over."""

    type: Literal["message", "file_search_call"] = "message"
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: Annotated[
        list[InputText], BeforeValidator(_one_text, json_schema_input_type=StrictStr | list[InputText])
    ] = Field(default_factory=list[InputText])
    id: Unread
    status: Unread
    phase: Unread
    queries: Unread
    results: Unread

    @model_validator(mode="after")
    def _is_a_whole_message(self) -> Self:
        if self.type == "message" and (self.role is None or not self.content):
            raise ValueError("a message needs role and content")
        return self

    @property
    def text(self) -> str:
        """The message's text."""
        return "".join(part.text for part in self.content)


def _ends_with_the_user(items: list[InputItem]) -> list[InputItem]:
    if items[-1].role != "user":
        raise ValueError("the last item must be a message of the user's")
    return items


class RankingOptions(RequestModel):
    """How results are ranked."""

    ranker: Annotated[Any, only("auto", "default-2024-11-15", why="the profile says how results are ranked")] = None
    score_threshold: Score | None = Field(default=None, description="Lowest cosine similarity of a passage.")
    hybrid_search: Annotated[Any, only(why="the profile says how meaning and words are weighed")] = absent()


def _file_search_alone(value: object) -> object:
    if value != "file_search":
        raise ValueError(f"must be file_search: {_NO_OTHER_TOOLS}")
    return value


class FileSearchTool(RequestModel):
    """The search of documents: a vector store is a collection, and its id the collection's name."""

    type: Annotated[Literal["file_search"], BeforeValidator(_file_search_alone)]
    vector_store_ids: Annotated[list[CollectionName], Field(min_length=1, max_length=MAX_STORES)]
    filters: Any = Field(
        default=None,
        description='On the documents\' metadata: {"type": "eq", "key": "year", "value": 2025}, or {"type": "and", '
        '"filters": […]}.',
    )
    max_num_results: Annotated[StrictInt, Field(ge=1, le=50)] | None = None
    ranking_options: RankingOptions | None = None


class TextConfig(RequestModel):
    """What the answer's text is to be."""

    format: Annotated[Any, only({"type": "text"}, why=_TEXT_ALONE)] = None
    verbosity: Annotated[Any, only("medium", why="it is the profile's instructions that say how long")] = None


class ConversationParam(RequestModel):
    """A conversation to continue."""

    id: StrictStr


class ResponseStreamOptions(RequestModel):
    """What a stream says beyond the text."""

    include_obfuscation: Annotated[Any, only(False, why="nothing is obfuscated")] = absent()


Metadata = Annotated[
    dict[Annotated[StrictStr, Field(max_length=64)], Annotated[StrictStr, Field(max_length=512)]], Field(max_length=16)
]


class ResponsesRequest(RequestModel):
    """A question, or a conversation whose last message is the question."""

    model: Annotated[StrictStr, Field(max_length=300)] = Field(
        description="A profile, such as `grounded`; a chat model may follow a slash: `grounded/openai/gpt-4.1`."
    )
    input: Annotated[
        list[InputItem],
        Field(min_length=1, max_length=MAX_MESSAGES),
        BeforeValidator(_one_message, json_schema_input_type=StrictStr | list[InputItem]),
        AfterValidator(_ends_with_the_user),
    ] = Field(description="Oldest first. System messages are instructions beyond our own.")
    instructions: StrictStr | None = Field(default=None, description="Beyond our own; they hold for this answer alone.")
    stream: StrictBool | None = None
    previous_response_id: Annotated[StrictStr, Field(max_length=100)] | None = Field(
        default=None, description="The answer that this question follows: the last of its conversation."
    )
    conversation: (
        Annotated[
            ConversationParam,
            BeforeValidator(
                lambda value: {"id": value} if isinstance(value, str) else value,
                json_schema_input_type=StrictStr | ConversationParam,
            ),
        ]
        | None
    ) = None
    store: StrictBool | None = Field(
        default=None, description="False keeps nothing of question and answer; true is the default."
    )
    metadata: Metadata | None = None
    max_output_tokens: Annotated[StrictInt, Field(ge=1, le=32_768)] | None = None
    temperature: Annotated[float, Field(strict=True, ge=0, le=2, allow_inf_nan=False)] | None = Field(
        default=None, description="A provider that takes none says so in a step."
    )
    tools: Annotated[list[FileSearchTool], Field(max_length=1)] | None = Field(
        default=None, description="None: all documents that the profile searches."
    )
    tool_choice: Annotated[Any, only("auto", "required", {"type": "file_search"}, why=_NO_OTHER_TOOLS)] = None
    max_tool_calls: Annotated[StrictInt, Field(ge=1)] | None = Field(default=None, description="There is one search.")
    parallel_tool_calls: StrictBool | None = None
    include: list[Literal["file_search_call.results", "reasoning.encrypted_content"]] | None = Field(
        default=None, description="`file_search_call.results` are the passages; of reasoning there is none to include."
    )
    truncation: Annotated[
        Any, only("auto", why="the oldest messages are left out where a conversation is too long")
    ] = None
    text: TextConfig | None = None
    top_p: Annotated[Any, only(1, why=NO_SAMPLING)] = absent()
    top_logprobs: Annotated[Any, only(0, why="no provider's are passed on")] = absent()
    background: Annotated[Any, only(False, why="an answer is streamed, or waited for")] = absent()
    reasoning: Annotated[Any, only({}, why="it is the operator's to set")] = absent()
    service_tier: Annotated[Any, only("auto", "default", why="there is one")] = absent()
    stream_options: ResponseStreamOptions | None = absent()
    prompt: Annotated[Any, only(why="prompts are kept as profiles: name one as the model")] = absent()
    context_management: Annotated[Any, only([], why="the profile says what of a conversation is read")] = absent()
    moderation: Annotated[Any, only(why="nothing is moderated here")] = absent()
    image: Annotated[Any, only(why="questions and answers are text")] = absent()
    access_programs: Annotated[Any, only(why="there are none")] = absent()
    user: Unread
    safety_identifier: Unread
    prompt_cache_key: Unread
    prompt_cache_options: Unread
    prompt_cache_retention: Unread
    citewire: Extras = Field(default_factory=Extras)

    @field_validator("citewire", mode="before")
    @classmethod
    def _null_is_absent(cls, value: object) -> object:
        return {} if value is None else value

    @property
    def messages(self) -> list[InputItem]:
        """The messages, without what else an answer came with."""
        return [item for item in self.input if item.type == "message"]

    @property
    def told(self) -> str:
        """What the caller tells the model beyond our own prompt."""
        system = [message.text for message in self.messages if message.role in ("system", "developer")]
        return "\n\n".join([*([self.instructions] if self.instructions else []), *system])

    @property
    def search(self) -> FileSearchTool | None:
        """The search that is asked for by name."""
        return self.tools[0] if self.tools else None

    @property
    def shows_results(self) -> bool:
        """Whether the passages are wanted with the search."""
        return "file_search_call.results" in (self.include or ())


class FileCitation(ResponseModel):
    """A document that supports a sentence, at the sentence's end."""

    type: Literal["file_citation"]
    file_id: str = Field(description="The document's id.", examples=["7"])
    filename: str = Field(examples=["report.pdf"])
    index: Count = Field(description="Where it belongs in the text.", examples=[21])
    citewire: VerifiedCitation = Field(description="OpenAI's clients don't know it, and pass it on.")


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
    """Why an answer isn't whole."""

    reason: Literal["max_output_tokens", "content_filter"]


class InputTokensDetails(ResponseModel):
    """Of the prompt's tokens."""

    cached_tokens: Count = Field(examples=[0])


class OutputTokensDetails(ResponseModel):
    """Of the answer's tokens."""

    reasoning_tokens: Count = Field(examples=[0])


class ResponseUsage(ResponseModel):
    """Tokens of the chat model."""

    input_tokens: Count = Field(examples=[812])
    input_tokens_details: InputTokensDetails
    output_tokens: Count = Field(examples=[44])
    output_tokens_details: OutputTokensDetails
    total_tokens: Count = Field(examples=[856])


class ResponseConversation(ResponseModel):
    """The conversation that question and answer are kept in."""

    id: str = Field(examples=["01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11"])


class ResponseSettings(ResponseModel):
    """What a request said, as its response says it again; it is stored with the answer."""

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
    """A response: the answer, and what the request said."""

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
    """A response is gone."""

    id: str = Field(examples=["resp_01938f2e4c5a7b109d3e5f0c2a6b7e12"])
    object: Literal["response"]
    deleted: Literal[True]


class StoredInput(ResponseModel):
    """A message that was asked."""

    id: str = Field(examples=["msg_01938f2e4c5a7b109d3e5f0c2a6b7e12_in"])
    type: Literal["message"]
    role: Literal["user"]
    status: Literal["completed"]
    content: list[dict[str, str]] = Field(examples=[[{"type": "input_text", "text": "How much did revenue grow?"}]])


class StoredInputs(ResponseModel):
    """What a response answers."""

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
    """An item of the output begins, or is complete."""

    type: Literal["response.output_item.added", "response.output_item.done"]
    output_index: Count = Field(examples=[0])
    item: FileSearchCall | OutputMessage


class SearchEvent(Numbered):
    """How far the search is."""

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
    """The message's text begins, or is complete."""

    type: Literal["response.content_part.added", "response.content_part.done"]
    part: OutputText


class TextDeltaEvent(_OfPart):
    """Text that is new."""

    type: Literal["response.output_text.delta"]
    delta: str = Field(examples=["Revenue grew"])
    logprobs: list[None]


class AnnotationEvent(_OfPart):
    """A citation of a sentence that was written before."""

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
