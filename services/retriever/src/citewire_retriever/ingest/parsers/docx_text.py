"""The text of a Word paragraph as Word shows it."""

import re
import unicodedata
from dataclasses import dataclass, field
from typing import Final

from citewire_retriever.ingest.parsers.formulas import FORMULAS, formula_text
from citewire_retriever.ingest.parsers.lxml_facade import Element, walk
from citewire_retriever.ingest.parsers.package import attribute, local, relation_id
from citewire_retriever.ingest.parsers.symbols import in_font

_LEFT_OUT: Final = frozenset(
    {"del", "moveFrom", "delText", "instrText", "delInstrText", "fldData", "Fallback", "rt", "pPr", "tblPr"}
)
_CODE: Final = re.compile("[0-9A-Fa-f]{1,4}")
_SIGNS: Final = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_OFF: Final = frozenset({"0", "false", "off"})


@dataclass(slots=True)
class Paragraph:
    """A paragraph's text and references."""

    element: Element
    text: str = ""
    notes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """``footnote`` or ``endnote``, and the note's id."""
    charts: list[str] = field(default_factory=list[str])
    """Relations to the charts in it."""
    pieces: list[str] = field(default_factory=list[str])

    def read(self, element: Element) -> str:
        """The text of an element within a run; records a reference."""
        tag = local(element.tag)
        if tag == "t":
            return in_font(_font(element), element.text or "")
        if tag == "sym":
            return _symbol(attribute(element, "font"), attribute(element, "char"))
        if tag == "fldChar":
            return _form_field(find(element, "ffData"))
        if tag in _SIGNS and attribute(element, "type") != "page":
            return _SIGNS[tag]
        if tag == "chart":
            self.charts.append(relation_id(element))
        elif tag in {"footnoteReference", "endnoteReference"}:
            self.notes.append((tag.removesuffix("Reference"), attribute(element, "id")))
        return ""


def read_paragraphs(element: Element) -> list[Paragraph]:
    """A paragraph, followed by those of its text boxes, in one pass because they may be nested."""
    results = [Paragraph(element)]
    stack = [results[0]]
    events = walk(element)
    for event, each in events:
        tag = local(each.tag)
        if event == "end":
            if tag == "p" and each is not element:
                stack.pop()
            continue
        if tag in _LEFT_OUT or (tag == "r" and _is_hidden(each)):
            events.skip_subtree()
        elif tag == "p" and each is not element:
            stack.append(Paragraph(each))
            results.append(stack[-1])
        elif tag in FORMULAS:
            stack[-1].pieces.append(formula_text(each, stack[-1].read))
            events.skip_subtree()
        else:
            stack[-1].pieces.append(stack[-1].read(each))
    for paragraph in results:
        paragraph.text = "".join(paragraph.pieces)
        paragraph.pieces.clear()
    return results


def find(element: Element | None, name: str) -> Element | None:
    """The first child with a name."""
    return next((each for each in element if local(each.tag) == name), None) if element is not None else None


def children(element: Element | None) -> list[Element]:
    """The children of an element; none if there is none."""
    return list(element) if element is not None else []


def value(element: Element | None, default: str = "") -> str:
    """The attribute ``val``."""
    return default if element is None else attribute(element, "val", default)


def _font(text: Element) -> str:
    """The font of a run's text, if it is set in the run."""
    fonts = find(find(text.getparent(), "rPr"), "rFonts")
    return attribute(fonts, "ascii") or attribute(fonts, "hAnsi") if fonts is not None else ""


def _form_field(data: Element | None) -> str:
    """What a form field shows that isn't in its text: a box, ticked or not, or the chosen entry of a list."""
    box, entries = find(data, "checkBox"), find(data, "ddList")
    if box is not None:
        checked = find(box, "checked")
        state = value(checked, "1") if checked is not None else value(find(box, "default"), "0")
        return "☐" if state in _OFF else "☒"
    number = value(find(entries, "result")) or value(find(entries, "default"), "0")
    names = [value(each) for each in children(entries) if local(each.tag) == "listEntry"]
    return names[int(number)] if number in map(str, range(len(names))) else ""


def _symbol(font: str, code: str) -> str:
    """A character given by its number in a font; empty if only the font knows what it is."""
    if _CODE.fullmatch(code) is None:
        return ""
    text = in_font(font, chr(int(code, 16)))
    return "" if unicodedata.category(text or " ") in {"Cc", "Cn", "Co", "Cs"} else text


def _is_hidden(run: Element) -> bool:
    vanish = find(find(run, "rPr"), "vanish")
    return vanish is not None and value(vanish, "1") not in _OFF
