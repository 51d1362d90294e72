"""Reads the marker that begins at a place of a text, if what stands around it says that it is one.

A bare number in brackets may be an index (`items[1]`), an isotope (`H[2]O`), a link (`[1](url)`, `[text][1]`), a
definition (`[1]: url`) or a value (`x = [1, 2]`): only what stands free, in the brackets' usual form, is a marker.
"""

import re
from dataclasses import dataclass
from typing import Final

from citewire_verify.marker_forms import (
    LETTERS,
    PLAUSIBLE,
    Content,
    may_become_content,
    names_source,
    narrow,
    read_content,
    read_numbers,
)
from citewire_verify.text.markdown import MORE, NO, target_end
from citewire_verify.text.source_words import (
    AND_PREFIXES,
    AND_WORDS,
    NAMING_WORDS,
    PARENTHESIS_PREFIXES,
    SEE_WORDS,
    SOURCE_WORDS,
)
from citewire_verify.text.terms import normalise

OPENERS: Final = "[【［〔"
CLOSERS: Final = "]】］〕"
PARENTHESES: Final = "(（"
MAX_CITING: Final = 96
"""Longest marker recognised if markers stay: a list of numbers followed by a little text."""
MAX_REMOVED: Final = 512
"""Longest marker that is removed: `[Source: …]` with a long title."""
MAX_BARE: Final = 64
"""Longest list of bare numbers."""
MAX_WRAPPED: Final = 16
"""Most markers in one pair of parentheses or emphasis."""
AROUND: Final = 160
"""Code points around a marker that are searched for surrounding brackets."""
_YES: Final = 1

_NO_BRACKET = rf"[^\n{re.escape(OPENERS + CLOSERS)}]"
_OPEN, _CLOSE = f"[{re.escape(OPENERS)}]", f"[{re.escape(CLOSERS)}]"
_INNER = re.compile(rf"(?:{_NO_BRACKET}|{_OPEN}(?:{_NO_BRACKET}|{_OPEN}{_NO_BRACKET}*+{_CLOSE})*+{_CLOSE})*+")
_IN_PARENTHESES = re.compile(r"(?:[^()（）\n]|[(（][^()（）\n]*+[)）])*+")
_BRACKET = re.compile(r"[\[\]\n]")
_LETTERS = re.compile(rf"{LETTERS}{{0,24}}+")
_SPACES = re.compile(r"[ \t]{0,3}+")
_AFTER_SEE = re.compile(r"[.:]?[ \t]{0,2}+")
_AFTER_WORD = re.compile(r"[ \t]{0,2}(?:[:：=#].*|[\d.#№:].*)?", re.DOTALL)
_JOIN = re.compile(rf"[ \t]{{0,4}}+(?:[,;&/、，；،؛]|(?P<word>{LETTERS}{{1,24}}+))?+[ \t]{{0,4}}+")
_INTERVAL = re.compile(
    r"(?:interval\w{0,2}|intervall\w?|range|bereich|rango|scale|skala|between|区间|範囲)[ \t:]*(?:of|von|de)?[ \t]*$",
    re.IGNORECASE,
)
_FREE = frozenset(".,;!?…%‰°”’»」』】］〕）》〉。、，；：！？·•*|“‘«„「『（《—–\u3000\u00a0 \t\n")
_OPERATORS = frozenset("=∈≤≥≠×÷≈")


@dataclass(frozen=True, slots=True)
class Form:
    """A marker, or several with the text that joins and surrounds them."""

    end: int
    numbers: tuple[int, ...]
    """All of them, in order."""
    rest: str = ""
    """Other text in it, after the numbers."""


