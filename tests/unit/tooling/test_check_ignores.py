"""The check that every suppressed check is named and explained."""

from __future__ import annotations

import pytest

from scripts import check_ignores


@pytest.mark.parametrize(
    "line",
    [
        "x = 1  # noqa: S608 # the identifier comes from our own enum",
        "x = 1  # noqa: S608, BLE001 - everything is logged and raised again",
        "x = 1  # type: ignore[arg-type] # the stub is wrong: None is allowed",
        "x = 1  # pyright: ignore[reportPrivateUsage] # the library has no public name for it",
        "x = 'a line about # noqa in a string'",
        "x = 1  # nothing is silenced",
    ],
)
def test_named_and_explained_suppressions_pass(line: str) -> None:
    assert list(check_ignores.check("a.py", line)) == []


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("x = 1  # noqa", "name the check"),
        ("x = 1  # noqa: S608", "say why"),
        ("x = 1  # noqa: S608 # ok", "say why"),
        ("# ruff: noqa", "name the check"),
        ("x = 1  # type: ignore", "name the check"),
        ("x = 1  # type: ignore[arg-type]", "say why"),
        ("x = 1  # pyright: ignore", "name the check"),
        ("x = 1  # pyright: ignore[reportPrivateUsage]", "say why"),
    ],
)
def test_unnamed_or_unexplained_suppressions_are_reported(line: str, complaint: str) -> None:
    complaints = list(check_ignores.check("a.py", f"\n{line}"))
    assert len(complaints) == 1
    assert complaints[0].startswith("a.py:2: ")
    assert complaint in complaints[0]
