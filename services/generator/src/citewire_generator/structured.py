"""An answer in JSON on its way to the reader: held until it is complete, checked, and then sent at once.

A part of a JSON text is of no use until all of it is there, and what was sent can't be taken back: so nothing is sent
that doesn't follow the schema. Where the model didn't keep to it, the answer is a refusal with the reason, as OpenAI's
clients know it. The citations are those of the values: each text is compared with the passages, sentence by sentence.
"""

import re
from collections.abc import Iterator, Sequence
from json import JSONDecoder
from typing import Final

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.json_schemas import NotJsonError, read_schema
from citewire_generator.model import Citation, FinishReason
from citewire_generator.providers.base import End
from citewire_generator.verification import AnswerVerifier
from citewire_kit.telemetry import get_logger
from citewire_verify import MarkerFilter, MarkerStyle, Sentence, SentenceKind
from citewire_verify.segment import Segmenter

log = get_logger(__name__)

_DECODER: Final = JSONDecoder()
_TOKEN = re.compile(r'[\s:,]*(?:([\[{])|([\]}])|(")|([^\s:,\[\]{}"]+))')
MAX_POINTER: Final = 1_000
"""Maximum characters of a pointer; longer ones are "", because there may be as many as the answer has values."""
_FEW_WORDS: Final = 4
"""Number of words below which a text is only meaningful together with its name."""


class StructuredAnswer:
    """The text of one answer in JSON, in place of `AnswerText`.

    Args:
        request: The request, which has a format.
        citations: The citations that the answer may use.
    """

    def __init__(self, request: pb.GenerateRequest, citations: Sequence[Citation]) -> None:
        self._schema = read_schema(request.format.schema_json, strict=request.format.strict)
        self._verifier = AnswerVerifier(request.policy, citations)
        self._texts: list[str] = []
        self._pointers: dict[int, str] = {}
        self.markers = MarkerFilter(MarkerStyle.NONE, len(citations), bare=False, remove_invalid=False)
        """Always zero, because JSON contains no markers."""
        self.sentences: Sequence[Sentence] = ()
        self.not_found = False
        self.suggested_questions = 0
        self.refusal = ""
        """Why there is no JSON; "" if there is, or if the answer was cut off."""

    def feed(self, texts: Sequence[str]) -> list[str]:
        """Takes a delta's texts; nothing is sent yet."""
        self._texts += texts
        return []

    def finish(self, end: End) -> str:
        """Returns the answer, or the beginning of one that was cut at a limit."""
        text = "".join(self._texts)
        if end.finish_reason in {FinishReason.LENGTH, FinishReason.TOOL_CALLS}:
            return text
        if end.refusal or end.finish_reason in {FinishReason.REFUSAL, FinishReason.CONTENT_FILTER}:
            self.refusal = end.refusal or text.strip() or "The model gave no answer."
            self.not_found = end.not_found
            return ""
        try:
            answer = self._schema.read(text)
        except NotJsonError as exc:
            log.warning("answer_not_in_format", problem=str(exc), chars=len(text))
            self.refusal = f"The model's answer didn't have the requested form: {exc}."
            return ""
        self.sentences = self._sentences(answer)
        return answer

    def abort(self) -> str:
        """Called if the answer was cut off. Returns nothing, because part of a JSON text is useless."""
        return ""

    async def verify(self) -> list[pb.VerifiedCitation | pb.UncitedSentence]:
        """Verifies the sentences of the values; citations include their position in the JSON."""
        sentences, self.sentences = self.sentences, ()
        results = await self._verifier.verify(sentences)
        for result in results:
            if isinstance(result, pb.VerifiedCitation):
                result.pointer = self._pointers.get(result.sentence.start, "")
        return results

    def _sentences(self, answer: str) -> list[Sentence]:
        sentences: list[Sentence] = []
        for pointer, start, end, value in scalars(answer):
            name = pointer.rpartition("/")[2]
            if isinstance(value, str) and len(value.split()) >= _FEW_WORDS:
                parts = _segmented(value, start, end)
            else:
                shown = value if isinstance(value, str) else answer[start:end]
                parts = [Sentence(start, end, f"{_words(pointer, name)}: {shown}", SentenceKind.TEXT, ())]
            self._pointers.update((sentence.start, pointer) for sentence in parts)
            sentences += parts
        return sentences


def scalars(text: str) -> Iterator[tuple[str, int, int, object]]:
    """Yields the texts and numbers of a valid JSON text: pointer, span in code points without quotes, and value."""
    path: list[str | int] = []
    above: list[str | None] = []  # pointers of the containers
    place = 0
    name_next = False
    while (token := _TOKEN.match(text, place)) is not None:
        opens, closes, quote, bare = token.groups()
        place = token.end()
        if closes:
            path.pop()
            above.pop()
        elif quote:
            start = place
            value, place = _DECODER.raw_decode(text, start - 1)
            if name_next:
                path[-1], name_next = value, False
                continue
            yield _pointer(above, path) or "", start, place - 1, value
        elif bare and bare not in {"true", "false", "null"}:
            yield _pointer(above, path) or "", token.start(4), place, float(bare)
        if opens:
            above.append(_pointer(above, path))
            path.append(0 if opens == "[" else "")
            name_next = opens == "{"
        elif path:
            if isinstance(path[-1], int):
                path[-1] += 1
            else:
                name_next = True


def _pointer(above: Sequence[str | None], path: Sequence[str | int]) -> str | None:
    """The pointer of the current value; None if it is too long."""
    if not path:
        return ""
    container = above[-1]
    if container is None or len(container) + len(str(path[-1])) >= MAX_POINTER:
        return None
    return f"{container}/{str(path[-1]).replace('~', '~0').replace('/', '~1')}"


def _words(pointer: str, name: str) -> str:
    """A value's name in words; in a list, the list's name."""
    names = [part for part in pointer.split("/") if part and not part.isdigit()]
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_-]+", " ", names[-1] if names else name)


def _segmented(value: str, start: int, end: int) -> list[Sentence]:
    """The sentences of a text; one for the whole text if escapes shift its characters."""
    if end - start != len(value):
        return [Sentence(start, end, value, SentenceKind.TEXT, ())]
    segmenter = Segmenter()
    sentences = [*segmenter.feed(value, ()), *segmenter.finish(broken=False)]
    return [
        Sentence(sentence.start + start, sentence.end + start, sentence.text, sentence.kind, ())
        for sentence in sentences
    ]
