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
    """What some providers have and others don't, by the request's field."""

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

    A language model reads `messages`; a provider without one reads the question and the passages that the
    messages were made of.
    """

    model: str
    messages: tuple[Message, ...]
    question: str = ""
    citations: tuple[Citation, ...] = ()
    policy: pb.AnswerPolicy = field(default_factory=pb.AnswerPolicy)
    max_completion_tokens: int | None = None
    temperature: float | None = None
    listing: pb.ItemListing | None = None
    """The list of documents that the question wants; None if it wants none."""
    format: pb.AnswerFormat | None = None
    """The JSON that the answer is to be; None if it is text."""
    tools: pb.ToolUse | None = None
    """What the model may call; None if there is nothing."""
    sampling: pb.Sampling = field(default_factory=pb.Sampling)
    cache_key: str = ""
    """The same for all prompts of a conversation; "" if it has none."""
    reused: bool = False
    """Whether the next prompt of the conversation begins with this one, and the answer."""


@dataclass(frozen=True, slots=True)
class Delta:
    """What has arrived since the last event: texts in order, none of them empty, and pieces of tool calls."""

    texts: tuple[str, ...]
    tool_calls: tuple[pb.ToolCallDelta, ...] = ()

    def __len__(self) -> int:
        """Code points of all of it; a piece of a call that has none counts as one."""
        calls = sum(max(1, len(call.id) + len(call.name) + len(call.arguments)) for call in self.tool_calls)
        return sum(map(len, self.texts)) + calls


@dataclass(frozen=True, slots=True)
class End:
    """The provider's own end of the stream. A stream that stops without one is an error of the provider's."""

    finish_reason: FinishReason
    usage: Usage | None = None
    """None if the provider didn't report it."""
    not_found: bool = False
    """True if the provider knows that it found no answer."""
    answerable_score: float | None = None
    """How much speaks for the passages' answering the question, 0–1; None if the provider doesn't tell."""
    refusal: str = ""
    """Why there is no answer in the format that was asked for, if the provider knows."""


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer in one piece."""

    text: str
    usage: Usage
    finish_reason: FinishReason


class ChatProvider(ABC):
    """Writes answers.

    Implementations raise `citewire_kit.errors` whose text holds nothing of the provider's. Closing the generator that
    `stream` returns stops the work behind it at once, a remote call's socket included.
    """

    takes_temperature: ClassVar[bool] = False
    """Whether a task's temperature has an effect."""
    takes: ClassVar[frozenset[Feature]] = frozenset()
    """What of a task it can do beyond text for text; what it can't, a request is refused for by name."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The provider's name, as requests and metrics spell it."""

    @property
    @abstractmethod
    def models(self) -> tuple[ModelInfo, ...]:
        """Its models, the default first."""

    @property
    def remote(self) -> bool:
        """Whether text leaves this process: then a call counts as an attempt."""
        return any(model.remote for model in self.models)

    @abstractmethod
    def stream(self, task: ChatTask) -> AsyncGenerator[Delta | End, None]:
        """Writes one answer: deltas, then exactly one `End`."""

    async def complete(self, task: ChatTask, *, json_schema: Mapping[str, object] | None = None) -> Completion:
        """Writes one answer in one piece.

        Args:
            task: The answer to write.
            json_schema: JSON schema of an object that the answer is to be. A provider that can't keep its model to one
                ignores it: the caller checks what it gets.
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
        """Suggests questions that the passages answer."""

    async def close(self) -> None:
        """Frees what the provider holds."""
        return
