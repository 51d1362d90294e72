"""scripts/client_table.py: the page of clients, generated from the markers of their tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.client_table import CLIENTS, PAGE, ROOT, Row, page, read_rows, version_of


def write_test_file(folder: Path, text: str) -> Path:
    path = folder / "test_some.py"
    path.write_text(f"import pytest\n\n{text}\ndef test_it(): ...\n")
    return path


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / PAGE).read_text(encoding="utf-8") == page(), "run `make clients`"


def test_every_client_of_the_list_is_tested_at_a_known_version() -> None:
    assert {row.client for row in read_rows(ROOT / "tests")} == set(CLIENTS)
    assert all(version_of(name)[0].isdigit() for name, client in CLIENTS.items() if client.pinned is not None)


def test_markers_are_rows_in_the_order_of_the_clients(tmp_path: Path) -> None:
    marks = ['@pytest.mark.client("mcp", "tools")', '@pytest.mark.client("openai", "n", refused="n: must be 1")']
    path = write_test_file(tmp_path, "\n".join([*marks, marks[0]]))
    assert read_rows(tmp_path) == [Row("openai", "n", "n: must be 1", path), Row("mcp", "tools", "", path)]


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ('client("nobody", "x")', "'nobody' is unknown"),
        ('client("openai")', "has two texts"),
        ('client("openai", name())', "has two texts"),
        ('client("openai", "x", state="y")', "state is unknown"),
    ],
)
def test_an_invalid_marker_is_named(tmp_path: Path, mark: str, message: str) -> None:
    write_test_file(tmp_path, f"@pytest.mark.{mark}")
    with pytest.raises(ValueError, match=message):
        read_rows(tmp_path)
