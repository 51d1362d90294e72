"""PDF: text page by page, in paragraphs, with headings from the outline or by appearance."""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap

from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.document import (
    Block,
    BlockKind,
    Format,
    PagesRead,
    ParsedDocument,
    ParseLimits,
    TextBuilder,
    check_blocks,
)
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, one_line
from citewire_retriever.ingest.parsers.pdf_layout import NUMBERED, Line, Paragraph, Style, group, line_of, usual_style
from citewire_retriever.ingest.parsers.pdf_order import Area, read_areas
from citewire_retriever.ingest.parsers.pdf_running import without_running
from citewire_retriever.ingest.parsers.pdf_segments import normalise, read_segments
from citewire_retriever.ingest.parsers.pdf_spacing import UNSPACED
from citewire_retriever.ingest.parsers.pdf_tables import Table, split_tables
from citewire_retriever.ingest.parsers.pdfium import HYPHEN, Bookmark, PdfError, PdfFile, PdfPasswordError

_TAIL = 4096
_PADDING = b"\0\r\n\t \x1a"
_LINEARISED = re.compile(rb"/Linearized\b.{0,200}?/L\s+(\d+)", re.S)
_MAX_BOOKMARKS = 5000
_MAX_HEADING_SHARE = 0.3
_FEW_LINES = 10
_LOOK_BACK = 60
_TOLD_EVERY = 16  # pages
_CAPTION = 200  # characters of a paragraph that belongs to the table below it
_BETWEEN = 400  # characters of text between two parts of a table, such as a row's long label
_MAX_NUMBERING = 8  # letters and digits that may precede a bookmark's words in the heading
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_UNSPACED = re.compile(f"{UNSPACED}{{2}}")
_NO_TITLE = re.compile(
    r"untitled|\(anonymous\)|microsoft |powerpoint|document\d*$|.*\.(?:docx?|pdf|tex|dvi|indd|xlsx?|pptx?|html?)$", re.I
)


def parse_pdf(data: bytes | mmap, limits: ParseLimits, told: PagesRead | None = None) -> ParsedDocument:
    """Parses a PDF file; `told` hears of every 16th page before it is read.

    Paragraphs are found from the lines' positions; hyphenated words are joined. Headings are those of the file's
    outline or, without one, lines that are larger than the text, or bold and separate.

    Raises:
        IngestError: CORRUPT (also truncated), PASSWORD_REQUIRED, NO_TEXT, TOO_LARGE.
    """
    _check_complete(data)
    try:
        file = PdfFile(data)
    except PdfPasswordError as error:
        raise IngestError(
            IngestCode.PASSWORD_REQUIRED, "The PDF needs a password: save a copy without one and upload that."
        ) from error
    except PdfError as error:
        raise IngestError(IngestCode.CORRUPT, "The PDF is damaged and can't be opened.") from error
    try:
        return _Reader(file, limits, told).read()
    finally:
        file.close()


def _check_complete(data: bytes | mmap) -> None:
    """Checks for a PDF's end marker: a file without it is truncated, which the library would silently accept."""
    size = len(data)
    while size and data[size - 1] in _PADDING:
        size -= 1
    tail = data[max(0, size - _TAIL) : size]
    linearised = _LINEARISED.search(data[:1024])
    ends = b"%%EOF" in tail or b"startxref" in tail
    if not ends or (linearised and int(linearised.group(1)) > len(data)):
        raise IngestError(IngestCode.CORRUPT, "The PDF is truncated: its end is missing. Upload the whole file.")


@dataclass(frozen=True, slots=True)
class _Heading:
    label: str
    level: int


