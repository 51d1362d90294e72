"""The heading of a chunk: for the embedding model, for lexical search, and for a rerank model."""

import re
from pathlib import PurePosixPath
from typing import Final

SEPARATOR = " > "
"""Joins the headings of a section's path."""


def heading(title: str, section: str) -> str:
    """Returns a document's title and, one line below, the headings of a section."""
    # A document's first heading usually is its title, which the file's name may lead: once is enough.
    names = [part for part in section.split(SEPARATOR) if part and not f": {title}".endswith(f": {part}")]
    return "\n".join(part for part in (title, SEPARATOR.join(names)) if part)


_WORD: Final = re.compile(r"[^\W_]+")
_MOST_NAME: Final = 80
"""Characters of a file's name that are taken."""


def named(title: str, file_name: str) -> str:
    """Returns a document's title, led by the words of its file's name if the title lacks a word of them.

    People find a file by its name: that of a report says company and year, where its title may be the authority's. A
    name of numbers and signs alone says nothing.
    """
    stem = PurePosixPath(file_name.replace("\\", "/")).stem if "." in file_name.strip(".") else file_name
    words = _WORD.findall(stem)
    present = set(_WORD.findall(title.casefold()))
    if not any(word.isalpha() and len(word) > 2 and word.casefold() not in present for word in words):
        return title
    name = " ".join(words)[:_MOST_NAME]
    return f"{name}: {title}" if title else name
