"""Plain questions answered over the one table that they fit."""

import csv
import io
import re
from collections.abc import Sequence
from datetime import date

import pytest

pytest.importorskip("duckdb")

from citewire.common.v1.place_pb2 import Place
from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.tabular import TableQueryError
from citewire_retriever.ingest.tabular.by_rules import answer_filled, answer_question
from citewire_retriever.ingest.tabular.engine import connect
from citewire_retriever.ingest.tabular.tables import read_tables
from citewire_retriever.tables.questions import asks_to_compute
from citewire_retriever.tables.vocabulary import LANGUAGES, answer_words
from citewire_verify import Passage, Verdict, verify

IN_2019 = "Order date >= 2019-01-01 and Order date < 2020-01-01"
TODAY = date(2026, 11, 23)
HEADER = ("Order ID", "Order date", "Customer", "Region", "Revenue", "Discount")
ROWS = [
    (1, "2026-01-10", "Acme", "North", "10.50", "5%"),
    (2, "2026-02-11", "Globex", "South", "20.25", "10%"),
    (3, "2026-02-12", "Acme", "North", "30.25", "0%"),
    (4, "2026-03-13", "Initech", "South", "20.25", "5%"),
    (5, "2026-03-14", "Globex", "East", "0.25", "15%"),
]


def answer(question: str, rows: Sequence[Sequence[object]] = ROWS, header: Sequence[str] = HEADER) -> pb.ComputedAnswer:
    out = io.StringIO()
    csv.writer(out).writerows([header, *rows])
    tables = read_tables(out.getvalue().encode(), "Orders.csv", "text/csv", ParseLimits(), None)
    return answer_question(connect(), tables, "Orders.csv", question, TODAY)


def first_line(question: str) -> str:
    return answer(question).text.partition("\n")[0]


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("How many orders are there?", "Count: 5."),
        ("What is the total revenue in North?", "Sum of Revenue, where Region = North: 40.75."),
        (
            "Which customer has the highest total revenue?",
            "Sum of Revenue by Customer; ordered by sum of Revenue, greatest first: Acme: 40.75.",
        ),
        ("What is the average discount?", "Mean of Discount: 7%."),
        (
            "What is the average revenue in South or East?",
            "Mean of Revenue, where Region is one of South, East: about 13.583333.",
        ),
        ("What is the total revenue in 2019?", f"Sum of Revenue, where {IN_2019}: no rows match."),
        ("How many orders in 2019?", f"Count, where {IN_2019}: 0."),
    ],
)
def test_the_text_describes_the_computation_and_has_the_number(question: str, line: str) -> None:
    assert first_line(question) == line


def test_groups_are_listed_line_by_line_and_the_rows_are_named() -> None:
    computed = answer("Total revenue per region")
    assert computed.text.splitlines() == [
        "Sum of Revenue by Region:",
        "- East: 0.25",
        "- North: 40.75",
        "- South: 40.5",
        "Computed for “Total revenue per region” from rows 2–6 of Orders.csv.",
    ]
    assert (computed.place.row, computed.place.end_row) == (2, 6)


def test_the_place_covers_the_rows_and_the_text_counts_them() -> None:
    computed = answer("What is the total revenue in North?")
    assert (computed.place.row, computed.place.end_row) == (2, 4)
    assert computed.text.endswith(
        "Computed for “What is the total revenue in North?” from 2 of rows 2–4 of Orders.csv."
    )
    single = answer("What is the total revenue in East?")
    assert (single.place.row, single.place.HasField("end_row")) == (6, False)
    assert single.text.endswith(" from row 6 of Orders.csv.")


def test_ties_with_the_last_of_the_top_are_included() -> None:
    computed = answer("Top 2 orders by revenue")
    assert computed.text.splitlines()[1:4] == ["- 3: 30.25", "- 2: 20.25", "- 4: 20.25"]
    assert computed.query.limit == 2
    assert (computed.place.row, computed.place.end_row) == (2, 6)  # all rows were compared