class _Reader:
    def __init__(self, file: PdfFile, limits: ParseLimits, told: PagesRead | None) -> None:
        self.file = file
        self.limits = limits
        self.told = told
        self.builder = TextBuilder(limits)
        self.rows = 0
        self.names = ("", 0)  # the last table's column names, and the number of columns

    def read(self) -> ParsedDocument:
        count = len(self.file)
        if count == 0:
            raise IngestError(IngestCode.CORRUPT, "The PDF has no page.")
        if count > self.limits.max_pages:
            raise IngestError(IngestCode.TOO_LARGE, f"The PDF has more than {self.limits.max_pages:,} pages: split it.")
        pages = [list(_elements(areas)) for areas in without_running(self._pages(count))]
        lines = [[line for each in page if isinstance(each, list) for line in each] for page in pages]
        style = usual_style(lines)
        outline = self._outline()
        by_page: dict[int, list[Bookmark]] = defaultdict(list)
        for mark in outline:
            by_page[mark.page].append(mark)
        parts = [list(_parts(page, style)) for page in pages]
        levels = _heading_levels(parts, style, below=max((mark.level + 1 for mark in outline), default=0))
        words = Counter(word.lower() for page in lines for line in page for word in _WORD.findall(line.text))
        for index, page in enumerate(parts):
            texts = ["" if isinstance(part, Table) else _joined(part.lines, words) for part in page]
            marks = _marked(by_page[index], texts)
            for place, (part, text) in enumerate(zip(page, texts, strict=True)):
                if isinstance(part, Table):
                    self._write_table(part, index + 1)
                    continue
                heading = marks.get(place) or _by_look(part, text, levels)
                self._write(text if heading is None else one_line(text), index + 1, heading)
        text = self.builder.text()
        if not any(char.isalnum() for char in text):
            raise IngestError(
                IngestCode.NO_TEXT, "The PDF contains no text, only images: run text recognition (OCR) on it first."
            )
        return ParsedDocument(
            Format.PDF, "application/pdf", text, tuple(self.builder.blocks), title=self._title(), pages=count
        )

    def _pages(self, count: int) -> list[list[Area]]:
        pages: list[list[Area]] = []
        failed = 0
        for index in range(count):
            if self.told is not None and index % _TOLD_EVERY == 0:
                self.told(index, count)
            try:
                page = self.file.page_text(index)
            except PdfError:
                failed += 1
                pages.append([])
                continue
            try:
                pages.append(read_areas(read_segments(page)))
            finally:
                page.close()
        if failed:
            raise IngestError(IngestCode.CORRUPT, f"{failed} of the PDF's {count} pages are damaged and can't be read.")
        return pages

    def _outline(self) -> list[Bookmark]:
        """The outline, if it has enough entries to list sections."""
        try:
            entries = [
                Bookmark(title, mark.level, mark.page)
                for mark in self.file.outline(_MAX_BOOKMARKS)
                if (title := normalise(mark.title))
            ]
        except PdfError:
            return []
        return entries if len(entries) >= 3 else []

    def _write(self, text: str, page: int, heading: _Heading | None) -> None:
        if not text:
            return
        start, end = self.builder.write(text)
        if heading is not None or len(text) > _BETWEEN:
            self.names = ("", 0)
        if heading is None:
            self.builder.add(Block(BlockKind.PARAGRAPH, start, end, place=Place(page=page)))
        else:
            place = Place(page=page)
            self.builder.add(
                Block(BlockKind.HEADING, start, end, level=heading.level, label=heading.label, place=place)
            )

    def _write_table(self, table: Table, page: int) -> None:
        """Writes a table. One without column names but as many columns as the last table continues that one."""
        place = Place(page=page)
        label, columns = table.label, len(table.rows[0])
        if not label and columns == self.names[1]:
            label = self.names[0]
        self.names = (label, columns)
        parts = [self.builder.blocks.pop()] if self._ends_in_caption(page) else []
        for index, cells in enumerate(table.rows):
            text = "\t".join(cells).rstrip("\t")
            _, end = self.builder.write(text, separator="\n" if index else "\n\n")
            parts.append(Block(BlockKind.ROW, end - len(text.lstrip("\t")), end, place=place))
        self.rows += len(parts)
        check_blocks(len(self.builder.blocks) + self.rows, self.limits)
        first, last = parts[0].start, parts[-1].end
        self.builder.add(Block(BlockKind.TABLE, first, last, label=label, place=place, children=tuple(parts)))

    def _ends_in_caption(self, page: int) -> bool:
        """Whether the last block is a line or two of text on this page, which serves as the table's caption."""
        last = self.builder.blocks[-1] if self.builder.blocks else None
        if last is None or last.kind is not BlockKind.PARAGRAPH or last.place.page != page:
            return False
        return last.end - last.start <= _CAPTION

    def _title(self) -> str | None:
        title = normalise(self.file.title())
        if title and not _NO_TITLE.match(title) and any(char.isalpha() for char in title):
            return title[:LABEL_LIMIT]
        top = [block for block in self.builder.blocks if block.place.page == 1][:5]
        headings = [block for block in top if block.kind is BlockKind.HEADING and not NUMBERED.match(block.label)]
        if not headings:
            return None
        first = headings[0] if headings[0] is top[0] else min(headings, key=lambda block: block.level)
        return first.label


def _elements(areas: list[Area]) -> Iterator[list[Line] | Table]:
    """A page's tables, and the lines between them."""
    lines: list[Line] = []
    for area in areas:
        for each in split_tables(area):
            if isinstance(each, Table):
                if lines:
                    yield lines
                lines = []
                yield each
            else:
                lines += [line for line in map(line_of, each) if line.text]
    if lines:
        yield lines


def _parts(page: list[list[Line] | Table], style: Style) -> Iterator[Paragraph | Table]:
    for index, each in enumerate(page):
        if isinstance(each, Table):
            yield each
        else:
            yield from group(each, style, above_table=index + 1 < len(page))


