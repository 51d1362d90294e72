"""The heading of a chunk: for the embedding model, for lexical search, and for a rerank model."""

import re
from pathlib import PurePosixPath
from typing import Final

SEPARATOR = " > "
"""Separator between the headings of a section's path."""


def heading(title: str, section: str) -> str:
    """Returns a document's title and, one line below, the headings of a section."""
    # A document's first heading usually is its title, which may follow the file's name: it isn't repeated.
    names = [part for part in section.split(SEPARATOR) if part and not f": {title}".endswith(f": {part}")]
    return "\n".join(part for part in (title, SEPARATOR.join(names)) if part)


def headings_of(header: str) -> str:
    """Returns the headings in what `heading` returned for a document with a title: what stands below that."""
    return header.partition("\n")[2]


_WORD: Final = re.compile(r"[^\W_]+")
_MOST_NAME: Final = 80
"""Maximum characters used of a file's name."""


def named(title: str, file_name: str) -> str:
    """Returns a document's title, preceded by the words of its file's name if the title lacks any of them.

    People find a file by its name: a report's has company and year, while its title may be the authority's form. A name
    of only numbers and signs is ignored.
    """
    stem = PurePosixPath(file_name.replace("\\", "/")).stem if "." in file_name.strip(".") else file_name
    words = _WORD.findall(stem)
    present = set(_WORD.findall(title.casefold()))
    if not any(word.isalpha() and len(word) > 2 and word.casefold() not in present for word in words):
        return title
    name = " ".join(words)[:_MOST_NAME]
    return f"{name}: {title}" if title else name