def test_a_ranking_with_too_many_ties_is_refused() -> None:
    rows = [(number, "2026-01-01", "Acme", "North", "5", "0%") for number in range(1, 200)]
    with pytest.raises(TableQueryError, match="equal"):
        answer("Top 2 orders by revenue", rows)


@pytest.mark.parametrize(
    ("name", "data", "lines", "place"),
    [
        (
            "costs.html",
            b"<body><p>Costs</p><table><tr><th>Firm<th>Cost<tr><td>Total Energies<td>1.5<tr><td>Shell<td>2</table>",
            [
                "Sum of Cost: 3.5.",
                "Computed for “What is the total cost?” from rows 2–3 of Table 1 of costs.html.",
            ],
            Place(sheet="Table 1", row=2, end_row=3),
        ),
        (
            "costs.md",
            b"# Costs\n\n| Firm | Cost |\n|---|---|\n| Eni | 1.5 |\n| Shell | 2 |\n",
            ["Sum of Cost: 3.5.", "Computed for “What is the total cost?” from lines 5–6 of costs.md."],
            Place(start_line=5, end_line=6),
        ),
    ],
)
def test_a_table_in_a_text_is_queried_like_any_other(name: str, data: bytes, lines: list[str], place: Place) -> None:
    tables = read_tables(data, name, "", ParseLimits(), None)
    computed = answer_question(connect(), tables, name, "What is the total cost?", TODAY)
    assert computed.text.splitlines() == lines
    assert computed.place == place


def test_a_table_in_a_truncated_text_gives_no_number() -> None:
    cut = b"<body><table><tr><th>Firm<th>Cost<tr><td>Eni<td>1<tr><td rowspan=5000>Shell<td>2</table>"
    tables = read_tables(cut, "costs.html", "", ParseLimits(), None)
    with pytest.raises(TableQueryError, match="more cells than are read"):
        answer_question(connect(), tables, "costs.html", "What is the total cost?", TODAY)


def test_a_row_of_totals_is_left_out_and_mentioned() -> None:
    computed = answer("What is the total revenue?", [*ROWS, ("Total", "", "", "", "81.50", "")])
    assert computed.text.splitlines()[0] == "Sum of Revenue: 81.5."
    assert computed.text.splitlines()[-1] == "Left out as totals or notes: row 7."


def test_a_question_that_fits_two_tables_is_refused() -> None:
    data = b"Id,Region,Revenue\n1,North,5\n2,South,6\n"
    tables = [read_tables(data, name, "text/csv", ParseLimits(), None)[0] for name in ("a.csv", "b.csv")]
    question = "What is the total revenue?"
    assert answer_question(connect(), tables[:1], "a.csv", question, TODAY).answer.rows[0].values[0].text == "11"
    with pytest.raises(TableQueryError, match="several"):
        answer_question(connect(), tables, "a.csv", question, TODAY)


GERMAN = ("Nr", "Datum", "Kunde", "Region", "Umsatz", "Rabatt")


@pytest.mark.parametrize(
    ("question", "lines"),
    [
        (
            "Wie hoch ist der Gesamtumsatz in North?",
            [
                "Summe von Umsatz, wobei Region = North: 40,75.",
                "Berechnet zu „Wie hoch ist der Gesamtumsatz in North?“ aus 2 der Zeilen 2–4 von Orders.csv.",
            ],
        ),
        (
            "Umsatz je Region",
            [
                "Summe von Umsatz nach Region:",
                "- East: 0,25",
                "- North: 40,75",
                "- South: 40,5",
                "Berechnet zu „Umsatz je Region“ aus den Zeilen 2–6 von Orders.csv.",
            ],
        ),
        (
            "Wie viele Zeilen gibt es 2019?",
            [
                "Anzahl, wobei Datum >= 2019-01-01 und Datum < 2020-01-01: 0.",
                "Berechnet zu „Wie viele Zeilen gibt es 2019?“ aus 0 der Zeilen 2–6 von Orders.csv.",
            ],
        ),
    ],
)
def test_a_german_question_has_a_german_text(question: str, lines: list[str]) -> None:
    assert answer(question, ROWS, GERMAN).text.splitlines() == lines


