"""SECURITY.md: each promise names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path("SECURITY.md")
ROWS = [
    row.strip("|").split("|")
    for row in PAGE.read_text().partition("| promise | tests |")[2].partition("\n\n")[0].splitlines()[2:]
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0].strip()[:40] for row in ROWS])
def test_each_promise_names_tests_that_exist(row: list[str]) -> None:
    named = re.findall(r"`(tests/[^`]+)`", row[1])
    assert named
    for name in named:
        assert re.search(r"^(?:async )?def test_", Path(name).read_text(), re.MULTILINE), name


def test_the_table_is_read() -> None:
    assert len(ROWS) > 10
