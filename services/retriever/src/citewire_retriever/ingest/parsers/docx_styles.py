"""Which paragraphs of a Word document are headings."""

import re
from dataclasses import dataclass
from typing import Final

from citewire_retriever.ingest.parsers.docx_text import children, find, value
from citewire_retriever.ingest.parsers.lxml_facade import Element
from citewire_retriever.ingest.parsers.package import attribute, local

_DEEPEST: Final = 6
_MOST_BASES: Final = 20
# Word stores built-in styles under their English names; other programs may use translated ones.
_HEADING: Final = re.compile(
    r"(?:heading|überschrift|titre|título|titolo|kop|rubrik|overskrift|otsikko|nagłówek|nadpis|címsor|başlık"
    r"|заголовок|标题|標題|見出し|제목)\s*([1-9])", re.I,
)  # fmt: skip
_CONTENTS: Final = re.compile(r"(?:toc|verzeichnis|contents) ?(?:\d|heading)|table of figures", re.I)


@dataclass(frozen=True, slots=True)
class Style:
    """The properties that a style gives its paragraphs."""

    level: int = 0
    """Level of the heading, 1–6; 0 if it isn't one."""
    is_title: bool = False
    is_contents: bool = False
    """Whether it is a line of a table of contents."""
    numbering: Element | None = None
    """Its ``numPr``."""


class Styles:
    """A document's styles by id."""

    def __init__(self, root: Element | None) -> None:
        self._elements = {
            attribute(each, "styleId"): each
            for each in children(root)
            if local(each.tag) == "style" and attribute(each, "type") == "paragraph"
        }
        self._styles: dict[str, Style] = {"": Style()}

    def of(self, paragraph: Element) -> Style:
        """A paragraph's style, with the paragraph's own outline level if it has one."""
        properties = find(paragraph, "pPr")
        style = self.named(value(find(properties, "pStyle")))
        own = _level(find(properties, "outlineLvl"))
        return style if own is None else Style(own, style.is_title, style.is_contents, style.numbering)

    def named(self, style_id: str) -> Style:
        """The style with an id; an empty one if it doesn't exist."""
        if style_id not in self._styles:
            self._styles[style_id] = self._read(style_id)
        return self._styles[style_id]

    def _read(self, style_id: str) -> Style:
        """A style's properties, completed by those of the style on which it is based."""
        level, numbering = None, None
        is_title = is_contents = False
        for _ in range(_MOST_BASES):
            element = self._elements.get(style_id)
            if element is None:
                break
            name = value(find(element, "name"))
            properties = find(element, "pPr")
            is_title = is_title or name.casefold() == "title"
            is_contents = is_contents or _CONTENTS.match(name) is not None
            numbering = find(properties, "numPr") if numbering is None else numbering
            level = _level(find(properties, "outlineLvl")) if level is None else level
            named = _HEADING.match(name)
            if level is None and named is not None:
                level = min(int(named.group(1)), _DEEPEST)
            style_id = value(find(element, "basedOn"))
        return Style(1 if is_title else level or 0, is_title, is_contents, numbering)


def _level(outline: Element | None) -> int | None:
    """An outline level, where 9 is body text, as a heading's level; None if it isn't set."""
    text = value(outline)
    return None if text not in set("0123456789") or not text else 0 if text == "9" else min(int(text) + 1, _DEEPEST)
