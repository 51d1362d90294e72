"""Numbers and dates as companies write them: read as meant, or the column isn't computed with."""

from __future__ import annotations

import re

import pytest
from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.tabular import TableQueryError
from citewire_retriever.ingest.tabular.engine import answer, connect
from citewire_retriever.ingest.tabular.tables import read_tables


def compute(query: pb.TableQuery, *lines: str) -> list[list[str]]:
    tables = read_tables("\n".join(lines).encode(), "a.csv", "", ParseLimits(), None)
    with connect() as connection:
        return [[value.text for value in row.values] for row in answer(connection, tables, query).rows]


def sum_of(*cells: str) -> str:
    """The sum of a column with these cells."""
    query = pb.TableQuery(aggregates=[pb.TableAggregate(function=pb.TABLE_FUNCTION_SUM, column="Cost")])
    ((total,),) = compute(query, "Item;Cost", *(f"a;{cell}" for cell in cells))
    return total


@pytest.mark.parametrize(
    ("cells", "total"),
    [
        (("1,23,456.00", "12,34,567.50", "99.00"), "1358122.5"),
        (("1'234.50", "1’234.50"), "2469"),
        (("1\u00a0234,50 €", "1\u202f234,50 €"), "2469"),
        (("$(1,234.50)", "$10.00", "($ 5.00)"), "-1229.5"),
        (("5,00-", "10,00"), "5"),
        (("1.250,-", "1.300,50", "5,-"), "2555.5"),
        (("1'250.–", "1'300.50", "5.—"), "2555.5"),
    ],
)
def test_numbers_are_read_in_the_notations_of_several_countries(cells: tuple[str, ...], total: str) -> None:
    assert sum_of(*cells) == total


@pytest.mark.parametrize(
    "odd",
    [
        "1.234,50", "1,23,45", "12,5", "5.00- €", "5.00–", "50.00 CR", "C$ 50.00", "50.00 kr", "Rs. 50", "500 g",
        "1.2k",
        "5‰", "(5)%", "1,234.50*", "10.00 [1]", "~500", "5-10", "1/2", "1.5E+3", "1_000", "١٢٣", "１２３", "ca. 500 kg",
    ],
)  # fmt: skip
def test_a_number_in_another_notation_is_never_left_out_of_a_sum(odd: str) -> None:
    with pytest.raises(TableQueryError, match=re.escape(f"{odd!r} in it can't be read")):
        sum_of("10.50", "20.25", odd, "30.75")


def sum_beside(name: str, others: tuple[str, str], cells: tuple[str, str]) -> str:
    """The sum of a column beside another one that may say what the decimal sign is."""
    query = pb.TableQuery(aggregates=[pb.TableAggregate(function=pb.TABLE_FUNCTION_SUM, column="Cost")])
    lines = [f"a;{cell};{other}" for cell, other in zip(cells, others, strict=True)]
    return compute(query, f"Item;Cost;{name}", *lines)[0][0]


@pytest.mark.parametrize(
    ("name", "others", "cells"),
    [
        ("Address", ("10.0.0.1", "10.0.0.2"), ("1,200", "2,500")),
        ("Version", ("1.2.3", "2.0.1"), ("1,200", "2,500")),
        ("Datum", ("24.12.2025", "25.11.2025"), ("1.234", "2.500")),
        ("Zeit", ("10.30", "11.45"), ("1.234", "2.500")),
        ("Tag", ("24.12", "25.11"), ("1.234", "2.500")),
        ("Both", ("0,5", "0.5"), ("1.234", "2.500")),
    ],
)
def test_addresses_dates_and_times_do_not_tell_the_decimal_sign(
    name: str, others: tuple[str, str], cells: tuple[str, str]
) -> None:
    with pytest.raises(TableQueryError, match="isn't clear whether"):
        sum_beside(name, others, cells)


@pytest.mark.parametrize(
    ("others", "cells", "total"),
    [
        (("12.50", "11.45"), ("1,234", "2,500"), "3734"),
        (("12.50", "n/a"), ("1,234", "2,500"), "3734"),
        (("1.234,50", "2,50"), ("1.234", "2.500"), "3734"),
        (("0.5", "12.5"), ("1.234", "2.500"), "3.734"),
    ],
)
def test_other_numbers_tell_the_decimal_sign(others: tuple[str, str], cells: tuple[str, str], total: str) -> None:
    assert sum_beside("Price", others, cells) == total


def months(*cells: str) -> list[list[str]]:
    """The months of a column with these cells, each with its number of rows."""
    query = pb.TableQuery(
        group_by=[pb.TableGroup(column="Date", part=pb.DATE_PART_YEAR_MONTH)],
        aggregates=[pb.TableAggregate(function=pb.TABLE_FUNCTION_COUNT)],
    )
    return compute(query, "Item;Date", *(f"a;{cell}" for cell in cells))


@pytest.mark.parametrize(
    "odd",
    [
        "12 ene 2026", "3. mei 2026", "2026", "03/2026", "01/05/2026", "2026-02-02T10:00:00+02:00",
        "2026-01-23 11:00 AM", "2026-01-23T10:00:00.123Z", "2026-01-23 - 2026-01-25", "31.02.2026", "46054",
    ],
)  # fmt: skip
def test_a_date_in_another_notation_is_never_left_out_of_a_count(odd: str) -> None:
    with pytest.raises(TableQueryError, match=re.escape(f"{odd!r} in it can't be read as a date")):
        months("2026-01-22", odd, "2026-01-24", "2026-01-25")


def test_a_cell_that_is_no_date_counts_as_empty() -> None:
    assert months("2026-01-22", "TBD", "2026-01-24", "0000-00-00", "2026-02-01") == [
        ["2026-01", "2"],
        ["2026-02", "1"],
        ["", "2"],
    ]


@pytest.mark.parametrize(
    "cells",
    [("24-12-31", "24-11-30", "24-06-15"), ("24/12/31", "24/11/30"), ("23/12/24",), ("01/02/2026", "03/04/2026")],
)
def test_a_date_that_may_begin_with_its_year_or_month_is_no_date(cells: tuple[str, ...]) -> None:
    with pytest.raises(TableQueryError, match="not dates"):
        months(*cells)


@pytest.mark.parametrize(
    ("cells", "month"),
    [
        (("24/12/25", "23/12/25", "22/12/25"), "2025-12"),
        (("12/24/25", "12/23/25"), "2025-12"),
        (("24.12.25", "23.12.25"), "2025-12"),
        (("24-12-99", "23-12-99"), "1999-12"),
    ],
)
def test_short_dates_that_can_be_read_in_one_way(cells: tuple[str, ...], month: str) -> None:
    assert months(*cells) == [[month, str(len(cells))]]


def test_a_date_with_dots_tells_nothing_about_one_with_slashes() -> None:
    with pytest.raises(TableQueryError, match="can't be read as a date"):
        months("01.02.2026", "02.02.2026", "03/04/2026")