@dataclass(frozen=True, slots=True)
class MarkerReader:
    """Reads markers: the result is a `Form`, `NO`, or `MORE` if more text is needed to decide."""

    count: int
    """Number of passages."""
    bare: bool
    """Whether numbers alone are markers."""
    named: bool
    """Whether names of sources are markers too."""
    attached: bool = False
    """Whether numbers are markers directly after a word and with a link's target."""

    def bracket(self, text: str, at: int, *, begins: bool, follows: bool, final: bool) -> Form | int:
        """Reads a marker in brackets.

        Args:
            text: The text.
            at: Offset of the opening bracket.
            begins: Whether it begins its line.
            follows: Whether it follows another marker, and so isn't an index.
            final: Whether the text is complete.
        """
        first = text[at + 1 : at + 2]
        if not first:
            return NO if final else MORE
        numeric = first.isdecimal()
        if numeric and text[at] == "[" and not (follows or self._stands_free(text, at)):
            return NO
        limit = at + (MAX_BARE if numeric else MAX_REMOVED if self.named else MAX_CITING)
        end = self._inner_end(text, at + 1, limit)
        if end == MORE:
            whole = final or len(text) >= limit or "\n" in text[at:limit]
            return NO if whole or not may_become_content(text[at + 1 :], source=self.named) else MORE
        content = read_content(text[at + 1 : end], source=self.named)
        if content is None or not self._plausible(content, text, at):
            return NO
        fits = self._fits(text, at, end + 1, content, begins=begins, final=final)
        return Form(end + 1, tuple(content.numbers), content.rest) if fits == _YES else fits

    def parenthesis(self, text: str, at: int, *, final: bool) -> Form | int:
        """Reads markers in parentheses: `(Source: a.pdf)`, `(see [1], [2])`, `(source 1)`."""
        if at and (_is_identifier(text[at - 1]) or text[at - 1] in ")]"):
            return NO
        at_word = _end(_SPACES, text, at + 1)
        after, word = _word(text, at_word)
        if word in SEE_WORDS and (after < len(text) or final):
            at_word = _end(_AFTER_SEE, text, after)
            after, word = _word(text, at_word)
        if after == len(text) and not final:
            return MORE if not word or word in PARENTHESIS_PREFIXES else NO
        opening = _end(_AFTER_SEE, text, after) if word in SOURCE_WORDS else after
        if text[opening : opening + 1] and text[opening] in OPENERS and (not word or word in SOURCE_WORDS):
            return self._closed(text, opening, ")）", final=final)
        return self._name(text, at, at_word, after, word, final=final) if word in NAMING_WORDS else NO

    def emphasis(self, text: str, at: int, run: str, *, final: bool) -> Form | int:
        """Reads emphasised markers such as `**[1]**`, which `run` opens."""
        if at and text[at - 1].isalnum() and run != "**":
            return NO
        return self._closed(text, at + len(run), run, final=final)

    def join(self, text: str, at: int, *, final: bool) -> int:
        """Returns the end of text that may join two markers (`, `, ` and `), or MORE."""
        match = _JOIN.match(text, at)
        end = match.end() if match else at
        word = normalise(match.group("word") or "") if match else ""
        if end == len(text) and not final:
            return MORE if not word or word in AND_PREFIXES else at
        return end if not word or word in AND_WORDS else at

    def _closed(self, text: str, at: int, closing: str, *, final: bool) -> Form | int:
        """Reads several markers up to the closing parenthesis or run of emphasis."""
        numbers: list[int] = []
        for _ in range(MAX_WRAPPED):
            if at >= len(text):
                return NO if final else MORE
            if text[at] in OPENERS:
                form = self.bracket(text, at, begins=False, follows=True, final=final)
            else:
                form = self.parenthesis(text, at, final=final) if text[at] in PARENTHESES else NO
            if not isinstance(form, Form):
                return form
            numbers += form.numbers
            at = self.join(text, form.end, final=final)
            if at == MORE:
                return MORE
            if text[at : at + 1] not in tuple(OPENERS):
                return _close(text, form.end, closing, tuple(numbers), final=final)
        return NO

    def _name(self, text: str, at: int, at_word: int, after: int, word: str, *, final: bool) -> Form | int:
        limit = at + MAX_REMOVED
        end = _end(_IN_PARENTHESES, text, at + 1, limit)
        if end >= min(len(text), limit) or text[end] not in ")）":
            whole = final or len(text) >= limit or "\n" in text[at:limit]
            return NO if whole or not _AFTER_WORD.fullmatch(text, after) else MORE
        inner = narrow(text[at_word:end])
        numbers, rest = read_numbers(inner, worded=True)
        if numbers and all(1 <= number <= self.count for number in numbers):
            return Form(end + 1, tuple(numbers), rest)
        # `(Ref: AB-12)` belongs to the text.
        named = self.named and word not in {"ref", "refs"} and inner.strip().casefold() != word
        return Form(end + 1, tuple(numbers)) if named and names_source(inner) and _is_name(inner) else NO

    def _inner_end(self, text: str, start: int, limit: int) -> int:
        end = _end(_INNER, text, start, limit)
        return end if end < min(len(text), limit) and text[end] in CLOSERS else MORE

    def _plausible(self, content: Content, text: str, at: int) -> bool:
        """Whether numbers may refer to passages, rather than be a year, a code or an interval."""
        numbers = content.numbers
        if content.word in SOURCE_WORDS or content.word == "†" or not numbers:
            return True
        if max(numbers) > max(self.count, PLAUSIBLE):
            return False
        if content.word or self.attached:
            return True
        if not self.bare or _INTERVAL.search(text, max(at - 32, 0), at):
            return False
        return len(numbers) == 1 or (0 not in numbers and any(number <= self.count for number in numbers))

    def _stands_free(self, text: str, at: int) -> bool:
        """Whether a bracket that opens at `at` can't be an index."""
        if self.attached or not at:
            return True
        before, earlier = text[at - 1], text[max(at - 2, 0) : at - 1]
        if before in " \t":
            return text[max(at - 6, 0) : at].rstrip(" \t")[-1:] not in _OPERATORS
        if before in _FREE:
            return True
        if before in "([":
            return earlier != "[" and self._stands_free(text, at - 1)
        if before == ">":
            return earlier not in {"-", "="}
        if before in "\"'":
            return earlier in {".", "!", "?", ","}
        if not before.isalpha() or before <= "\u024f" or "\u1e00" <= before <= "\u1eff":
            return False
        # A single letter may be part of a formula.
        return before >= "\u2e80" or earlier.isalpha() or "\u0e00" <= before <= "\u0eff"

    def _fits(self, text: str, at: int, end: int, content: Content, *, begins: bool, final: bool) -> int:
        """Whether brackets may be a marker, judging by their surroundings: `NO`, `MORE` or `_YES`.

        Brackets other than square ones aren't links, but a marker that stays is rewritten with square ones and would
        become a link.
        """
        if self.attached or (self.named and text[at] != "["):
            return _YES
        following = text[end : end + 1]
        if not following and not final:
            return MORE
        if following == "(":
            target = target_end(text, end, final=final)
            return self._stands_outside(text, at, end, content, final=final) if target == NO else min(target, NO)
        if text[at] == "[" and not content.word:
            if (following != "_" and _is_identifier(following)) or (following == ":" and begins):
                return NO
            if following == "[" and (label := self._is_label(text, end, final=final)) != NO:
                return min(label, NO)
        return self._stands_outside(text, at, end, content, final=final)

    def _is_label(self, text: str, at: int, *, final: bool) -> int:
        """Whether brackets directly after others are a link's label rather than a marker: `[1][note]`."""
        limit = at + MAX_CITING
        end = self._inner_end(text, at + 1, limit)
        if end == MORE:
            return NO if final or len(text) >= limit or "\n" in text[at:limit] else MORE
        return NO if read_content(text[at + 1 : end], source=self.named) else _YES

    def _stands_outside(self, text: str, at: int, end: int, content: Content, *, final: bool) -> int:
        """Whether a marker isn't in a link's text or, for a number, in other brackets; `[[1]]` is still a marker."""
        start = max(text.rfind("\n", max(at - AROUND, 0), at) + 1, at - AROUND, 0)
        if text.count("[", start, at) <= text.count("]", start, at):
            return _YES
        depth, limit = 0, end + AROUND
        for match in _BRACKET.finditer(text, end, limit):
            char = match.group()
            if char == "\n":
                return _YES
            depth += 1 if char == "[" else -1
            if depth < 0:
                if match.end() == len(text) and not final:
                    return MORE
                double = text[at - 1] == "[" and match.start() == end
                link = text[match.end() : match.end() + 1] == "("
                return NO if link or not (content.word or double) else _YES
        return _YES if final or len(text) >= limit else MORE


