"""Excel workbooks (XLSX): each row of each sheet under its header, as displayed.

Read from the package's own parts, row by row: openpyxl and python-calamine return values, but displaying dates and
numbers also needs their formats, without the whole workbook in memory. Names of elements are from ECMA-376.
"""

import re
from collections.abc import Iterator
from math import isfinite
from mmap import mmap
from typing import IO, Final

from citewire_retriever.ingest.cells import column_number
from citewire_retriever.ingest.decode import clean_units
from citewire_retriever.ingest.document import Format, ParsedDocument, ParseLimits, TextBuilder
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.cell_formats import BUILT_IN, general, number_kind, show, to_moment
from citewire_retriever.ingest.parsers.drawings import TextBox, text_boxes
from citewire_retriever.ingest.parsers.lxml_facade import Element
from citewire_retriever.ingest.parsers.package import Package, attribute, local, relation_id
from citewire_retriever.ingest.parsers.workbook import MOST_COLUMNS, Merge, Row, Sheet, Typed, add_sheet, merged

MEDIA_TYPE: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_REFERENCE: Final = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})")
_MERGE: Final = re.compile(rb'<(?:\w{1,20}:)?mergeCell\s+ref="([A-Z]{1,3}\d{1,7}):([A-Z]{1,3}\d{1,7})"')
_MOST_MERGES: Final = 100_000
_PIECE: Final = 1024 * 1024
_ESCAPE: Final = re.compile(r"_x([0-9A-Fa-f]{4})_")
_DIGITS: Final = 15
_TRUE: Final = frozenset({"1", "true"})


def parse_xlsx(data: bytes | mmap, limits: ParseLimits) -> ParsedDocument:
    """Parses a workbook.

    Formulas have their stored values; texts in drawings follow the sheet's rows. A cell merged with those below it is
    repeated in each row. Hidden sheets are read, and their headings say so.

    Raises:
        IngestError: CORRUPT, PASSWORD_REQUIRED, TOO_LARGE.
    """
    package = Package(data, "workbook")
    builder = TextBuilder(limits)
    for sheet in xlsx_sheets(package, limits):
        add_sheet(builder, sheet)
    return ParsedDocument(Format.WORKBOOK, MEDIA_TYPE, builder.text(), tuple(builder.blocks), title=package.title())


def xlsx_sheets(package: Package, limits: ParseLimits) -> Iterator[Sheet]:
    """Yields the sheets of a workbook; each must be read before the next one. Raises as `parse_xlsx`."""
    main = package.related("", "officeDocument") or "xl/workbook.xml"
    if main.endswith(".bin"):
        raise IngestError(
            IngestCode.UNSUPPORTED_FORMAT, "The file is a binary Excel workbook: save it as .xlsx and upload that."
        )
    root = package.tree(main)
    if root is None:
        raise package.broken()
    reader = _Reader(package, main, root, limits)
    parts = package.relations(main)
    for each in root.iter("{*}sheet"):
        kind, part = parts.get(relation_id(each), ("", ""))
        if kind == "worksheet" and part in package:
            hidden = attribute(each, "state", "visible") != "visible"
            merges = reader.merges(part)
            rows = merged(reader.rows(part), merges)
            is_cut = len(merges) >= _MOST_MERGES
            yield Sheet(attribute(each, "name"), hidden, rows, is_cut, reader.boxes(part))


