"""The visible text of an HTML page."""

import re

from citewire_retriever.ingest.parsers.lxml_facade import Element, walk

BLOCKS = frozenset(
    {
        "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "div", "dl",
        "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "legend", "li",
        "main", "ol", "p", "pre", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"
    }
)  # fmt: skip
"""Block elements."""

_SKIPPED_TAGS = frozenset(
    {
        "head", "script", "style", "nav", "noscript", "template", "svg", "iframe", "object", "embed", "canvas",
        "audio", "video", "select", "button", "input", "textarea", "datalist", "dialog", "annotation"
    }
)  # fmt: skip
_SKIPPED_ROLES = frozenset({"navigation", "search", "menu", "menubar", "toolbar", "dialog", "alert", "banner"})
_SKIPPED_CLASSES = frozenset({"mw-editsection", "mw-jump-link", "noprint", "visually-hidden", "sr-only"})
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)


def is_skipped(element: Element) -> bool:
    """Whether an element is left out with all of its content."""
    if element.tag in _SKIPPED_TAGS or "hidden" in element.attrib:
        return True
    if not element.attrib:
        return False
    return (
        element.get("aria-hidden", "") == "true"
        or element.get("role", "") in _SKIPPED_ROLES
        or bool(_HIDDEN_STYLE.search(element.get("style", "")))
        or not _SKIPPED_CLASSES.isdisjoint(element.get("class", "").split())
    )


def visible_text(element: Element) -> list[str]:
    """The pieces of visible text in an element, without its tail; a line break becomes a line end."""
    pieces: list[str] = []
    events = walk(element)
    for event, each in events:
        if event == "end":
            if each is not element and each.tail:
                pieces.append(each.tail)
        elif each is not element and is_skipped(each):
            events.skip_subtree()
        else:
            if each.tag == "br":
                pieces.append("\n")
            elif each is not element and each.tag in BLOCKS:
                pieces.append(" ")
            pieces.append(each.text or "")
    return pieces
