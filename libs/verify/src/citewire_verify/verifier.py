"""Verifies the citations of an answer, whole or while it is written: segment, tokenise, align, score."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from citewire_verify.facts import states_facts
from citewire_verify.markers import Marker, MarkerStyle, find_markers
from citewire_verify.passages import Passage, PassageIndex
from citewire_verify.score import BEST_FIRST, Verdict, Weights, compare, judge_together, load_weights
from citewire_verify.segment import Segmenter, Sentence
from citewire_verify.tokens import tokenise_sentence

MAX_CITED = 16
"""Maximum number of passages compared with a sentence; one that cites more is unspecific."""
MAX_MISMATCHES = 8
_SHORT = 1500
"""Code points of a passage that a sentence is compared with at once."""


@dataclass(frozen=True, slots=True)
class VerifiedCitation:
    """A sentence of the answer with the support by one passage that it cites."""

    start: int
    """The sentence's span, in code points of the answer."""
    end: int
    number: int
    """Number of the passage."""
    quote: str
    """The part of the passage that supports the sentence best, verbatim; empty if there is none."""
    quote_start: int
    """In code points of the passage's text."""
    quote_end: int
    support: float
    """How far the passage supports the sentence, 0–1."""
    verdict: Verdict
    """Verdict considering only this passage."""
    sentence_verdict: Verdict
    """Verdict considering all passages that the sentence cites."""
    mismatches: tuple[str, ...] = ()
    """Parts of the sentence that the passage doesn't confirm, as the sentence writes them."""


@dataclass(frozen=True, slots=True)
class UncitedSentence:
    """A sentence that states facts and cites nothing, by its span in code points of the answer."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of verifying an answer. Everything is in the answer's order."""

    citations: tuple[VerifiedCitation, ...]
    uncited: tuple[UncitedSentence, ...]
    cited_numbers: tuple[int, ...]
    """Numbers of the passages that markers refer to, each once, in order of first use."""
    invalid_markers: int
    """Numbers in markers that aren't a passage's."""


