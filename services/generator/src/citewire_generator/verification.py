"""Verifies an answer on its way, and whole answers for Verify.

What goes wrong in verification must not cost anybody an answer: it is logged and counted, and what was to be verified
is said to be unverified, whether a fault, a limit or the time was the cause.
"""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import fields

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator import metrics
from citewire_generator.model import Citation
from citewire_kit.enums import EnumMap
from citewire_kit.telemetry import get_logger
from citewire_kit.turns import in_long_turn, in_turn
from citewire_verify import (
    MAX_CITED,
    Marker,
    MarkerStyle,
    Passage,
    Sentence,
    SentenceKind,
    UncitedSentence,
    Verdict,
    VerifiedCitation,
    Verifier,
    verify,
)

log = get_logger(__name__)

IN_LOOP = 400
"""Code points that are compared in the event loop, a few milliseconds of work; more are compared in a thread, so that
other answers continue."""
MAX_RESULTS = 500
"""Maximum verified citations and uncited sentences of one answer, so that a hostile model can't cause megabytes."""
MAX_SECONDS = 10.0
"""Time limit for one sentence, including the wait for its turn; after it, the rest of the answer isn't verified."""
MARKER_STYLES = EnumMap(MarkerStyle, pb.MarkerStyle, unspecified=MarkerStyle.NONE)
_VERDICTS = EnumMap(Verdict, pb.Verdict)
_BY_NAME = sorted(
    {field.name for field in fields(VerifiedCitation)}
    & {*pb.VerifiedCitation.DESCRIPTOR.fields_by_name} - {"verdict", "sentence_verdict"}
)
"""Fields that a message takes over from the verifier's citation."""


class AnswerVerifier:
    """Verifies one answer while it is sent.

    Args:
        policy: The answer's policy.
        citations: The citations that it may use.
        known: The server's own sentences, which state no facts.
    """

    def __init__(self, policy: pb.AnswerPolicy, citations: Sequence[Citation], known: Sequence[str] = ()) -> None:
        marked = policy.marker_style in {pb.MARKER_STYLE_REF, pb.MARKER_STYLE_SOURCE}
        self._verifier = Verifier(
            {citation.number: _passage(citation.passage, len(citation.text)) for citation in citations},
            cited=policy.verify_citations,
            uncited=policy.flag_uncited,
            attribute=policy.verify_citations and not marked,
            known=(policy.not_found_sentence, *known),
        )
        self._segments = True
        """Whether segmentation works; after a failure, only markers are reported."""
        self._pending: list[Marker] = []
        """Markers whose sentences aren't complete, kept for a failure of the segmenter."""
        self._late = False
        self._ended = False
        self._results = 0
        self._left_out: _LeftOut | None = None

    def feed(self, text: str, markers: Sequence[Marker]) -> list[Sentence]:
        """Takes text that was sent and returns the sentences that are complete now."""
        self._pending += markers
        if not self._segments:
            return self._take_markers()
        try:
            sentences = self._verifier.feed(text, markers)
        except Exception:  # noqa: BLE001 # a fault here must not cost an answer
            return self._give_up()
        if sentences:
            self._pending = self._verifier.pending_markers
        return sentences

    def finish(self, *, broken: bool = False) -> list[Sentence]:
        """Returns the remaining sentences when the answer ends or is cut off."""
        self._ended = True
        try:
            return self._verifier.finish(broken=broken) if self._segments else []
        except Exception:  # noqa: BLE001 # a fault here must not cost an answer
            return self._give_up()

    async def verify(
        self, sentences: Sequence[Sentence], *, uncited: bool = True
    ) -> list[pb.VerifiedCitation | pb.UncitedSentence]:
        """Verifies complete sentences; `uncited` is False if nothing needs a citation."""
        results: list[VerifiedCitation | UncitedSentence] = []
        for sentence in sentences:
            if self._left_out or self._results + max(1, len(sentence.numbers)) > MAX_RESULTS:
                self._leave_out(sentence)
                continue
            verified = await self._verify(sentence, uncited=uncited)
            self._results += len(verified)
            results += verified
        if self._ended and self._left_out:
            results += self._verifier.unverified(self._left_out.as_sentence())
        return [_citation(result) if isinstance(result, VerifiedCitation) else _uncited(result) for result in results]

    async def _verify(self, sentence: Sentence, *, uncited: bool) -> Sequence[VerifiedCitation | UncitedSentence]:
        """Verifies a sentence, and yields to others before the next one."""
        if self._late or not self._segments:
            return self._verifier.unverified(sentence, uncited=uncited)
        if len(sentence.numbers) > MAX_CITED:
            _count_failure("limit", "citations of a sentence")
        try:
            if self._verifier.effort(sentence) > IN_LOOP:
                async with asyncio.timeout(MAX_SECONDS):
                    return await in_turn(self._verifier.verify, sentence, uncited=uncited)
            await asyncio.sleep(0)
            return self._verifier.verify(sentence, uncited=uncited)
        except TimeoutError:
            self._late = True
            _count_failure("time", "answer")
        except Exception:  # noqa: BLE001 # a fault here must not cost an answer
            _count_failure("fault", "sentence")
        return self._verifier.unverified(sentence, uncited=uncited)

    def _leave_out(self, sentence: Sentence) -> None:
        """Records a sentence beyond the limit of verified ones."""
        if self._left_out is None:
            _count_failure("limit", "results of an answer")
            self._left_out = _LeftOut(sentence.start)
        self._left_out.add(sentence)

    def _take_markers(self) -> list[Sentence]:
        """Each pending marker as a sentence of its own."""
        markers, self._pending = self._pending, []
        return [Sentence(marker.start, marker.end, "", SentenceKind.TEXT, marker.numbers) for marker in markers]

    def _give_up(self) -> list[Sentence]:
        _count_failure("fault", "answer")
        self._segments = False
        return self._take_markers()


