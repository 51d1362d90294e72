"""Old Excel workbooks (XLS): each row of each sheet under its header, as displayed.

python-calamine, an optional package, reads the sheets, their texts and merged cells. It returns numbers without their
formats, which are read separately from the stream's records (MS-XLS 2.3), so that dates, percentages and currencies
appear as in the sheet, and amounts in several currencies aren't added.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite
from mmap import mmap
from struct import error as StructError  # noqa: N812 - it is a class
from struct import unpack, unpack_from
from typing import Any, Final, cast

import olefile

from citewire_retriever.ingest.document import Format, ParsedDocument, ParseLimits, TextBuilder
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.kinds import XLS
from citewire_retriever.ingest.parsers.cell_formats import BUILT_IN, general
from citewire_retriever.ingest.parsers.package import bytes_file, password_required
from citewire_retriever.ingest.parsers.workbook import Merge, Row, Sheet, Typed, add_sheet, merged
from citewire_retriever.ingest.parsers.xlsx import read_number

_STREAMS: Final = ("Workbook", "Book")
_BOF, _EOF, _BOUNDSHEET, _FILEPASS, _DATEMODE, _FORMAT, _XF = 0x0809, 0x0A, 0x85, 0x2F, 0x22, 0x41E, 0xE0
_NUMBER, _RK, _MULRK = 0x0203, 0x027E, 0x00BD
_FORMULAS: Final = frozenset({0x0006, 0x0206, 0x0406})
_BIFF8: Final = 0x0600
_WORKSHEET: Final = 0
_NO_NUMBER: Final = 0xFFFF
"""Marks a formula's value, by its last two bytes, as a text (0), a boolean (1), an error (2) or empty (3)."""
_NOTHING: Final = 3
_MOST_MERGES: Final = 100_000
_DAMAGED: Final = "The workbook is damaged or cut off: save it again."
_PANIC: Final = "PanicException"
"""A Rust library's panic, which isn't an `Exception`, and whose class can't be imported."""

_Cells = dict[int, dict[int, tuple[str, Typed | None]]]
"""Displayed text and stored value, by row and column from 1."""


def parse_xls(data: bytes | mmap, limits: ParseLimits) -> ParsedDocument:
    """Parses a workbook of Excel 5 to 2003.

    Formulas have their stored values. A cell merged with those below it is repeated in each row. Hidden sheets are
    read, and their headings say so.

    Raises:
        IngestError: CORRUPT, PASSWORD_REQUIRED, TOO_LARGE.
    """
    builder = TextBuilder(limits)
    for sheet in xls_sheets(data):
        add_sheet(builder, sheet)
    return ParsedDocument(Format.OLD_WORKBOOK, XLS.media_types[0], builder.text(), tuple(builder.blocks))


def xls_sheets(data: bytes | mmap) -> Iterator[Sheet]:
    """Yields the sheets of a workbook. Raises as `parse_xls`."""
    import python_calamine as calamine

    with _read_errors():
        with cast("Any", olefile).OleFileIO(bytes_file(data)) as file:
            name = next((name for name in _STREAMS if file.exists(name)), None)
            stream = cast("bytes", file.openstream(name).read()) if name is not None else b""
        numbers = _Numbers(stream)
        with calamine.CalamineWorkbook.from_filelike(bytes_file(data)) as workbook:
            for index, about in enumerate(workbook.sheets_metadata):
                offset = numbers.sheets[index]
                if offset is None:
                    continue
                sheet = workbook.get_sheet_by_index(index)
                merges = [
                    Merge(first[0] + 1, last[0] + 1, first[1] + 1, last[1] + 1)
                    for first, last in (sheet.merged_cell_ranges or ())[:_MOST_MERGES]
                ]
                hidden = about.visible != calamine.SheetVisibleEnum.Visible
                rows = merged(_rows(sheet, numbers.cells(offset)), merges)
                yield Sheet(about.name, hidden, rows, is_cut=len(merges) >= _MOST_MERGES)


@contextmanager
def _read_errors() -> Generator[None]:
    """Turns both libraries' errors for truncated or forged files into IngestError."""
    import python_calamine as calamine

    try:
        yield
    except calamine.PasswordError:
        raise password_required("workbook") from None
    except (calamine.CalamineError, OSError, ValueError, LookupError, TypeError, AttributeError, StructError) as error:
        raise IngestError(IngestCode.CORRUPT, _DAMAGED) from error
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise IngestError(IngestCode.CORRUPT, _DAMAGED) from error


def _rows(sheet: Any, numbers: _Cells) -> Iterator[Row]:  # noqa: ANN401 # a type of an optional package
    left = (sheet.start or (0, 0))[1] + 1
    number = 0
    with _read_errors():
        for number, values in enumerate(sheet.iter_rows(), start=1):
            row = dict(numbers.pop(number, {}))
            for column, value in enumerate(values, start=left):
                if column not in row and value != "":
                    row[column] = _read(value)
            yield from _row(number, row)
    for number in sorted(numbers):  # below the rows that calamine has seen
        yield from _row(number, numbers[number])


