"""Texts to locate on pages, and their positions: the input and output of a sandboxed process."""

from dataclasses import dataclass
from typing import Final

MOST_BOXES: Final = 500
"""Boxes of one text on one page."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle on a page, in points: in the file from the lower left corner, as shown from the upper left one."""

    left: float
    bottom: float
    right: float
    top: float


@dataclass(frozen=True, slots=True)
class SoughtText:
    """A text on a page."""

    page: int
    """From 1."""
    text: str
    """The stored text."""
    before: str = ""
    """The stored text before it, which distinguishes repeated texts on a page."""
    after: str = ""
    """The stored text after it."""


@dataclass(frozen=True, slots=True)
class PageBoxes:
    """A text's position on a page as displayed, cropped and rotated."""

    width: float
    """Size of the page in points."""
    height: float
    boxes: tuple[Box, ...]
    """One per line, in reading order; none if the text isn't found there."""
