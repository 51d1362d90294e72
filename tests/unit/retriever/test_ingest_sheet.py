"""CSV and TSV: a row is pairs under its header, numbered as a spreadsheet shows it."""

import csv
import io
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_retriever.ingest.decode import decode, is_utf8
from citewire_retriever.ingest.document import ParsedDocument, ParseLimits, SheetPosition
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers import parse, sheet
from citewire_retriever.ingest.parsers.sheet import parse_long_sheet, parse_sheet
from ingest_files import LIMITS, check_document, parse_bytes, texts


def rows(document: ParsedDocument) -> list[tuple[int | None, str]]:
    return [(block.place.row, document.text[block.start : block.end]) for block in document.blocks]


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ";"), ("a.tsv", "\t"), ("a.csv", "\t"), ("a.csv", "|")])
def test_delimiters_are_found_even_if_numbers_contain_commas(tmp_path: Path, name: str, delimiter: str) -> None:
    table = [["Name", "Price, net"], ["Tea", "1,50"], ["Cake", "2,00"]]
    data = "\n".join(delimiter.join(cells) for cells in table)
    assert rows(parse_bytes(tmp_path, name, data)) == [
        (2, "Name: Tea\nPrice, net: 1,50"),
        (3, "Name: Cake\nPrice, net: 2,00"),
    ]


def test_commas_are_the_delimiter_even_if_cells_contain_others(tmp_path: Path) -> None:
    data = 'Name,Note\nTea,a;b|c\nCake,"x;y, z"\nAir,-\n'
    assert rows(parse_bytes(tmp_path, "a.csv", data)) == [
        (2, "Name: Tea\nNote: a;b|c"),
        (3, "Name: Cake\nNote: x;y, z"),
        (4, "Name: Air\nNote: -"),
    ]


def test_quoted_line_ends_are_one_row_and_empty_lines_count(tmp_path: Path) -> None:
    data = 'Name,Note\nTea,"two\nlines, and ""quotes"""\n\n  ,  \nCake,last\n'
    assert rows(parse_bytes(tmp_path, "a.csv", data)) == [
        (2, 'Name: Tea\nNote: two\nlines, and "quotes"'),
        (5, "Name: Cake\nNote: last"),
    ]


def test_a_title_above_the_header_is_kept(tmp_path: Path) -> None:
    data = "Report of 2023,,,\n,,,\nName,A,B,C\nx,1,2,3\ny,4,5,6\n"
    assert rows(parse_bytes(tmp_path, "a.csv", data)) == [
        (1, "Report of 2023"),
        (4, "Name: x\nA: 1\nB: 2\nC: 3"),
        (5, "Name: y\nA: 4\nB: 5\nC: 6"),
    ]


def test_numbers_are_no_header(tmp_path: Path) -> None:
    assert rows(parse_bytes(tmp_path, "a.csv", "1,2\n3,4\n")) == [
        (1, "column 1: 1\ncolumn 2: 2"),
        (2, "column 1: 3\ncolumn 2: 4"),
    ]


@pytest.mark.parametrize("first", ["1", "-2.5", "2026-03-01", "2026-03-01 14:05:11", "01.03.2026", "3/1/26 2:05 PM"])
def test_a_row_that_begins_with_a_value_is_no_header(tmp_path: Path, first: str) -> None:
    assert rows(parse_bytes(tmp_path, "a.csv", f"{first},Tea\n{first},Cake\n")) == [
        (1, f"column 1: {first}\ncolumn 2: Tea"),
        (2, f"column 1: {first}\ncolumn 2: Cake"),
    ]


def test_a_year_may_name_the_first_column(tmp_path: Path) -> None:
    assert rows(parse_bytes(tmp_path, "a.csv", "2025,2026,total\n1,2,3\n")) == [(2, "2025: 1\n2026: 2\ntotal: 3")]


def test_a_first_column_without_a_name_names_the_rows(tmp_path: Path) -> None:
    assert rows(parse_bytes(tmp_path, "a.csv", ",price,since\nBoat,7,2019\nOar,,2020\n")) == [
        (2, "Boat\nprice: 7\nsince: 2019"),
        (3, "Oar\nsince: 2020"),
    ]


def test_more_and_fewer_cells_than_the_header(tmp_path: Path) -> None:
    assert rows(parse_bytes(tmp_path, "a.csv", "a,b\n1\n1,2,3\n")) == [(2, "a: 1"), (3, "a: 1\nb: 2\ncolumn 3: 3")]


def test_excels_hint_is_no_row(tmp_path: Path) -> None:
    assert rows(parse_bytes(tmp_path, "a.csv", "sep=;\r\na;b\r\n1;2\r\n")) == [(2, "a: 1\nb: 2")]


def test_an_unclosed_quote_swallows_nothing(tmp_path: Path) -> None:
    data = 'name,size\n"pipe,5\nrod,6\n'
    assert rows(parse_bytes(tmp_path, "a.csv", data)) == [(2, 'name: "pipe\nsize: 5'), (3, "name: rod\nsize: 6")]


def test_a_table_of_only_a_header_is_a_row(tmp_path: Path) -> None:
    assert rows(parse_bytes(tmp_path, "a.csv", "Name,Price\n")) == [(1, "Name\nPrice")]