def _row(number: int, row: dict[int, tuple[str, Typed | None]]) -> Iterator[Row]:
    cells = {column: text for column in sorted(row) if (text := row[column][0].strip())}
    typed = {column: value for column in sorted(row) if (value := row[column][1]) is not None}
    if cells or typed:
        yield Row(number, cells, {}, typed)


def _read(value: object) -> tuple[str, Typed | None]:
    """A text, a boolean, or a value missing from the records."""
    if isinstance(value, bool):
        return ("TRUE", Typed("boolean", "1")) if value else ("FALSE", Typed("boolean", "0"))
    if isinstance(value, float) and not isfinite(value):
        return "", None  # Excel has no such number: the file is damaged
    if isinstance(value, int | float):
        return general(float(value)), Typed("number", f"{value:.15g}")
    return str(value), None


@dataclass(slots=True)
class _Numbers:
    """Numbers with their formats, from a workbook's records, which consist of type, length and data."""

    stream: bytes
    sheets: list[int | None] = field(default_factory=list[int | None])
    """Each sheet's start; None for a chart or macro sheet."""
    _from_1904: bool = False
    _codes: dict[int, str] = field(default_factory=dict[int, str])
    """Formats defined in the file, by number."""
    _used: list[int] = field(default_factory=list[int])
    """The format number of each cell style."""

    def __post_init__(self) -> None:
        is_new = True
        for kind, body in self._records(0):
            if kind == _BOF:
                is_new = unpack_from("<H", body)[0] == _BIFF8
            elif kind == _FILEPASS:
                raise password_required("workbook")
            elif kind == _DATEMODE:
                self._from_1904 = unpack_from("<H", body)[0] == 1
            elif kind == _XF:
                self._used.append(unpack_from("<H", body, 2)[0])
            elif kind == _FORMAT:
                self._codes[unpack_from("<H", body)[0]] = _code(body, is_new=is_new)
            elif kind == _BOUNDSHEET:
                offset, _, type_ = unpack_from("<IBB", body)
                self.sheets.append(offset if type_ == _WORKSHEET else None)

    def cells(self, offset: int) -> _Cells:
        """The numbers of the sheet at this position."""
        result: _Cells = {}
        for kind, body in self._records(offset):
            if kind == _MULRK:
                row, first = unpack_from("<HH", body)
                for index in range((len(body) - 6) // 6):
                    style, packed = unpack_from("<HI", body, 4 + 6 * index)
                    self._add(result, row, first + index, style, _unpacked(packed))
            elif kind in {_NUMBER, _RK} or kind in _FORMULAS:
                row, column, style = unpack_from("<HHH", body)
                if kind == _RK:
                    self._add(result, row, column, style, _unpacked(unpack_from("<I", body, 6)[0]))
                elif kind == _NUMBER or unpack_from("<H", body, 12)[0] != _NO_NUMBER:
                    self._add(result, row, column, style, unpack_from("<d", body, 6)[0])
                elif body[6] == _NOTHING:
                    result.setdefault(row + 1, {})[column + 1] = ("", Typed("formula"))
        return result

    def _add(self, result: _Cells, row: int, column: int, style: int, number: float) -> None:
        if isfinite(number):
            code_number = self._used[style] if style < len(self._used) else 0
            code = self._codes.get(code_number) or BUILT_IN.get(code_number, "General")
            shown = read_number(f"{number:.15g}", number, code, from_1904=self._from_1904)
            result.setdefault(row + 1, {})[column + 1] = shown

    def _records(self, offset: int) -> Iterator[tuple[int, bytes]]:
        """The records of a part of the stream, without those of charts in it."""
        depth = 0
        while offset + 4 <= len(self.stream):
            kind, length = unpack_from("<HH", self.stream, offset)
            body = self.stream[offset + 4 : offset + 4 + length]
            offset += 4 + length
            depth += (kind == _BOF) - (kind == _EOF)
            if depth <= 0:
                return
            if depth == 1:
                yield kind, body


def _unpacked(packed: int) -> float:
    """Unpacks a 30-bit number: the upper bits of a float, or an integer, optionally in hundredths."""
    number: float = unpack("<i", packed.to_bytes(4, "little"))[0] >> 2 if packed & 2 else _upper(packed)
    return number / 100 if packed & 1 else number


def _upper(packed: int) -> float:
    return unpack("<d", bytes(4) + (packed & 0xFFFFFFFC).to_bytes(4, "little"))[0]


def _code(body: bytes, *, is_new: bool) -> str:
    """A format's code; before Excel 97 it is in bytes, with only currency signs outside ASCII."""
    if not is_new:
        return body[3 : 3 + body[2]].decode("cp1252", "replace")
    length, flags = unpack_from("<HB", body, 2)
    if flags & 1:
        return body[5 : 5 + 2 * length].decode("utf-16-le", "replace")
    return body[5 : 5 + length].decode("latin-1")
