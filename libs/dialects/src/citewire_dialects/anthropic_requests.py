"""Converts requests of Anthropic's clients to the generator's messages, with the passages that they bring."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2

from citewire_dialects.asked import ROLES, Asked
from citewire_dialects.schemas.anthropic import MessagesRequest
from citewire_dialects.schemas.anthropic_blocks import (
    AnthropicTool,
    MessageParam,
    SearchResultParam,
    ToolResultParam,
    search_results_in,
    text_of,
)

FIELD_NAMES: Final = (
    (re.compile(r"tools\.tools(\[\d+\])\.parameters_json"), r"tools\1.input_schema"),
    (re.compile(r"tools\.tools"), "tools"),
    (re.compile(r"tools\.(?:mode|name)"), "tool_choice"),
    (re.compile(r"(?:history|continuation)(?:[\[.].*)?$"), "messages"),
)
"""Names of the generator's fields here, by prefix."""

_LINK: Final = re.compile(r"(?i)https?://")
_MODES: Final = {
    "auto": generator_pb2.TOOL_MODE_AUTO,
    "any": generator_pb2.TOOL_MODE_REQUIRED,
    "tool": generator_pb2.TOOL_MODE_REQUIRED,
    "none": generator_pb2.TOOL_MODE_NONE,
}


@dataclass(frozen=True, slots=True)
class BroughtText:
    """A text of a search result in the request."""

    result_index: int
    """Index of the search result in the request, from 0."""
    block_index: int
    """Index of the text in it, from 0."""
    text: str
    result: SearchResultParam

    def search_result(self, number: int) -> retriever_pb2.SearchResult:
        """Returns it as a passage without a document, identified by `number`, from 0."""
        title = " ".join(self.result.title.split())
        url = self.result.source if _LINK.match(self.result.source) else ""
        chunk = retriever_pb2.Chunk(chunk_index=number, text=self.text, title=title, label=title, url=url)
        return retriever_pb2.SearchResult(chunk=chunk)


def brought_texts(messages: Iterable[MessageParam]) -> list[BroughtText]:
    """Returns the texts of all search results of a request, in order, without empty ones."""
    results = (result for message in messages for result in message.search_results)
    return [
        BroughtText(number, place, block.text, result)
        for number, result in enumerate(results)
        for place, block in enumerate(result.content)
        if block.text.strip()
    ]


def read_messages(body: MessagesRequest, brought: Sequence[BroughtText] = ()) -> Asked:
    """Reads a request; `brought` are its own texts."""
    talk = [(place, message) for place, each in enumerate(body.messages) for message in _messages(each)]
    last = max(number for number, (_, message) in enumerate(talk) if message.role == generator_pb2.ROLE_USER)
    request = generator_pb2.GenerateRequest(continuation=[message for _, message in talk[last + 1 :]])
    if body.tools:
        request.tools.CopyFrom(_tool_use(body, body.tools))
    return Asked(
        [message for _, message in talk[: last + 1]],
        f"messages.{talk[last][0]}.content",
        text_of(body.system),
        request,
        max_tokens=body.max_tokens,
        temperature=body.temperature,
        cited_beside=True,
        brought=[text.search_result(number) for number, text in enumerate(brought)],
    )


def _messages(message: MessageParam) -> Iterator[generator_pb2.Message]:
    """Yields each tool's result, and then the message's text; nothing for search results alone."""
    for result in message.results:
        yield generator_pb2.Message(
            role=generator_pb2.ROLE_TOOL, tool_call_id=result.tool_use_id, content=_result_text(result)
        )
    if message.role == "assistant" or message.has_question:
        calls = [
            generator_pb2.ToolCall(id=call.id, name=call.name, arguments=json.dumps(call.input, ensure_ascii=False))
            for call in message.calls
        ]
        yield generator_pb2.Message(role=ROLES[message.role], content=message.text, tool_calls=calls)


def _result_text(result: ToolResultParam) -> str:
    """A tool's result as the model reads it in the conversation; search results are among the passages."""
    texts = [text_of(result.content)]
    if count := len(search_results_in(result.content)):
        texts.append(f"Search results: {count}. Their texts are among the passages.")
    text = "\n".join(filter(None, texts))
    return f"The tool failed: {text}" if result.is_error else text


def _tool_use(body: MessagesRequest, tools: Sequence[AnthropicTool]) -> generator_pb2.ToolUse:
    choice = body.tool_choice
    parallel = (
        None if choice is None or choice.disable_parallel_tool_use is None else not choice.disable_parallel_tool_use
    )
    return generator_pb2.ToolUse(
        tools=[
            generator_pb2.Tool(
                name=tool.name,
                description=tool.description or "",
                parameters_json=json.dumps(tool.input_schema, ensure_ascii=False),
                strict=bool(tool.strict),
            )
            for tool in tools
        ],
        mode=_MODES["auto" if choice is None else choice.type],
        name="" if choice is None else choice.name or "",
        parallel=parallel,
    )
