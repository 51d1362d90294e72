"""The request body of OpenAI's Responses API."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)

from citewire_dialects.schemas import CollectionName, Score
from citewire_dialects.schemas.compatible import NO_SAMPLING, MaxTokens, OpenAiRequest, Unread, absent, only
from citewire_dialects.schemas.questions import MAX_MESSAGES
from citewire_http.api.schemas import RequestModel

MAX_STORES = 20
_NO_OTHER_TOOLS = "answers come from documents, which are searched by the tool file_search alone"
_TEXT_ALONE = "an answer is text with citations"


def _one_text(value: object) -> object:
    return [{"type": "input_text", "text": value}] if isinstance(value, str) else value


def _one_message(value: object) -> object:
    return [{"role": "user", "content": value}] if isinstance(value, str) else value


class InputText(RequestModel):
    """A part of a message; only text is supported, including an answer's."""

    type: Annotated[
        Literal["input_text", "output_text"],
        Field(description="Files and images aren't read: add documents with `POST /v1/files`, and search them."),
    ]
    text: StrictStr
    annotations: Unread
    logprobs: Unread
    prompt_cache_breakpoint: Unread


class InputItem(RequestModel):
    """A message of the conversation; other items of an earlier answer are ignored."""

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
    if items[-1].type != "message" or items[-1].role != "user":
        raise ValueError("the last item must be a user message")
    return items


class RankingOptions(RequestModel):
    """How results are ranked."""

    ranker: Annotated[Any, only("auto", "default-2024-11-15", why="the profile determines the ranking")] = None
    score_threshold: Score | None = Field(default=None, description="Lowest cosine similarity of a passage.")
    hybrid_search: Annotated[Any, only(why="the profile determines the weights")] = absent()


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
    """The format of the answer's text."""

    format: Annotated[Any, only({"type": "text"}, why=_TEXT_ALONE)] = None
    verbosity: Annotated[Any, only("medium", why="the profile's instructions determine the length")] = None


class ConversationParam(RequestModel):
    """A conversation to continue."""

    id: StrictStr


class ResponseStreamOptions(RequestModel):
    """Additional information in a stream."""

    include_obfuscation: Annotated[Any, only(False, why="nothing is obfuscated")] = absent()


Metadata = Annotated[
    dict[Annotated[StrictStr, Field(max_length=64)], Annotated[StrictStr, Field(max_length=512)]], Field(max_length=16)
]


class ResponsesRequest(OpenAiRequest):
    """A question, or a conversation whose last message is the question."""

    input: Annotated[
        list[InputItem],
        Field(min_length=1, max_length=MAX_MESSAGES),
        BeforeValidator(_one_message, json_schema_input_type=StrictStr | list[InputItem]),
        AfterValidator(_ends_with_the_user),
    ] = Field(description="Oldest first. System messages are additional instructions.")
    instructions: StrictStr | None = Field(default=None, description="In addition to ours, for this answer only.")
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
        default=None, description="False stores neither question nor answer; true is the default."
    )
    metadata: Metadata | None = None
    max_output_tokens: MaxTokens | None = None
    tools: Annotated[list[FileSearchTool], Field(max_length=1)] | None = Field(
        default=None, description="Absent: all documents that the profile searches."
    )
    tool_choice: Annotated[Any, only("auto", "required", {"type": "file_search"}, why=_NO_OTHER_TOOLS)] = None
    max_tool_calls: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=None, description="Has no effect: there is always one search."
    )
    parallel_tool_calls: StrictBool | None = None
    include: list[Literal["file_search_call.results", "reasoning.encrypted_content"]] | None = Field(
        default=None, description="`file_search_call.results` are the passages; there is no reasoning to include."
    )
    truncation: Annotated[Any, only("auto", why="the oldest messages are left out if a conversation is too long")] = (
        None
    )
    text: TextConfig | None = None
    top_p: Annotated[Any, only(1, why=NO_SAMPLING)] = absent()
    background: Annotated[Any, only(False, why="an answer is streamed, or waited for")] = absent()
    reasoning: Annotated[Any, only({}, why="only the operator can set it")] = absent()
    stream_options: ResponseStreamOptions | None = absent()
    prompt: Annotated[Any, only(why="prompts are stored as profiles: name one as the model")] = absent()
    context_management: Annotated[Any, only([], why="the profile determines what is used")] = absent()
    image: Annotated[Any, only(why="questions and answers are text")] = absent()
    access_programs: Annotated[Any, only(why="there are none")] = absent()

    @property
    def messages(self) -> list[InputItem]:
        """The messages, without an answer's other items."""
        return [item for item in self.input if item.type == "message"]

    @property
    def told(self) -> str:
        """The caller's instructions to the model, in addition to our own prompt."""
        system = [message.text for message in self.messages if message.role in ("system", "developer")]
        return "\n\n".join([*([self.instructions] if self.instructions else []), *system])

    @property
    def search(self) -> FileSearchTool | None:
        """The search tool, if it is requested by name."""
        return self.tools[0] if self.tools else None

    @property
    def shows_results(self) -> bool:
        """Whether the search item includes its passages."""
        return "file_search_call.results" in (self.include or ())
