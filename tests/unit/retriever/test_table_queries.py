"""Queries over tables in workbooks, spreadsheets and CSV: each answer equals that of an oracle in plain Python."""

from __future__ import annotations

import io
import re
from datetime import date
from typing import TYPE_CHECKING

import pytest
from citewire.retriever.v1 import table_pb2 as pb
from openpyxl import Workbook

from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.tabular import TableQueryError, collector
from citewire_retriever.ingest.tabular.answer import list_tables
from citewire_retriever.ingest.tabular.engine import answer, connect, used_names
from citewire_retriever.ingest.tabular.tables import read_tables
from table_oracle import TYPES, MadeTable, answer_of, make_query, make_table
from zip_packages import xlsx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proof_scale import PrintTable, ProofScale

    Ask = Callable[[bytes, str, pb.TableQuery], pb.TableAnswer]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Returns a function that queries a file with the engine."""
    with connect() as connection:

        def run_query(data: bytes, name: str, query: pb.TableQuery) -> pb.TableAnswer:
            connection.execute("DROP TABLE IF EXISTS whole")  # in the service, each call has its own database
            return answer(connection, read_tables(data, name, "", ParseLimits(), used_names(query)), query)

        yield run_query


def csv_table(*lines: str) -> bytes:
    return "\n".join(lines).encode()


def total(column: str, *filters: pb.TableFilter) -> pb.TableQuery:
    aggregate = pb.TableAggregate(function=pb.TABLE_FUNCTION_SUM, column=column)
    return pb.TableQuery(aggregates=[aggregate], filters=filters)


def texts(result: pb.TableAnswer) -> list[list[str | None]]:
    return [[value.text if value.HasField("text") else None for value in row.values] for row in result.rows]


def check(ask: Ask, table: MadeTable, query: pb.TableQuery) -> None:
    """Checks that the engine's answer is the oracle's."""
    result = ask(table.data, table.name, query)
    rows, count = answer_of(table, query)
    assert texts(result) == [row for row, _ in rows], query
    assert [list(row.row_numbers) for row in result.rows] == [lines[:100] for _, lines in rows], query
    assert [row.row_count for row in result.rows] == [len(lines) for _, lines in rows], query
    assert (result.total_rows, result.sheet, result.header_row) == (count, table.sheet, table.header_row), query
    assert set(result.excluded_rows) == set(table.excluded), query


def test_a_column_under_a_group_is_named_by_both(ask: Ask) -> None:
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    for row in (
        ["Site", 2023, None, 2024, None],
        [None, "in", "out", "in", "out"],
        ["Pier", 1, 2, 3, 4],
        ["Dock", 5, 6, 7, 8],
    ):
        sheet.append(row)
    for cells in ("A1:A2", "B1:C1", "D1:E1"):
        sheet.merge_cells(cells)
    data = io.BytesIO()
    book.save(data)
    result = ask(data.getvalue(), "a.xlsx", total("2024 / out"))
    assert (texts(result), list(result.rows[0].row_numbers)) == ([["12"]], [3, 4])
    with pytest.raises(TableQueryError, match="out"):
        ask(data.getvalue(), "a.xlsx", total("out"))


def test_every_answer_is_the_oracles(ask: Ask, proof: ProofScale, print_table: PrintTable) -> None:
    chance = proof.random()
    count = proof.pick(scaled_down=30, full=400)
    forms: dict[str, int] = {}
    for _ in range(count):
        table = make_table(chance, chance.choice((1, 7, 40, 120)))
        for _ in range(10):
            check(ask, table, make_query(chance, table))
        form = table.name.partition(".")[2]
        forms[form] = forms.get(form, 0) + 10
    print_table("queries over generated tables, all as the oracle says", ["format", "queries"], list(forms.items()))


def test_columns_are_listed_with_their_types(proof: ProofScale) -> None:
    chance = proof.random()
    for _ in range(20):
        made = make_table(chance, 40)
        (listed,) = list_tables(read_tables(made.data, made.name, "", ParseLimits(), None)).tables
        assert [column.name for column in listed.columns] == [column.name for column in made.columns]
        assert [column.type for column in listed.columns] == [TYPES[column.kind] for column in made.columns], (
            made.columns
        )
        assert listed.row_count == len(made.rows)


def book(*sheets: list[list[object]], merges: tuple[str, ...] = ()) -> bytes:
    """A workbook of these sheets."""
    result = Workbook()
    result.remove(result.worksheets[0])
    for rows in sheets:
        page = result.create_sheet()
        for row in rows:
            page.append(row)
        for cells in merges:
            page.merge_cells(cells)
    buffer = io.BytesIO()
    result.save(buffer)
    return buffer.getvalue()


def count_of(column: str = "", *filters: pb.TableFilter) -> pb.TableQuery:
    return pb.TableQuery(
        aggregates=[pb.TableAggregate(function=pb.TABLE_FUNCTION_COUNT, column=column)], filters=filters
    )


def equals(column: str, value: str) -> pb.TableFilter:
    return pb.TableFilter(column=column, op=pb.TABLE_OPERATOR_EQ, values=[value])


STACKED: list[list[object]] = [["Item", "Cost"], ["a", 1], ["b", 2], [], ["Vendor", "Price"], ["c", 4], ["d", 8]]
APART: list[list[object]] = [["Item", "Cost"], ["a", 1], [], ["Vendor", "Since"], ["c", date(2026, 1, 2)]]
CUT: dict[str, tuple[bytes, str, pb.TableQuery, str]] = {
    "a formula without its value": (
        book([["Item", "Cost"], ["a", 1], ["b", "=1+1"]]), "a.xlsx", total("Cost"), "formulas in column 'Cost'",
    ),
    "a header of years above a row of words": (
        book([["Site", 2023, 2024], ["Pier", 1, 2], ["Dock", "n/a", "n/a"], ["Quay", 5, 6]]), "a.xlsx", count_of(),
        "row 1, above its header, looks like data",
    ),
    "headings among the rows": (
        csv_table("Item,Cost,Count", "North,,", "a,1,2", "b,2,3", "South,,", "c,4,4"), "a.csv", count_of(),
        "row 2 may be a heading",
    ),
    "headings among the names": (
        csv_table("Item,Cost,Count", "North,,", "a,1,2", "b,2,3"), "a.csv", count_of("Item"), "row 2 may be a heading",
    ),
    "a row of formulas without values": (
        book([["Item", "Cost"], ["a", 1], ["=1", "=1+1"], ["b", 1]]), "a.xlsx", count_of(), "results of its formulas",
    ),
    "a table that may go on": (book(STACKED), "a.xlsx", total("Cost"), "row 5 names columns"),
    "what may be the rest of a table": (book(STACKED), "a.xlsx", total("Price"), "row 5 names columns"),
    "words below an empty row": (
        book([["Item", "Cost"], ["a", 1], [], ["Firm", "Town"], ["c", "d"]]),
        "a.xlsx", count_of(), "below an empty one",
    ),
    "tables side by side": (
        book([["A", "Cost", None, "B"], ["x", 1, None, "y"], ["z", 2]]), "a.xlsx", count_of(), "side by side",
    ),
    "a row that may be a total": (
        csv_table("Item,Cost", "a,1.50", "b,2.50", "Total North,4.01"), "a.csv", total("Cost"), "row 4 ('Total North')",
    ),
    "a ranked row that may be a total": (
        csv_table("Item,Cost", "a,1.50", "b,2.50", "Total North,4.01"), "a.csv",
        pb.TableQuery(columns=["Item"], order_by=[pb.TableOrder(index=1)], limit=1), "row 4 ('Total North')",
    ),
    "merged amounts": (
        book([["Item", "Cost"], ["a", 5], ["b", None]], merges=("B2:B3",)), "a.xlsx", total("Cost"), "merged cells",
    ),
    "a first row of data": (csv_table("a,12.5", "b,2.5"), "a.csv", count_of(), "looks like data"),
    "no table": (csv_table("1,2", "3,4"), "a.csv", count_of(), "no table"),
    "another format": (b"Cost: a text.", "a.txt", count_of(), "none of them"),
    "a PDF": (b"%PDF-1.7", "a.pdf", count_of(), "doesn't say which words are cells"),
    "words below an empty row of words": (
        csv_table("Name,City", "Ada,Rome", "", "Product,Colour", "Desk,Red"), "a.csv", count_of(), "row 4, below an",
    ),
    "a sum of too many digits": (
        csv_table("Item,Cost", *(f"a,{'9' * 38}" for _ in range(9))), "a.csv", total("Cost"), "38 digits",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CUT)
def test_a_table_that_may_be_incomplete_gives_no_number(ask: Ask, case: str) -> None:
    data, name, query, problem = CUT[case]
    with pytest.raises(TableQueryError, match=re.escape(problem)) as refused:
        ask(data, name, query)
    assert refused.value.field == ""


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (("Item,Cost", "a,1.234", "b,5.678"), "it isn't clear whether 1.234"),
        (("Item,Cost", "a,$ 1.50", "b,€ 2.50"), "several currencies: $, €"),
        (("Item,Cost", "a,10%", "b,0.5"), "some of its numbers are percentages"),
        (("Item,Cost", f"a,{'1' * 39}", "b,2"), "more than 38 digits"),
        (("Item,Cost", "a,0123", "b,2"), "it contains texts"),
    ],
)
def test_columns_that_cannot_be_added(ask: Ask, lines: tuple[str, ...], problem: str) -> None:
    with pytest.raises(TableQueryError, match=re.escape(problem)) as refused:
        ask(csv_table(*lines), "a.csv", total("Cost"))
    assert refused.value.field == "query.aggregates[0].column"


def test_the_decimal_sign_is_inferred_from_other_columns(ask: Ask) -> None:
    german = csv_table("Item;Cost;Rate", "a;1.234;0,5", "b;5.678;0,25")
    assert texts(ask(german, "a.csv", total("Cost"))) == [["6912"]]
    english = csv_table("Item;Cost;Rate", "a;1.234;0.5", "b;5.678;0.25")
    assert texts(ask(english, "a.csv", total("Cost"))) == [["6.912"]]


def test_values_that_do_not_fit_are_left_out_and_counted(ask: Ask) -> None:
    lines = ["Cost", "1.5", "NaN", "2.5", "1e400", "Infinity", "3.5", "-1.0", "4.0", "=1+1"]
    result = ask(csv_table(*(f"{line},x" for line in lines)), "a.csv", total("Cost"))
    assert texts(result) == [["10.5"]]
    assert (result.skipped_values, list(result.skipped_rows)) == (4, [3, 5, 6, 10])


def test_binary_fractions_are_computed_as_the_decimals_shown(ask: Ask) -> None:
    cells = "".join(
        f'<row r="{row}"><c r="A{row}" t="inlineStr"><is><t>x</t></is></c><c r="B{row}"><v>{value}</v></c></row>'
        for row, value in enumerate(("0.10000000000000001", "0.20000000000000001", "12345678901234567890"), start=2)
    )
    head = "".join(f'<c r="{cell}1" t="inlineStr"><is><t>{cell}</t></is></c>' for cell in "AB")
    result = ask(xlsx(f'<row r="1">{head}</row>{cells}'), "a.xlsx", total("B"))
    assert texts(result) == [["12345678901234567890.3"]]


def formatted(*formats: str) -> bytes:
    """A workbook of numbers, each with its format."""
    result = Workbook()
    page = result.worksheets[0]
    page.append(["Item", "Cost"])
    for index, code in enumerate(formats, start=1):
        page.append([f"a{index}", index])
        page.cell(index + 1, 2).number_format = code
    buffer = io.BytesIO()
    result.save(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("other", ["#,##0.00 [$kr-41D]", "[$Fr.-807] #,##0.00", "#,##0.00\\ [$zł-415]", "[$CHF]0"])
def test_amounts_in_any_other_currency_are_not_added(ask: Ask, other: str) -> None:
    euros = "#,##0.00 [$€-407]"
    assert texts(ask(formatted(euros, euros, '#,##0.00 "€"', "[$-409]0"), "a.xlsx", total("Cost"))) == [["10"]]
    with pytest.raises(TableQueryError, match="several currencies"):
        ask(formatted(euros, euros, other), "a.xlsx", total("Cost"))


def test_codes_keep_their_leading_zeros(ask: Ask) -> None:
    by_cost = pb.TableQuery(
        group_by=[pb.TableGroup(column="Cost")], aggregates=[pb.TableAggregate(function=pb.TABLE_FUNCTION_COUNT)]
    )
    assert texts(ask(formatted("00000", "0"), "a.xlsx", by_cost)) == [["00001", "1"], ["2", "1"]]
    assert texts(ask(csv_table("Item,Cost", "a,030 123 456", "b,40 123 456"), "a.csv", by_cost)) == [
        ["030 123 456", "1"],
        ["40 123 456", "1"],
    ]


def test_merged_categories_apply_to_each_row(ask: Ask) -> None:
    data = book([["Region", "Cost"], ["North", 1], [None, 2], ["South", 4]], merges=("A2:A3",))
    assert texts(ask(data, "a.xlsx", total("Cost", equals("Region", "north")))) == [["3"]]


@pytest.mark.parametrize(
    "below",
    [
        [["Product", "Colour", "Shape"], ["Desk", "Red", "Round"], ["Lamp", "Blue", "Flat"]],
        [[None, None, "Product", "Colour"], [None, None, "Desk", "Red"], [None, None, "Lamp", "Blue"]],
        [["NAME", "City"], ["Desk", "Red"], ["Lamp", "Blue"]],
    ],
)
def test_two_tables_of_words_in_a_sheet_are_separate(ask: Ask, below: list[list[object]]) -> None:
    data = book([["Name", "City"], ["Ada", "Rome"], ["Bob", "Oslo"], ["Eva", "Rome"], [], *below])
    for header_row, count in ((1, "3"), (6, "2")):
        query = count_of()
        query.header_row = header_row
        assert texts(ask(data, "a.xlsx", query)) == [[count]]


def test_a_table_of_words_continues_below_an_empty_row_if_the_values_match(ask: Ask) -> None:
    data = book([["Name", "City"], ["Ada", "Rome"], ["Bob", "Oslo"], [], ["Eva", "rome"], ["Uli", "Bonn"]])
    assert texts(ask(data, "a.xlsx", count_of())) == [["4"]]
    data = book([["Name", "City"], ["Ada", "Rome"], ["Bob", "Oslo"], [], ["Eva", "Kyiv"], ["Uli", "Bonn"]])
    with pytest.raises(TableQueryError, match="row 5, below an empty one"):
        ask(data, "a.xlsx", count_of())


def test_a_header_repeated_within_a_table_is_no_row(ask: Ask) -> None:
    rows: list[list[object]] = [["Item", "Cost"], ["a", 1], ["b", 2], ["Item", "Cost"], ["c", 4]]
    for data, name in (
        (book(rows), "a.xlsx"),
        (csv_table(*(",".join(map(str, row)) for row in rows)), "a.csv"),
    ):
        result = ask(data, name, count_of())
        assert (texts(result), list(result.excluded_rows)) == ([["3"]], [4])
    with pytest.raises(TableQueryError, match="row 4, below an empty one"):  # it may be another month's table
        ask(csv_table("Item,Cost", "a,1", "", "Item,Cost", "b,2"), "a.csv", count_of())


def test_headings_among_the_rows_do_not_matter_for_sums(ask: Ask) -> None:
    data = csv_table("Item,Cost,Count", "North,,", "a,1,2", "b,2,3", "South,,", "c,4,4")
    assert texts(ask(data, "a.csv", total("Cost"))) == [["7"]]
    filled = pb.TableFilter(column="Cost", op=pb.TABLE_OPERATOR_FILLED)
    assert texts(ask(data, "a.csv", count_of("", filled))) == [["3"]]
    bare = csv_table("Item,Cost,Count", "a,1,2", "b,,", "c,4,4")
    assert texts(ask(bare, "a.csv", count_of())) == [["3"]]
    form = csv_table("Item,Cost,Count", "a,,", "b,,")
    assert texts(ask(form, "a.csv", count_of())) == [["2"]]


def test_tables_are_distinguished(ask: Ask) -> None:
    assert texts(ask(book(APART), "a.xlsx", total("Cost"))) == [["1"]]
    twice = book([["Item", "Cost"], ["a", 1]], [["Item", "Cost"], ["a", 2]])
    with pytest.raises(TableQueryError, match="several tables") as refused:
        ask(twice, "a.xlsx", total("Cost"))
    assert refused.value.field == "query.header_row"
    query = total("Cost")
    query.sheet = "sheet1"
    assert texts(ask(twice, "a.xlsx", query)) == [["2"]]
    below = book([["Item", "Cost"], ["a", 1], [], ["Item", "Cost"], ["b", 2]])
    query = total("Cost")
    query.header_row = 4
    assert texts(ask(below, "a.xlsx", query)) == [["2"]]


@pytest.mark.parametrize(
    ("query", "field", "problem"),
    [
        (total("Price"), "query.aggregates[0].column", "Item, Cost, When, Paid"),
        (total("Item"), "query.aggregates[0].column", "must contain numbers"),
        (total("Cost", equals("Cost", "much")), "query.filters[0].values[0]", "numbers, like -1234.5"),
        (total("Cost", equals("When", "last week")), "query.filters[0].values[0]", "dates, like"),
        (total("Cost", equals("Paid", "perhaps")), "query.filters[0].values[0]", "true or false"),
        (
            total("Cost", pb.TableFilter(column="Item", op=pb.TABLE_OPERATOR_GT, values=["a"])),
            "query.filters[0].op", "contains texts",
        ),
        (
            total("Cost", pb.TableFilter(column="Item", op=pb.TABLE_OPERATOR_EQ, values=["a"], part=pb.DATE_PART_YEAR)),
            "query.filters[0].part", "not dates",
        ),
        (pb.TableQuery(columns=["Cost"], order_by=[pb.TableOrder(index=2)]), "query.order_by[0].index", "1 to 1"),
        (pb.TableQuery(columns=["Cost"], group_by=[pb.TableGroup(column="Item")]), "query.columns", "must be empty"),
        (pb.TableQuery(columns=["Cost"], sheet="Other"), "query.sheet", "sheets"),
        (pb.TableQuery(columns=["Cost"], header_row=3), "query.header_row", "header"),
    ],
)  # fmt: skip
def test_a_query_that_does_not_fit_names_its_field(ask: Ask, query: pb.TableQuery, field: str, problem: str) -> None:
    data = book([["Item", "Cost", "When", "Paid"], ["a", 1.5, date(2026, 1, 2), True]])
    with pytest.raises(TableQueryError, match=re.escape(problem)) as refused:
        ask(data, "a.xlsx", query)
    assert refused.value.field == field


def test_a_table_of_too_many_rows_is_refused_and_never_truncated(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MOST_ROWS", 3)
    assert texts(ask(csv_table("Cost,x", "1.0,a", "1.0,a", "1.0,a"), "a.csv", total("Cost"))) == [["3"]]
    with pytest.raises(TableQueryError, match="too large"):
        ask(csv_table("Cost,x", "1.0,a", "1.0,a", "1.0,a", "1.0,a"), "a.csv", total("Cost"))
