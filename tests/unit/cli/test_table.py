"""`citewire table`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli_types import Run
from fake_gateway import FakeGateway, reply_json

TABLES: dict[str, Any] = {
    "version": 1,
    "tables": [
        {
            "sheet": "Sales", "header_row": 1, "last_row": 4, "row_count": 3,
            "columns": [
                {"name": "Region", "type": "text", "samples": ["North", "South"]},
                {"name": "Amount", "type": "currency", "samples": ["1.5"], "currency": "€"},
            ],
        },
        {"header_row": 9, "last_row": 9, "row_count": 0, "columns": [], "refusal": "because"},
    ],
}  # fmt: skip
ANSWER: dict[str, Any] = {
    "version": 1, "header_row": 1, "last_row": 40, "understood": "sum of Amount by Region", "total_rows": 3,
    "columns": [{"name": "Region", "type": "text"}, {"name": "sum of Amount", "type": "currency", "currency": "€"}],
    "rows": [
        {"values": ["North", "12.5"], "row_numbers": [2, 4], "row_count": 2},
        {"values": [None, "3"], "row_numbers": list(range(5, 35)), "row_count": 200},
    ],
    "excluded_rows": [41], "skipped_values": 2, "skipped_rows": [7],
}  # fmt: skip


def test_tables_are_listed(gateway: FakeGateway, run: Run) -> None:
    gateway.on("GET", "/v1/documents/7/tables", reply_json(TABLES))
    result = run("table", "list", "7", "--version", "2")
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[1:] == [
        ["Sales", "1", "3", "Region", "text", "North,", "South"],
        ["Amount", "currency", "€", "1.5"],
        ["9", "0", "not", "computed", "because"],
    ]
    assert json.loads(run("table", "list", "7", "--json").stdout) == TABLES
    gateway.on("GET", "/v1/documents/8/tables", reply_json({"version": 1, "tables": []}))
    assert run("table", "list", "8").exit_code == 5


def test_a_query_is_made_of_options(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/documents/7/tables:query", reply_json(ANSWER))
    result = run(
        *("table", "query", "7", "--sum", "Amount", "--avg", "Unit price", "--count", "--by", "Region"),
        *("--by", "year_month(Order date)", "-w", "Region = North", "-w", "year(Date)>=2026", "-w", "Note ="),
        *("-w", "A = B = c", "-w", "Name ~ ltd", "--order", "3", "--order", "-1", "--limit", "5"),
    )
    assert result.exit_code == 0
    assert gateway.requests[0].json() == {
        "filters": [
            {"column": "Region", "op": "eq", "values": ["North"]},
            {"column": "Date", "part": "year", "op": "ge", "values": ["2026"]},
            {"column": "Note", "op": "empty"},
            {"column": "A", "op": "eq", "values": ["B = c"]},
            {"column": "Name", "op": "contains", "values": ["ltd"]},
        ],
        "group_by": [{"column": "Region"}, {"column": "Order date", "part": "year_month"}],
        "aggregates": [
            {"function": "count"},
            {"function": "sum", "column": "Amount"},
            {"function": "avg", "column": "Unit price"},
        ],
        "order_by": [{"index": 3, "descending": False}, {"index": 1, "descending": True}],
        "limit": 5,
    }
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["Region", "sum", "of", "Amount", "€", "rows"]
    assert lines[1].split() == ["North", "12.5", "2,", "4"]
    assert lines[2].endswith("5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 and 188 more")
    assert "The first 2 of 3." in result.stderr
    assert "Computed: sum of Amount by Region." in result.stderr
    assert "Left out as totals or notes: row 41." in result.stderr
    assert "count as empty: 2." in result.stderr


def test_a_query_in_json_is_sent_unchanged(gateway: FakeGateway, run: Run) -> None:
    gateway.on("POST", "/v1/documents/7/tables:query", reply_json(ANSWER))
    typed = {"aggregates": [{"function": "max", "column": "Date"}]}
    assert json.loads(run("table", "query", "7", "--query", json.dumps(typed), "--json").stdout) == ANSWER
    assert gateway.requests[0].json() == typed


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--query", "[1]"), "not a JSON object"),
        (("--query", "{}", "--count"), "can't be combined"),
        (("--query", "@/no/such/file"), "can't be read"),
        (("--where", "Region North"), "COLUMN SIGN VALUE"),
    ],
)
def test_an_invalid_query_is_refused_before_it_is_sent(
    gateway: FakeGateway, run: Run, arguments: tuple[str, ...], problem: str
) -> None:
    result = run("table", "query", "7", *arguments)
    assert result.exit_code == 2
    assert problem in result.stderr
    assert not gateway.requests
