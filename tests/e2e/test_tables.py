"""Tables of a running stack, listed and queried over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from citewire_client import Citewire
from citewire_client.errors import InvalidRequestError
from local_stack import LocalStack

SALES = """Nr;Datum;Region;Umsatz
1;02.01.2026;Nord;10,50 €
2;03.02.2026;Süd;20,00 €
3;04.02.2026;Nord;30,25 €
Summe;;;60,75 €
"""
PAGE = """<html><body><h1>Costs</h1><table>
<tr><th>Firm<th>Cost<tr><td>Total Energies<td>1.5<tr><td>Shell<td>2
</table></body></html>"""


def test_tables_are_queried(stack: LocalStack, tmp_path: Path) -> None:
    (tmp_path / "Verkauf.csv").write_text(SALES, encoding="utf-8")
    (tmp_path / "costs.html").write_text(PAGE, encoding="utf-8")
    with Citewire(stack.base_url) as client:
        sales, page = (client.upload_document(tmp_path / name).id for name in ("Verkauf.csv", "costs.html"))
        (table,) = client.list_tables(sales).tables
        assert [(column.name, column.type) for column in table.columns] == [
            ("Nr", "number"), ("Datum", "date"), ("Region", "text"), ("Umsatz", "currency"),
        ]  # fmt: skip
        answer = client.query_table(
            sales, aggregates=[{"function": "sum", "column": "umsatz"}], group_by=[{"column": "Region"}]
        )
        rows = [(row.values, row.row_numbers) for row in answer.rows]
        assert rows == [(["Nord", "40.75"], [2, 4]), (["Süd", "20"], [3])]
        assert answer.excluded_rows == [5]
        total = client.query_table(page, aggregates=[{"function": "sum", "column": "Cost"}])
        assert (total.sheet, total.rows[0].values) == ("Table 1", ["3.5"])
        with pytest.raises(InvalidRequestError, match=r"filters\.0\.values\.0"):
            client.query_table(sales, filters=[{"column": "Umsatz", "op": "gt", "values": ["viel"]}])


NOTES = "# Costs\n\nWhat we paid.\n\n| Firm | Cost |\n|------|------|\n| Eni | 4 |\n| Shell | 2 |\n"


@pytest.mark.parametrize(
    ("name", "text", "answer", "place"),
    [
        ("bills.html", PAGE, "3.5", {"sheet": "Table 1", "row_number": 2, "end_row_number": 3}),
        ("bills.md", NOTES, "6", {"start_line": 7, "end_line": 8}),
    ],
)
def test_a_chat_queries_a_table_in_a_text(
    stack: LocalStack, tmp_path: Path, name: str, text: str, answer: str, place: dict[str, object]
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with Citewire(stack.base_url) as client:
        document = client.wait_for_document(client.upload_document(tmp_path / name).id)
        chat = client.chat("What is the total cost?", document_ids=[document.id])
    computed = chat.citations[0]
    assert computed.computed
    assert {field: getattr(computed, field) for field in place} == place
    assert chat.answer.startswith(f"Sum of Cost: {answer}.")
