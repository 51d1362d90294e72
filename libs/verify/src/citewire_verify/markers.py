"""Citation markers on the stream: held back while incomplete, then checked and spelled one way, or removed.

What counts as a marker depends on the style that was asked for, and on how the passages are labelled:

- `REF`, `SOURCE`: `[ref:N]`, `[SOURCE N]` and other words that name a source (`marker_forms`), in any case and many
  languages, with a list or range of numbers, in square or other brackets; where passages are labelled `[N]` also bare
  numbers: `[1]`, `[1, 2]`, `[1-3]`, `[^1]`, `【1†source】`. Numbers that are in the context are citations; others are
  counted as invalid. A marker that is nothing but citations is spelled as the style has it, number by number
  (`[ref:1][ref:2]`), so that clients need to know one form only. One with a number that isn't in the context, or with
  other text, stays as the model wrote it, unless invalid ones are to be removed.
- `NUMBER`: the same, bare numbers also right after a word, with the target of a link after them.
- `REMOVE`: all of those, names of sources (`[Source: a.pdf]`, `(Quelle: a.pdf)`) and markers in parentheses
  (`(see [1])`). They are taken out together with emphasis around them, the white space before them, and what joins
  them.
- `NONE`: nothing is looked for.

Code, links, formulas and indexing hold no markers (`text.markdown`; `items[1]`, `[1](url)`, `[text][1]`, `[1]: url`).

What can't be decided yet is held back; every decision looks at most a fixed number of characters ahead and behind, so
that the result doesn't depend on how the text was cut, and work is linear in it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from citewire_verify.gaps import MAX_SPACE, Gap
from citewire_verify.marker_reader import OPENERS, PARENTHESES, Form, MarkerReader
from citewire_verify.text.line_tracker import LineTracker
from citewire_verify.text.markdown import MORE, NO, code_end, formula_end, target_end


class MarkerStyle(StrEnum):
    """Which markers an answer has."""

    NONE = "none"
    REMOVE = "remove"
    """No markers: those that the model writes anyway are removed."""
    REF = "ref"
    """`[ref:N]`."""
    SOURCE = "source"
    """`[SOURCE N]`."""
    NUMBER = "number"
    """`[N]`, as other systems write them."""


_FORMS: Final = {MarkerStyle.REF: "[ref:{}]", MarkerStyle.SOURCE: "[SOURCE {}]"}
"""Spelling of a citation, by style."""
_CONTEXT: Final = 400
"""Code points that are kept before the current one."""
_DROPPED: Final = 4096
"""Number of code points read at which all but these are dropped."""
_SPECIAL = re.compile(rf"[\n`~$\\{re.escape(OPENERS)}]|(?<=\])\(")
_SPECIAL_REMOVING = re.compile(
    rf"[\n`~$\\{re.escape(OPENERS + PARENTHESES)}]"
    rf"|(?<![ \t])[ \t]+(?=[{re.escape(OPENERS + PARENTHESES)}*_]|\Z)"
    rf"|(?<![*_])(?:\*{{1,3}}|_{{1,3}})(?=[{re.escape(OPENERS + PARENTHESES)}]|\Z)"
)
_RUN = re.compile(r"`{1,64}+|~{1,64}+")
_MAX_RUN = 64
_SPACES = re.compile(r"[ \t]++")
_EMPHASIS = re.compile(r"\*{1,3}|_{1,3}")


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker in the answer as it was sent, with its valid numbers."""

    start: int
    end: int
    numbers: tuple[int, ...]


