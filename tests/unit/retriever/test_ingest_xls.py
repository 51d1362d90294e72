"""Old Excel workbooks, written by xlwt: read as shown, with the cells' values for tables."""

from __future__ import annotations

import io
import random
from datetime import date
from pathlib import Path
from struct import pack
from typing import Any, cast

import pytest
import xlwt
from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.ingest import detect as detecting
from citewire_retriever.ingest.detect import detect
from citewire_retriever.ingest.document import Format, ParseLimits
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers import parse
from citewire_retriever.ingest.sandbox import Sandbox, SandboxRules
from citewire_retriever.ingest.tabular.tables import read_tables


def bytes_of(book: Any) -> bytes:  # noqa: ANN401 # xlwt has no types
    data = io.BytesIO()
    book.save(data)
    return data.getvalue()


def style(code: str) -> Any:  # noqa: ANN401 # xlwt has no types
    return cast("Any", xlwt).easyxf(num_format_str=code)


def made_workbook() -> bytes:
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
    return bytes_of(book)


def test_rows_are_read_as_shown_in_the_sheet() -> None:
    document = parse(made_workbook(), "a.xls")
    assert (document.format, document.media_type) == (Format.OLD_WORKBOOK, "application/vnd.ms-excel")
    texts = [document.text[block.start : block.end] for block in document.blocks]
    assert texts == [
        "Umsätze",
        "Sum",
        "Day: 01.03.2026\nShare: 15.5%\nAmount: 1,234.50 €\nOk: TRUE",
        "Day: 02.03.2026\nShare: 25.0%\nAmount: -7.00 €\nOk: FALSE",
        "Day: 03.03.2026\nShare: 100.0%\nAmount: 3.00 €\nOk: TRUE",
        "Old (hidden)",
        *texts[6:],
    ]
    assert [(block.place.sheet, block.place.cell_range) for block in document.blocks[1:5]] == [
        ("Umsätze", "F3"), ("Umsätze", "B4:E4"), ("Umsätze", "B5:E5"), ("Umsätze", "B6:E6"),
    ]  # fmt: skip
    assert texts[6:] == ["Both: Both\none: two"]


def test_tables_have_types_currencies_and_uncomputed_formulas() -> None:
    table, *_ = read_tables(made_workbook(), "a.xls", "", ParseLimits(), None)
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
def test_an_old_workbook_is_recognised_by_its_content(name: str) -> None:
    assert detect(made_workbook(), name).format is Format.OLD_WORKBOOK


def test_other_files_named_xls_are_recognised_by_content() -> None:
    assert detect(b"<html><body><table><tr><td>1</table>", "a.xls").format is Format.HTML
    with pytest.raises(IngestError, match="PowerPoint"):
        detect(made_workbook(), "a.ppt")
    with pytest.raises(IngestError, match="Word"):
        detect(made_workbook() + "WordDocument".encode("utf-16-le"), "a.bin")


def test_without_the_package_an_old_workbook_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detecting, "HAS_XLS", False)
    with pytest.raises(IngestError, match=r"save it as \.xlsx") as error:
        detect(made_workbook(), "a.xls")
    assert error.value.code is IngestCode.UNSUPPORTED_FORMAT


def test_a_damaged_workbook_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    """Also if the library panics instead of raising an exception."""
    data = made_workbook()
    for end in range(600, len(data) - 1024, 512):
        with pytest.raises(IngestError) as error:
            parse(data[:end], "a.xls")
        assert error.value.code in {IngestCode.CORRUPT, IngestCode.EMPTY, IngestCode.NO_TEXT}
    capfd.readouterr()


def record(kind: int, body: bytes) -> bytes:
    return pack("<HH", kind, len(body)) + body


def excel_5() -> bytes:
    """A workbook of Excel 5, which xlwt can't write: names, texts and formats in a code page."""
    sheet = record(0x0809, pack("<HHHH", 0x0500, 0x10, 0, 0)) + record(0x0200, pack("<HHHHH", 0, 3, 0, 2, 0))
    for row, column, text in ((0, 0, b"Name"), (0, 1, b"Betrag"), (1, 0, b"M\xfcller"), (2, 0, b"Kr\xe4mer")):
        sheet += record(0x0204, pack("<HHHH", row, column, 0, len(text)) + text)
    sheet += record(0x0203, pack("<HHHd", 1, 1, 0, 12.5)) + record(0x027E, pack("<HHHI", 2, 1, 1, (7 << 2) | 2))
    head = record(0x0809, pack("<HHHH", 0x0500, 5, 0, 0)) + record(0x42, pack("<H", 1252))
    head += record(0x041E, pack("<HB", 164, 10) + b'0.00 "EUR"')
    head += b"".join(record(0xE0, pack("<HHH", 0, code, 0) + bytes(10)) for code in (0, 164))
    name = b"Ums\xe4tze"
    begin = len(head) + len(record(0x85, bytes(7) + name)) + len(record(0x0A, b""))
    head += record(0x85, pack("<IBBB", begin, 0, 0, len(name)) + name) + record(0x0A, b"")
    file = io.BytesIO()
    cast("Any", xlwt).CompoundDoc.XlsDoc().save(file, (head + sheet + record(0x0A, b"")).ljust(4096, b"\0"))
    entry = "Workbook".encode("utf-16-le").ljust(64, b"\0") + pack("<H", 18)
    assert entry in file.getvalue()
    return file.getvalue().replace(entry, "Book".encode("utf-16-le").ljust(64, b"\0") + pack("<H", 10))


def test_a_workbook_of_excel_5_is_read() -> None:
    assert parse(excel_5(), "a.xls").text == "Umsätze\n\nName: Müller\nBetrag: 12.5\n\nName: Krämer\nBetrag: 7.00 EUR"


def test_a_nan_is_left_out() -> None:
    number = pack("<d", 12.5)
    assert excel_5().count(number) == 1
    damaged = excel_5().replace(number, pack("<d", float("nan")))
    assert parse(damaged, "a.xls").text == "Umsätze\n\nName: Müller\n\nName: Krämer\nBetrag: 7.00 EUR"


def mutate(data: bytes, seed: int) -> bytes:
    """Replaces bytes of a file, anywhere or only after its first sector, by random ones or extreme numbers."""
    chance = random.Random(seed)
    result = bytearray(data)
    for _ in range(chance.choice([1, 4, 16, 64])):
        place = chance.randrange(0 if seed % 4 == 0 else 512, len(data) - 4)
        if seed % 4 == 3:
            result[place : place + 4] = chance.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f"])
        else:
            result[place] = chance.randrange(256)
    return bytes(result)


async def test_damaged_workbooks_are_read_or_an_error(tmp_path: Path) -> None:
    """In the confined process, as some of them make the library run out of memory and end the process."""
    rules = SandboxRules(
        seconds=300,
        cpu_seconds=20,
        cpu_seconds_per_mib=10,
        memory_mib=1024,
        files=1000,
        limits=ParseLimits(),
        confinement="available",
    )
    files = [made_workbook(), excel_5()]
    path = tmp_path / "a.xls"
    ends: set[str] = set()
    async with Sandbox.open(rules, processes=1) as sandbox:
        for seed in range(200):
            path.write_bytes(mutate(files[seed % 7 == 0], seed))
            try:
                ends.add((await sandbox.parse(path, "a.xls", "")).format.value)
            except IngestError as error:
                ends.add("crashed" if "crashes the reader" in error.message else error.code.value)
    assert {Format.OLD_WORKBOOK.value, "CORRUPT"} <= ends
    assert not ends & {"INTERNAL", "TIMEOUT"}
