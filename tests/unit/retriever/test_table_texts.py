"""Tables in pages and texts: HTML, Markdown and Word, with or without a header."""

from __future__ import annotations

import re

import pytest
from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.ingest.document import BlockKind, ParseLimits
from citewire_retriever.ingest.parsers import parse
from citewire_retriever.ingest.tabular import TableQueryError
from citewire_retriever.ingest.tabular.engine import answer, connect
from citewire_retriever.ingest.tabular.table import Table
from citewire_retriever.ingest.tabular.tables import read_tables
from zip_packages import docx, odf

PROSE = "<p>These are the figures of the year, as the board has seen them in spring.</p>" * 3


def read(data: bytes, name: str) -> list[Table]:
    return read_tables(data, name, "", ParseLimits(), None)


def page(*tables: str) -> bytes:
    return f"<!doctype html><html><body>{PROSE}{''.join(tables)}</body></html>".encode()


def sum_of(table: Table, column: str = "Cost") -> str | None:
    query = pb.TableQuery(aggregates=[pb.TableAggregate(function=pb.TABLE_FUNCTION_SUM, column=column)])
    with connect() as connection:
        row = answer(connection, [table], query).rows[0]
    return row.values[0].text if row.values[0].HasField("text") else None


def test_tables_of_a_page() -> None:
    first, second = read(
        page(
            "<table><tr><th>Item<th colspan=2>Cost</tr><tr><th>Item<th>Net<th>Gross</tr>"
            "<tr><td>a<td>1.50<td>2<tr><td>b<td>2.25<td>3</table>",
            "<table><thead><tr><td>Item<td>Cost</thead><tfoot><tr><td>Mean<td>7</tfoot>"
            "<tr><td>a<td><b>1.50</b><tr><td>b<td><p>2.25</p></table>",
        ),
        "a.html",
    )
    assert first.names == {1: "Item", 2: "Cost / Net", 3: "Cost / Gross"}
    assert (first.sheet, first.header_row, first.rows) == ("Table 1", 2, [3, 4])
    assert sum_of(first, "cost / net") == "3.75"
    assert (second.sheet, second.header_row, second.rows, second.excluded) == ("Table 2", 1, [3, 4], [2])
    assert sum_of(second) == "3.75"


@pytest.mark.parametrize(
    "cell",
    ["12<sup>1</sup>", "1<br>234", "<del>1</del> 234", "<p>1</p><p>234</p>", "<ul><li>1<li>234</ul>", "5<sub>0</sub>"],
)
def test_superscript_struck_or_two_line_cells_are_no_numbers(cell: str) -> None:
    rows = f"<tr><th>Item<th>Cost<tr><td>a<td>1.5<tr><td>b<td>2.5<tr><td>c<td>{cell}"
    (table,) = read(page(f"<table>{rows}</table>"), "a.html")
    assert (sum_of(table), table.column(2).skipped) == ("4", (2,))


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("<table><tr><td>Item<td>Town<tr><td>a<td>Rome<tr><td>b<td>Oslo</table>", "names columns or is data"),
        ("<table><tr><td>1<td>2<tr><td>3<td>4</table>", "names columns or is data"),
        ("<table><tr><th>Item<th>Cost<tr><td>a<td rowspan=0>1.5<tr><td>b</table>", "more cells than are read"),
        (
            "<table><tr><th>Item<th>Cost<tr><td>a<td>1.5<tr><td>b<td colspan=5000>2.5</table>",
            "more cells than are read",
        ),
    ],
)
def test_a_table_that_is_not_read_completely_gives_no_number(table: str, problem: str) -> None:
    (whole,) = read(page(table), "a.html")
    with pytest.raises(TableQueryError, match=re.escape(problem)):
        sum_of(whole, next(iter(whole.names.values())))


def test_a_first_row_of_words_above_numbers_names_columns() -> None:
    (table,) = read(page("<table><tr><td>Item<td>Cost<tr><td>a<td>1.5<tr><td>b<td>2.5</table>"), "a.html")
    assert (table.header_row, sum_of(table)) == (1, "4")


