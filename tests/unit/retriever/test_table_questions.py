"""Which questions are queries of a table, and which aren't."""

import random
import time
from datetime import date
from pathlib import Path

import pytest
from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.tables.columns import Column, Table
from citewire_retriever.tables.questions import LONGEST_QUESTION, read_question
from question_tables import ORDERS, STAFF, TABLES, TODAY, UMSATZ, shown

_LINES = Path(__file__).with_name("table_questions.txt").read_text("utf-8").splitlines()
CASES = [
    (question, name, expected)
    for line in _LINES
    if line and not line.startswith("#")
    for question, name, expected in [[part.strip() for part in f"{line} ".split("=>")]]
]
QUERIES = [(question, name) for question, name, expected in CASES if expected]


def query_for(question: str, table: Table, today: date) -> pb.TableQuery | None:
    reading = read_question(question, table, today)
    return None if reading is None else reading[0]


@pytest.mark.parametrize(("question", "name", "expected"), CASES)
def test_a_question_becomes_exactly_the_expected_query(question: str, name: str, expected: str) -> None:
    assert shown(query_for(question, TABLES[name], TODAY)) == expected


def test_there_are_questions_of_both_kinds() -> None:
    assert len(QUERIES) >= 60
    assert len(CASES) - len(QUERIES) >= 60


def test_no_question_with_an_unknown_word_is_a_query() -> None:
    """A word that the rules don't know may change the meaning, wherever it is."""
    chance = random.Random(18)
    for question, name in QUERIES:
        words = question.split()
        for at in range(len(words) + 1):
            noun = "".join(chance.choice(pair) for pair in ("bdfglmz", "aiou", "bvkz", "aeo", "rxq", "p"))
            changed = [*words[:at], noun, *words[at + chance.randrange(2) :]]
            assert query_for(" ".join(changed), TABLES[name], TODAY) is None, changed


@pytest.mark.parametrize(
    "word", ["not", "without", "except", "nicht", "ohne", "keine", "außer", "versus", "share", "Anteil"]
)
def test_no_question_with_a_negation_or_comparison_is_a_query(word: str) -> None:
    chance = random.Random(word)
    for question, name in QUERIES:
        words = question.split()
        for at in chance.sample(range(len(words) + 1), 2):
            assert query_for(" ".join([*words[:at], word, *words[at:]]), TABLES[name], TODAY) is None, (
                question,
                at,
            )


def test_a_column_that_occurs_twice_gives_no_query() -> None:
    twice = Table((*STAFF.columns, Column("SALARY", pb.TABLE_TYPE_CURRENCY)), STAFF.names)
    assert query_for("What is the average salary?", STAFF, TODAY) is not None
    assert query_for("What is the average salary?", twice, TODAY) is None


def test_a_value_in_two_columns_gives_no_query() -> None:
    both = Table((*ORDERS.columns, Column("Sales region", pb.TABLE_TYPE_TEXT, ("North",))), ORDERS.names)
    assert query_for("Total amount in North", ORDERS, TODAY) is not None
    assert query_for("Total amount in North", both, TODAY) is None
    assert shown(query_for("Total amount in the region North", both, TODAY)) == "sum(Amount) | Region = North"


def test_rows_without_a_key_are_not_counted_as_the_tables_items() -> None:
    lines = Table(tuple(Column(c.name, c.type, c.values) for c in ORDERS.columns), ("Orders",))
    assert shown(query_for("How many orders are open?", ORDERS, TODAY)) == "count(*) | Status = open"
    # An order may have several lines, so distinct order numbers are counted.
    assert shown(query_for("How many orders are open?", lines, TODAY)) == "count_distinct(Order ID) | Status = open"
    bare = Table(lines.columns[1:], ("Orders",))
    assert query_for("How many orders are open?", bare, TODAY) is None


def test_a_month_without_a_year_must_occur_once_in_the_table() -> None:
    def umsatz(first: date | None, last: date | None) -> Table:
        dates = Column("Datum", pb.TABLE_TYPE_DATE, first=first, last=last)
        return Table((dates, *UMSATZ.columns[1:]), UMSATZ.names)

    march = "sum(Umsatz) | Datum >= 2026-03-01; Datum < 2026-04-01"
    question = "Wie hoch ist der Umsatz im März?"
    assert shown(query_for(question, umsatz(date(2026, 1, 1), date(2026, 8, 1)), TODAY)) == march
    assert shown(query_for(question, umsatz(date(2025, 4, 1), date(2026, 8, 1)), TODAY)) == march
    for first, last in ((date(2025, 1, 1), date(2026, 8, 1)), (date(2026, 4, 1), date(2026, 8, 1)), (None, None)):
        assert query_for(question, umsatz(first, last), TODAY) is None


def test_a_period_without_its_column_needs_all_dates_to_be_read() -> None:
    """A column of dates like 01/02/2026, whose order is unknown, is one of texts."""
    due = Column("Due date", pb.TABLE_TYPE_TEXT, ("01/02/2026", "03/04/2026"))
    question = "Wie hoch ist der Umsatz im März 2026?"
    assert query_for(question, UMSATZ, TODAY) is not None
    assert query_for(question, Table((*UMSATZ.columns, due), UMSATZ.names), TODAY) is None


@pytest.mark.parametrize(
    ("amount", "read"),
    [
        ("5000", "5000"),
        ("5,000", "5000"),
        ("5,000.50", "5000.50"),
        ("5.5", "5.5"),
        ("5.000,50", None),
        ("5,00", None),
        ("1.2.3", None),
    ],
)
def test_a_number_is_read_as_written_in_the_questions_language(amount: str, read: str | None) -> None:
    query = query_for(f"How many employees have a salary over {amount}?", STAFF, TODAY)
    assert (query and query.filters[0].values[0]) == read


@pytest.mark.parametrize(
    "word",
    [
        "are there ",
        "of the ",
        "in ",
        "per region ",
        "in North ",
        "open ",
        "sum of the ",
        "in March 2026 ",
        "and ",
        "top 5 ",
    ],
)
@pytest.mark.parametrize("head", ["", "How many employees ", "What is the total amount "])
def test_hostile_questions_cost_little(word: str, head: str) -> None:
    question = (head + word * 200)[:LONGEST_QUESTION]
    started = time.process_time()
    for table in (STAFF, ORDERS):
        query_for(question, table, TODAY)
    assert time.process_time() - started < 1


def test_values_of_many_columns_cost_little() -> None:
    columns = tuple(Column(f"Column {number}", pb.TABLE_TYPE_TEXT, ("red", "blue")) for number in range(14))
    started = time.thread_time()
    for question in ("how many red" + " blue" * 30, "wie viele red" + " blue" * 30 + " zeilen"):
        assert read_question(question, Table(columns, ("Cars",)), TODAY) is None
    assert time.thread_time() - started < 1


def test_a_question_that_is_too_long_gives_no_query() -> None:
    question = "What is the average salary?"
    assert query_for(question + " " * (LONGEST_QUESTION - len(question)), STAFF, TODAY) is not None
    assert query_for(question + " " * LONGEST_QUESTION, STAFF, TODAY) is None
