"""PowerPoint presentations (PPTX): slides with their titles, text, tables and notes.

Read from the package's own parts, like Word documents. Names of elements are from ECMA-376.
"""

from mmap import mmap
from typing import Final

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.document import Block, BlockKind, Format, ParsedDocument, ParseLimits, TextBuilder
from citewire_retriever.ingest.parsers.charts import add_chart
from citewire_retriever.ingest.parsers.drawings import paragraph_text
from citewire_retriever.ingest.parsers.lxml_facade import Element, walk
from citewire_retriever.ingest.parsers.package import Package, attribute, local, relation_id
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, one_line
from citewire_retriever.ingest.parsers.tables import Cell, add_rows, mark_header

MEDIA_TYPE: Final = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
_TITLES: Final = frozenset({"title", "ctrTitle"})
_LEFT_OUT: Final = frozenset({"dt", "ftr", "sldNum", "hdr", "sldImg"})
_SHAPES: Final = frozenset({"sp", "graphicFrame"})
_MOST_COLUMNS: Final = 1000
_TRUE: Final = frozenset({"1", "true"})


def parse_pptx(data: bytes | mmap, limits: ParseLimits) -> ParsedDocument:
    """Parses a presentation.

    Slides are numbered in order, hidden ones included, as in PowerPoint. A slide's title is its heading; notes come
    last. Left out: date, footer, slide number, and text that is only in the layout.

    Raises:
        IngestError: CORRUPT, PASSWORD_REQUIRED, TOO_LARGE.
    """
    package = Package(data, "presentation")
    main = package.related("", "officeDocument") or "ppt/presentation.xml"
    root = package.tree(main)
    if root is None:
        raise package.broken()
    parts = package.relations(main)
    reader = _Reader(package, limits)
    number = 0
    for each in root.iter("{*}sldId"):
        kind, part = parts.get(relation_id(each), ("", ""))
        if kind == "slide" and part in package:
            number += 1
            reader.read(number, part)
    # PowerPoint titles an unnamed presentation "PowerPoint Presentation".
    title = reader.first_title or package.title()
    # Without any text, "Slide 1" isn't worth finding.
    has_text = bool(reader.first_title) or any(each.kind is not BlockKind.HEADING for each in reader.builder.blocks)
    text, blocks = (reader.builder.text(), tuple(reader.builder.blocks)) if has_text else ("", ())
    return ParsedDocument(Format.SLIDES, MEDIA_TYPE, text, blocks, title=title)


class _Reader:
    def __init__(self, package: Package, limits: ParseLimits) -> None:
        self.builder = TextBuilder(limits)
        self.first_title: str | None = None
        self._package = package
        self._place = Place()
        self._relations: dict[str, tuple[str, str]] = {}

    def read(self, number: int, part: str) -> None:
        """Adds a slide, its diagrams and its notes."""
        self._place = Place(slide=number)
        self._relations = self._package.relations(part)
        shapes = _shapes(self._package.tree(part))
        # The title may be anywhere among the shapes, but is always their heading.
        titles = (one_line(paragraph_text(shape)) for shape in shapes if _role(shape) in _TITLES)
        title = next((title for title in titles if title), "")
        self.first_title = self.first_title or title or None
        self._heading(title or f"Slide {number}")
        for shape in shapes:
            if _role(shape) not in _TITLES | _LEFT_OUT:
                self._shape(shape)
        relations = list(self._relations.values())
        for target in (target for kind, target in relations if kind == "diagramData" and target in self._package):
            for _, each in self._package.elements(target, frozenset({"p"})):
                self._write(one_line(paragraph_text(each)))
        for target in (target for kind, target in relations if kind == "notesSlide" and target in self._package):
            for shape in _shapes(self._package.tree(target)):
                if _role(shape) not in _LEFT_OUT:
                    self._shape(shape)

    def _heading(self, label: str) -> None:
        start, end = self.builder.write(label)
        block = Block(BlockKind.HEADING, start, end, level=1, label=label[:LABEL_LIMIT], place=self._place)
        self.builder.add(block)

    def _shape(self, shape: Element) -> None:
        table = next(shape.iter("{*}tbl"), None)
        if table is not None:
            properties = next(iter(table.iter("{*}tblPr")), None)
            marked = properties is not None and attribute(properties, "firstRow") in _TRUE
            add_rows(self.builder, mark_header(_grid(table), int(marked)), self._place)
            return
        chart = next(shape.iter("{*}chart"), None)
        kind, part = self._relations.get(relation_id(chart), ("", "")) if chart is not None else ("", "")
        if kind == "chart":
            add_chart(self.builder, self._package, part, self._place)
            return
        count = 0
        for paragraph in shape.iter("{*}p"):
            text = paragraph_text(paragraph).strip()
            bullet = _bullet(paragraph)
            count = count + 1 if bullet == "buAutoNum" else 0
            sign = f"{count}. " if count else "- " if bullet == "buChar" else ""
            self._write(f"{sign}{text}" if text else "", "\n" if sign else "\n\n")

    def _write(self, text: str, separator: str = "\n\n") -> None:
        if text:
            start, end = self.builder.write(text, separator=separator)
            self.builder.add(Block(BlockKind.PARAGRAPH, start, end, place=self._place))


def _shapes(root: Element | None) -> list[Element]:
    """Shapes and frames in order, including grouped ones; fallbacks for older readers are left out."""
    results: list[Element] = []
    events = walk(root) if root is not None else None
    for event, each in events or ():
        tag = local(each.tag)
        if event == "start" and tag in _SHAPES | {"Fallback"} and events is not None:
            events.skip_subtree()
            if tag in _SHAPES:
                results.append(each)
    return results


def _role(shape: Element) -> str:
    """A placeholder's type; empty for any other shape."""
    placeholder = next(shape.iter("{*}ph"), None)
    return "" if placeholder is None else attribute(placeholder, "type", "body")


def _bullet(paragraph: Element) -> str:
    properties = next((each for each in paragraph if local(each.tag) == "pPr"), None)
    if properties is None:
        return ""
    return next((tag for each in properties if (tag := local(each.tag)) in {"buAutoNum", "buChar"}), "")


def _grid(table: Element) -> list[list[Cell]]:
    """The cells by row and column; one that spans several is the same object in each."""
    grid: list[list[Cell]] = []
    for row in (each for each in table if local(each.tag) == "tr"):
        above = grid[-1] if grid else []
        cells: list[Cell] = []
        for element in (each for each in row if local(each.tag) == "tc"):
            if attribute(element, "hMerge") in _TRUE and cells:
                cells.append(cells[-1])
            elif attribute(element, "vMerge") in _TRUE and len(cells) < len(above):
                cells.append(above[len(cells)])
            else:
                cells.append(Cell(one_line(paragraph_text(element)), head=False))
            if len(cells) >= _MOST_COLUMNS:
                break
        if cells:
            grid.append(cells)
    return grid
