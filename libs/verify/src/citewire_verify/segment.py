"""Segments an answer while it is sent: its sentences, where they are, and which markers belong to each.

Markers are blanked before anything else is looked at, so that they can't change where a sentence ends. A marker
belongs to the sentence that it stands in, or that ended right before it, also on lines of its own after it; to the
sentence that follows if it begins that one's line, or stands before a word of reporting (`S. [ref:1] states that …`).
A sentence is known to be complete once the first word of the next one is there, so that markers after its full stop
count. Text is never held back for that: the segmenter only watches.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from citewire_verify.markers import Marker
from citewire_verify.text.sentences import LOOK_AHEAD, SENTENCE_END, ends_sentence


class SentenceKind(Enum):
    """The kind of block that contains a sentence."""

    TEXT = auto()
    ITEM = auto()
    ROW = auto()
    HEADING = auto()
    CODE = auto()


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the answer, a table row, or a block of code."""

    start: int
    """In code points of the answer as it was sent."""
    end: int
    text: str
    """As long as its span, with markers blanked."""
    kind: SentenceKind
    numbers: tuple[int, ...]
    """Numbers of the passages that it cites, each once, in order."""


MAX_SENTENCE = 2000
"""Code points after which a sentence without an end counts as complete."""
_WRAPPED = 60
"""Minimum length in code points of a line that may have been wrapped in the middle of a sentence."""

_WATCHED = re.compile(r"[.!?…。！？｡।॥۔؟\n]")
_INK = re.compile(r"\S")
_WORDS_BEGIN = re.compile(r"[^\s,;:.()\[\]]")
_AFTER_MARKER = re.compile(r"[\s,;:.)\]]*")
_END_OR_LINE = re.compile(rf"(?P<end>{SENTENCE_END.pattern})|(?P<line>\n)")
_FENCE = re.compile(r"```+|~~~+")
_HEADING = re.compile(r"#{1,6}[ \t]+\S")
_BOLD_LINE = re.compile(r"(\*\*|__)[^*_\n]{1,160}(?:\1:?|:\1)[ \t]*")
_BULLET = re.compile(r"(?:[-*+•‣◦–]|\(?\d{1,3}[.)]|\(?[a-zA-Z]\))[ \t]+(?=\S)")
_BLOCK = re.compile(r"[-*+•‣◦–#|>]|```|~~~|\(?\d{1,3}[.)][ \t]|\(?[a-zA-Z]\)[ \t]")
_PREFIX = 8
"""Code points of a line that determine whether a block begins there."""
_QUOTED = re.compile(r"(?:>[ \t]?)+")
_OPENING = "([{（"
_NOT_SAID = re.compile(r"[\W_]*")
_END_MARKS = frozenset(".!?…:。！？｡।॥۔؟")
_REPORTS = re.compile(
    r"(?:also )?(?:states?|says?|notes?|mentions?|reports?|describes?|explains?|indicates?|shows?|suggests?|adds?|"
    r"confirms?|lists?|defines?|gives?|claims?)\b"
)
_ONE_WORD = re.compile(r"\W*\w+\W")
_TWO_WORDS = re.compile(r"\W*\w+\W+\w+\W")
_GAP = 400
"""Code points without a word after which a sentence no longer waits for what follows."""
_MAX_ROW = 2000
"""Code points after which a standalone line, such as a table row, counts as complete."""
_SLICE = 2048
"""Code points read at a time, so that the pending text stays short."""


