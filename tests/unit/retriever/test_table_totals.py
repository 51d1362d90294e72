"""Which rows are totals of others: recognised by their numbers and position, not by a word in a name."""

from __future__ import annotations

from decimal import Decimal

import pytest
from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.tabular.table import Table
from citewire_retriever.ingest.tabular.tables import read_tables
from citewire_retriever.ingest.tabular.values import fold


def read(*lines: str, used: frozenset[str] | None = None) -> Table:
    (table,) = read_tables("\n".join(lines).encode(), "a.csv", "", ParseLimits(), used)
    return table


NAMES = (
    "Total Energies", "TotalEnergies SE", "Sum 41", "Gesamt Verband GmbH", "Gesamtschule Nord", "Summe & Partner",
    "Total", "Totale Kontrolle", "Suma Gestión", "Somme", "Hotel Total", "Итого Плюс", "Total War: Rome",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_row_with_total_in_a_name_is_no_total(name: str) -> None:
    """Neither between others nor last: its numbers aren't sums, and there is text beside it."""
    first = read("Company,City,Cost", "Shell,London,1.50", f"{name},Paris,2.70", "BP,London,9.00")
    assert (first.rows, first.excluded, first.maybe_totals) == ([2, 3, 4], [], {})
    last = read("Company,City,Cost", "Shell,London,1.50", "BP,London,9.00", f"{name},Paris,2.70")
    assert (last.rows, last.excluded, last.maybe_totals) == ([2, 3, 4], [], {})


@pytest.mark.parametrize(
    "label",
    [
        "Total", "TOTAL:", "Grand total", "Sub-total", "Subtotal North", "Total Energies", "Gesamt", "Gesamtsumme",
        "Summe Nord", "Insgesamt", "Somme", "Total général", "Suma", "Totale", "Totaal", "Razem", "Итого", "合計",
        "总计",
    ],
)  # fmt: skip
def test_a_row_with_a_word_for_total_and_the_sums_above_is_a_total(label: str) -> None:
    table = read("Item,Cost,Count", "a,1.50,2", "b,2.25,3", f"{label},3.75,5")
    assert (table.rows, table.excluded, table.maybe_totals) == ([2, 3], [4], {})
    assert table.column(2).values == [Decimal("1.50"), Decimal("2.25")]


@pytest.mark.parametrize(
    ("lines", "excluded", "undecided"),
    [
        # Each group's total, and the grand total: rows already recognised aren't added to later sums.
        (("a,1.5", "b,2.5", "Total North,4.0", "c,8.5", "d,1.5", "Total South,10.0", "Gesamt,14.0"), [4, 7, 8], []),
        (("a,1.5", "b,2.5", "Summe,4.0", "", "c,8.5", "d,1.5", "Summe,10.0"), [4, 8], []),
        # Only the word, in the last row: a total, even if rounding or hidden rows make the number differ.
        (("a,1.5", "b,2.5", "Total,4.2"), [4], []),
        (("a,1.5", "b,2.5", "Sum:,–"), [4], []),
        # Only the word, but other rows follow: it may be the name of a firm.
        (("a,1.5", "Total,4.2", "b,2.5"), [], [3]),
        # A sum except for rounding, a sum of one row, a sum of zeros.
        (("a,1.33", "b,2.33", "Total North,3.67"), [], [4]),
        (("a,1.5", "Total North,1.5"), [], [3]),
        (("a,0.0", "b,0.0", "Total North,0.0"), [], [4]),
        # No name, in the last row, and the sum of all: a total; with another number it is data.
        (("a,1.5", "b,2.5", ",4.0"), [4], []),
        (("a,1.5", "b,2.5", ",4.5"), [], []),
        (("a,1.5", ",1.5", ",2.5", "b,3.5"), [], []),
        # Numbers with many digits are added exactly.
        (("a,0.1", "b,0.2", "Total North,0.3"), [4], []),
        (("a,12345678901234567890.1", "b,0.2", "Total North,12345678901234567890.3"), [4], []),
    ],
)
def test_totals_by_numbers_and_position(lines: tuple[str, ...], excluded: list[int], undecided: list[int]) -> None:
    table = read("Item,Cost", *lines)
    assert (table.excluded, list(table.maybe_totals)) == (excluded, undecided)


def test_a_total_beside_its_groups_name() -> None:
    rows = ("North,a,1.5", "North,b,2.5", "North,Total,4.0", "South,a,1.0", "South,b,2.0", "South,Total,3.0")
    table = read("Region,Item,Cost", *rows)
    assert (table.excluded, table.maybe_totals) == ([4, 7], {})
    table = read("Region,Item,Cost", *rows[:2], *rows[3:])
    assert (table.excluded, list(table.maybe_totals)) == ([], [6])  # its group doesn't begin at the start of the table


def test_a_sum_in_only_one_of_two_columns_is_undecided() -> None:
    table = read("Item,Cost,Count", "a,1.50,2", "b,2.25,3", "Total North,3.75,9")
    assert (table.excluded, list(table.maybe_totals)) == ([], [4])


def test_totals_do_not_depend_on_the_query() -> None:
    lines = ("Item,Cost,Count", "a,1.50,2", "Total Energies,1.25,9", "b,2.25,3", "Grand total,5.00,14", "Total,1.0,1")
    for used in (None, frozenset({"item"}), frozenset({"count"}), frozenset[str]()):
        table = read(*lines, used=used)
        assert (table.rows, table.excluded) == ([2, 3, 4], [5, 6])
        assert all(len(cells) == 3 for cells in table.cells.values())
        assert used is None or {fold(table.names[column]) for column in table.cells} == used


def test_types_of_totals_are_numbers() -> None:
    table = read("Item,When,Cost", "a,2026-01-01,1.50", "b,2026-01-02,2.50", "Total,,4.00")
    assert table.column(2).type == pb.TABLE_TYPE_DATE
    assert table.excluded == [4]


@pytest.mark.parametrize(
    "label", ["Gesamtergebnis", "Somma", "Totalsumma", "Ogółem", "Eindtotaal", "Общий итог", "Σ", "รวม", "総合計"]
)
def test_words_for_totals_in_more_languages(label: str) -> None:
    table = read("Item,Cost,Count", "a,1.50,2", "b,2.25,3", f"{label},3.75,5")
    assert (table.rows, table.excluded) == ([2, 3], [4])


def test_totals_that_spreadsheets_insert_in_german() -> None:
    rows = ("Nord,1.5", "Nord,2.5", "Nord Ergebnis,4.0", "Süd,8.5", "Süd,1.5", "Süd Ergebnis,10.0")
    table = read("Region,Cost", *rows, "Gesamtergebnis,14.0")
    assert (table.excluded, table.maybe_totals) == ([4, 7, 8], {})


@pytest.mark.parametrize("used", [None, frozenset({"cost"}), frozenset[str]()])
def test_a_last_row_with_the_sums_above_may_be_a_total_whatever_its_label(used: frozenset[str] | None) -> None:
    lines = ("Item,Cost,Count", "a,1000.50,2", "b,234.25,3")
    table = read(*lines, "Balance,1234.75,5", used=used)
    assert (table.rows, table.maybe_totals) == ([2, 3, 4], {4: "Balance"})
    for last in ("Balance,1234.75,6", "Balance,1234.76,5", "c,1000.50,2"):
        table = read(*lines, last, used=used)
        assert (table.rows, table.excluded, table.maybe_totals) == ([2, 3, 4], [], {})


def test_a_last_row_may_be_the_total_of_parts_with_totals_whose_labels_are_not_known() -> None:
    parts = ("a,100.25", "b,200.50", "Nordsum X,300.75", "c,10.25", "d,20.50", "Sydsum X,30.75")
    assert list(read("Item,Cost", *parts, "Alt,331.50").maybe_totals) == [8]
    assert read("Item,Cost", *parts, "Alt,331.51").maybe_totals == {}


def test_a_small_number_may_be_the_sum_above_by_chance() -> None:
    table = read("Item,Cost", "a,1", "b,2", "c,3")
    assert (table.rows, table.maybe_totals) == ([2, 3, 4], {})
