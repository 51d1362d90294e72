"""Which white space and separators stay where markers were removed."""

import re
from dataclasses import dataclass
from typing import Final, Self

from citewire_verify.text.markdown import MORE

MAX_SPACE: Final = 64
"""Longest run of white space, or of commas and white space, that belongs to a marker."""
_MAX_OPENED = 8
_OPENED = re.compile(r"(?:(?:^|[\s(\[{“„«])[*_]{1,3}|[(\[{“‘„«「『（])$")
_SEPARATOR = re.compile(r"[ \t,;，；、]*+")
_CLOSING_PUNCTUATION = frozenset(".!?:)]}»”’…。！？：、，,;）」』】؟،؛।")


@dataclass(frozen=True, slots=True)
class Gap:
    """The place of one or more removed markers."""

    space_before: str
    """White space before them."""
    opened: bool
    """Whether they followed an opening bracket, quotation mark or emphasis."""

    @classmethod
    def before(cls, text: str, at: int, start: int) -> Self:
        """The gap before a marker that starts at `start`, with the white space from `at`."""
        opened = _OPENED.search(text, max(start - _MAX_OPENED, 0), start) is not None
        return cls(text[at:start], opened)

    def end(self, text: str, at: int, *, final: bool) -> int:
        """The end of the separators after the markers, or MORE."""
        match = _SEPARATOR.match(text, at, at + MAX_SPACE)
        end = match.end() if match else at
        return MORE if end == len(text) and end - at < MAX_SPACE and not final else end

    def space(self, text: str, at: int, end: int) -> str:
        """What stays of the white space before the markers and of the separators `text[at:end]` after them."""
        separator, following = text[at:end], text[end : end + 1]
        if following in {"", "\n"}:
            return separator.rstrip()
        if separator.strip():
            return separator
        closes = following in _CLOSING_PUNCTUATION or (not separator and following in "*_~")
        return "" if closes or (self.opened and not self.space_before) else separator or self.space_before
