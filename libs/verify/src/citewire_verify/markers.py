"""Citation markers on the stream: held back while incomplete, then checked, or removed.

What counts as a marker depends on the style that was asked for:

- `REF`, `SOURCE`: `[ref:N]` and `[SOURCE N]` in any case, with a list or range of numbers (`[ref:1, 2]`,
  `[SOURCE 1-3]`), in square or other brackets and full-width letters (`【ref：１】`). Numbers that are in the context
  are citations; others are counted as invalid. A marker that is nothing but citations is spelled as the style has it,
  number by number (`[ref:1][ref:2]`), so that clients need to know one form only. One with a number that isn't in the
  context, or with other text, stays as the model wrote it. In code (fences, inline) nothing is a marker.
- `NUMBER`: those, and bare numbers, as `REMOVE` reads them.
- `REMOVE`: those, `[Source: anything]`, and bare numbers `[1]`, `[1, 2]`, `[^1]`, `【1†source】`, up to three digits so
  that a year in brackets stays. They are taken out together with the white space before them, the commas between them
  and a link target after them. In code a bare number may be an index, so it stays; the forms with a word go there too.
- `NONE`: nothing is looked for.

Text that can't be the beginning of a marker is passed on at once, delta by delta as it came. Only after a first marker
was removed does `REMOVE` keep white space at the end of a delta until the next one, so that it can go with a marker;
before that, the first marker of an answer may leave the space before it. Work is linear in the text: a candidate is
bounded in length.
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from citewire_verify.text.code_tracker import CodeTracker


class MarkerStyle(StrEnum):
    """Which markers an answer has."""

    NONE = "none"
    REMOVE = "remove"
    """None: those that the model writes anyway are removed."""
    REF = "ref"
    """`[ref:N]`."""
    SOURCE = "source"
    """`[SOURCE N]`."""
    NUMBER = "number"
    """`[N]`, as other systems write them."""


OPENERS = "[【［〔"
CLOSERS = "]】］〕"
_OPENER = re.compile(f"[{re.escape(OPENERS)}]")
MAX_CITING = 96
"""Longest marker that is recognised where markers stay: a list of numbers and a little text after it."""
MAX_REMOVED = 512
"""Longest marker that is removed: `[Source: …]` with a long title."""
MAX_RANGE = 50
"""Widest range of numbers that is read as one; a wider one counts its ends."""

_CITING_WORDS = frozenset({"ref", "refs", "source", "sources"})
_REMOVED_WORDS = _CITING_WORDS | {
    "reference", "references", "citation", "citations", "cite", "src", "doc", "docs", "document", "documents",
    "passage", "passages", "chunk", "chunks", "excerpt", "excerpts", "context",
}  # fmt: skip
_BARE_WORDS = frozenset({"ref", "refs", "source", "sources"})
"""Words that are a marker even alone in brackets; `[document]` is more likely the text's own."""
# Each of these is anchored and has one way to match, so that reading a candidate is linear.
_WORD = r"(?:(?:ref|source)s?[ \t]{0,3}[:#=.]?[ \t]{0,3})"
_FIRST = re.compile(rf"[ \t^]{{0,3}}(?P<word>{_WORD})?(?P<number>\d+)", re.IGNORECASE)
_NEXT = re.compile(rf"[ \t]{{0,3}}[,;&/、]?[ \t]{{0,3}}(?:\band\b)?[ \t^]{{0,3}}{_WORD}?(?P<number>\d+)", re.IGNORECASE)
_RANGE = re.compile(rf"[ \t]{{0,3}}[–-][ \t]{{0,3}}{_WORD}?(?P<number>\d+)", re.IGNORECASE)
_LOOKS_LIKE_A_SOURCE = re.compile(r"\d|\.\w{2,5}\b")
_LINK_TARGET = re.compile(r"\((?:https?:|mailto:|[#/.]|www\.|[^\s()]+\.\w)[^\s()]*\)")
_CLOSING_PUNCTUATION = frozenset(".!?:)]}»”’…。！？：、，")


def _prefixes(words: frozenset[str]) -> frozenset[str]:
    return frozenset(word[:end] for word in words for end in range(1, len(word) + 1))


_FORMS = {MarkerStyle.REF: "[ref:{}]", MarkerStyle.SOURCE: "[SOURCE {}]"}
"""How a citation is spelled."""


def read_numbers(inner: str, *, worded: bool) -> tuple[list[int], str]:
    """Reads the numbers that a marker refers to, and what follows them; no numbers if it isn't a marker with some.

    Args:
        inner: What stands between the brackets: `ref:1, 2`, `SOURCE 1-3`, `1; 2`, `1†source`.
        worded: Whether it starts with a word. Then a little text may follow the numbers (`SOURCE 1, p. 4`); a bare
            list is nothing but numbers of up to three digits.
    """
    inner = _narrow(inner)
    match = _FIRST.match(inner)
    if match is None or bool(match.group("word")) is not worded:
        return [], ""
    numbers: list[int] = []
    end = 0
    while match is not None:
        first, end = match.group("number"), match.end()
        to = _RANGE.match(inner, end)
        last, end = (to.group("number"), to.end()) if to else (first, end)
        if not worded and max(len(first), len(last)) > 3:
            return [], ""
        numbers += _spread(int(first[:9]), int(last[:9]))
        match = _NEXT.match(inner, end)
    rest = inner[end:].lstrip()
    read = not rest or rest[0] == "†" or (worded and rest[0] in ",:;§|(–-")
    return (numbers, rest) if read else ([], "")


