"""Workbooks: rows under their headers, with their cells, dates and numbers as the sheet shows them."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from zipfile import ZipFile

import openpyxl
import pytest
from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.document import Block, BlockKind, Format, ParsedDocument
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers import parse
from citewire_retriever.ingest.parsers.cell_formats import general, show
from zip_packages import package, relations, xlsx


def bytes_of(book: openpyxl.Workbook) -> bytes:
    data = io.BytesIO()
    book.save(data)
    return data.getvalue()


def read(data: bytes) -> ParsedDocument:
    document = parse(data, "a.xlsx")
    assert document.format is Format.WORKBOOK
    return document


def rows(document: ParsedDocument) -> list[tuple[str, str]]:
    blocks = [block for block in document.blocks if block.kind is BlockKind.ROW]
    return [(block.place.cell_range, document.text[block.start : block.end]) for block in blocks]


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        ("a_xD83D__xDE00_b", "a\U0001f600b"),
        ("a_xD83D_b", "a\ufffdb"),
        ("a_x0000_b", "ab"),
        ("a_x0007_b", "ab"),
    ],
)
def test_escaped_characters_can_be_stored(escaped: str, text: str) -> None:
    cells = "".join(f'<row><c t="inlineStr"><is><t>{each}</t></is></c></row>' for each in ("Name", escaped))
    assert read(xlsx(cells)).text.endswith(f"Name: {text}")


def test_rows_have_their_sheet_number_and_cells() -> None:
    book = openpyxl.Workbook()
    prices = book.active
    assert prices is not None
    prices.title = "Preise & Größen"
    prices["B2"] = "Price list"
    for row in (["Fruit", "Price", "Since"], ["Apple", 1.5, date(2024, 1, 31)], ["Pear", None, date(2025, 2, 1)]):
        prices.append([None, *row])
    prices["C4"].number_format = '#,##0.00\\ "€"'
    other = book.create_sheet("Old")
    other.sheet_state = "hidden"
    other.append(["alone"])
    document = read(bytes_of(book))
    assert rows(document) == [
        ("B2", "Price list"),
        ("B4:D4", "Fruit: Apple\nPrice: 1.50 €\nSince: 2024-01-31"),
        ("B5:D5", "Fruit: Pear\nSince: 2025-02-01"),
        ("A1", "alone"),
    ]
    place = next(block.place for block in document.blocks if block.place.row == 4)
    assert place == Place(sheet="Preise & Größen", row=4, cell_range="B4:D4")
    headings = [block.label for block in document.blocks if block.kind is BlockKind.HEADING]
    assert headings == ["Preise & Größen", "Old (hidden)"]


def test_a_first_column_without_a_name_names_the_rows() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in ([None, None, "May", "June"], [None, "Boats", 1, 2], ["note", "Oars", 3, 4]):
        sheet.append(row)
    assert rows(read(bytes_of(book))) == [
        ("B2:D2", "Boats\nMay: 1\nJune: 2"),
        ("A3:D3", "A: note\nOars\nMay: 3\nJune: 4"),
    ]


GROUPED = {
    "years": (
        [["Site", 2023, None, 2024, None], [None, "in", "out", "in", "out"], ["Pier", 1, 2, 3, 4]],
        ["B1:C1", "D1:E1"],
    ),
    "merged down": ([["Site", "Name", None], [None, "first", "last"], ["Pier", "Ann", "Lee"]], ["A1:A2", "B1:C1"]),
    "numbers below": ([["Site", "Boats", None], [None, 2023, 2024], ["Pier", 1, 2]], ["B1:C1"]),
}
JOINED = {
    "years": "Site: Pier\n2023 / in: 1\n2023 / out: 2\n2024 / in: 3\n2024 / out: 4",
    "merged down": "Site: Pier\nName / first: Ann\nName / last: Lee",
    "numbers below": "Site: Pier\nBoats / 2023: 1\nBoats / 2024: 2",
}


@pytest.mark.parametrize("case", GROUPED)
def test_a_header_of_groups_and_names_below_is_joined(case: str) -> None:
    book = _merged(*GROUPED[case])
    last = "E" if case == "years" else "C"
    assert rows(read(bytes_of(book))) == [(f"A3:{last}3", JOINED[case])]


@pytest.mark.parametrize(
    "data",
    [
        # Each column has a name, and the values are words.
        [["Name", None, "City"], ["Ann", "Lee", "Oulu"], ["Bob", "Ray", "Kemi"]],
        [["Name", None, "Age"], ["Ann", "Lee", None], ["Bob", "Ray", "old"]],
        [["Boats", None, "Place"], ["Gull", "Tern", None], [None, None, None], ["Auk", "Skua", "Pier"]],
    ],
)
def test_a_merged_cell_above_words_is_no_group(data: list[list[str | None]]) -> None:
    place, text = rows(read(bytes_of(_merged(data, ["A1:B1"]))))[0]
    assert place.startswith("A2")
    assert text.startswith(f"{data[0][0]}: {data[1][0]}\n")


def _merged(data: Sequence[Sequence[str | int | None]], merges: Sequence[str]) -> openpyxl.Workbook:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in data:
        sheet.append(list(row))
    for merge in merges:
        sheet.merge_cells(merge)
    return book


def test_merged_cells_repeat_their_value_in_each_row_and_column() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in (["Region", "Revenue", None], ["North", 1, 2], [None, 3, 4], ["South", 5, 6]):
        sheet.append(row)
    sheet.merge_cells("B1:C1")
    sheet.merge_cells("A2:A3")
    assert rows(read(bytes_of(book))) == [
        ("A2:C2", "Region: North\nRevenue: 1\nRevenue: 2"),
        ("A3:C3", "Region: North\nRevenue: 3\nRevenue: 4"),
        ("A4:C4", "Region: South\nRevenue: 5\nRevenue: 6"),
    ]


def test_a_second_table_below_an_empty_row_has_its_own_header() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in (["a", "b"], [1, 2], [], ["c", "d"], [3, 4], [], ["x", "y"], ["z", "w"]):
        sheet.append(row)
    assert [text for _, text in rows(read(bytes_of(book)))] == ["a: 1\nb: 2", "c: 3\nd: 4", "c: x\nd: y", "c: z\nd: w"]


def test_values_of_formulas_errors_and_every_kind_of_text() -> None:
    cells = (
        '<row r="7"><c r="A7" t="s"><v>0</v></c><c r="C7" t="str"><f>A1&amp;"b"</f><v>ab</v></c>'
        '<c r="D7" t="b"><v>1</v></c><c r="E7" t="e"><v>#DIV/0!</v></c>'
        '<c r="F7"><f>1/3</f><v>0.33333333333333331</v></c>'
        '<c r="G7" t="inlineStr"><is><r><t>in</t></r><r><t>line</t></r><rPh><t>reading</t></rPh></is></c>'
        '<c r="H7" t="s"><v>99</v></c><c r="I7"><v>1e999</v></c><c t="d"><v>2024-01-31</v></c></row>'
    )
    document = read(xlsx(cells, shared="<si><t>shared_x000A_text</t></si>"))
    values = ["shared", "text", "ab", "TRUE", "#DIV/0!", "0.3333333333", "inline", "1e999", "2024-01-31"]
    assert rows(document) == [("A7:J7", "\n".join(values))]


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        (1234.5, "#,##0.00", "1,234.50"),
        (-5, "#,##0;(#,##0)", "(5)"),
        (-3, "0.00", "-3.00"),
        (0.123, "0.0%", "12.3%"),
        (1234567, '0.0,,"M"', "1.2M"),
        (1234.5, "[$€-407]#,##0.00", "€1,234.50"),
        (12.5, "#,##0.00 [$kr.-406]", "12.50 kr."),
        (1234.567, '_-* #,##0.00\\ "€"_-;\\-* #,##0.00\\ "€"_-;_-* "-"??\\ "€"_-;_-@_-', "1,234.57 €"),
        (0, '0;-0;"none"', "none"),
        (1234, '[>=1000]#,##0,"K";0', "1K"),
        (123456789, "000-00-0000", "123-45-6789"),
        (3.25, "# ?/?", "3 1/4"),
        (12345, "0.00E+00", "1.23E+04"),
        (12345.6789, "##0.0E+0", "12.3E+3"),
        (-0.00012345, "##0.0E+0", "-123.5E-6"),
        (999_960, "##0.0E+0", "1.0E+6"),
        (0, "##0.0E+0", "0.0E+0"),
        (12345, "0E-00", "1E04"),
        (2.5, "0", "3"),
        (0.285, "0.00", "0.29"),
        (5, "@", "5"),
        (12, 'General" kg"', "12 kg"),
        (45000.75, "dd.mm.yyyy hh:mm", "15.03.2023 18:00"),
        (45000.75, "m/d/yy h:mm AM/PM", "3/15/23 6:00 PM"),
        (45000, "dddd, d. mmmm yyyy", "Wednesday, 15. March 2023"),
        (45000.5000058, "mm:ss.0", "00:00.5"),
        (1.5, "[h]:mm", "36:00"),
        (45000.99999999, "yyyy-mm-dd hh:mm:ss", "2023-03-16 00:00:00"),
        (1, "yyyy-mm-dd", "1900-01-01"),
        (-1, "yyyy-mm-dd", "-1"),
        (0.1 + 0.2, "General", "0.3"),
        (123456789012, "General", "1.23456789E+11"),
        (1e-7, "General", "1E-07"),
    ],
)
def test_numbers_and_dates_are_shown_in_their_format(value: float, code: str, shown: str) -> None:
    assert (general(value) if code == "General" else show(value, code)) == shown


def test_dates_since_1904_and_every_day_of_years() -> None:
    assert show(43538, "yyyy-mm-dd", from_1904=True) == "2023-03-15"
    first = datetime(1900, 3, 1)  # noqa: DTZ001 - a sheet's dates have no zone
    for day in range(0, 80_000, 17):
        assert show(61 + day, "yyyy-mm-dd") == (first + timedelta(days=day)).strftime("%Y-%m-%d")


@pytest.mark.parametrize(
    "code",
    [
        "",
        ";",
        ";;;",
        '"',
        "[",
        "\\",
        "0" * 1000,
        "?/?",
        "E+",
        "0E+",
        "[h",
        "#.",
        "%%%0",
        "AM/PM",
        "[$]",
        ".",
        "y" * 300,
    ],
)
def test_no_format_is_a_defect(code: str) -> None:
    for value in (0, -1.5, 1e300, 5e-324, 45000.5, -45000):
        assert isinstance(show(value, code), str)


def test_wide_and_long_sheets_take_proportional_time_and_memory() -> None:
    cell = '<c t="inlineStr"><is><t>a</t></is></c>'
    merges = "".join(f'<mergeCell ref="A{n}:XFD{n + 9}"/>' for n in range(1, 5000))
    start = time.process_time()
    for sheet in (f"<row>{cell * 16_000}</row>" * 3, f"<row>{cell}</row>" * 20_000):
        with_merges = xlsx(sheet, behind=f"<mergeCells>{merges}</mergeCells>")
        assert read(with_merges).blocks
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    "data",
    [
        package({"xl/other.xml": ""}),
        package({"xl/workbook.xml": "<workbook><sheets><sheet"}),
        xlsx("<row><c><v>1</v></c></row>")[:-60],
    ],
    ids=["no workbook", "broken", "cut off"],
)
def test_broken_workbooks_end_in_a_clear_error(data: bytes) -> None:
    with pytest.raises(IngestError) as caught:
        parse(data, "a.xlsx")
    assert caught.value.code is IngestCode.CORRUPT


def test_an_empty_workbook_says_so() -> None:
    with pytest.raises(IngestError) as caught:
        parse(package({"xl/workbook.xml": "<workbook/>", "xl/_rels/workbook.xml.rels": relations({})}), "a.xlsx")
    assert caught.value.code is IngestCode.EMPTY


def test_every_cell_is_at_the_place_where_another_library_finds_it() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in range(60):
        sheet.append([f"name {row}", row * 1.25, date(2020, 1, 1) + timedelta(days=row)])
    data = bytes_of(book)
    original = openpyxl.load_workbook(io.BytesIO(data))
    document = read(data)
    blocks: list[Block] = [block for block in document.blocks if block.kind is BlockKind.ROW]
    assert len(blocks) == 60
    for block in blocks:
        (cells,) = original[block.place.sheet][block.place.cell_range]
        text = document.text[block.start : block.end]
        assert str(cells[0].value) in text
        assert f"{cells[1].value:g}" in text
        assert isinstance(cells[2].value, datetime)
        assert cells[2].value.strftime("%Y-%m-%d") in text


def with_backslashes(name: str) -> str:
    return name.replace("/", "\\")


@pytest.mark.parametrize("written", [str.upper, str.lower, with_backslashes])
def test_names_of_parts_may_be_written_differently(written: Callable[[str], str]) -> None:
    data = xlsx('<row r="1"><c r="A1" t="s"><v>0</v></c></row>', shared="<si><t>Hello</t></si>")
    with ZipFile(io.BytesIO(data)) as archive:
        parts = {written(name): archive.read(name) for name in archive.namelist()}
    assert rows(read(package(parts))) == [("A1", "Hello")]


def test_names_of_columns_without_values_are_kept() -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    for cells in [["Applicant", "Approved by", "Date"], ["Ann", None, "Monday"], ["Bob", None, None]]:
        book.active.append(cells)
    assert rows(read(bytes_of(book))) == [
        ("B1", "Approved by"),
        ("A2:C2", "Applicant: Ann\nDate: Monday"),
        ("A3", "Applicant: Bob"),
    ]
