"""What is asked of a judgement, and what comes back."""

from dataclasses import dataclass, field
from enum import Enum, auto

from citewire.common.v1.common_pb2 import ProviderRef

from citewire_generator.model import Message, Passage, Usage

FALLBACK_UTILITY = 0.7
"""Utility of an answer that couldn't be assessed; such a one counts as supported."""


class RewriteKind(Enum):
    """What a rewrite is for."""

    CONDENSE = auto()
    HYDE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    model: str = ""
    provider: ProviderRef | None = None
    """A tenant's own; None: the operator's."""
    fallbacks: tuple[str | ProviderRef, ...] = ()


@dataclass(frozen=True, slots=True)
class DecideRequest(_Asked):
    """A question of which is to be found out whether it needs retrieval."""

    question: str


@dataclass(frozen=True, slots=True)
class AssessRequest(_Asked):
    """An answer that is to be judged."""

    question: str
    answer: str
    passages: tuple[Passage, ...] = ()
    """What it was written from, in the order of its markers' numbers."""


@dataclass(frozen=True, slots=True)
class RewriteRequest(_Asked):
    """A question that is wanted in other words."""

    kind: RewriteKind
    question: str
    history: tuple[Message, ...] = ()
    """Oldest first."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to retrieve.

    Attributes:
        needs_retrieval: True also where it couldn't be found out.
        reason: Why, in one sentence.
        usage: Tokens spent.
        fallback: Whether it couldn't be found out.
        heuristic: Whether a rule decided, because there is no language model.
    """

    needs_retrieval: bool
    reason: str
    usage: Usage = field(default_factory=Usage)
    fallback: bool = False
    heuristic: bool = False


@dataclass(frozen=True, slots=True)
class Assessment:
    """How good an answer is.

    Attributes:
        supported: Whether the passages support it.
        utility: How useful it is, 0-1.
        usage: Tokens spent.
        fallback: Whether that couldn't be found out, so that the two are defaults.
        heuristic: Whether a rule judged, because there is no language model.
    """

    supported: bool
    utility: float
    usage: Usage = field(default_factory=Usage)
    fallback: bool = False
    heuristic: bool = False


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A question in other words.

    Attributes:
        text: The question itself where it couldn't be rewritten.
        usage: Tokens spent.
        fallback: Whether it couldn't be.
        heuristic: Whether a rule rewrote it, because there is no language model.
    """

    text: str
    usage: Usage = field(default_factory=Usage)
    fallback: bool = False
    heuristic: bool = False