def test_names_of_columns_without_values_are_kept(tmp_path: Path) -> None:
    long = "Which of these do you agree with? " * 7
    data = f"Applicant,Approved by,Date,{long}\nAnn,,Monday,1\nBob,,,2\n"
    assert rows(parse_bytes(tmp_path, "a.csv", data)) == [
        (1, f"Approved by\n{long.strip()}"),
        (2, f"Applicant: Ann\nDate: Monday\n{long[:200]}: 1"),
        (3, f"Applicant: Bob\n{long[:200]}: 2"),
    ]


def test_rows_do_not_wait_for_long_to_repeat_a_name(tmp_path: Path) -> None:
    data = "Name,Note\n" + "Ann,\n" * 50 + "Bob,late\n"
    assert rows(parse_bytes(tmp_path, "a.csv", data))[0] == (1, "Note")


def test_utf16_from_a_spreadsheet(tmp_path: Path) -> None:
    assert rows(parse_bytes(tmp_path, "a.csv", "Größe\tFarbe\r\n3\trot\r\n".encode("utf-16"))) == [
        (2, "Größe: 3\nFarbe: rot")
    ]


def test_a_table_of_empty_cells_is_empty(tmp_path: Path) -> None:
    with pytest.raises(IngestError) as caught:
        parse_bytes(tmp_path, "a.csv", ",,\n,,\n")
    assert caught.value.code is IngestCode.EMPTY


def test_too_many_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(IngestError) as caught:
        parse_bytes(tmp_path, "a.csv", "a,b\n" + "1,2\n" * 200, limits=ParseLimits(max_blocks=100))
    assert caught.value.code is IngestCode.TOO_LARGE


_CELL = st.text(alphabet="ab1 ,;\"'\n|é", max_size=6)


@given(st.lists(st.lists(_CELL, min_size=2, max_size=4), min_size=1, max_size=8), st.sampled_from(",;\t"))
def test_every_value_is_in_the_row_that_a_spreadsheet_shows(table: list[list[str]], delimiter: str) -> None:
    header = ["first", "second", "third", "fourth"]
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([header, *table])
    # The hint names the delimiter; without it, the delimiter is guessed, which is tested above.
    document = parse_sheet(f"sep={delimiter}\n{file.getvalue()}", LIMITS)
    check_document(document)
    result = dict(rows(document))
    for number, cells in enumerate(table, start=2):
        lines = [f"{name}: {cell.strip()}" for name, cell in zip(header, cells, strict=False) if cell.strip()]
        assert result.get(number, "") == "\n".join(lines)
    assert texts(document)


_LONG = "id,note,amount\n" + "\n".join(f'{number},"a, {number}",{number / 4}' for number in range(40))


def in_parts(data: bytes, media_type: str = "text/csv") -> list[tuple[int | None, str]]:
    """All rows of a table that is read in parts."""
    results: list[tuple[int | None, str]] = []
    position = SheetPosition()
    while True:
        document = parse_long_sheet(data, LIMITS, media_type=media_type, position=position)
        results += rows(document)
        if document.following is None:
            return results
        assert document.following.offset > position.offset
        position = document.following


@pytest.mark.parametrize(
    "text",
    [
        _LONG,
        "\ufeff" + _LONG.replace("\n", "\r\n"),
        _LONG.replace("\n", "\r"),
        "sep=;\r\n" + _LONG.replace(",", ";"),
        _LONG.replace("a, ", "first line\nsecond line "),
        _LONG.replace("a, 7", 'a, 7"'),
        _LONG.replace("\n", "\n\n\n\n"),
        "A title\n\n" + _LONG,
        "1,2,3\n" * 30,
        "größer,次\n" * 30,
        "\n" * 30 + "only,a header\n",
        _LONG + "\n" * 30,
        _LONG.replace("amount", "amount,total").replace(".5\n", ".5,\n"),
    ],
    ids=[
        "plain",
        "bom",
        "mac",
        "hint",
        "lines",
        "open quote",
        "blank",
        "title",
        "numbers",
        "unicode",
        "header",
        "end",
        "no value",
    ],
)
@pytest.mark.parametrize("most", [1, 7])
def test_a_long_table_in_parts_is_the_same_as_in_one(text: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheet, "_PART_ROWS", most)
    assert is_utf8(text.encode())
    assert in_parts(text.encode()) == rows(parse_sheet(decode(text.encode()), LIMITS))


def test_parts_are_limited_in_size_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheet, "_PART_BYTES", 50)
    first = parse_long_sheet(_LONG.encode(), LIMITS, media_type="text/csv", position=SheetPosition())
    assert len(first.blocks) == 3
    assert in_parts(_LONG.encode()) == rows(parse_sheet(_LONG, LIMITS))


@pytest.mark.parametrize(
    "data", ["a,b\n".encode("utf-16"), "ä,ö\n".encode("cp1252"), b"a\x00b,c\n", b"\x1b$B,a\n", b"a,b\n\xc3"]
)
def test_a_table_that_is_not_utf8_is_read_in_one_part(data: bytes) -> None:
    assert not is_utf8(data)


def test_a_long_table_in_an_archive_is_read_whole() -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("long.csv", "".join(f"Name{row},note{',' * 45_000}\n" for row in range(120)))
    document = parse(data.getvalue(), "a.zip")
    assert "Name119" in document.text
    assert document.following is None
    alone = parse(zipfile.ZipFile(data).read("long.csv"), "long.csv")
    assert alone.following is not None
