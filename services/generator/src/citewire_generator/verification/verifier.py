"""Verifies the citations of one answer while it is sent.

A fault in here must not cost anybody an answer: it is logged and counted, and the answer goes on without.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from citewire_generator import metrics
from citewire_generator.markers import Mark, find_markers
from citewire_generator.model import (
    AnswerPolicy,
    Citation,
    MarkerStyle,
    PackedPassage,
    Passage,
    Uncited,
    Verdict,
    Verification,
)
from citewire_generator.verification.claims import read_claim
from citewire_generator.verification.matching import examine
from citewire_generator.verification.passages import PassageIndex
from citewire_generator.verification.reader import AnswerReader, Sentence
from citewire_generator.verification.uncited import states_facts
from citewire_generator.verification.verdicts import (
    MAX_MISMATCHES,
    RANKS,
    SupportWeights,
    judge,
    judge_together,
    load_support_weights,
)
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

MAX_CITED = 16
"""Passages of one sentence that are verified; a sentence that cites more points at everything."""
IN_LOOP = 6_000
"""Code points of passages that are read in the event loop; more are read in a thread, so that other answers go on."""


class Verifier:
    """Verifies one answer.

    Args:
        packed: What the answer may cite.
        cited: Whether cited sentences are verified.
        uncited: Whether sentences without a citation are pointed out.
        attribute: Whether a sentence without a marker counts as citing the passage that supports it best, if one does.
        own: Sentences that are the server's own and state nothing.
        weights: The constants; None: those of the package.
    """

    def __init__(
        self,
        packed: tuple[PackedPassage, ...],
        *,
        cited: bool = True,
        uncited: bool = False,
        attribute: bool = False,
        own: tuple[str, ...] = (),
        weights: SupportWeights | None = None,
    ) -> None:
        self._packed = {one.number: one for one in packed}
        self._cited, self._uncited, self._attribute = cited, uncited, attribute
        self._own = frozenset(sentence.casefold() for sentence in own)
        self._weights = weights or load_support_weights()
        self._reader: AnswerReader | None = AnswerReader()
        self._indices: dict[int, PassageIndex] = {}

    def read(self, text: str, marks: list[Mark], *, final: bool = False, broken: bool = False) -> list[Sentence]:
        """Takes text that was sent and returns the sentences that are complete now, or at the answer's end or break."""
        if self._reader is None:
            return []
        try:
            found = self._reader.feed(text, marks) if text else []
            return found + self._reader.finish(broken=broken) if final or broken else found
        except Exception:  # noqa: BLE001 # a fault here must not cost an answer
            _failed("answer")
            self._reader = None
            return []

    async def judge(self, sentences: list[Sentence], *, flag: bool = True) -> list[Citation | Uncited]:
        """Returns what is to be said of complete sentences.

        Args:
            sentences: As `read` returned them.
            flag: False where nothing is to be cited: the answer is that nothing was found.
        """
        found: list[Citation | Uncited] = []
        for sentence in sentences:
            unread = sum(
                self._packed[number].chars for number in self._compared(sentence) if number not in self._indices
            )
            try:
                if unread > IN_LOOP:
                    found += await asyncio.to_thread(self.judge_sentence, sentence, flag=flag)
                else:
                    found += self.judge_sentence(sentence, flag=flag)
            except Exception:  # noqa: BLE001 # a fault here must not cost an answer
                _failed("sentence")
        return found

    def judge_sentence(self, sentence: Sentence, *, flag: bool = True) -> list[Citation | Uncited]:
        """Returns what is to be said of a complete sentence; `flag` as in `judge`."""
        if sentence.numbers:
            return [*self.verify(sentence, self._compared(sentence))] if self._cited else []
        if not ((self._uncited or self._attribute) and flag and states_facts(sentence, self._own)):
            return []
        if self._attribute:
            found = self.verify(sentence, self._compared(sentence))
            best = min(found, key=lambda one: (RANKS[one.verdict], -one.support), default=None)
            if best is not None and best.verdict is not Verdict.UNSUPPORTED:
                return [replace(best, sentence_verdict=best.verdict)]
        return [Uncited(sentence.start, sentence.end)] if self._uncited else []

    def _compared(self, sentence: Sentence) -> list[int]:
        """The passages that a sentence is compared with: those that it cites, or, without a marker, all."""
        among = sentence.numbers or (tuple(self._packed) if self._attribute else ())
        return [number for number in among if number in self._packed][:MAX_CITED]

    def verify(self, sentence: Sentence, numbers: list[int]) -> list[Citation]:
        """Verifies a sentence by the passages that it cites."""
        claim = read_claim(sentence.text)
        evidences = [examine(claim, self._index(number)) for number in numbers]
        if not evidences:
            return []
        together = judge_together(claim, evidences, self._weights)
        citations: list[Citation] = []
        for number, evidence in zip(numbers, evidences, strict=True):
            judged = judge(evidence, self._weights)
            citations.append(
                Citation(
                    start=sentence.start,
                    end=sentence.end,
                    number=number,
                    quote=self._packed[number].passage.text[evidence.start : evidence.end],
                    quote_start=evidence.start,
                    quote_end=evidence.end,
                    support=round(judged.support, 4),
                    verdict=judged.verdict,
                    sentence_verdict=together,
                    mismatches=tuple(evidence.mismatches[:MAX_MISMATCHES]),
                )
            )
        return citations

    def _index(self, number: int) -> PassageIndex:
        index = self._indices.get(number)
        if index is None:
            index = self._indices[number] = PassageIndex(self._packed[number])
        return index


def open_verifier(
    policy: AnswerPolicy, packed: tuple[PackedPassage, ...], own: tuple[str, ...] = ()
) -> Verifier | None:
    """Returns what verifies an answer; None if its policy wants nothing of it."""
    if not (policy.verify_citations or policy.flag_uncited):
        return None
    return Verifier(
        packed,
        cited=policy.verify_citations,
        uncited=policy.flag_uncited,
        attribute=policy.verify_citations and policy.marker_style not in {MarkerStyle.REF, MarkerStyle.SOURCE},
        own=(policy.not_found_sentence, *own),
    )


async def verify_answer(answer: str, passages: Sequence[Passage], style: MarkerStyle) -> Verification:
    """Verifies a whole answer, whoever wrote it; the passages are numbered from 1."""
    packed = tuple(PackedPassage(number, number - 1, one, one.text) for number, one in enumerate(passages, 1))
    marks, invalid = find_markers(answer, style, len(packed))
    numbers = tuple(dict.fromkeys(number for mark in marks for number in mark.numbers))
    verifier = Verifier(packed, uncited=True, attribute=style in {MarkerStyle.NONE, MarkerStyle.REMOVE})
    found: list[Citation | Uncited] = []
    for sentence in verifier.read(answer, marks, final=True):
        # In a thread each, so that other calls go on; and a call that is cancelled ends after a sentence.
        found += await asyncio.to_thread(verifier.judge_sentence, sentence)
    return Verification(tuple(found), numbers, invalid)


def _failed(what: str) -> None:
    metrics.VERIFICATION_FAILURES.inc()
    log.exception("verification_failed", what=what)