class _LeftOut:
    """The unverified rest of an answer with too many results, represented by one citation per number."""

    def __init__(self, start: int) -> None:
        self._start = self._end = start
        self._numbers: dict[int, None] = {}

    def add(self, sentence: Sentence) -> None:
        """Extends it to a sentence."""
        self._end = sentence.end
        self._numbers.update(dict.fromkeys(sentence.numbers))

    def as_sentence(self) -> Sentence:
        """The whole rest, with the numbers that it cites."""
        return Sentence(self._start, self._end, "", SentenceKind.TEXT, tuple(self._numbers))


async def verify_answer(request: pb.VerifyRequest) -> pb.VerifyResponse:
    """Verifies a whole answer in a thread, so that other calls continue; if cancelled, it ends after a sentence."""
    passages = [_passage(passage) for passage in request.passages]
    style = MARKER_STYLES.from_proto(request.marker_style) or MarkerStyle.NONE
    left = threading.Event()
    try:
        result = await in_long_turn(
            verify,
            request.answer,
            passages,
            markers=style,
            cancelled=left.is_set,
            on_failure=lambda _: _count_failure("fault", "sentence"),
        )
    finally:
        left.set()
    return pb.VerifyResponse(
        verified_citations=[_citation(citation) for citation in result.citations],
        uncited_sentences=[_uncited(sentence) for sentence in result.uncited],
        cited_numbers=result.cited_numbers,
        invalid_markers=result.invalid_markers,
    )


def _passage(passage: pb.Passage, chars: int | None = None) -> Passage:
    """A passage for the verifier: its first `chars` code points, and its headings."""
    headings = (passage.title, passage.section, passage.file_name, passage.place_label)
    return Passage(passage.text[:chars], "\n".join(headings))


def _citation(citation: VerifiedCitation) -> pb.VerifiedCitation:
    return pb.VerifiedCitation(
        sentence=pb.AnswerSpan(start=citation.start, end=citation.end),
        verdict=_VERDICTS.to_proto(citation.verdict),
        sentence_verdict=_VERDICTS.to_proto(citation.sentence_verdict),
        **{name: getattr(citation, name) for name in _BY_NAME},
    )


def _uncited(sentence: UncitedSentence) -> pb.UncitedSentence:
    return pb.UncitedSentence(sentence=pb.AnswerSpan(start=sentence.start, end=sentence.end))


def _count_failure(cause: str, what: str) -> None:
    """Counts a failure; within an `except` the error is logged."""
    metrics.VERIFICATION_FAILURES.labels(cause).inc()
    log.warning("verification_failed", cause=cause, what=what, exc_info=True)
