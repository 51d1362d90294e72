"""Old Excel workbooks: written by xlwt, read with what their cells show and hold."""

from __future__ import annotations

import io
from datetime import date
from typing import Any, cast

import pytest
import xlwt
from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.ingest import detect as detecting
from citewire_retriever.ingest.detect import detect
from citewire_retriever.ingest.document import Format, ParseLimits
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers import parse
from citewire_retriever.ingest.tabular.tables import read_tables


def saved(book: Any) -> bytes:  # noqa: ANN401 # xlwt has no types
    data = io.BytesIO()
    book.save(data)
    return data.getvalue()


def style(code: str) -> Any:  # noqa: ANN401 # xlwt has no types
    return cast("Any", xlwt).easyxf(num_format_str=code)


def made() -> bytes:
    book: Any = xlwt.Workbook()
    sheet = book.add_sheet("Umsätze")
    rows: list[tuple[object, ...]] = [("Day", "Share", "Amount", "Ok", "Sum"), (date(2026, 3, 1), 0.155, 1234.5, True)]
    rows += [(date(2026, 3, 2), 0.25, -7, False), (date(2026, 3, 3), 1, 3, True)]
    formats = ("DD.MM.YYYY", "0.0%", '#,##0.00 "€"', "General")
    for number, row in enumerate(rows, start=2):
        for column, value in enumerate(row, start=1):
            if number == 2:
                sheet.write(number, column, value)
            else:
                sheet.write(number, column, value, style(formats[column - 1]))
    sheet.write(3, 5, xlwt.Formula("C4+D4"))
    hidden = book.add_sheet("Old")
    hidden.visibility = 1
    hidden.write_merge(0, 1, 0, 0, "Both")
    hidden.write(0, 1, "one")
    hidden.write(1, 1, "two")
    return saved(book)


def test_rows_are_read_as_the_sheet_shows_them() -> None:
    document = parse(made(), "a.xls")
    assert (document.format, document.media_type) == (Format.OLD_WORKBOOK, "application/vnd.ms-excel")
    texts = [document.text[block.start : block.end] for block in document.blocks]
    assert texts == [
        "Umsätze",
        "Day: 01.03.2026\nShare: 15.5%\nAmount: 1,234.50 €\nOk: TRUE",
        "Day: 02.03.2026\nShare: 25.0%\nAmount: -7.00 €\nOk: FALSE",
        "Day: 03.03.2026\nShare: 100.0%\nAmount: 3.00 €\nOk: TRUE",
        "Old (hidden)",
        *texts[5:],
    ]
    assert [(block.place.sheet, block.place.cell_range) for block in document.blocks[1:4]] == [
        ("Umsätze", "B4:E4"), ("Umsätze", "B5:E5"), ("Umsätze", "B6:E6"),
    ]  # fmt: skip
    assert texts[5:] == ["Both: Both\none: two"]


def test_its_tables_have_types_currencies_and_formulas_that_say_nothing() -> None:
    table, *_ = read_tables(made(), "a.xls", "", ParseLimits(), None)
    kinds = [(table.column(number).type, table.column(number).currency) for number in (2, 3, 4, 5)]
    assert kinds == [
        (pb.TABLE_TYPE_DATE, ""),
        (pb.TABLE_TYPE_PERCENT, ""),
        (pb.TABLE_TYPE_CURRENCY, "€"),
        (pb.TABLE_TYPE_BOOLEAN, ""),
    ]  # fmt: skip
    assert [str(value) for value in table.column(4).values] == ["1234.5", "-7", "3"]
    assert table.uncomputed == {6}


@pytest.mark.parametrize("name", ["a.xls", "a.xlt", "upload", "a.bin"])
def test_it_is_known_by_its_content(name: str) -> None:
    assert detect(made(), name).format is Format.OLD_WORKBOOK


def test_what_is_only_called_so_is_what_it_is() -> None:
    assert detect(b"<html><body><table><tr><td>1</table>", "a.xls").format is Format.HTML
    with pytest.raises(IngestError, match="PowerPoint"):
        detect(made(), "a.ppt")
    with pytest.raises(IngestError, match="Word"):
        detect(made() + "WordDocument".encode("utf-16-le"), "a.bin")


def test_without_the_package_it_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detecting, "HAS_XLS", False)
    with pytest.raises(IngestError, match=r"save it as \.xlsx") as error:
        detect(made(), "a.xls")
    assert error.value.code is IngestCode.UNSUPPORTED_FORMAT


def test_a_damaged_one_is_said_to_be(capfd: pytest.CaptureFixture[str]) -> None:
    """Also where the library doesn't raise an exception, but panics."""
    data = made()
    for end in range(600, len(data) - 1024, 512):
        with pytest.raises(IngestError) as error:
            parse(data[:end], "a.xls")
        assert error.value.code in {IngestCode.CORRUPT, IngestCode.EMPTY, IngestCode.NO_TEXT}
    capfd.readouterr()
