"""What the generator found out about the sentences of its answer: which passage says so, where, and how far."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How far a text supports a sentence."""

    SUPPORTED = "supported"
    PARTIAL = "partial"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Span:
    """Part of the answer, in Unicode code points; `end` is exclusive."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Verified:
    """A sentence and the passage that it cites.

    Attributes:
        sentence: Where it stands in the answer.
        number: Of the packed passage.
        quote: The passage's best supporting text, verbatim; "" if nothing comes near.
        quote_start: Where the quote starts in the passage's text, in Unicode code points.
        quote_end: Where it ends, exclusive.
        support: How far the passage supports the sentence, 0-1.
        verdict: On this passage alone.
        sentence_verdict: On all passages that the sentence cites together.
        mismatches: Numbers, names and negations of the sentence that the passage doesn't have.
    """

    sentence: Span
    number: int
    quote: str
    quote_start: int
    quote_end: int
    support: float
    verdict: Verdict
    sentence_verdict: Verdict
    mismatches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Uncited:
    """A sentence that states facts and cites nothing."""

    sentence: Span
