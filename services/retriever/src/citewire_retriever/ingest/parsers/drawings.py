"""Texts in drawings of presentations and workbooks (DrawingML, ECMA-376 part 1, chapters 20 and 21)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from citewire_retriever.ingest.parsers.formulas import FORMULAS, formula_text
from citewire_retriever.ingest.parsers.lxml_facade import Element, walk
from citewire_retriever.ingest.parsers.package import Package, attribute, local
from citewire_retriever.ingest.parsers.symbols import in_font, is_symbol_font

_ANCHORS: Final = frozenset({"twoCellAnchor", "oneCellAnchor", "absoluteAnchor"})
_TRUE: Final = frozenset({"1", "true"})


@dataclass(frozen=True, slots=True)
class TextBox:
    """A text in a drawing on a sheet."""

    text: str
    row: int = 0
    """The row of its upper left corner, from 1; 0 if it isn't fixed to a cell."""
    column: int = 0
    """The column, likewise."""


def text_boxes(package: Package, part: str) -> Iterator[TextBox]:
    """The texts of a sheet's drawing, in order. Left out: hidden ones, and copies of a cell's text.

    Raises:
        IngestError: CORRUPT, TOO_LARGE.
    """
    for _, anchor in package.elements(part, _ANCHORS):
        around = anchor.getparent()
        if around is not None and local(around.tag) == "Fallback":
            continue
        corner = next(anchor.iter("{*}from"), None)
        row, column = (_number(corner, "row"), _number(corner, "col")) if corner is not None else (0, 0)
        events = walk(anchor)
        for event, shape in events:
            tag = local(shape.tag)
            if event == "end" or tag not in {"sp", "Fallback"}:
                continue
            events.skip_subtree()
            text = _shape_text(shape) if tag == "sp" else ""
            if text:
                yield TextBox(text, row, column)


def _shape_text(shape: Element) -> str:
    name = next(shape.iter("{*}cNvPr"), None)
    if attribute(shape, "textlink") or (name is not None and attribute(name, "hidden") in _TRUE):
        return ""
    lines = (paragraph_text(each).strip() for each in shape.iter("{*}p"))
    return "\n".join(line for line in lines if line)


def _number(corner: Element, name: str) -> int:
    """A row or column, from 1; 0 if there is none."""
    text = next((each.text or "" for each in corner if local(each.tag) == name), "")
    return int(text) + 1 if text.isdecimal() and text.isascii() and len(text) < 8 else 0


def paragraph_text(element: Element) -> str:
    """The text of a paragraph, or of several with a line end before each."""
    pieces: list[str] = []
    events = walk(element)
    for event, each in events:
        if event == "end":
            continue
        tag = local(each.tag)
        if tag in FORMULAS:
            pieces.append(formula_text(each, _own_text))
        else:
            pieces.append("\n" if tag == "p" else _own_text(each))
        if tag in FORMULAS | {"Fallback"}:
            events.skip_subtree()
    return "".join(pieces)


def _own_text(element: Element) -> str:
    """The text of an element within a run."""
    tag = local(element.tag)
    return _shown(element) if tag == "t" else "\n" if tag == "br" else ""


def _shown(element: Element) -> str:
    """A run's text, with the characters of symbol fonts. An arrow typed as ``-->`` is a letter in the symbols' font."""
    text = element.text or ""
    around = element.getparent()
    properties = next((each for each in around if local(each.tag) == "rPr"), None) if around is not None else None
    for each in properties if properties is not None else ():
        name = local(each.tag)
        if name in {"latin", "sym"} and is_symbol_font(attribute(each, "typeface")):
            only_private = name == "sym" and (len(text.strip()) > 1 or text.isascii())
            return in_font(attribute(each, "typeface"), text, only_private=only_private)
    return text
