"""Blocks of Anthropic's messages, and the tools that come with them, as its clients send them."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, cast

from pydantic import BeforeValidator, Discriminator, Field, StrictBool, StrictStr, Tag, model_validator

from citewire_dialects.schemas.compatible import Unread, absent, only
from citewire_http.api.schemas import RequestModel

MAX_BROUGHT = 1_000
"""Maximum number of search result texts in a request."""

_UNREAD = {
    "document": "send it as search_result, or add it to the library with POST /v1/documents",
    "image": "send images with POST /v1/chat/completions, or add it to the library with POST /v1/documents",
}
"""Unsupported types of blocks, and what to do instead."""
_NOT_RUN_HERE = "answers come from documents and from tools that the caller runs"


def _readable(kind: object) -> object:
    if isinstance(kind, str) and kind in _UNREAD:
        raise ValueError(f"a block of type {kind} can't be read: {_UNREAD[kind]}")
    return kind


def _run_by_the_caller(kind: object) -> object:
    if kind is not None and kind != "custom":
        raise ValueError(f"must be custom or absent: {_NOT_RUN_HERE}")
    return "custom"


def _type_among(*types: str) -> Discriminator:
    """Distinguishes blocks. Any `other` is validated as a text, whose type reports the error."""

    def type_of(block: object) -> str:
        if isinstance(block, Mapping):
            kind = cast("Mapping[str, object]", block).get("type")
        else:
            kind = getattr(block, "type", None)
        return kind if isinstance(kind, str) and kind in types else "other"

    return Discriminator(type_of)


class TextParam(RequestModel):
    """A text."""

    type: Annotated[
        Literal["text"],
        BeforeValidator(_readable),
        Field(description="Documents come from the library: add them with `POST /v1/documents`."),
    ]
    text: StrictStr
    citations: Unread
    cache_control: Unread


class CitationsParam(RequestModel):
    """Whether statements from a search result are cited."""

    enabled: StrictBool = True


class SearchResultParam(RequestModel):
    """A search result from the request: each of its texts is a passage for the answer."""

    type: Literal["search_result"]
    source: Annotated[StrictStr, Field(min_length=1, max_length=4_000)] = Field(
        description="Where the result comes from; citations repeat it.", examples=["https://example.org/report"]
    )
    title: Annotated[StrictStr, Field(min_length=1, max_length=1_000)] = Field(examples=["Annual report"])
    content: Annotated[list[TextParam], Field(min_length=1, max_length=MAX_BROUGHT)] = Field(
        description="Citations refer to these texts by their position."
    )
    citations: CitationsParam | None = Field(default=None, description="Absent: it is cited, like every passage.")
    cache_control: Unread

    @property
    def cited(self) -> bool:
        """Whether statements from it are cited."""
        return self.citations is None or self.citations.enabled


ResultContent = Annotated[
    Annotated[TextParam, Tag("other")] | Annotated[SearchResultParam, Tag("search_result")],
    _type_among("search_result"),
]


class ToolUseParam(RequestModel):
    """A tool call from an earlier answer."""

    type: Literal["tool_use"]
    id: StrictStr = Field(examples=["call_0a1b2c"])
    name: StrictStr = Field(examples=["weather"])
    input: dict[str, Any]
    caller: Unread
    toolset_name: Annotated[Any, only(why=_NOT_RUN_HERE)] = absent()
    cache_control: Unread


class ToolResultParam(RequestModel):
    """A tool's result; search results in it are passages of the answer."""

    type: Literal["tool_result"]
    tool_use_id: StrictStr = Field(description="The call that it answers.", examples=["call_0a1b2c"])
    content: StrictStr | list[ResultContent] = ""
    is_error: StrictBool = False
    toolset_name: Annotated[Any, only(why=_NOT_RUN_HERE)] = absent()
    cache_control: Unread