class _Reader:
    def __init__(self, package: Package, main: str, root: Element, limits: ParseLimits) -> None:
        self._package = package
        self._limits = limits
        properties = next(iter(root.iter("{*}workbookPr")), None)
        self._from_1904 = properties is not None and attribute(properties, "date1904") in _TRUE
        self._formats = _formats(package.related_tree(main, "styles"))
        self._shared = self._read_shared(package.related(main, "sharedStrings"))

    def rows(self, part: str) -> Iterator[Row]:
        """The rows of a sheet that aren't empty."""
        number = 0
        for _, element in self._package.elements(part, frozenset({"row"})):
            text = element.get("r", "")
            number = int(text) if text.isdecimal() and text.isascii() and len(text) < 8 else number + 1
            cells: dict[int, str] = {}
            typed: dict[int, Typed] = {}
            column = 0
            for cell in element:
                column = _column(cell.get("r", "")) or column + 1
                if column > MOST_COLUMNS:
                    continue
                shown, value = self._read(cell)
                if shown.strip():
                    cells[column] = shown.strip()
                if value is not None:
                    typed[column] = value
            if cells or typed:
                yield Row(number, cells, {}, typed)

    def boxes(self, part: str) -> Iterator[TextBox]:
        """The texts in a sheet's drawing."""
        drawing = self._package.related(part, "drawing")
        if drawing is not None:
            yield from text_boxes(self._package, drawing)

    def merges(self, part: str) -> list[Merge]:
        """Merged cells; they come after the rows, so the sheet is inflated just for them."""
        with self._package.stream(part) as stream:
            return list(_find_merges(stream))

    def _read(self, cell: Element) -> tuple[str, Typed | None]:
        """A cell's displayed text, and its stored value unless that is a text."""
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return "".join(_rich_text(each) for each in cell if local(each.tag) == "is"), None
        value = next((each.text or "" for each in cell if local(each.tag) == "v"), "")
        if not value and kind != "str" and any(local(each.tag) == "f" for each in cell):
            return "", Typed("formula")
        if kind == "s":
            index = int(value) if value.isdecimal() and value.isascii() and len(value) < 10 else -1
            return self._shared[index] if 0 <= index < len(self._shared) else "", None
        if kind == "b":
            return (
                ("TRUE", Typed("boolean", "1"))
                if value in _TRUE
                else ("FALSE", Typed("boolean", "0"))
                if value
                else ("", None)
            )
        if kind == "d":
            return _unescaped(value), Typed("date", value)
        return (_unescaped(value), None) if kind in {"str", "e"} else self._read_number(cell, value)

    def _read_number(self, cell: Element, value: str) -> tuple[str, Typed | None]:
        try:
            number = float(value)
        except ValueError:
            return value, None
        if not isfinite(number):
            return value, None
        code = self._formats.get(cell.get("s", "0"), "General")
        return read_number(value, number, code, from_1904=self._from_1904)

    def _read_shared(self, part: str | None) -> list[str]:
        """The shared texts that cells refer to by number."""
        results: list[str] = []
        if part is not None:
            left = self._limits.max_chars
            for _, element in self._package.elements(part, frozenset({"si"})):
                results.append(_rich_text(element))
                left -= len(results[-1]) + 1
                if left < 0:
                    raise self._package.too_large()
        return results


def read_number(value: str, number: float, code: str, *, from_1904: bool) -> tuple[str, Typed | None]:
    """A number's displayed text and stored value.

    Args:
        value: As written in the file, in decimal.
        number: The same as a float.
        code: Its format.
        from_1904: Whether dates are counted from 1904.
    """
    kind, currency = number_kind(code)
    shown = general(number) if code == "General" else show(number, code, from_1904=from_1904)
    if kind == "time":
        return shown, None
    if kind != "date":
        return shown, Typed(kind, _as_kept(value, number), currency)
    moment = to_moment(number, from_1904=from_1904)
    return shown, None if moment is None else Typed("date", moment.isoformat())


def _as_kept(value: str, number: float) -> str:
    """A number rounded to the 15 digits that spreadsheets show; integers keep all digits.

    Spreadsheets write the binary value: 0.1 may be stored as 0.10000000000000001.
    """
    digits = sum(sign.isdecimal() for sign in value.partition("E")[0].partition("e")[0])
    return value if digits <= _DIGITS or value.lstrip("-").isdecimal() else f"{number:.{_DIGITS}g}"


def _formats(root: Element | None) -> dict[str, str]:
    """Format codes by cell style."""
    if root is None:
        return {}
    own = {attribute(each, "numFmtId"): attribute(each, "formatCode") for each in root.iter("{*}numFmt")}
    used = next(iter(root.iter("{*}cellXfs")), None)
    results: dict[str, str] = {}
    for index, each in enumerate(used if used is not None else ()):
        number = attribute(each, "numFmtId", "0")
        built_in = BUILT_IN.get(int(number), "General") if number.isdecimal() and len(number) < 5 else "General"
        results[str(index)] = own.get(number, built_in)
    return results


def _rich_text(element: Element) -> str:
    """A text's runs, without phonetic readings (furigana)."""
    pieces: list[str] = []
    for each in element:
        tag = local(each.tag)
        if tag == "t":
            pieces.append(each.text or "")
        elif tag == "r":
            pieces += [text.text or "" for text in each if local(text.tag) == "t"]
    return _unescaped("".join(pieces))


def _unescaped(text: str) -> str:
    """Decodes characters that XML can't contain, written as ``_x000D_``."""
    return clean_units(_ESCAPE.sub(lambda match: chr(int(match.group(1), 16)), text)) if "_x" in text else text


def _column(reference: str) -> int:
    match = _REFERENCE.fullmatch(reference)
    return column_number(match.group(1)) if match is not None else 0


def _find_merges(stream: IO[bytes]) -> Iterator[Merge]:
    rest = b""
    count = 0
    while piece := stream.read(_PIECE):
        data = rest + piece
        end = 0
        for match in _MERGE.finditer(data):
            end = match.end()
            first, last = (_REFERENCE.fullmatch(corner.decode()) for corner in match.groups())
            if first is not None and last is not None and count < _MOST_MERGES:
                count += 1
                yield Merge(
                    int(first[2]), int(last[2]), column_number(first[1]), min(column_number(last[1]), MOST_COLUMNS)
                )
        rest = data[max(end, len(data) - 100) :]