def _marked(marks: list[Bookmark], texts: list[str]) -> dict[int, _Heading]:
    """Matches a page's bookmarks to its paragraphs, in order: the same words, else the same words at a line's end."""
    results: dict[int, _Heading] = {}
    titles = [_key(mark.title) for mark in marks]
    places = _places_by_end([_key(text) for text in texts], max(map(len, titles), default=0))
    first = 0
    for mark, title in zip(marks, titles, strict=True):
        exact, close = places.get(title, ([], [])) if title else ([], [])
        place = next((each[index] for each in (exact, close) if (index := bisect_left(each, first)) < len(each)), None)
        if place is not None:
            results[place] = _Heading(one_line(texts[place])[:LABEL_LIMIT], min(mark.level + 1, 6))
            first = place + 1
    return results


def _places_by_end(keys: list[str], longest: int) -> dict[str, tuple[list[int], list[int]]]:
    """For each ending of a key: the paragraphs that equal it, and those with a few more characters before it."""
    places: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for place, key in enumerate(keys):
        if len(key) > longest + _MAX_NUMBERING:
            continue
        for numbering in range(min(_MAX_NUMBERING, len(key) - 1) + 1):
            places[key[numbering:]][numbering > 0].append(place)
    return places


def _key(text: str) -> str:
    return "".join(char for char in text.lower() if char.isalnum())


def _heading_levels(pages: list[list[Paragraph | Table]], style: Style, below: int) -> dict[tuple[float, bool], int]:
    """Levels by appearance, the largest first, all below those of the outline.

    None if too much looks like headings to tell them apart (slides, posters).
    """
    looks: Counter[tuple[float, bool]] = Counter()
    total = 0
    for parts in pages:
        for part in parts:
            if isinstance(part, Table):
                total += len(part.rows)
                continue
            total += len(part.lines)
            if part.heading:
                looks[_look(part)] += len(part.lines)
    if total >= _FEW_LINES and looks.total() > _MAX_HEADING_SHARE * total:
        return {}
    ordered = sorted(looks, reverse=True)
    return {look: min(below + index + 1, 6) for index, look in enumerate(ordered)}


def _look(paragraph: Paragraph) -> tuple[float, bool]:
    first = paragraph.lines[0]
    return round(first.size * 2) / 2, first.bold


def _by_look(paragraph: Paragraph, text: str, levels: dict[tuple[float, bool], int]) -> _Heading | None:
    level = levels.get(_look(paragraph)) if paragraph.heading else None
    return _Heading(one_line(text)[:LABEL_LIMIT], level) if level is not None else None


def _joined(lines: tuple[Line, ...], words: Counter[str]) -> str:
    """A paragraph's text. Full lines are joined; short ones and rows of numbers keep their line end."""
    parts: list[str] = []
    edges = _full_from(lines)
    before = ""  # the last text joined without white space
    for index, line in enumerate(lines[:-1]):
        following = lines[index + 1]
        if line.text.endswith(HYPHEN) or (line.text[-1] == "-" and line.text[-2:-1].isalpha()):
            text = line.text.rstrip(HYPHEN).rstrip("-")
            if _keeps_hyphen(f"{before}{text}", following.text, words):
                text += "-"
            parts.append(text)
            before = f"{before}{text}"[-_LOOK_BACK:]
        else:
            runs_on = line.right >= edges[index] and not _is_numbers(line.text) and not _is_numbers(following.text)
            between = "" if _UNSPACED.search(f"{line.text[-1]}{following.text[:1]}") else " "
            parts += [line.text, between if runs_on else "\n"]
            before = ""
    return "".join([*parts, lines[-1].text]).rstrip(HYPHEN)


def _full_from(lines: tuple[Line, ...]) -> list[float]:
    """For each line, the right edge at which it counts as full: 85 % of the widest in its column."""
    edges: list[float] = []
    column: list[Line] = []
    for index, line in enumerate(lines):
        column.append(line)
        if index == len(lines) - 1 or lines[index + 1].top > line.top + line.size:
            left, right = min(each.left for each in column), max(each.right for each in column)
            edges += [right - 0.15 * (right - left)] * len(column)
            column = []
    return edges


def _is_numbers(text: str) -> bool:
    """Whether at least 30 % of a line's words are numbers, as in a table's row."""
    words = text.split()
    return sum(any(char.isdigit() for char in word) for word in words) >= 0.3 * len(words) and len(words) > 2


def _keeps_hyphen(before: str, following: str, words: Counter[str]) -> bool:
    """Whether a hyphen at a line's end belongs to the word: it occurs elsewhere in the document, or no word is cut."""
    starts = _WORD.findall(before[-_LOOK_BACK:])
    rest = _WORD.match(following)
    if not starts or not rest or len(starts[-1]) == 1:
        return True
    joined = f"{starts[-1]}{rest.group()}".lower()
    hyphenated = f"{starts[-1]}-{rest.group()}".lower()
    return words[joined] < words[hyphenated] or not rest.group()[0].islower()
