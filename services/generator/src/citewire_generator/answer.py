"""The text of one answer on its way to the reader: filters that each hold back what they must, and own their flush."""

from collections.abc import Sequence
from typing import Protocol

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.model import Citation
from citewire_generator.not_found import NotFoundGate
from citewire_generator.providers.base import End
from citewire_generator.providers.extractive import NO_GENERAL_KNOWLEDGE
from citewire_generator.verification import MARKER_STYLES, AnswerVerifier
from citewire_verify import MarkerFilter, MarkerStyle, Sentence

_NUMBERED = frozenset({pb.CONTEXT_FORMAT_UNSPECIFIED, pb.CONTEXT_FORMAT_NUMBERED, pb.CONTEXT_FORMAT_TYPED})
"""Formats that label passages `[N]`."""


SLICE = 512
"""Code points filtered without yielding to other answers: a few milliseconds of work at most."""
DELTA_COST = 32
"""Overhead of a delta, as an equivalent number of code points."""


class TextFilter(Protocol):
    """A filter of the text of one answer."""

    def feed(self, text: str) -> str:
        """Takes the next piece and returns what may be passed on now."""
        ...

    def finish(self) -> str:
        """Returns the text that was held back, at the end of the answer."""
        ...


class AnswerText:
    """The text of one answer: filtered for the not-found sentence, then for markers, then verified.

    Args:
        policy: The answer's policy.
        citations: The citations that the answer may use.
        quoted: Whether a provider in this process writes it by quoting.
    """

    def __init__(self, policy: pb.AnswerPolicy, citations: Sequence[Citation], *, quoted: bool) -> None:
        self._gate: NotFoundGate | None = None
        if quoted or policy.grounding == pb.GROUNDING_STRICT:
            # Quotations aren't checked for paraphrases, because a document may say that something can't be found.
            self._gate = NotFoundGate(policy.not_found_sentence, paraphrases=not quoted)
        self.markers = MarkerFilter(
            MARKER_STYLES.from_proto(policy.marker_style) or MarkerStyle.NONE,
            len(citations),
            bare=policy.context_format in _NUMBERED,
            remove_invalid=policy.remove_invalid_markers,
            numbers=_numbers(citations),
        )
        self._filters: tuple[TextFilter, ...] = (self._gate, self.markers) if self._gate else (self.markers,)
        self._verifier: AnswerVerifier | None = None
        if policy.verify_citations or policy.flag_uncited:
            self._verifier = AnswerVerifier(policy, citations, known=(NO_GENERAL_KNOWLEDGE,))
        self.refusal = ""
        """See `StructuredAnswer`; always empty for text."""
        self.sentences: Sequence[Sentence] = ()
        """Complete sentences that haven't been verified yet."""

    @property
    def not_found(self) -> bool:
        """Whether the answer is the not-found sentence."""
        return self._gate is not None and self._gate.not_found

    @property
    def suggested_questions(self) -> int:
        """Number of questions after the not-found sentence."""
        return self._gate.suggested_questions if self._gate is not None else 0

    def feed(self, texts: Sequence[str]) -> list[str]:
        """Takes a delta's texts and returns what may be sent of each."""
        shown: list[str] = []
        for text in texts:
            passed = text
            for text_filter in self._filters:
                passed = passed and text_filter.feed(passed)
            if passed:
                shown.append(passed)
        if shown and self._verifier is not None:
            self.sentences = self._verifier.feed("".join(shown), self.markers.take_markers())
        return shown

    def finish(self, end: End) -> str:
        """Returns the text that the filters still held back, at the end of the answer."""
        del end
        rest = ""
        for text_filter in self._filters:
            rest = (rest and text_filter.feed(rest)) + text_filter.finish()
        if self._verifier is not None:
            complete = self._verifier.feed(rest, self.markers.take_markers()) if rest else []
            self.sentences = [*complete, *self._verifier.finish()]
        return rest

    def abort(self) -> str:
        """Called if the answer was cut off: returns pending complete markers; complete sentences are still verified."""
        rest = self.markers.abort()
        if self._verifier is not None:
            complete = self._verifier.feed(rest, self.markers.take_markers()) if rest else []
            self.sentences = [*self.sentences, *complete, *self._verifier.finish(broken=True)]
        return rest

    async def verify(self) -> list[pb.VerifiedCitation | pb.UncitedSentence]:
        """Verifies the complete sentences."""
        sentences, self.sentences = self.sentences, ()
        return await self._verifier.verify(sentences, uncited=not self.not_found) if self._verifier else []


def _numbers(citations: Sequence[Citation]) -> dict[int, int] | None:
    """The citations' numbers by their labels in the prompt; None if these are equal."""
    numbers = {citation.label or citation.number: citation.number for citation in citations}
    return None if all(label == number for label, number in numbers.items()) else numbers


def slices_of(texts: Sequence[str]) -> list[Sequence[str]]:
    """Splits a delta's texts into parts that can be filtered at once; most deltas are one part."""
    if sum(map(len, texts)) <= SLICE:
        return [texts]
    slices: list[Sequence[str]] = []
    part: list[str] = []
    room = SLICE
    for text in texts:
        for start in range(0, len(text), SLICE):
            piece = text[start : start + SLICE]
            if len(piece) > room and part:
                slices.append(part)
                part, room = [], SLICE
            part.append(piece)
            room -= len(piece)
    return [*slices, part] if part else slices