class Verifier:
    """Verifies an answer while it is written: `feed` its text, `verify` each complete sentence.

    Args:
        passages: The passages that the answer may cite, by number.
        cited: Whether sentences that cite passages are verified.
        uncited: Whether sentences that state facts and cite nothing are reported.
        attribute: Whether such a sentence counts as citing the passage that supports it best, if one does.
        known: Sentences that state nothing, such as the writer's own not-found sentence.
    """

    def __init__(
        self,
        passages: Mapping[int, Passage],
        *,
        cited: bool = True,
        uncited: bool = False,
        attribute: bool = False,
        known: Sequence[str] = (),
        weights: Weights | None = None,
    ) -> None:
        self._passages = passages
        self._cited, self._uncited, self._attribute = cited, uncited, attribute
        self._known = frozenset(sentence.casefold() for sentence in known)
        self._weights = weights or load_weights()
        self._segmenter = Segmenter()
        self._indices: dict[int, PassageIndex] = {}

    def feed(self, text: str, markers: Sequence[Marker] = ()) -> list[Sentence]:
        """Takes the next piece of the answer and returns the sentences that are complete now.

        Args:
            text: The piece.
            markers: The markers in it, with offsets in the whole answer.
        """
        return self._segmenter.feed(text, markers)

    def finish(self, *, broken: bool = False) -> list[Sentence]:
        """Returns the remaining sentences when the answer ends or is cut off."""
        return self._segmenter.finish(broken=broken)

    @property
    def pending_markers(self) -> list[Marker]:
        """Markers whose sentences aren't complete yet, in order."""
        return self._segmenter.pending_markers

    def unread(self, sentence: Sentence) -> int:
        """Returns how many code points of passages `verify` has to read for the first time."""
        return sum(len(self._passages[n].text) for n in self._compared(sentence) if n not in self._indices)

    def verify(self, sentence: Sentence, *, uncited: bool = True) -> list[VerifiedCitation | UncitedSentence]:
        """Verifies a complete sentence.

        Args:
            sentence: As `feed` or `finish` returned it.
            uncited: False if sentences need no marker because the answer is that nothing was found.
        """
        numbers = self._compared(sentence)
        if sentence.numbers:
            return self._verify_cited(sentence, numbers) if self._cited else []
        if not (uncited and (self._uncited or self._attribute) and states_facts(sentence, self._known)):
            return []
        supporting = [
            citation for citation in self._compare(sentence, numbers) if citation.verdict is not Verdict.UNSUPPORTED
        ]
        if supporting:
            best = min(supporting, key=lambda citation: (BEST_FIRST.index(citation.verdict), -citation.support))
            return [replace(best, sentence_verdict=best.verdict)]
        return [UncitedSentence(sentence.start, sentence.end)] if self._uncited else []

    def effort(self, sentence: Sentence) -> int:
        """Returns how many code points `verify` has to process, counting the sentence once per comparison.

        The longer a passage, the more often it contains a token of the sentence.
        """
        lengths = [len(self._passages[number].text) for number in self._compared(sentence)]
        return self.unread(sentence) + len(sentence.text) * (1 + sum(max(1, length // _SHORT) for length in lengths))

    def unverified(
        self, sentence: Sentence, *, uncited: bool = False
    ) -> list[VerifiedCitation] | list[UncitedSentence]:
        """Returns the result for a sentence whose verification failed: what it cites, or that it cites nothing.

        Args:
            sentence: As `feed` or `finish` returned it.
            uncited: Whether to report it if it cites nothing, provided that such sentences are reported.
        """
        if uncited and self._uncited and not sentence.numbers:
            return [UncitedSentence(sentence.start, sentence.end)]
        return self._unverified(sentence) if self._cited else []

    def _unverified(self, sentence: Sentence) -> list[VerifiedCitation]:
        return [
            VerifiedCitation(
                start=sentence.start,
                end=sentence.end,
                number=number,
                quote="",
                quote_start=0,
                quote_end=0,
                support=0.0,
                verdict=Verdict.UNVERIFIED,
                sentence_verdict=Verdict.UNVERIFIED,
            )
            for number in sentence.numbers
            if number in self._passages
        ]

    def _verify_cited(self, sentence: Sentence, numbers: Sequence[int]) -> list[VerifiedCitation | UncitedSentence]:
        citations = self._compare(sentence, numbers)
        compared = frozenset(numbers)
        return [
            *citations,
            *(
                replace(citation, sentence_verdict=citations[0].sentence_verdict)
                for citation in self._unverified(sentence)
                if citation.number not in compared
            ),
        ]

    def _compared(self, sentence: Sentence) -> list[int]:
        numbers = sentence.numbers or (self._passages if self._attribute else ())
        return [number for number in numbers if number in self._passages][:MAX_CITED]

    def _compare(self, sentence: Sentence, numbers: Sequence[int]) -> list[VerifiedCitation]:
        if not numbers:
            return []
        tokens = tokenise_sentence(sentence.text)
        indices = [self._index(number) for number in numbers]
        comparisons = [compare(tokens, index) for index in indices]
        together = judge_together(tokens, comparisons, self._weights)
        citations: list[VerifiedCitation] = []
        for number, index, comparison in zip(numbers, indices, comparisons, strict=True):
            support, verdict = self._weights.score(comparison)
            citations.append(
                VerifiedCitation(
                    start=sentence.start,
                    end=sentence.end,
                    number=number,
                    quote=index.text[comparison.start : comparison.end],
                    quote_start=comparison.start,
                    quote_end=comparison.end,
                    support=round(support, 4),
                    verdict=verdict,
                    sentence_verdict=together,
                    mismatches=comparison.mismatches[:MAX_MISMATCHES],
                )
            )
        return citations

    def _index(self, number: int) -> PassageIndex:
        index = self._indices.get(number)
        if index is None:
            index = self._indices[number] = PassageIndex(self._passages[number])
        return index


def verify(
    answer: str,
    passages: Sequence[Passage],
    *,
    markers: MarkerStyle = MarkerStyle.NUMBER,
    cancelled: Callable[[], bool] = lambda: False,
    on_failure: Callable[[Exception], None] | None = None,
) -> Verification:
    """Verifies a whole answer from any author.

    Args:
        answer: The answer.
        passages: The passages that it cites; markers refer to them by number, from 1.
        markers: The markers to look for. Without any (NONE, REMOVE), a sentence counts as citing the passage that
            supports it best, if one of the first `MAX_CITED` does.
        cancelled: Called before each sentence; once it returns True, the rest is skipped.
        on_failure: Called with a sentence whose verification failed, which is then `UNVERIFIED`; None raises the error.
    """
    marked, invalid = find_markers(answer, markers, len(passages))
    verifier = Verifier(
        dict(enumerate(passages, 1)), uncited=True, attribute=markers in {MarkerStyle.NONE, MarkerStyle.REMOVE}
    )
    citations: list[VerifiedCitation] = []
    uncited: list[UncitedSentence] = []
    for sentence in verifier.feed(answer, marked) + verifier.finish():
        if cancelled():
            break
        for result in _verify_sentence(verifier, sentence, on_failure):
            if isinstance(result, VerifiedCitation):
                citations.append(result)
            else:
                uncited.append(result)
    numbers = tuple(dict.fromkeys(number for marker in marked for number in marker.numbers))
    return Verification(tuple(citations), tuple(uncited), numbers, invalid)


def _verify_sentence(
    verifier: Verifier, sentence: Sentence, on_failure: Callable[[Exception], None] | None
) -> Sequence[VerifiedCitation | UncitedSentence]:
    try:
        return verifier.verify(sentence)
    except Exception as exc:
        if on_failure is None:
            raise
        on_failure(exc)
        return verifier.unverified(sentence, uncited=True)
