"""HTML: the stored text is what a reader sees, rendered block by block."""

import re
from collections.abc import Iterator

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.document import Block, BlockKind, Format, ParsedDocument, ParseLimits, TextBuilder
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.html_measures import LISTS, Measures, measure
from citewire_retriever.ingest.parsers.html_tables import is_data_table, read_grid, read_table
from citewire_retriever.ingest.parsers.html_text import BLOCKS, is_skipped, visible_text
from citewire_retriever.ingest.parsers.lxml_facade import Element, parse_html, walk
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, one_line
from citewire_retriever.ingest.parsers.tables import Grid, place_in, table_name

_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_MAIN_SHARE = 0.5
_SPACES = re.compile(r"[^\S\n]*\n\s*|[^\S\n]+")


def parse_html_page(text: str, limits: ParseLimits, *, is_file: bool = False) -> ParsedDocument:
    """Parses decoded HTML.

    Left out: scripts, styles, navigation, controls and hidden elements. If the page marks a main part with at least
    half of its text, only that is read. Headings keep their levels, preformatted text its lines; a row of a data table
    becomes ``column: value`` pairs under the table's header, with its place if the page is a separate file.

    Raises:
        IngestError: EMPTY or NO_TEXT if nothing is left; TOO_LARGE.
    """
    root = _root(text)
    reader = _Reader(limits, measure(root), places_rows=is_file)
    reader.read(_main_part(root))
    if not reader.builder.blocks:
        raise IngestError(IngestCode.NO_TEXT, "The page contains no visible text.")
    return ParsedDocument(
        Format.HTML, "text/html", reader.builder.text(), tuple(reader.builder.blocks), title=_title(root)
    )


def read_html_tables(text: str, limits: ParseLimits) -> Iterator[Grid]:
    """The data tables in the parts of decoded HTML that `parse_html_page` reads. Raises as it does."""
    root = _root(text)
    reader = _Reader(limits, measure(root))
    reader.read(_main_part(root))
    return map(read_grid, reader.tables)


def _root(text: str) -> Element:
    root = parse_html(text.encode("utf-8"))
    if root is None:
        raise IngestError(IngestCode.EMPTY, "The page contains no elements.")
    return root


class _Reader:
    """Collects inline text until a block starts or ends, then writes it as one block."""

    def __init__(self, limits: ParseLimits, measures: dict[Element, Measures], *, places_rows: bool = False) -> None:
        self.measures = measures
        self.places_rows = places_rows
        self.builder = TextBuilder(limits)
        self.tables: list[Element] = []
        self.inline: list[str] = []
        self.item = False  # whether the next paragraph starts a list item

    def read(self, root: Element) -> None:
        events = walk(root)
        for event, element in events:
            tag = element.tag
            if event == "end":
                if tag in BLOCKS:
                    self._flush()
                if element is not root and element.tail:
                    self.inline.append(element.tail.replace("\n", " "))
                continue
            if self._leaf(element):
                events.skip_subtree()
                continue
            if tag in BLOCKS:
                self._flush()
                self.item = tag == "li" or (self.item and tag in {"p", "div"})
            elif tag == "br":
                self.inline.append("\n")
            if element.text:
                self.inline.append(element.text.replace("\n", " "))
        self._flush()

    def _leaf(self, element: Element) -> bool:
        """Handles elements that are read or left out as a whole."""
        tag = element.tag
        if is_skipped(element):
            return True
        if tag in LISTS and _is_link_list(self.measures[element]):
            return True
        if tag in _HEADINGS:
            self._flush()
            self._heading(element, int(tag[1]))
            return True
        if tag == "pre":
            self._flush()
            self._write(BlockKind.CODE, "".join(visible_text(element)).strip("\n").rstrip())
            return True
        if tag == "table" and is_data_table(element, self.measures[element]):
            self._flush()
            self.tables.append(element)
            caption, rows = read_table(element)
            if caption:
                self._write(BlockKind.PARAGRAPH, caption)
            name = table_name(len(self.tables))
            for row in rows:
                place = place_in(name, row) if self.places_rows else None
                self._write(BlockKind.PARAGRAPH if row.wide else BlockKind.ROW, row.text, place=place)
            return True
        return False

    def _heading(self, element: Element, level: int) -> None:
        label = one_line("".join(visible_text(element)))
        if label:
            start, end = self.builder.write(label)
            self.builder.add(Block(BlockKind.HEADING, start, end, level=level, label=label[:LABEL_LIMIT]))

    def _flush(self) -> None:
        if not self.inline:
            return
        text = _SPACES.sub(_space, "".join(self.inline)).strip()
        self.inline.clear()
        if text:
            self._write(
                BlockKind.PARAGRAPH, f"- {text}" if self.item else text, separator="\n" if self.item else "\n\n"
            )
            self.item = False

    def _write(self, kind: BlockKind, text: str, *, separator: str = "\n\n", place: Place | None = None) -> None:
        if text.strip():
            start, end = self.builder.write(text, separator=separator)
            self.builder.add(Block(kind, start, end, place=place or Place()))


def _is_link_list(measures: Measures) -> bool:
    """Whether a list in a page's or section's header or footer is only links, that is, unmarked navigation."""
    return measures.at_edge and 5 * measures.in_links > 4 * measures.visible


def _space(match: re.Match[str]) -> str:
    return "\n" if "\n" in match.group() else " "


def _main_part(root: Element) -> Element:
    marked = [each for each in root.iter() if each.tag == "main" or each.get("role", "") == "main"]
    if len(marked) != 1:
        return root
    whole = sum(len(piece) for piece in visible_text(root))
    part = sum(len(piece) for piece in visible_text(marked[0]))
    return marked[0] if part >= _MAIN_SHARE * whole else root


def _title(root: Element) -> str | None:
    for title in root.iter("title"):
        # An SVG may also have titles; the page's is in its head.
        parent = title.getparent()
        if parent is not None and parent.tag in {"head", "html"}:
            result = one_line("".join(title.itertext()))
            if result:
                return result
    for heading in root.iter("h1"):
        result = one_line("".join(visible_text(heading)))
        if result:
            return result
    return None
