"""The question of another API's request, in the generator's messages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2

from citewire_dialects.passed_on import passed_on, tool_calls
from citewire_dialects.schemas.questions import ChatMessage, ChatRequest, PlainMessage
from citewire_dialects.schemas.responses import InputItem, ResponsesRequest

ROLES: Final = {
    "user": generator_pb2.ROLE_USER,
    "assistant": generator_pb2.ROLE_ASSISTANT,
    "tool": generator_pb2.ROLE_TOOL,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A conversation, with further requirements for its answer."""

    messages: Sequence[generator_pb2.Message]
    """Oldest first, the question last; empty if there is only a question."""
    question_at: str
    """Name of the question's field."""
    instructions: str = ""
    """The caller's instructions to the model, in addition to our own prompt."""
    passed_on: generator_pb2.GenerateRequest = field(default_factory=generator_pb2.GenerateRequest)
    """Passed to the generator unchanged: format, tools, messages after the question, sampling, images."""
    max_tokens: int | None = None
    """Maximum tokens of the answer; None: the profile's."""
    temperature: float | None = None
    """0–2; None: the provider's default."""
    cited_beside: bool = False
    """Whether citations are separate from the text, so that it needs no markers."""
    brought: Sequence[retriever_pb2.SearchResult] = ()
    """The request's own passages, without documents; they come before search results."""
    request: Mapping[str, Any] | None = None
    """The request's parameters that the response repeats, to be stored with it; None for none."""


def read_question(body: ChatRequest) -> Asked:
    """Reads a request of our own API."""
    messages = body.messages or ()
    request = passed_on(body.tools, body.tool_choice, body.parallel_tool_calls, body.response_format)
    if not messages:
        return Asked((), "question", passed_on=request)
    last = max(place for place, message in enumerate(messages) if message.role == "user")
    talk = [_message(message) for message in messages[: last + 1]]
    request.continuation.extend(map(_message, messages[last + 1 :]))
    request.images.extend(talk[-1].images)
    return Asked(talk, f"messages.{last}.content", passed_on=request)


def read_response_request(body: ResponsesRequest) -> Asked:
    """Reads a request of OpenAI's Responses API, without the conversation that it continues."""
    return Asked(
        _conversation(body.messages),
        f"input.{len(body.input) - 1}.content",
        body.told,
        generator_pb2.GenerateRequest(cache_key=body.prompt_cache_key or ""),
        max_tokens=body.max_output_tokens,
        temperature=body.temperature,
        cited_beside=True,
    )


def _message(message: PlainMessage) -> generator_pb2.Message:
    read = generator_pb2.Message(role=ROLES[message.role], content=message.content)
    read.images.extend(generator_pb2.Image(url=url) for url in message.pictures)
    if isinstance(message, ChatMessage):
        read.tool_calls.extend(tool_calls(message.tool_calls))
        read.tool_call_id = message.tool_call_id or ""
    return read


def _conversation(messages: Iterable[InputItem]) -> list[generator_pb2.Message]:
    return [
        generator_pb2.Message(role=ROLES[message.role], content=message.text)
        for message in messages
        if message.role in ROLES
    ]