class MarkerFilter:
    """Reads the markers of one answer while it streams.

    Args:
        style: What to look for.
        count: Number of passages, which are numbered from 1.
        bare: Whether passages are labelled `[N]`, so that a bare `[N]` refers to one; REMOVE and NUMBER read it anyway.
        remove_invalid: Whether to remove markers without a valid number.
        verbatim: Whether to leave the text unchanged: markers are read, but neither rewritten nor removed.
        numbers: The passages' numbers, 1 to `count`, by the labels that the model sees; None if they are the same. A
            reader can't resolve other labels, so markers that contain no valid label are removed.
    """

    def __init__(
        self,
        style: MarkerStyle,
        count: int,
        *,
        bare: bool = False,
        remove_invalid: bool = False,
        verbatim: bool = False,
        numbers: Mapping[int, int] | None = None,
    ) -> None:
        self._off = style is MarkerStyle.NONE
        self._remove = style is MarkerStyle.REMOVE
        self._verbatim = verbatim
        self._numbers = numbers
        self._labels = range(1, count + 1) if numbers is None else numbers
        self._remove_invalid = remove_invalid or numbers is not None
        self._cuts = (self._remove or self._remove_invalid) and not verbatim
        self._form = "" if verbatim else _FORMS.get(style, "")
        number = style is MarkerStyle.NUMBER
        self._reader = MarkerReader(
            count if numbers is None else max(numbers, default=count),
            bare or number or self._remove,
            self._remove,
            attached=number,
        )
        self._special = _SPECIAL_REMOVING if self._cuts else _SPECIAL
        self._text = ""
        self._base = 0
        """Offset of the kept text in the answer as the model wrote it."""
        self._at = 0
        """How much of the text has been read."""
        self._last_end = -1
        """End of the last marker, as an offset in the answer as the model wrote it."""
        self._lines = LineTracker()
        self._gap: Gap | None = None
        """Where markers were removed, until it is known what follows."""
        self._out: list[str] = []
        self._sent = 0
        self._cited: dict[int, None] = {}
        self._markers: list[Marker] = []
        self.invalid = 0
        """Invalid numbers in markers."""
        self.removed = 0
        """Number of removed markers."""

    @property
    def cited(self) -> tuple[int, ...]:
        """Valid numbers that markers in the text refer to, each once, in order of first use."""
        return tuple(self._cited)

    def take_markers(self) -> list[Marker]:
        """Returns the citations in the text returned since the last call; none if markers are removed."""
        markers, self._markers = self._markers, []
        return markers

    def _number_of(self, label: int) -> int:
        return label if self._numbers is None else self._numbers[label]

    def feed(self, text: str) -> str:
        """Takes the next piece of the answer and returns what may be shown now."""
        if self._off:
            return text
        self._text += text
        return self._read(final=False)

    def finish(self) -> str:
        """Returns the pending text, which turned out not to be a complete marker."""
        return self._read(final=True)

    def abort(self) -> str:
        """Returns pending text up to the end of a complete marker. The answer was cut off, so the rest is dropped."""
        before, known = self._sent, len(self._markers)
        pending = self._read(final=True)
        if len(self._markers) == known:
            return ""
        return pending[: self._markers[-1].end - before]

    def _read(self, *, final: bool) -> str:
        while self._at < len(self._text) and self._advance(final=final):
            pass
        if final and self._gap is not None:
            self._close_gap(self._gap, final=True)
        if self._at > _DROPPED:
            cut = self._at - _CONTEXT
            self._text, self._base, self._at = self._text[cut:], self._base + cut, _CONTEXT
        shown = "".join(self._out)
        self._out.clear()
        return shown

    def _advance(self, *, final: bool) -> bool:
        """Reads on to the next decision; False if that needs more text."""
        text, at = self._text, self._at
        if self._gap is not None:
            return self._after_removed(self._gap, final=final)
        if self._lines.code:
            # Inside, only the end is looked for.
            line = text.find("\n", at)
            return self._pass(line + 1 if line >= 0 else len(text))
        if text[at] in " \t" and self._lines.blank:
            return self._pass(_end_of_spaces(text, at))
        match = self._special.search(text, at)
        if match is None:
            return self._pass(len(text))
        if match.start() > at:
            return self._pass(match.start())
        return self._read_special(match, final=final)

    def _read_special(self, match: re.Match[str], *, final: bool) -> bool:
        text, at, char = self._text, self._at, match.group()[0]
        if char == "\n":
            return self._pass(at + 1)
        if char in "`~":
            return self._read_run(final=final)
        if char in "\\$":
            return self._read_formula(char, final=final)
        if char == "(" and text[at - 1 : at] == "]" and at:
            end = target_end(text, at, final=final)
            return end != MORE and self._pass(max(end, at + 1))
        if self._cuts:
            return self._read_removed(match, final=final)
        form = self._bracket(at, final=final)
        if form == MORE:
            return False
        return self._pass(at + 1) if not isinstance(form, Form) else self._show(form)

    def _read_run(self, *, final: bool) -> bool:
        """A run of backticks or tildes: a fence at a line's beginning, else inline code."""
        text, at = self._text, self._at
        run = _RUN.match(text, at)
        end = run.end() if run else at + 1
        if end == len(text) and end - at < _MAX_RUN and not final:
            return False
        if end - at >= 3 and self._lines.begins:
            opens = self._lines.opens_fence(text, at, end, final=final)
            if opens is None:
                return False
            if opens:
                return self._pass(end)
        if text[at] == "~":
            return self._pass(end)
        close = code_end(text, at, final=final)
        return close != MORE and self._pass(max(close, end))

    def _read_formula(self, char: str, *, final: bool) -> bool:
        text, at = self._text, self._at
        if char == "\\" and text[at + 1 : at + 2] not in ("", "(", "["):
            # An escape: the next character is literal, except for a line's end.
            return self._pass(at + (1 if text[at + 1] == "\n" else 2))
        end = formula_end(text, at, begins=self._lines.begins, final=final)
        if end == MORE:
            return False
        escape = 2 if char == "\\" or text.startswith("$$", at) else 1
        return self._pass(end if end != NO else min(at + escape, len(text)))

    def _read_removed(self, match: re.Match[str], *, final: bool) -> bool:
        """A place after white space where something to be removed may begin."""
        text, at = self._text, self._at
        start = match.end() if match.group()[0] in " \t" else at
        if start == len(text):
            return (final or start - at > MAX_SPACE) and self._pass(start)
        form = self._unit(start, final=final) if start - at <= MAX_SPACE else NO
        if form == MORE:
            return False
        if not isinstance(form, Form):
            return self._pass(start if start > at else match.end())
        if not self._is_removed(form):
            self._pass(start)
            return self._show(form)
        self._gap = Gap.before(text, at, start)
        return self._take_out(form)

    def _unit(self, at: int, *, final: bool) -> Form | int:
        """A marker, or emphasis or parentheses around markers, which can only be removed as a whole."""
        text = self._text
        if text[at] in "*_":
            run = _EMPHASIS.match(text, at)
            end = run.end() if run else at
            if end == len(text):
                return NO if final else MORE
            form = self._reader.emphasis(text, at, text[at:end], final=final)
        elif text[at] in PARENTHESES:
            form = self._reader.parenthesis(text, at, final=final)
        elif self._remove and text.startswith("[[", at):
            form = self._bracket(at + 1, final=final)
            if isinstance(form, Form):
                if form.end == len(text) and not final:
                    return MORE
                form = replace(form, end=form.end + 1) if text[form.end : form.end + 1] == "]" else NO
        else:
            return self._bracket(at, final=final)
        return form if not isinstance(form, Form) or self._is_removed(form) else NO

    def _bracket(self, at: int, *, final: bool) -> Form | int:
        follows = self._base + at == self._last_end
        return self._reader.bracket(self._text, at, begins=self._lines.begins, follows=follows, final=final)

    def _is_removed(self, form: Form) -> bool:
        if self._remove:
            return True
        return bool(form.numbers) and not any(number in self._labels for number in form.numbers)

    def _take_out(self, form: Form) -> bool:
        self.removed += 1
        self._count(form.numbers, cite=False)
        self._at = form.end
        self._last_end = self._base + form.end
        return True

    def _after_removed(self, gap: Gap, *, final: bool) -> bool:
        """Removes a joining text and the marker after it; otherwise decides which white space stays."""
        text = self._text
        at = self._reader.join(text, self._at, final=final)
        if at == MORE:
            return False
        if at < len(text) and text[at] in OPENERS + PARENTHESES + "*_":
            form = self._unit(at, final=final)
            if form == MORE:
                return False
            if isinstance(form, Form) and self._is_removed(form):
                return self._take_out(form)
        return self._close_gap(gap, final=final)

    def _close_gap(self, gap: Gap, *, final: bool) -> bool:
        """Decides which white space stays where markers were, once the next character is known."""
        end = gap.end(self._text, self._at, final=final)
        if end == MORE:
            return False
        self._gap = None
        space = "" if self._lines.blank else gap.space(self._text, self._at, end)
        self._emit(space)
        self._lines.push(space)
        self._at = end
        return True

    def _show(self, form: Form) -> bool:
        """Outputs a marker: a citation in its style, any other unchanged."""
        numbers = tuple(dict.fromkeys(form.numbers))
        valid = tuple(map(self._number_of, filter(self._labels.__contains__, numbers)))
        self._count(form.numbers, cite=not self._remove)
        citing = len(valid) if self._remove_invalid and not self._verbatim else len(numbers)
        plain = not form.rest or form.rest[0] == "†" or self._numbers is not None
        pure = bool(self._form and valid) and citing == len(valid) and plain
        shown = "".join(map(self._form.format, valid)) if pure else self._text[self._at : form.end]
        self._markers.append(Marker(self._sent, self._sent + len(shown), () if self._remove else valid))
        self._emit(shown)
        self._lines.push(shown)
        self._at = form.end
        self._last_end = self._base + form.end
        return True

    def _count(self, numbers: Sequence[int], *, cite: bool) -> None:
        for number in numbers:
            if number not in self._labels:
                self.invalid += 1
            elif cite:
                self._cited[self._number_of(number)] = None

    def _pass(self, end: int) -> bool:
        """Outputs text up to `end`."""
        text = self._text[self._at : end]
        self._at = end
        self._emit(text)
        start = 0
        while (line := text.find("\n", start)) >= 0:
            self._lines.push(text[start:line])
            self._lines.push("\n")
            start = line + 1
        self._lines.push(text[start:])
        return True

    def _emit(self, text: str) -> None:
        self._out.append(text)
        self._sent += len(text)


def _end_of_spaces(text: str, at: int) -> int:
    match = _SPACES.match(text, at)
    return match.end() if match else at


def find_markers(text: str, style: MarkerStyle, count: int) -> tuple[list[Marker], int]:
    """Finds the markers of a complete text without changing it.

    Returns:
        The markers, each with the link target after it (`[1](https://…)`), and how many of their numbers are invalid.
    """
    reader = MarkerFilter(style, count, verbatim=True)
    reader.feed(text)
    reader.finish()
    markers: list[Marker] = []
    for marker in reader.take_markers():
        link = target_end(text, marker.end, final=True) if text.startswith("(", marker.end) else NO
        markers.append(Marker(marker.start, link, marker.numbers) if link != NO else marker)
    return markers, reader.invalid
