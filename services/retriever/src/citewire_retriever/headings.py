"""What stands above a chunk's text: for the embedding model, for lexical search, and for a rerank model."""

SEPARATOR = " > "
"""Joins the headings of a section's path."""


def heading(title: str, section: str) -> str:
    """Returns a document's title and, one line below, the headings of a section."""
    # A document's first heading usually is its title: once is enough.
    names = [part for part in section.split(SEPARATOR) if part and part != title]
    return "\n".join(part for part in (title, SEPARATOR.join(names)) if part)
