"""What the generator speaks of inside: plain frozen values, without gRPC and without a provider's vocabulary."""

from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto

from citewire.common.v1.common_pb2 import ProviderRef

from citewire_ledger import Price
from citewire_verify import MarkerStyle, UncitedSentence, VerifiedCitation

NOT_FOUND_SENTENCE = "I could not find this information in the uploaded documents."
"""What an answer starts with if the passages don't answer; a policy may name another sentence."""


class Role(StrEnum):
    """Who said a message, as chat providers name it."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class ContextFormat(Enum):
    """How passages are laid out in the prompt."""

    NUMBERED = auto()
    SOURCE_LABELS = auto()
    TYPED = auto()
    PLAIN = auto()


class Grounding(Enum):
    """What the model may use."""

    STRICT = auto()
    SAY_SO = auto()
    OPEN = auto()


class FinishReason(Enum):
    """Why an answer ended."""

    STOP = auto()
    LENGTH = auto()
    CONTENT_FILTER = auto()
    REFUSAL = auto()


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a conversation or of a prompt."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk that an answer may use, and where it comes from."""

    chunk_id: int
    document_id: int
    text: str
    title: str = ""
    file_name: str = ""
    section: str = ""
    """Heading path, joined by ` > `."""
    type: str = ""
    url: str = ""
    place: str = ""
    """Page, row or line as a person would say it."""
    similarity: float | None = None
    """Cosine similarity to the question, 0–1; None if unknown."""
    token_count: int = 0
    """Tokens of the text; 0 means that they are estimated."""


@dataclass(frozen=True, slots=True)
class AnswerPolicy:
    """How an answer is to be written."""

    context_format: ContextFormat = ContextFormat.NUMBERED
    marker_style: MarkerStyle = MarkerStyle.NONE
    grounding: Grounding = Grounding.STRICT
    answer_language: str = ""
    """Empty: the question's."""
    not_found_sentence: str = NOT_FOUND_SENTENCE
    suggest_on_not_found: bool = False
    ask_back: bool = False
    max_context_tokens: int = 0
    """0: what the model's window leaves."""
    max_context_chars: int = 0
    """Labels and line ends count; 0: no such limit."""
    instructions: str = ""
    verify_citations: bool = False
    """Whether each cited sentence is verified; read where markers are wanted."""
    flag_uncited: bool = False
    """Whether sentences that state facts without a citation are pointed out; read where markers are wanted."""
    answerable_threshold: float | None = None
    """Score, 0–1, below which the extractive provider finds no answer; None: its own."""
    max_history_tokens: int = 0
    """Of the system prompt and the history together; 0: no such limit."""


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """A question with what its answer may use. Converters have checked every field."""

    question: str
    passages: tuple[Passage, ...] = ()
    history: tuple[Message, ...] = ()
    policy: AnswerPolicy = AnswerPolicy()
    model: str = ""
    max_completion_tokens: int | None = None
    temperature: float | None = None
    provider: ProviderRef | None = None
    """A tenant provider; None: one of the operator's."""
    fallbacks: tuple[str | ProviderRef, ...] = ()
    """Who takes over: models of the operator's, or tenant providers. Empty: the operator's chain, unless
    `provider` is set."""


@dataclass(frozen=True, slots=True)
class SuggestRequest:
    """Passages for which questions are wanted."""

    passages: tuple[Passage, ...]
    question: str = ""
    count: int = 3
    language: str = ""
    model: str = ""
    provider: ProviderRef | None = None
    """A tenant provider; None: one of the operator's."""
    fallbacks: tuple[str | ProviderRef, ...] = ()


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


@dataclass(frozen=True, slots=True)
class PackedPassage:
    """A passage that was placed in the prompt."""

    number: int
    """From 1; markers refer to it."""
    index: int
    """Its index in the request's passages."""
    passage: Passage
    text: str
    """What was placed: the passage's text, cut if it alone passed the budget, marker-like text defused."""

    @property
    def chars(self) -> int:
        """Unicode code points of the text that were placed."""
        return len(self.text)


@dataclass(frozen=True, slots=True)
class Started:
    """The generation is about to start: numbers are settled."""

    provider: str
    model: str
    packed: tuple[PackedPassage, ...]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Text of the answer, one entry per delta of the provider's."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a user may want to know."""

    name: str
    text: str
    provider: str = ""
    """Who takes over, if somebody does."""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Completed:
    """The answer is complete."""

    usage: Usage
    finish_reason: FinishReason
    attempts: int
    not_found: bool = False
    suggested_questions: int = 0
    invalid_markers: int = 0
    cited: tuple[int, ...] = ()
    provider: str = ""
    """Who wrote it: another than `Started`'s if one took over."""
    model: str = ""
    answerable_score: float | None = None
    """The extractive provider's score of the answer, 0–1, found or not; None where no passage was read."""


Event = Started | TextDelta | Notice | VerifiedCitation | UncitedSentence | Completed


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Questions that passages answer."""

    questions: tuple[str, ...]
    usage: Usage = field(default_factory=Usage)


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
