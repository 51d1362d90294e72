"""Verifies an answer on its way, and whole answers for Verify.

A fault in verification must not cost anybody an answer: it is logged and counted, and the answer goes on without.
"""

import asyncio
import threading
from collections.abc import Sequence

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator import metrics
from citewire_generator.model import Citation
from citewire_kit.enums import EnumMap
from citewire_kit.telemetry import get_logger
from citewire_verify import (
    Marker,
    MarkerStyle,
    Passage,
    Sentence,
    UncitedSentence,
    Verdict,
    VerifiedCitation,
    Verifier,
    verify,
)

log = get_logger(__name__)

IN_LOOP = 6_000
"""Code points of passages that are read in the event loop; more are read in a thread, so that other answers go on."""
MARKER_STYLES = EnumMap(MarkerStyle, pb.MarkerStyle, unspecified=MarkerStyle.NONE)
_VERDICTS = EnumMap(Verdict, pb.Verdict)


class AnswerVerifier:
    """Verifies one answer while it is sent.

    Args:
        policy: What is asked of the answer.
        citations: What it may cite.
        known: Sentences that are the server's own and state nothing.
    """

    def __init__(self, policy: pb.AnswerPolicy, citations: Sequence[Citation], known: Sequence[str] = ()) -> None:
        marked = policy.marker_style in {pb.MARKER_STYLE_REF, pb.MARKER_STYLE_SOURCE}
        self._verifier: Verifier | None = Verifier(
            {citation.number: _passage(citation.passage, len(citation.text)) for citation in citations},
            cited=policy.verify_citations,
            uncited=policy.flag_uncited,
            attribute=policy.verify_citations and not marked,
            known=(policy.not_found_sentence, *known),
        )

    def feed(self, text: str, markers: Sequence[Marker]) -> list[Sentence]:
        """Takes text that was sent and returns the sentences that are complete now."""
        try:
            return self._verifier.feed(text, markers) if self._verifier is not None else []
        except Exception:  # noqa: BLE001 # a fault here must not cost an answer
            return self._give_up()

    def finish(self, *, broken: bool = False) -> list[Sentence]:
        """Returns the sentences that are left where the answer ends, or where it broke off."""
        try:
            return self._verifier.finish(broken=broken) if self._verifier is not None else []
        except Exception:  # noqa: BLE001 # a fault here must not cost an answer
            return self._give_up()

    async def verify(
        self, sentences: Sequence[Sentence], *, uncited: bool = True
    ) -> list[pb.VerifiedCitation | pb.UncitedSentence]:
        """Verifies complete sentences; `uncited` is False where nothing is to be cited."""
        results: list[VerifiedCitation | UncitedSentence] = []
        for sentence in sentences:
            try:
                if self._verifier is None:
                    break
                if self._verifier.unread(sentence) > IN_LOOP:
                    results += await asyncio.to_thread(self._verifier.verify, sentence, uncited=uncited)
                else:
                    results += self._verifier.verify(sentence, uncited=uncited)
            except Exception:  # noqa: BLE001 # a fault here must not cost an answer
                _count_failure("sentence")
        return [_citation(result) if isinstance(result, VerifiedCitation) else _uncited(result) for result in results]

    def _give_up(self) -> list[Sentence]:
        _count_failure("answer")
        self._verifier = None
        return []


async def verify_answer(request: pb.VerifyRequest) -> pb.VerifyResponse:
    """Verifies a whole answer in a thread, so that other calls go on; it ends after a sentence if it is cancelled."""
    passages = [_passage(passage) for passage in request.passages]
    style = MARKER_STYLES.from_proto(request.marker_style) or MarkerStyle.NONE
    left = threading.Event()
    try:
        result = await asyncio.to_thread(verify, request.answer, passages, markers=style, cancelled=left.is_set)
    finally:
        left.set()
    return pb.VerifyResponse(
        verified_citations=[_citation(citation) for citation in result.citations],
        uncited_sentences=[_uncited(sentence) for sentence in result.uncited],
        cited_numbers=result.cited_numbers,
        invalid_markers=result.invalid_markers,
    )


def _passage(passage: pb.Passage, chars: int | None = None) -> Passage:
    """A passage as the verifier reads it: its first `chars` code points, and its headings."""
    headings = (passage.title, passage.section, passage.file_name, passage.place_label)
    return Passage(passage.text[:chars], "\n".join(headings))


def _citation(citation: VerifiedCitation) -> pb.VerifiedCitation:
    return pb.VerifiedCitation(
        sentence=pb.AnswerSpan(start=citation.start, end=citation.end),
        number=citation.number,
        quote=citation.quote,
        quote_start=citation.quote_start,
        quote_end=citation.quote_end,
        support=citation.support,
        verdict=_VERDICTS.to_proto(citation.verdict),
        sentence_verdict=_VERDICTS.to_proto(citation.sentence_verdict),
        mismatches=citation.mismatches,
    )


def _uncited(sentence: UncitedSentence) -> pb.UncitedSentence:
    return pb.UncitedSentence(sentence=pb.AnswerSpan(start=sentence.start, end=sentence.end))


def _count_failure(what: str) -> None:
    metrics.VERIFICATION_FAILURES.inc()
    log.exception("verification_failed", what=what)
