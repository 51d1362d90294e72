"""Verifies an answer on its way, and whole answers for Verify.

A fault in verification must not cost anybody an answer: it is logged and counted, and the answer goes on without.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence

from citewire_generator import metrics
from citewire_generator.model import AnswerPolicy, PackedPassage, Passage
from citewire_kit.telemetry import get_logger
from citewire_verify import (
    Marker,
    MarkerStyle,
    Sentence,
    UncitedSentence,
    Verification,
    VerifiedCitation,
    Verifier,
    verify,
)
from citewire_verify import Passage as CitedPassage

log = get_logger(__name__)

IN_LOOP = 6_000
"""Code points of passages that are read in the event loop; more are read in a thread, so that other answers go on."""


class AnswerVerifier:
    """Verifies one answer while it is sent.

    Args:
        policy: What is asked of the answer.
        packed: What it may cite.
        known: Sentences that are the server's own and state nothing.
    """

    def __init__(self, policy: AnswerPolicy, packed: Sequence[PackedPassage], known: Sequence[str] = ()) -> None:
        self._verifier: Verifier | None = Verifier(
            {one.number: _cited_passage(one.passage, one.chars) for one in packed},
            cited=policy.verify_citations,
            uncited=policy.flag_uncited,
            attribute=policy.verify_citations and policy.marker_style not in {MarkerStyle.REF, MarkerStyle.SOURCE},
            known=(policy.not_found_sentence, *known),
        )

    def feed(self, text: str, markers: Sequence[Marker]) -> list[Sentence]:
        """Takes text that was sent and returns the sentences that are complete now."""
        return self._segment(lambda verifier: verifier.feed(text, markers)) if text else []

    def finish(self, *, broken: bool = False) -> list[Sentence]:
        """Returns the sentences that are left where the answer ends, or where it broke off."""
        return self._segment(lambda verifier: verifier.finish(broken=broken))

    async def verify(
        self, sentences: Sequence[Sentence], *, uncited: bool = True
    ) -> list[VerifiedCitation | UncitedSentence]:
        """Verifies complete sentences; `uncited` is False where nothing is to be cited."""
        found: list[VerifiedCitation | UncitedSentence] = []
        for sentence in sentences:
            try:
                if self._verifier is None:
                    break
                if self._verifier.unread(sentence) > IN_LOOP:
                    found += await asyncio.to_thread(self._verifier.verify, sentence, uncited=uncited)
                else:
                    found += self._verifier.verify(sentence, uncited=uncited)
            except Exception:  # noqa: BLE001 # a fault here must not cost an answer
                _failed("sentence")
        return found

    def _segment(self, read: Callable[[Verifier], list[Sentence]]) -> list[Sentence]:
        try:
            return read(self._verifier) if self._verifier else []
        except Exception:  # noqa: BLE001 # a fault here must not cost an answer
            _failed("answer")
            self._verifier = None
            return []


async def verify_answer(answer: str, passages: Sequence[Passage], style: MarkerStyle) -> Verification:
    """Verifies a whole answer in a thread, so that other calls go on; it ends after a sentence if it is cancelled."""
    left = threading.Event()
    cited = [_cited_passage(passage) for passage in passages]
    try:
        return await asyncio.to_thread(verify, answer, cited, markers=style, cancelled=left.is_set)
    finally:
        left.set()


def _cited_passage(passage: Passage, chars: int | None = None) -> CitedPassage:
    headings = "\n".join((passage.title, passage.section, passage.file_name, passage.place))
    return CitedPassage(passage.text[:chars], headings)


def _failed(what: str) -> None:
    metrics.VERIFICATION_FAILURES.inc()
    log.exception("verification_failed", what=what)
