"""What the generator is asked and says, and its judgements: plain values, as in `domain`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from citewire_gateway.clients.domain import Hit
from citewire_gateway.clients.verified import Uncited, Verified


class ContextFormat(StrEnum):
    """How passages are laid out in the prompt."""

    NUMBERED = "numbered"
    SOURCE_LABELS = "source_labels"
    TYPED = "typed"
    PLAIN = "plain"


class MarkerStyle(StrEnum):
    """Which markers an answer carries."""

    NONE = "none"
    REMOVE = "remove"
    REF = "ref"
    SOURCE = "source"


class Grounding(StrEnum):
    """What the model may use."""

    STRICT = "strict"
    SAY_SO = "say_so"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Message:
    """An earlier message of a conversation."""

    role: Literal["user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class AnswerPolicy:
    """How an answer is to be written."""

    context_format: ContextFormat
    marker_style: MarkerStyle
    grounding: Grounding
    answer_language: str = ""
    not_found_sentence: str = ""
    suggest_on_not_found: bool = False
    ask_back: bool = False
    max_context_tokens: int = 0
    max_context_chars: int = 0
    max_history_tokens: int = 0
    instructions: str = ""
    verify_citations: bool = False
    """Whether each sentence is compared with what it cites."""
    flag_uncited: bool = False
    """Whether sentences that state facts without a citation are reported."""
    answerable_threshold: float | None = None
    """Lowest score of an extractive answer; None: the provider's own."""


@dataclass(frozen=True, slots=True)
class GenerateQuery:
    """What the generator is asked."""

    question: str
    passages: tuple[Hit, ...]
    policy: AnswerPolicy
    history: tuple[Message, ...] = ()
    model: str = ""
    max_completion_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Packed:
    """A passage that was placed in the prompt: its number there, and its index among the passages of the query."""

    number: int
    index: int


@dataclass(frozen=True, slots=True)
class Started:
    """The generation is about to start; what is packed is what is cited."""

    provider: str
    model: str
    packed: tuple[Packed, ...]


@dataclass(frozen=True, slots=True)
class Delta:
    """Text of the answer: what the provider sent since the last delta, piece by piece."""

    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a user may want to know."""

    name: str
    text: str
    provider: str = ""
    """Who takes over, if somebody does."""
    model: str = ""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens that a model spent."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False

    def plus(self, other: "TokenUsage") -> "TokenUsage":
        """Returns the sum; it is an estimate if a part is."""
        return TokenUsage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True)
class Completed:
    """The answer is complete."""

    usage: TokenUsage
    finish_reason: str
    not_found: bool = False
    suggested_questions: int = 0
    invalid_markers: int = 0
    cited: tuple[int, ...] = ()
    provider: str = ""
    """Who wrote it: another than `Started`'s if one took over."""
    model: str = ""
    attempts: int = 0
    """Calls made to providers; none if a model in the generator's process wrote it."""
    answerable_score: float | None = None
    """Of an extractive answer, 0–1, found or not; None of others, and where nothing was read."""


GenerateEvent = Started | Delta | Notice | Verified | Uncited | Completed


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Questions that the passages answer."""

    questions: tuple[str, ...]
    usage: TokenUsage = field(default_factory=TokenUsage)


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a question needs retrieval. `fallback`: no decision could be had, so it does."""

    needs_retrieval: bool
    reason: str
    fallback: bool = False
    usage: TokenUsage = field(default_factory=TokenUsage)


@dataclass(frozen=True, slots=True)
class Assessment:
    """Whether the passages support the answer, and how useful it is, 0-1. `fallback`: neither could be had."""

    supported: bool
    utility: float
    fallback: bool = False
    usage: TokenUsage = field(default_factory=TokenUsage)


class RewriteKind(StrEnum):
    """What a question is rewritten for."""

    CONDENSE = "condense"
    HYDE = "hyde"


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A question in other words. `fallback`: it couldn't be rewritten, and is as it came."""

    text: str
    fallback: bool = False
    usage: TokenUsage = field(default_factory=TokenUsage)
