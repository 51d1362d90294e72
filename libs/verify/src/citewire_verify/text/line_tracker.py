"""Lines of a text of Markdown that is still being written: what begins one, and which are code."""

import re
from typing import Final

from citewire_verify.text.markdown import begins_line

_HEAD: Final = 120
"""Code points of a line that are kept."""
_INFO: Final = 200
"""Maximum length of a fence's info string."""
_TAB: Final = "    "
_INDENT = re.compile(r"[ \t]*+")
_QUOTES = re.compile(r"^[ \t>]*+")
_BULLET = re.compile(r"([ \t]*+)((?:[-*+•]|\d{1,9}[.)])[ \t]++)")


class LineTracker:
    """Tracks how the current line begins, and whether it is in a fence or indented as code."""

    def __init__(self) -> None:
        self._head = ""
        self._fence = ""
        self._list = 0
        """Column of the current list item's text; 0 outside lists."""
        self._open = True
        """Whether an indented line may begin code: after a blank line, or after code."""
        self._indented = False
        self._opening = False
        """Whether the line opens the fence."""

    @property
    def code(self) -> bool:
        """Whether the following text is code, up to the end of its line."""
        return bool(self._fence) or self._indented or (self._open and self.blank and self._is_indented())

    @property
    def blank(self) -> bool:
        """Whether the line so far is only white space."""
        return not self._head.strip()

    @property
    def begins(self) -> bool:
        """Whether the line so far is only indentation, quotation marks and a bullet."""
        return len(self._head) < _HEAD and begins_line(self._head)

    def opens_fence(self, text: str, at: int, end: int, *, final: bool) -> bool | None:
        """Whether a run of three or more at the beginning of a line opens a fence; None if that isn't known yet.

        Backticks followed by others in the same line are inline code.
        """
        if text[at] == "`":
            line = text.find("\n", end, end + _INFO)
            tick = text.find("`", end, line if line >= 0 else end + _INFO)
            if tick >= 0:
                return False
            if line < 0 and not final and len(text) < end + _INFO:
                return None
        self._fence, self._opening = text[at:end], True
        return True

    def push(self, text: str) -> None:
        """Takes the text that was read: part of a line, or its end."""
        if text == "\n":
            self._end_line()
            return
        if len(self._head) >= _HEAD:
            return
        self._head += text[: _HEAD - len(self._head)]
        if self._open and not self._fence and not self._indented and not self.blank:
            self._indented = self._is_indented()

    def _is_indented(self) -> bool:
        indent = _INDENT.match(self._head)
        return indent is not None and len(indent.group().replace("\t", _TAB)) >= self._list + 4

    def _end_line(self) -> None:
        head, self._head = self._head, ""
        if self._fence:
            bare = _QUOTES.sub("", head, count=1).rstrip()
            if not self._opening and len(bare) >= len(self._fence) and not bare.strip(self._fence[0]):
                self._fence = ""
            self._opening = False
            return
        if not head.strip():
            self._open = True
            return
        self._open = self._indented
        bullet = None if self._indented else _BULLET.match(head)
        if bullet:
            self._list = len(bullet.group().replace("\t", _TAB))
        elif not self._indented and not head[0].isspace():
            self._list = 0
        self._indented = False
