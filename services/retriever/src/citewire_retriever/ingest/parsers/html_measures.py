"""How much of a page's tables and lists is what, measured for all of them in one walk.

Asking each table for what is in it would read nested ones again and again: a page of 200 kB could take minutes.
"""

from dataclasses import dataclass

from citewire_retriever.ingest.parsers.html_text import is_skipped
from citewire_retriever.ingest.parsers.lxml_facade import Element, walk

LISTS = frozenset({"ul", "ol"})
_EDGES = frozenset({"header", "footer"})


@dataclass(slots=True)
class Measures:
    """Measures of an element's content. Text is counted in characters, without white space around its pieces."""

    visible: int = 0
    """Characters of visible text."""
    in_tables: int = 0
    """Visible text of the tables in it; counted twice for nested tables."""
    in_links: int = 0
    """Visible text of the links in it."""
    columns: bool = False
    """Whether it has a row with two or more cells."""
    at_edge: bool = False
    """Whether it is in a page's or a section's header or footer."""


def measure(root: Element) -> dict[Element, Measures]:
    """Measures every table and list of a page."""
    results: dict[Element, Measures] = {}
    around = Measures()
    stack: list[Measures] = []
    edges = 0
    for event, element in walk(root):
        tag = element.tag
        if event == "start":
            stack.append(around)
            around = Measures(visible=_length(element.text), at_edge=edges > 0)
            edges += tag in _EDGES
            continue
        inner, around = around, stack.pop()
        edges -= tag in _EDGES
        if tag == "tr":
            inner.columns = inner.columns or sum(1 for cell in element if cell.tag in {"td", "th"}) > 1
        elif tag == "table" or tag in LISTS:
            results[element] = inner
        if not is_skipped(element):
            around.visible += inner.visible
        around.visible += _length(element.tail)
        around.in_tables += inner.in_tables + (inner.visible if tag == "table" else 0)
        around.in_links += inner.in_links + (inner.visible if tag == "a" else 0)
        around.columns = around.columns or inner.columns
    return results


def _length(text: str | None) -> int:
    return len(text.strip()) if text else 0