class Segmenter:
    """Segments one answer."""

    def __init__(self) -> None:
        self._base = 0
        """Offset of the pending text in the answer."""
        self._text = ""
        self._parts: list[str] = []
        self._markers: list[Marker] = []
        self._scan = 0
        """No sentence ends before this offset of the pending text."""
        self._length = 0
        self._fresh = True
        """Whether the pending text begins a line."""
        self._waiting = False
        """Whether the next character may complete a sentence."""
        self._unread = 0

    @property
    def pending_markers(self) -> list[Marker]:
        """Markers whose sentences aren't complete yet, in order."""
        return self._markers.copy()

    def feed(self, text: str, markers: Sequence[Marker]) -> list[Sentence]:
        """Takes the next piece of the answer and returns the sentences that are complete now.

        Args:
            text: The piece as it was sent.
            markers: The markers in it, with offsets in the answer.
        """
        if len(text) <= _SLICE:
            return self._feed(text, markers)
        offset, sentences, first = self._base + self._length, list[Sentence](), 0
        start = 0
        while start < len(text):
            end = min(start + _SLICE, len(text))
            last = first
            while last < len(markers) and markers[last].start - offset < end:
                end = max(end, markers[last].end - offset)
                last += 1
            sentences += self._feed(text[start:end], markers[first:last])
            start, first = end, last
        return sentences

    def _feed(self, text: str, markers: Sequence[Marker]) -> list[Sentence]:
        self._parts.append(_blank(text, self._base + self._length, markers) if markers else text)
        self._length += len(text)
        self._unread += len(text)
        self._markers += markers
        if not (self._waiting or self._unread > MAX_SENTENCE or _WATCHED.search(text)):
            return []
        return self._read(final=False)

    def finish(self, *, broken: bool = False) -> list[Sentence]:
        """Returns the remaining sentences at the end of the answer.

        Args:
            broken: It was cut off, in the middle of a sentence or after one. A full stop alone may then belong to a
                number or an abbreviation; with a marker next to it, it ends a sentence.
        """
        return self._read(final=True, broken=broken)

    def _read(self, *, final: bool, broken: bool = False) -> list[Sentence]:
        if self._parts:
            self._text += "".join(self._parts)
            self._parts.clear()
            self._unread = 0
        sentences: list[Sentence] = []
        while (cut := self._next(final=final)) is not None:
            sentence, consumed = cut
            if sentence is not None and not (broken and self._is_open(sentence, consumed)):
                sentences.append(sentence)
            self._drop(consumed)
        return sentences

    def _is_open(self, sentence: Sentence, consumed: int) -> bool:
        """Whether words may be missing at the end of a sentence, because nothing follows it."""
        if _INK.search(self._text, consumed):
            return False
        end = sentence.end - self._base
        # A final marker, before or after the full stop, isn't in the sentence's span.
        return consumed == end or _END_MARKS.isdisjoint(self._text[end - 1 : consumed])

    def _drop(self, consumed: int) -> None:
        line = self._text.rfind("\n", 0, consumed)
        self._fresh = not self._text[line + 1 : consumed].strip() and (line >= 0 or self._fresh)
        self._text = self._text[consumed:]
        self._base += consumed
        self._length -= consumed
        self._scan = 0

    def _next(self, *, final: bool) -> tuple[Sentence | None, int] | None:
        """The next sentence and how much of the pending text it consumes; None if more text is needed."""
        text = self._text
        self._waiting = False
        ink = _INK.search(text)
        if ink is None:
            return (None, len(text)) if text else None
        begin = ink.start()
        fresh = self._fresh or "\n" in text[:begin]
        kind, start = _classify(text, begin) if fresh else (SentenceKind.TEXT, begin)
        if kind in {SentenceKind.TEXT, SentenceKind.ITEM}:
            end = self._sentence_end(start, final=final)
        else:
            end = self._block_end(kind, begin, final=final)
        if end is None:
            return None
        if kind is SentenceKind.TEXT and fresh and _BOLD_LINE.fullmatch(text, start, end):
            kind = SentenceKind.HEADING
        following = _WORDS_BEGIN.search(text, end, end + _GAP)
        if following is None and not final and len(text) - end < _GAP:
            self._waiting = True
            return None
        own, consumed = self._take_markers(kind, end, following.start() if following else min(len(text), end + _GAP))
        return self._sentence(kind, start, end, own), consumed

    def _sentence_end(self, start: int, *, final: bool) -> int | None:
        """Where a sentence ends; None if that isn't known yet."""
        text = self._text
        limit = start + MAX_SENTENCE
        for match in _END_OR_LINE.finditer(text, max(start, self._scan), limit):
            ends_line = match.lastgroup == "line"
            decided = (self._ends_line if ends_line else self._ends_sentence)(start, match, final=final)
            if decided is None:
                self._waiting = True
                return None
            if decided:
                return match.start() if ends_line else match.end()
            self._scan = match.end()
        self._scan = max(self._scan, min(len(text), limit))
        if len(text) > limit:
            space = text.rfind(" ", start + 1, limit)
            return space if space > start else limit
        return len(text.rstrip()) if final else None

    def _ends_sentence(self, start: int, match: re.Match[str], *, final: bool) -> bool | None:
        """Whether an end mark ends the sentence; None if that depends on further text."""
        text = self._text
        following = _WORDS_BEGIN.search(text, match.end(), match.end() + _GAP)
        if following is None:
            return True if final or len(text) - match.end() >= _GAP else None
        at = following.start()
        rest = text[at : at + LOOK_AHEAD]
        marked = match.group()[0] == "." and self._first_marker(match.end()) < self._first_marker(at)
        words = _TWO_WORDS if marked and rest.startswith("also") else _ONE_WORD
        known = len(rest) == LOOK_AHEAD or words.match(rest) is not None
        if not final and not known:
            return None
        if marked and _REPORTS.match(rest):
            return True
        if "\n" in text[match.end() : at]:
            rest = rest.upper()  # on a new line, a lower-case letter may begin a sentence too
        return ends_sentence(text, start, match, rest)

    def _ends_line(self, start: int, match: re.Match[str], *, final: bool) -> bool | None:
        """Whether a sentence ends with its line; None if that depends on further text."""
        text, line = self._text, match.start()
        following = _INK.search(text, line, line + _GAP)
        if following is None:
            return True if final or len(text) - line >= _GAP else None
        at = following.start()
        between = text[line:at]
        if between.count("\n") > 1 or self._first_marker(line) < self._first_marker(at):
            return True
        ahead = text[at : at + _PREFIX]
        if not final and len(ahead) < _PREFIX and "\n" not in ahead:
            return None
        done = text[start:line].rstrip()
        if _BLOCK.match(ahead) or not done or done[-1] in _END_MARKS:
            return True
        before = self._first_marker(line)
        last = self._markers[before - 1].end - self._base if before else 0
        if last > start and not text[last:line].strip():
            return True
        return not (ahead[0].islower() or len(done) - (done.rfind("\n") + 1) >= _WRAPPED)

    def _block_end(self, kind: SentenceKind, begin: int, *, final: bool) -> int | None:
        """The end of a standalone line or a code fence."""
        text = self._text
        line = text.find("\n", begin)
        if kind is not SentenceKind.CODE:
            if max(line, len(text)) - begin > _MAX_ROW and not begin <= line <= begin + _MAX_ROW:
                return begin + _MAX_ROW
            return line if line >= 0 else (len(text.rstrip()) if final else None)
        opening = _FENCE.match(text, begin)
        fence = opening.group() if opening else "```"
        at = max(line, self._scan)
        while at >= 0:
            end = text.find("\n", at + 1)
            last = end < 0
            if last and not final:
                break
            closing = text[at + 1 : len(text) if last else end].strip()
            if closing.startswith(fence) and not closing.strip(fence[0]):
                return len(text.rstrip()) if last else end
            self._scan = at = end
        return len(text.rstrip()) if final else None

    def _take_markers(self, kind: SentenceKind, end: int, following: int) -> tuple[list[Marker], int]:
        """Removes and returns the sentence's markers, and where the next sentence's text begins."""
        base = self._base
        inside = self._first_marker(end)
        own, gap = self._markers[:inside], self._markers[inside : self._first_marker(following)]
        taken = len(own)
        consumed = end
        stopped = kind in {SentenceKind.TEXT, SentenceKind.ITEM} and self._text[end - 1 : end] == "."
        if not (stopped and _REPORTS.match(self._text[following : following + LOOK_AHEAD])):
            # Lines with only markers belong to the sentence; the last one belongs to what follows.
            line = self._text.rfind("\n", end, following)
            for marker in gap:
                if line >= 0 and marker.start - base > line and following < len(self._text):
                    break
                own.append(marker)
                taken += 1
                consumed = marker.end - base
        del self._markers[:taken]
        if consumed > end:
            tail = _AFTER_MARKER.match(self._text, consumed)
            text = tail.group() if tail else ""
            # White space stays, because it shows whether a new line begins.
            consumed += len(text) - len(text.lstrip(",;:.)]"))
        return own, consumed

    def _first_marker(self, at: int) -> int:
        """The index of the first pending marker that begins at `at` in the pending text, or after it."""
        return bisect_left(self._markers, self._base + at, key=_marker_start)

    def _sentence(self, kind: SentenceKind, start: int, end: int, markers: list[Marker]) -> Sentence | None:
        text, base = self._text, self._base
        numbers = tuple(dict.fromkeys(number for marker in markers for number in marker.numbers))
        for marker in reversed(markers):
            # If no word follows the last marker inside, the sentence ends before it.
            last = marker.start - base
            if start < last < end:
                if not _NOT_SAID.fullmatch(text, last, end):
                    break
                end = last
        while end > start and (text[end - 1].isspace() or text[end - 1] in _OPENING):
            end -= 1
        if kind is SentenceKind.TEXT and (quoted := _QUOTED.match(text, start, end)):
            start = quoted.end()
        while start < end and text[start].isspace():
            start += 1
        if not any(char.isalnum() for char in text[start:end]):
            return None
        return Sentence(base + start, base + end, text[start:end], kind, numbers)


def _marker_start(marker: Marker) -> int:
    return marker.start


def _blank(text: str, offset: int, markers: Sequence[Marker]) -> str:
    parts: list[str] = []
    at = 0
    for marker in markers:
        start, end = marker.start - offset, marker.end - offset
        parts += (text[at:start], " " * (end - start))
        at = end
    return "".join((*parts, text[at:]))


def _classify(text: str, begin: int) -> tuple[SentenceKind, int]:
    """The kind of a line, and where its content begins."""
    if _FENCE.match(text, begin):
        return SentenceKind.CODE, begin
    if text[begin] == "|":
        return SentenceKind.ROW, begin
    if _HEADING.match(text, begin):
        return SentenceKind.HEADING, begin
    bullet = _BULLET.match(text, begin)
    return (SentenceKind.ITEM, bullet.end()) if bullet else (SentenceKind.TEXT, begin)
