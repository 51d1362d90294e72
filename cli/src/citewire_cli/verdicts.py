"""Prints an answer with the markers and the verdict after each cited sentence, while the text streams.

A verdict arrives a few words after its sentence has ended, so what follows a sentence's end is held back for a moment:
until the verdict is there, or so much text that none will come.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from citewire_cli.jsonio import JsonObject, get_int, get_object, get_str

HELD_CHARACTERS = 160
"""Text after a sentence's end that waits for its verdict: about half a second of a fast model."""

_ENDS = re.compile(r"(?:[.!?…][\"'”’»)\]*_]*(?=\s|$))|[。！？｡।॥۔؟]|(?<=\S)(?=\n)|$")
_MARKERS = re.compile(r"(?:[ \t]*[,;]?[ \t]*\[(?:ref:|SOURCE )\d+\])+[.!?。]?")
_MARKER = re.compile(r"\[(?:ref:|SOURCE )(\d+)\]")


@dataclass(slots=True)
class _Note:
    """The citations and verdict of one sentence."""

    start: int
    verdict: str
    numbers: list[int] = field(default_factory=list[int])


class VerdictText:
    """Inserts verdicts into an answer's text. Offsets are code points of the answer as sent."""

    def __init__(self) -> None:
        self._text = ""
        self._printed = 0
        self._settled = 0
        """Up to here every sentence has its verdict."""
        self._notes: dict[int, _Note] = {}
        """By the sentence's end."""

    def feed(self, text: str) -> str:
        """Takes the next piece of the answer; returns what can be printed now."""
        self._text += text
        return self._release(self._safe_end())

    def verified(self, citation: JsonObject) -> None:
        """Takes a verified citation; several may belong to one sentence. It shows with the next piece of text."""
        span = get_object(citation, "sentence")
        start, end, number = get_int(span, "start"), get_int(span, "end"), get_int(citation, "index")
        if start is not None and end is not None and number is not None:
            verdict = get_str(citation, "sentence_verdict") or get_str(citation, "verdict")
            self._notes.setdefault(end, _Note(start, verdict)).numbers.append(number)

    def uncited(self, sentence: JsonObject) -> None:
        """Takes a sentence that states facts and cites nothing."""
        span = get_object(sentence, "sentence")
        start, end = get_int(span, "start"), get_int(span, "end")
        if start is not None and end is not None:
            self._notes.setdefault(end, _Note(start, "no source"))

    def end(self) -> str:
        """The answer has ended; returns what was still held back."""
        return self._release(len(self._text))

    def _safe_end(self) -> int:
        """Up to where nothing can be added any more."""
        settled = max(self._settled, *self._notes, 0)
        for match in _ENDS.finditer(self._text, max(self._printed - 1, 0)):
            position = match.end()
            if position > settled and position >= self._printed and len(self._text) - position < HELD_CHARACTERS:
                return position
        return len(self._text)

    def _release(self, stop: int) -> str:
        pieces: list[str] = []
        for end in sorted(self._notes):
            position = self._after_markers(end)
            # A verdict that comes too late is left to the list of sources.
            if self._printed <= position <= stop:
                pieces += [self._text[self._printed : position], self._describe(self._notes.pop(end), position)]
                self._printed = self._settled = position
        stop = max(stop, self._printed)
        pieces.append(self._text[self._printed : stop])
        self._printed = stop
        return "".join(pieces)

    def _after_markers(self, end: int) -> int:
        match = _MARKERS.match(self._text, end)
        return match.end() if match else end

    def _describe(self, note: _Note, position: int) -> str:
        shown = {int(number) for number in _MARKER.findall(self._text, note.start, position)}
        markers = "".join(f"[{number}]" for number in dict.fromkeys(note.numbers) if number not in shown)
        return f" {markers} ({note.verdict})" if markers else f" ({note.verdict})"


def cited_numbers(text: str, verified: Iterable[JsonObject]) -> set[int]:
    """The numbers of the citations that the answer refers to, by a verified sentence or by a marker in the text."""
    numbers = {number for citation in verified if (number := get_int(citation, "index")) is not None}
    return numbers | {int(number) for number in _MARKER.findall(text)}