Block = Annotated[
    Annotated[TextParam, Tag("other")]
    | Annotated[SearchResultParam, Tag("search_result")]
    | Annotated[ToolUseParam, Tag("tool_use")]
    | Annotated[ToolResultParam, Tag("tool_result")],
    _type_among("search_result", "tool_use", "tool_result"),
]


class MessageParam(RequestModel):
    """A message of the conversation. An answer may be sent back with all its fields."""

    role: Literal["user", "assistant"]
    content: StrictStr | list[Block]

    @model_validator(mode="after")
    def _fits_its_role(self) -> Self:
        types = {block.type for block in self.blocks}
        if others := types & ({"tool_use"} if self.role == "user" else {"search_result", "tool_result"}):
            raise ValueError(f"a message of role {self.role} has no blocks of type {min(others)}")
        return self

    @property
    def blocks(self) -> list[Block]:
        """The blocks; none if the content is a plain text."""
        return [] if isinstance(self.content, str) else self.content

    @property
    def text(self) -> str:
        """The message's own text."""
        return text_of(self.content)

    @property
    def calls(self) -> list[ToolUseParam]:
        """The tool calls of an answer."""
        return [block for block in self.blocks if isinstance(block, ToolUseParam)]

    @property
    def results(self) -> list[ToolResultParam]:
        """The results of tools."""
        return [block for block in self.blocks if isinstance(block, ToolResultParam)]

    @property
    def search_results(self) -> list[SearchResultParam]:
        """All search results in it, in order."""
        results: list[SearchResultParam] = []
        for block in self.blocks:
            if isinstance(block, SearchResultParam):
                results.append(block)
            elif isinstance(block, ToolResultParam):
                results += search_results_in(block.content)
        return results

    @property
    def has_question(self) -> bool:
        """Whether it is a user message with its own text."""
        has_text = isinstance(self.content, str) or any(isinstance(block, TextParam) for block in self.blocks)
        return self.role == "user" and has_text

    @property
    def texts(self) -> list[str]:
        """Its text as a model gets it."""
        brought = [block.text for result in self.search_results for block in result.content]
        calls = [f"{call.name} {json.dumps(call.input, ensure_ascii=False)}" for call in self.calls]
        return [self.text, *calls, *(text_of(result.content) for result in self.results), *brought]


def text_of(content: str | list[Block] | list[ResultContent] | list[TextParam]) -> str:
    """Returns the text of a message, a system prompt or a tool's result."""
    if isinstance(content, str):
        return content
    return "".join(block.text for block in content if isinstance(block, TextParam))


def search_results_in(content: str | list[ResultContent]) -> list[SearchResultParam]:
    """Returns the search results in a tool's result."""
    if isinstance(content, str):
        return []
    return [block for block in content if isinstance(block, SearchResultParam)]


class AnthropicTool(RequestModel):
    """A tool that the caller runs."""

    type: Annotated[Literal["custom"] | None, BeforeValidator(_run_by_the_caller)] = None
    name: StrictStr = Field(examples=["weather"])
    description: StrictStr | None = None
    input_schema: dict[str, Any] = Field(description="JSON schema of the object that it takes.")
    strict: StrictBool | None = None
    allowed_callers: Annotated[Any, only(["direct"], why=_NOT_RUN_HERE)] = absent()
    defer_loading: Annotated[Any, only(False, why="the model always gets all tools")] = absent()
    input_examples: Annotated[Any, only([], why="put them into the description")] = absent()
    eager_input_streaming: Unread
    cache_control: Unread


class ToolChoiceParam(RequestModel):
    """Whether tools are called."""

    type: Literal["auto", "any", "tool", "none"]
    name: StrictStr | None = Field(default=None, description="For type `tool`: the tool to call.")
    disable_parallel_tool_use: StrictBool | None = None

    @model_validator(mode="after")
    def _names_its_tool(self) -> Self:
        if (self.type == "tool") != (self.name is not None):
            raise ValueError("name is required with the type tool, and has no meaning with others")
        return self