def test_every_language_has_all_words() -> None:
    words = [answer_words(language) for language in LANGUAGES]
    assert all(translation.keys() == words[0].keys() for translation in words)
    for name, text in words[0].items():
        assert all(
            sorted(re.findall(r"{\d}", translation[name])) == sorted(re.findall(r"{\d}", text)) for translation in words
        ), name


def test_only_the_computed_number_is_supported_by_the_text() -> None:
    """Also if the question and the answer are in different languages."""
    text = answer("Wie hoch ist der Gesamtumsatz in North?", ROWS, GERMAN).text
    for sentence, verdict in (
        ("Der Gesamtumsatz in North beträgt 40,75 [1].", Verdict.SUPPORTED),
        ("The Umsatz in North is 40.75 [1].", Verdict.SUPPORTED),
        ("Der Gesamtumsatz in North beträgt 41,75 [1].", Verdict.UNSUPPORTED),
    ):
        assert [translation.verdict for translation in verify(sentence, [Passage(text)]).citations] == [verdict]


def computed_for(query: pb.TableQuery, question: str = "Which region sells best?") -> pb.ComputedAnswer:
    out = io.StringIO()
    csv.writer(out).writerows([HEADER, *ROWS])
    tables = read_tables(out.getvalue().encode(), "Orders.csv", "text/csv", ParseLimits(), None)
    return answer_filled(connect(), tables, "Orders.csv", question, query)


def test_a_models_query_is_computed_and_the_text_says_who_wrote_it() -> None:
    query = pb.TableQuery(
        group_by=[pb.TableGroup(column="region")],
        aggregates=[pb.TableAggregate(function=pb.TABLE_FUNCTION_SUM, column="Revenue")],
        order_by=[pb.TableOrder(index=2, descending=True)],
        limit=1,
    )
    computed = computed_for(query)
    assert computed.text.splitlines() == [
        "Sum of Revenue by Region; ordered by sum of Revenue, greatest first: North: 40.75.",
        "Computed from rows 2–6 of Orders.csv; a model wrote the query.",
    ]
    assert (computed.place.row, computed.place.end_row) == (2, 6)
    assert (
        computed_for(query, "Welche Region hat den höchsten Umsatz?")
        .text.splitlines()[1]
        .endswith("Modell geschrieben.")
    )


def test_a_models_query_that_matches_nothing_or_does_not_fit_gives_no_number() -> None:
    total = pb.TableAggregate(function=pb.TABLE_FUNCTION_SUM, column="Revenue")
    west = pb.TableFilter(column="Region", op=pb.TABLE_OPERATOR_EQ, values=["West"])
    assert computed_for(pb.TableQuery(aggregates=[total], filters=[west])) == pb.ComputedAnswer()
    for wrong in (
        pb.TableQuery(aggregates=[pb.TableAggregate(function=pb.TABLE_FUNCTION_SUM, column="Region")]),
        pb.TableQuery(aggregates=[total], group_by=[pb.TableGroup(column="Country")]),
    ):
        with pytest.raises(TableQueryError) as error:
            computed_for(wrong)
        assert error.value.field


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("How many customers came back?", "en"),
        ("And the combined revenue of both?", "en"),
        ("Durchschnittsumsatz der Kunden?", "de"),
        ("Wie viele Kunden kamen wieder?", "de"),
        ("What does the warranty cover?", None),
        ("Wo liegt der Vertrag?", None),
    ],
)
def test_questions_for_a_computation_are_recognised_by_their_words(question: str, language: str | None) -> None:
    assert asks_to_compute(question) == language


def test_a_question_about_text_is_not_computed() -> None:
    assert answer("What is the return policy?") == pb.ComputedAnswer()


def test_a_value_of_a_long_column_is_not_guessed() -> None:
    """If a column has more values than are kept, its names can't be distinguished from unknown words."""
    rows = [(number, "2026-01-01", f"Customer {number}", "North", "1", "0%") for number in range(1, 20_050)]
    assert answer("What is the total revenue of Customer 7?", rows) == pb.ComputedAnswer()
    assert answer("What is the total revenue in North?", rows).text.startswith(
        "Sum of Revenue, where Region = North: 20049."
    )