def _close(text: str, at: int, closing: str, numbers: tuple[int, ...], *, final: bool) -> Form | int:
    """The closing parenthesis or emphasis after markers, with white space before a parenthesis."""
    if closing[0] == ")":
        at = _end(_SPACES, text, at)
        if at == len(text):
            return NO if final else MORE
        return Form(at + 1, numbers) if text[at] in closing else NO
    if text.startswith(closing, at):
        return Form(at + len(closing), numbers)
    partial = len(text) - at < len(closing) and closing.startswith(text[at:])
    return MORE if partial and not final else NO


def _word(text: str, at: int) -> tuple[int, str]:
    """The normalised word at `at`, and its end."""
    end = _end(_LETTERS, text, at)
    return end, normalise(text[at:end])


def _is_name(inner: str) -> bool:
    """Whether words in parentheses name a source by their form: `Source: x`, `Source report.pdf`; not `source of 2`."""
    return re.match(rf"[ \t]*{LETTERS}{{1,24}}+[ \t]*(?:[:=#]|[^\s]{{1,80}}\.\w{{2,5}}[ \t]*$)", inner) is not None


def _is_identifier(char: str) -> bool:
    """Whether a character may be part of an identifier in a program, in Latin script."""
    return char == "_" or (char.isalnum() and (char <= "\u024f" or "\u1e00" <= char <= "\u1eff"))


def _end(pattern: re.Pattern[str], text: str, at: int, limit: int | None = None) -> int:
    """The end of a match that may be empty."""
    match = pattern.match(text, at) if limit is None else pattern.match(text, at, limit)
    return match.end() if match else at
