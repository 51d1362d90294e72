"""Values beyond the generator's messages: prompts, models, and a call's usage."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from citewire.generator.v1 import generator_pb2 as pb

from citewire_kit.enums import EnumMap
from citewire_ledger import Price

NOT_FOUND_SENTENCE = "I could not find this information in the uploaded documents."
"""The beginning of an answer if the passages don't answer; a policy may have a different sentence."""

Event = (
    pb.Started | pb.TextDelta | pb.Notice | pb.VerifiedCitation | pb.UncitedSentence | pb.ToolCallDelta | pb.Completed
)
"""An element of an answer's stream."""


class Role(StrEnum):
    """The role of a message, as named by chat providers."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class FinishReason(StrEnum):
    """Why an answer ended."""

    STOP = "stop"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    TOOL_CALLS = "tool_calls"


FINISH_REASONS = EnumMap(FinishReason, pb.FinishReason)


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a conversation or of a prompt."""

    role: Role
    content: str
    tool_calls: tuple[pb.ToolCall, ...] = ()
    """For an assistant's message: its tool calls."""
    tool_call_id: str = ""
    """For a tool's result: the call that it answers."""
    images: tuple[pb.Image, ...] = ()
    passages: tuple[pb.Passage, ...] = ()
    """For a question in the history: its passages."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage that was placed in the prompt."""

    number: int
    """Number from 1, to which markers refer."""
    index: int
    """Its index in the request's passages."""
    passage: pb.Passage
    text: str
    """The placed text: the passage's, cut if it alone exceeded the budget, with marker-like text defused."""
    label: int = 0
    """Its number in the prompt, if earlier questions also have passages there; 0: `number`."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens used by a call."""

    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    """Prompt tokens that the provider read from its cache."""
    completion_tokens: int = 0
    estimated: bool = False
    """True if the provider didn't report them."""
    cache_write_prompt_tokens: int = 0
    """Prompt tokens that it wrote to its cache, if it bills for that."""

    def to_proto(self) -> pb.TokenUsage:
        """Returns the message."""
        return pb.TokenUsage(
            prompt_tokens=self.prompt_tokens,
            cached_prompt_tokens=self.cached_prompt_tokens,
            completion_tokens=self.completion_tokens,
            estimated=self.estimated,
            cache_write_prompt_tokens=self.cache_write_prompt_tokens,
        )


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Questions that passages can answer."""

    questions: Sequence[str] = ()
    usage: Usage = field(default_factory=Usage)
    fallback: bool = False
    """Whether they are based on topics of the passages, because no model was available or it suggested too few."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that this process offers."""

    provider: str
    name: str
    context_window: int = 0
    """In tokens; 0: unknown, or unlimited."""
    max_completion_tokens: int = 0
    """In tokens; 0: unknown."""
    remote: bool = True
    """False if it runs in this process and no text leaves it."""
    window_guessed: bool = False
    """True if the window is unknown: a prompt that fits our guess may still be too long."""
    price: Price | None = None
    """None if it is unknown."""