def test_layout_and_navigation_are_no_tables() -> None:
    layout = f"<table role=presentation><tr><td>Item<td>Cost<tr><td>{PROSE}<td>2</table>"
    hidden = "<nav><table><tr><th>Item<th>Cost<tr><td>a<td>2.5</table></nav>"
    assert read(page(layout, hidden), "a.html") == []


def test_merged_cells_apply_to_each_row_and_are_never_added_twice() -> None:
    rows = "<tr><th>Item<th>Cost<tr><td rowspan=2>a<td>1.5<tr><td>2.5<tr><td>b<td rowspan=2>4<tr><td>c"
    (table,) = read(page(f"<table>{rows}</table>"), "a.html")
    assert table.column(1).values == ["a", "a", "b", "c"]
    with pytest.raises(TableQueryError, match="merged cells"):
        sum_of(table)


MARKDOWN = """# Costs

| Item | Cost | Note |
|------|-----:|------|
| **a** | `1.50` | [x](https://example.com) |
| b \\| c | 2.25 | |
| d | 7<br>000 | *e* |
| Total Energies | 1.00 | |

Words.

| Item | Town |
|------|------|
| a | Rome |
"""


def test_tables_of_markdown() -> None:
    first, second = read(MARKDOWN.encode(), "a.md")
    assert (first.by_lines, first.sheet, first.header_row, first.rows) == (True, "", 3, [5, 6, 7, 8])
    assert first.column(1).values == ["a", "b | c", "d", "Total Energies"]
    assert first.column(3).values == ["x", None, "e", None]
    assert (sum_of(first), first.column(2).skipped) == ("4.75", (2,))
    assert (second.header_row, second.rows) == (12, [14])


def word_table(rows: list[list[str]], *, header: bool) -> str:
    lines = ""
    for index, cells in enumerate(rows):
        properties = "<w:trPr><w:tblHeader/></w:trPr>" if header and not index else ""
        lines += f"<w:tr>{properties}" + "".join(f"<w:tc>{cell}</w:tc>" for cell in cells) + "</w:tr>"
    return f"<w:tbl>{lines}</w:tbl>"


def words(*runs: str) -> str:
    return f"<w:p>{''.join(f'<w:r>{run}</w:r>' for run in runs)}</w:p>"


def text(value: str) -> str:
    return words(f"<w:t>{value}</w:t>")


def test_tables_of_word_documents() -> None:
    raised = words("<w:t>12</w:t>", '<w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>1</w:t>')
    broken = words("<w:t>1</w:t><w:br/><w:t>234</w:t>")
    twice = text("1") + text("234")
    marked = word_table(
        [[text("Item"), text("Town")], [text("a"), text("Rome")], [text("b"), text("Oslo")]], header=True
    )
    costs = [text("1.5"), text("2.5"), text("4.0"), text("5.0"), raised, broken, twice]
    rows = [[text("Item"), text("Cost")], *([text("a"), cell] for cell in costs)]
    plain = word_table(rows, header=False)
    first, second = read(docx(marked + text("Words.") + plain), "a.docx")
    assert (first.sheet, first.names, first.rows, first.refusal) == ("Table 1", {1: "Item", 2: "Town"}, [2, 3], "")
    assert (sum_of(second), second.column(2).skipped) == ("13", (4, 5, 6))
    (third,) = read(docx(word_table(rows[:3], header=False)), "a.docx")
    assert (third.header_row, sum_of(third)) == (1, "4")
    (fourth,) = read(docx(word_table(rows, header=True)), "a.docx")
    assert (sum_of(fourth), fourth.column(2).skipped) == ("13", (4, 5, 6))