def _narrow(text: str) -> str:
    """Full-width forms as plain ones."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def _narrow_char(char: str) -> str:
    """The plain form of a full-width character."""
    if "\uff01" <= char <= "\uff5e":
        return chr(ord(char) - 0xFEE0)
    return " " if char == "\u3000" else char


def _spread(first: int, last: int) -> list[int]:
    if last < first or last - first > MAX_RANGE:
        return [first, last]
    return list(range(first, last + 1))


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker in the answer as it was sent, with the numbers in it that are in the context."""

    start: int
    end: int
    numbers: tuple[int, ...]


class MarkerFilter:
    """Reads the markers of one answer while it streams.

    Args:
        style: What to look for.
        count: How many passages there are; they are numbered from 1.
        verbatim: Whether the text stays as it is: markers are read, and neither spelled anew nor removed.
    """

    def __init__(self, style: MarkerStyle, count: int, *, verbatim: bool = False) -> None:
        self._remove = style is MarkerStyle.REMOVE
        self._bare = style in {MarkerStyle.REMOVE, MarkerStyle.NUMBER}
        self._cut = self._remove and not verbatim
        self._off = style is MarkerStyle.NONE
        self._form = "" if verbatim else _FORMS.get(style, "")
        self._words = _REMOVED_WORDS if self._remove else _CITING_WORDS
        self._word_prefixes = _prefixes(self._words)
        self._limit = MAX_REMOVED if self._remove else MAX_CITING
        self._passages = count
        self._cited: dict[int, None] = {}
        self._code = CodeTracker()
        self._out: list[str] = []
        self._candidate = ""
        self._viable: Callable[[str], bool] = self._opening
        self._word = ""
        self._depth = 0
        # REMOVE only: white space before a marker, what stands between removed ones, a link target after one.
        self._gap = ""
        self._separator = ""
        self._link = ""
        self._after_removed = False
        self._after_space = False
        self._sent = 0
        self._markers: list[Marker] = []
        self.invalid = 0
        """Numbers in markers that aren't in the context."""
        self.removed = 0
        """Markers that were taken out."""

    @property
    def cited(self) -> tuple[int, ...]:
        """Numbers of the context that markers in the text refer to, each once, in order of first use."""
        return tuple(self._cited)

    def take_markers(self) -> list[Marker]:
        """Returns the citations in the text that was returned since the last call; none where markers are removed."""
        markers, self._markers = self._markers, []
        return markers

    def feed(self, text: str) -> str:
        """Takes the next piece of the answer and returns what may be shown now."""
        if self._off:
            return text
        if self._plain(text):
            self._code.push(text)
            self._sent += len(text)
            self._after_space = text[-1:] in {" ", "\t"} if text else self._after_space
            return text
        for char in text:
            self._step(char)
        if self._gap and not self._candidate and not self.removed:
            gap, self._gap = self._gap, ""
            self._emit(gap)
        return self._take()

    def finish(self) -> str:
        """Returns what is still pending: it was no complete marker, so it is text."""
        if self._candidate:
            candidate, self._candidate = self._candidate, ""
            self._pass(candidate)
        if self._link:
            self._drop_link()
        if self._after_removed:
            self._out.append(self._separator.rstrip() if self._separator.strip() and not self._code.line_blank else "")
        else:
            self._out.append(self._gap)
        self._gap = self._separator = ""
        return self._take()

    def _plain(self, text: str) -> bool:
        """Whether text can pass as it is: nothing is pending, and nothing in it is of interest."""
        if self._candidate or self._gap or self._after_removed or _OPENER.search(text):
            return False
        return not (self.removed and text and text[-1] in " \t")

    def _take(self) -> str:
        text = "".join(self._out)
        self._out.clear()
        return text

    def _step(self, char: str) -> None:
        if self._candidate:
            self._grow(char)
        elif self._link:
            self._grow_link(char)
        elif char in OPENERS and self._may_open():
            self._open(char)
        else:
            self._pass(char)

    def _may_open(self) -> bool:
        self._code.settle()
        return self._remove or not self._code.inside

    def _open(self, char: str) -> None:
        self._candidate, self._viable, self._word, self._depth = char, self._opening, "", 1

    def _grow(self, char: str) -> None:
        """Adds a character to the candidate, and decides if that completes or disproves it."""
        self._candidate += char
        if char in CLOSERS:
            self._depth -= 1
            if self._depth == 0:
                self._complete()
                return
        if char == "\n" or len(self._candidate) >= self._limit or not self._viable(_narrow_char(char)):
            self._reject()

    def _reject(self) -> None:
        """The candidate's first character is text; the rest may hold another candidate."""
        candidate, self._candidate = self._candidate, ""
        self._pass(candidate[0])
        for char in candidate[1:]:
            self._step(char)

    # The states of a candidate: each says whether it can still become a marker with this character.

    def _opening(self, char: str) -> bool:
        if char.isdecimal():
            self._viable = self._in_numbers
            return self._bare and not self._code.inside
        if char.isascii() and char.isalpha():
            self._viable = self._in_word
            return self._in_word(char)
        return char in " ^" and len(self._candidate) <= 4

    def _in_word(self, char: str) -> bool:
        if char.isascii() and char.isalpha():
            self._word += char.lower()
            return self._word in self._word_prefixes
        if self._word not in self._words:
            return False
        self._viable = self._in_payload if self._remove else self._before_number
        return self._viable(char)

    def _before_number(self, char: str) -> bool:
        if char.isdecimal():
            self._viable = self._in_payload
            return True
        return char in " :#=.\u00a0"

    def _in_payload(self, char: str) -> bool:
        if char in OPENERS:
            self._depth += 1
        return self._depth <= 3

    def _in_numbers(self, char: str) -> bool:
        if char == "†":
            self._viable = self._in_payload
            return True
        return char.isdecimal() or char in " ,;&/、–-^and"

    def _complete(self) -> None:
        candidate = self._candidate
        numbers, rest = read_numbers(candidate[1:-1], worded=bool(self._word))
        if not numbers and not (self._remove and self._is_worded(candidate[1:-1])):
            self._reject()
            return
        self._candidate = ""
        known = self._count(numbers, cite=not self._remove)
        if self._cut:
            self.removed += 1
            self._after_removed, self._separator = True, ""
            return
        pure = bool(self._form) and known and (not rest or rest[0] == "†")
        shown = "".join(map(self._form.format, dict.fromkeys(numbers))) if pure else candidate
        cited = () if self._remove else tuple(n for n in dict.fromkeys(numbers) if 1 <= n <= self._passages)
        self._markers.append(Marker(self._sent, self._sent + len(shown), cited))
        self._emit(shown)

    def _is_worded(self, inner: str) -> bool:
        """`[Source: x]`, `[Source]`, `[Source report.pdf]`; but not `[source code]`."""
        if self._word not in self._words:
            return False
        rest = _narrow(inner).lstrip(" ^")[len(self._word) :].strip()
        if not rest:
            return self._word in _BARE_WORDS
        return rest[0] in ":=#" or _LOOKS_LIKE_A_SOURCE.search(rest) is not None

    def _count(self, numbers: list[int], *, cite: bool) -> bool:
        """Counts a marker's numbers, and says whether all are in the context."""
        before = self.invalid
        for number in numbers:
            if not 1 <= number <= self._passages:
                self.invalid += 1
            elif cite:
                self._cited[number] = None
        return self.invalid == before

    # Text that passes, and the white space around what was removed.

    def _pass(self, text: str) -> None:
        """Lets text through. It is one character, or the candidate that was pending at the end."""
        if not self._cut:
            self._emit(text)
            return
        char = text[0]
        if self._after_removed:
            if char in " \t,;":
                self._separator += text
                return
            if char == "(" and not self._separator:
                self._link = text
                return
            self._close_gap(char)
        elif text in {" ", "\t"}:
            self._gap += text
            return
        gap, self._gap = self._gap, ""
        self._emit(gap + text)

    def _emit(self, text: str) -> None:
        self._code.push(text)
        self._out.append(text)
        self._sent += len(text)
        self._after_space = text[-1] in " \t"

    def _close_gap(self, char: str) -> None:
        """Decides which white space stays where markers were, now that the next character is known."""
        gap, separator = self._gap, self._separator
        self._gap = self._separator = ""
        self._after_removed = False
        if self._code.line_blank or char == "\n":
            return
        if separator.strip():
            self._gap = separator
        elif char not in _CLOSING_PUNCTUATION and not (self._after_space and not gap):
            self._gap = separator or gap

    def _grow_link(self, char: str) -> None:
        self._link += char
        if char == ")":
            self._drop_link()
        elif char.isspace() or len(self._link) >= MAX_REMOVED:
            link, self._link = self._link, ""
            self._close_gap(link[0])
            for follower in link:
                self._step(follower)

    def _drop_link(self) -> None:
        """A target of a link, whose text was the marker, goes with it; other text in parentheses stays."""
        link, self._link = self._link, ""
        if _LINK_TARGET.fullmatch(link):
            return
        self._close_gap(link[0])
        gap, self._gap = self._gap, ""
        self._emit(gap + link)


def find_markers(text: str, style: MarkerStyle, count: int) -> tuple[list[Marker], int]:
    """Finds the markers of a whole text, which stays as it is.

    Returns:
        The markers, each with the link target after it (`[1](https://…)`), and how many of their numbers aren't in the
        context.
    """
    reader = MarkerFilter(style, count, verbatim=True)
    reader.feed(text)
    reader.finish()
    markers: list[Marker] = []
    for marker in reader.take_markers():
        link = _LINK_TARGET.match(text, marker.end)
        markers.append(Marker(marker.start, link.end(), marker.numbers) if link else marker)
    return markers, reader.invalid
