"""A list of saved documents, for a question that wants one: "What did I save this week?"."""

from collections.abc import Sequence
from typing import Final

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.model import Citation
from citewire_generator.packing import defuse
from citewire_verify.text.sentences import UnitKind, split_units
from citewire_verify.text.terms import content_keys

MAX_SHOWN: Final = 240
"""Code points shown of a document's beginning."""
_COVERED: Final = 0.5
"""Share of the topic's words that a document must contain."""


def list_items(citations: Sequence[Citation], listing: pb.ItemListing) -> list[tuple[Citation, str]]:
    """Returns the documents to list, the latest first, each as its first passage and a line about it.

    Args:
        citations: The packed passages.
        listing: The requested list. A topic excludes documents that don't mention it.

    Returns:
        Title and beginning of each, verbatim; empty if no document mentions the topic.
    """
    first: dict[int, Citation] = {}
    words: dict[int, set[str]] = {}
    for citation in citations:
        first.setdefault(citation.passage.document_id, citation)
        words.setdefault(citation.passage.document_id, set()).update(_keys(citation))
    topic = content_keys(listing.topic)
    listed = [
        citation
        for document_id, citation in first.items()
        if not topic or len(topic & words[document_id]) >= _COVERED * len(topic)
    ]
    listed.sort(key=lambda citation: (-_saved(citation.passage), citation.number))
    return [(citation, _line(citation)) for citation in listed[: listing.max_items]]


def _keys(citation: Citation) -> set[str]:
    passage = citation.passage
    labels = " ".join((passage.title, passage.entity_type, passage.category, *passage.tags))
    return content_keys(f"{citation.text}\n{labels}")


def _saved(passage: pb.Passage) -> float:
    return passage.saved_at.ToDatetime().timestamp() if passage.HasField("saved_at") else 0.0


def _line(citation: Citation) -> str:
    """Title and first sentence, without repeating the title."""
    passage, text = citation.passage, citation.text
    title = " ".join(defuse(passage.title or passage.file_name).split())
    units = [unit for unit in split_units(text) if unit.kind is not UnitKind.HEADING]
    begin = " ".join(text[units[0].start : units[0].end].split()) if units else " ".join(text.split())
    if len(begin) > MAX_SHOWN:
        cut = begin[:MAX_SHOWN]
        begin = cut[: cut.rfind(" ") if " " in cut[MAX_SHOWN // 2 :] else MAX_SHOWN].rstrip() + " …"
    if not title or begin.casefold().startswith(title.casefold()):
        return begin or title
    return f"{title}: {begin}" if begin else title
