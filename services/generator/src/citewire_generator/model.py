"""Values beyond the generator's messages: prompts, models, and a call's usage."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from citewire.generator.v1 import generator_pb2 as pb

from citewire_kit.enums import EnumMap
from citewire_ledger import Price

NOT_FOUND_SENTENCE = "I could not find this information in the uploaded documents."
"""What an answer starts with if the passages don't answer; a policy may name another sentence."""

Event = (
    pb.Started | pb.TextDelta | pb.Notice | pb.VerifiedCitation | pb.UncitedSentence | pb.ToolCallDelta | pb.Completed
)
"""What an answer's stream consists of."""


class Role(StrEnum):
    """Who said a message, as chat providers name it."""

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
    """Of an assistant's message: what it called."""
    tool_call_id: str = ""
    """Of a tool's result: the call that it answers."""
    images: tuple[pb.Image, ...] = ()
    passages: tuple[pb.Passage, ...] = ()
    """Of a question in the history: those that stood with it."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage that was placed in the prompt."""

    number: int
    """From 1; markers refer to it."""
    index: int
    """Its index in the request's passages."""
    passage: pb.Passage
    text: str
    """What was placed: the passage's text, cut if it alone exceeded the budget, marker-like text defused."""
    label: int = 0
    """Its number in the prompt, where earlier questions have passages there, too; 0: `number`."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a call spent."""

    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    """Those of the prompt that the provider read from its cache."""
    completion_tokens: int = 0
    estimated: bool = False
    """True if the provider didn't report them."""
    cache_write_prompt_tokens: int = 0
    """Those of the prompt that it wrote to its cache, where it bills that."""

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
    """Questions that passages answer."""

    questions: Sequence[str] = ()
    usage: Usage = field(default_factory=Usage)
    fallback: bool = False
    """Whether topics of the passages took the place of a model that could not be asked or suggested too few."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that this process offers."""

    provider: str
    name: str
    context_window: int = 0
    """Tokens; 0: unknown, or without a limit."""
    max_completion_tokens: int = 0
    """Tokens; 0: unknown."""
    remote: bool = True
    """False if it runs in this process and no text leaves it."""
    window_guessed: bool = False
    """True if nobody said how large the window is: a prompt that fits our guess may still be too long."""
    price: Price | None = None
    """None if it isn't known what it costs."""
