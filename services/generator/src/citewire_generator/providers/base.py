"""The interface of a chat provider, and the values it exchanges with the rest of the service."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.model import Citation, FinishReason, Message, ModelInfo, Suggestions, Usage
from citewire_remote.failures import stream_broken


class Feature(StrEnum):
    """Features that not all providers support, by the request's field."""

    TOOLS = "tools"
    IMAGES = "images"
    TOP_P = "sampling.top_p"
    STOP = "sampling.stop"
    SEED = "sampling.seed"
    FREQUENCY_PENALTY = "sampling.frequency_penalty"
    PRESENCE_PENALTY = "sampling.presence_penalty"
    REASONING_EFFORT = "sampling.reasoning_effort"
    VERBOSITY = "sampling.verbosity"


@dataclass(frozen=True, slots=True)
class ChatTask:
    """One answer to write.

    A language model reads `messages`; a provider without one reads the question and the passages from which the
    messages were built.
    """

    model: str
    messages: tuple[Message, ...]
    question: str = ""
    citations: tuple[Citation, ...] = ()
    policy: pb.AnswerPolicy = field(default_factory=pb.AnswerPolicy)
    max_completion_tokens: int | None = None
    temperature: float | None = None
    listing: pb.ItemListing | None = None
    """The list of documents that the question asks for; None if it doesn't."""
    format: pb.AnswerFormat | None = None
    """The JSON format of the answer; None for text."""
    tools: pb.ToolUse | None = None
    """The tools that the model may call; None for none."""
    sampling: pb.Sampling = field(default_factory=pb.Sampling)
    cache_key: str = ""
    """Cache key shared by all prompts of a conversation; "" for none."""
    reused: bool = False
    """Whether the next prompt of the conversation begins with this one, and the answer."""


@dataclass(frozen=True, slots=True)
class Delta:
    """New data since the last event: texts in order, none of them empty, and pieces of tool calls."""

    texts: tuple[str, ...]
    tool_calls: tuple[pb.ToolCallDelta, ...] = ()

    def __len__(self) -> int:
        """Total code points; a piece of a call without any counts as one."""
        calls = sum(max(1, len(call.id) + len(call.name) + len(call.arguments)) for call in self.tool_calls)
        return sum(map(len, self.texts)) + calls


@dataclass(frozen=True, slots=True)
class End:
    """The provider's own end of the stream. A stream that stops without one is a provider error."""

    finish_reason: FinishReason
    usage: Usage | None = None
    """None if the provider didn't report it."""
    not_found: bool = False
    """True if the provider knows that it found no answer."""
    answerable_score: float | None = None
    """Score for the passages answering the question, 0–1; None if the provider has none."""
    refusal: str = ""
    """Why there is no answer in the requested format, if the provider knows."""


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer in one piece."""

    text: str
    usage: Usage
    finish_reason: FinishReason


class ChatProvider(ABC):
    """Writes answers.

    Implementations raise `citewire_kit.errors`, whose texts contain none of the provider's. Closing the generator
    returned by `stream` stops the work at once, including a remote call's socket.
    """

    takes_temperature: ClassVar[bool] = False
    """Whether a task's temperature has an effect."""
    takes: ClassVar[frozenset[Feature]] = frozenset()
    """Supported features beyond plain text; requests for others are rejected by name."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The provider's name in requests and metrics."""

    @property
    @abstractmethod
    def models(self) -> tuple[ModelInfo, ...]:
        """Its models, the default first."""

    @property
    def remote(self) -> bool:
        """Whether text leaves this process, so that a call counts as an attempt."""
        return any(model.remote for model in self.models)

    @abstractmethod
    def stream(self, task: ChatTask) -> AsyncGenerator[Delta | End, None]:
        """Writes one answer: deltas, then exactly one `End`."""

    async def complete(self, task: ChatTask, *, json_schema: Mapping[str, object] | None = None) -> Completion:
        """Writes one answer in one piece.

        Args:
            task: The answer to write.
            json_schema: JSON schema of the answer, an object. A provider that can't enforce it ignores it, so the
                caller has to validate the answer.
        """
        del json_schema
        texts: list[str] = []
        async with aclosing(self.stream(task)) as events:
            async for event in events:
                if isinstance(event, End):
                    return Completion("".join(texts), event.usage or Usage(estimated=True), event.finish_reason)
                texts += event.texts
        raise stream_broken("it has no end")

    @abstractmethod
    async def suggest(self, request: pb.SuggestQuestionsRequest, model: str) -> Suggestions:
        """Suggests questions that the passages can answer."""

    async def close(self) -> None:
        """Releases the provider's resources."""
        return
