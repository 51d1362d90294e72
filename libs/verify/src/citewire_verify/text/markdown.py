"""Spans of Markdown in a text that is still being written: inline code, formulas, targets of links.

Each function looks at most a fixed number of characters ahead and answers from them alone, so that the answer doesn't
depend on how the text arrived.
"""

import re
from typing import Final

NO: Final = 0
"""There is no such span."""
MORE: Final = -1
"""More text is needed to decide."""
MAX_SPAN: Final = 400
"""Longest inline code or formula in a line, in code points; anything longer isn't one."""
MAX_BLOCK: Final = 1500
"""Longest formula of several lines."""
MAX_TARGET: Final = 1000
"""Longest target of a link."""
MAX_RUN: Final = 64
"""Longest run of backticks read as one."""

_RUN = re.compile(r"`{1,64}+")
_MONEY = re.compile(r"\$\d[\d.,]*+(?![A-Za-z0-9\\^_+*/=(<>{-])")
_DOLLARS = re.compile(r"(?:[^$\\\n]|\\[^\n])++")
_DISPLAY = re.compile(r"(?:[^$\\\n]|\\[^\n]|\n(?![ \t]*\n)|\$(?!\$))*+")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_TARGET = r"\((?:[ \t]*+(?:<[^<>\n]*+>|(?:[^\s()<>\\]|\\[^\s]|\([^\s()]*+\))*+)"
_TITLE = r"(?:[ \t]++(?:\"[^\"\n]*+\"|'[^'\n]*+'|\([^()\n]*+\)))?+[ \t]*+)"
_LINK_TARGET = re.compile(_TARGET + _TITLE + r"\)")
_OPEN_TARGET = re.compile(
    r"\((?:[ \t]*+(?:<[^<>\n]*+>?+|(?:[^\s()<>\\]|\\[^\s]|\([^\s()]*+\))*+(?:\\|\([^\s()]*+)?+)"
    r"(?:[ \t]++(?:\"[^\"\n]*+\"?+|'[^'\n]*+'?+|\([^()\n]*+\)?+)?+)?+[ \t]*+)\Z"
)
_LINE_START = re.compile(r"(?:[ \t]|>[ \t]?)*+(?:(?:[-*+•]|\d{1,9}[.)])[ \t]++)?+(?:[ \t]|>[ \t]?)*+")


def begins_line(head: str) -> bool:
    """Whether a line's beginning is only indentation, quotation marks (`>`) and a bullet."""
    return _LINE_START.fullmatch(head) is not None


def code_end(text: str, at: int, *, final: bool) -> int:
    """Returns the end of inline code opened by a run of backticks at `at`, or NO or MORE."""
    opening = _RUN.match(text, at)
    if opening is None:
        return NO
    size, limit = opening.end() - at, min(len(text), at + MAX_SPAN)
    whole = final or limit < len(text)
    line = text.find("\n", opening.end(), limit)
    if line >= 0:
        limit, whole = line, True
    if size == MAX_RUN:
        return NO
    if opening.end() == len(text) and not final:
        return MORE
    for run in _RUN.finditer(text, opening.end(), limit):
        if run.end() == limit and not whole:
            return MORE
        if run.end() - run.start() == size:
            return run.end()
    return NO if whole else MORE


def formula_end(text: str, at: int, *, begins: bool, final: bool) -> int:
    r"""Returns the end of a formula that begins at `at` with `$`, `$$`, `\(` or `\[`, or NO or MORE.

    Args:
        text: The text.
        at: Offset of the `$` or the backslash.
        begins: Whether it begins its line.
        final: Whether the text is complete.
    """
    if at + 1 >= len(text):
        return NO if final else MORE
    opening = text[at : at + 2]
    if opening in {r"\(", r"\["}:
        return _closed(text, at, r"\)" if opening == r"\(" else r"\]", final=final)
    if opening == "$$":
        return _display_end(text, at, begins=begins, final=final)
    return _inline_end(text, at, final=final)


def _closed(text: str, at: int, closing: str, *, final: bool) -> int:
    """The end of a formula closed by `closing` before a blank line."""
    limit = at + MAX_BLOCK
    blank = _BLANK_LINE.search(text, at, limit) if text.find("\n", at, limit) >= 0 else None
    end = text.find(closing, at + 2, blank.start() if blank else limit)
    if end >= 0:
        return end + 2
    return NO if blank or final or len(text) >= limit else MORE


def _display_end(text: str, at: int, *, begins: bool, final: bool) -> int:
    """The end of `$$ … $$`. Unless it begins a line, no space may follow, because `$$` may also be a price."""
    if at + 2 >= len(text) and not final:
        return MORE
    following = text[at + 2 : at + 3]
    if following in {"", "$"} or (following in " \t" and not begins):
        return NO
    limit = min(len(text), at + MAX_BLOCK)
    body = _DISPLAY.match(text, at + 2, limit)
    end = body.end() if body else limit
    if text.startswith("$$", end, limit):
        return end + 2
    if end < limit and text[end] == "\n":
        return NO
    return NO if final or len(text) >= at + MAX_BLOCK else MORE


def _inline_end(text: str, at: int, *, final: bool) -> int:
    """The end of `$ … $` by Pandoc's rules: no space inside next to the marks, and no digit after the second one."""
    if at and text[at - 1].isalnum():
        return NO
    following = text[at + 1]
    if following.isspace():
        return NO
    if following.isdecimal():
        money = _MONEY.match(text, at)
        if money:
            return MORE if money.end() == len(text) and not final else NO
    limit = min(len(text), at + MAX_SPAN)
    body = _DOLLARS.match(text, at + 1, limit)
    end = body.end() if body else at + 1
    # An escape, or a second mark and its next character, may be cut off at the end of the text.
    if end >= limit or (end + 1 >= limit and text[end] in "\\$"):
        if len(text) >= at + MAX_SPAN:
            return NO
        if not final:
            return MORE
        if end >= limit:
            return NO
    closed = text[end] == "$" and not text[end - 1].isspace() and not text[end + 1 : end + 2].isdecimal()
    return end + 1 if closed else NO


def target_end(text: str, at: int, *, final: bool) -> int:
    """Returns the end of a link's target whose parenthesis opens at `at`, or NO or MORE."""
    limit = at + MAX_TARGET
    match = _LINK_TARGET.match(text, at, limit)
    if match:
        return match.end()
    if final or len(text) >= limit:
        return NO
    return MORE if _OPEN_TARGET.match(text, at) else NO