def test_search_and_computation_number_rows_alike() -> None:
    """A row's place in a search result has the number by which a computed answer names the row."""
    html = page(
        "<table><tr><th colspan=2>Title<tr><th>Item<th>Cost<tr><td>a<td>1<tr><td><td><tr><td>b<td>2</table><p>Then</p>",
        "<table><thead><tr><td>Item<td>Cost</thead><tfoot><tr><td>Sum<td>7</tfoot><tr><td>a<td>3<tr><td>b<td>4</table>",
    )
    rows = [[text("Item"), text("Cost")], [text("a"), text("1")], [text("b"), text("2")]]
    body = text("Before") + word_table(rows, header=True) + text("Then") + word_table(rows[:2], header=False)
    for data, name in ((html, "a.html"), (docx(body), "a.docx")):
        placed = [
            (block.place.sheet, block.place.row) for block in parse(data, name).blocks if block.kind is BlockKind.ROW
        ]
        answering = [(table.sheet, row) for table in read(data, name) for row in sorted([*table.rows, *table.excluded])]
        assert placed == answering
        assert len(answering) >= 2


def odt_table(rows: list[list[str]], *, header: int = 0) -> str:
    """A table of an OpenDocument text; a cell that begins with an element is used unchanged."""

    def row(cells: list[str]) -> str:
        texts = (
            cell if cell.startswith("<table:") else f"<table:table-cell><text:p>{cell}</text:p></table:table-cell>"
            for cell in cells
        )
        return f"<table:table-row>{''.join(texts)}</table:table-row>"

    head = f"<table:table-header-rows>{''.join(map(row, rows[:header]))}</table:table-header-rows>" if header else ""
    return f"<table:table>{head}{''.join(map(row, rows[header:]))}</table:table>"


def test_tables_of_an_open_document() -> None:
    rows = [["Item", "Cost"], ["a", "1.50"], ["b", "2.25"]]
    data = odf(
        "text", f"{odt_table(rows, header=1)}<text:p>Words.</text:p>{odt_table([['x', 'y'], ['z', 'w']])}", title="T"
    )
    first, second = read(data, "a.odt")
    assert (first.sheet, first.header_row, first.rows) == ("Table 1", 1, [2, 3])
    assert sum_of(first) == "3.75"
    assert "it isn't clear whether its first row" in second.refusal
    blocks = [block for block in parse(data, "a.odt").blocks if block.kind is BlockKind.ROW]
    assert [(block.place.sheet, block.place.row) for block in blocks[:2]] == [("Table 1", 2), ("Table 1", 3)]
    slide = odf("presentation", f"<draw:page><draw:frame>{odt_table(rows, header=1)}</draw:frame></draw:page>")
    places = [block.place for block in parse(slide, "a.odp").blocks if block.kind is BlockKind.ROW]
    assert [(place.slide, place.sheet) for place in places] == [(1, ""), (1, "")]


def test_superscript_or_struck_text_of_an_open_document_is_no_number() -> None:
    styles = (
        '<style:style style:name="T1"><style:text-properties style:text-position="super 58%"/></style:style>'
        '<style:style style:name="T2"><style:text-properties style:text-line-through-style="solid"/></style:style>'
        '<style:style style:name="T3"><style:text-properties style:text-position="0% 100%"/></style:style>'
    )
    spans = [f'<text:span text:style-name="T{number}">2</text:span>' for number in (1, 2, 3)]
    rows = [["Item", "Cost"], *([name, f"1{span}"] for name, span in zip("abc", spans, strict=True))]
    rows += [[f"d{number}", "1"] for number in range(50)]
    (table,) = read(odf("text", odt_table(rows, header=1), styles=styles), "a.odt")
    assert [str(value) for value in table.column(2).values[:4]] == ["None", "None", "12", "1"]


def test_an_amount_that_spans_rows_of_an_open_document_is_not_added() -> None:
    spanned = '<table:table-cell table:number-rows-spanned="2"><text:p>5</text:p></table:table-cell>'
    rows = [["Item", "Cost"], ["a", spanned], ["b", "<table:covered-table-cell/>"]]
    (table,) = read(odf("text", odt_table(rows, header=1)), "a.odt")
    with pytest.raises(TableQueryError, match="merged"):
        sum_of(table)
    repeated = odt_table([*rows[:1], ["a", "5"]], header=1).replace(
        "</table:table-header-rows><table:table-row>",
        '</table:table-header-rows><table:table-row table:number-rows-repeated="3">',
    )
    (cut,) = read(odf("text", repeated), "a.odt")
    assert "it has more cells than are read" in cut.refusal
