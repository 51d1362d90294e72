"""The check of commit messages."""

from __future__ import annotations

import pytest

from scripts import check_commits


@pytest.mark.parametrize(
    "subject",
    [
        "Move verification into libs/verify",
        "Need a key for uploads",
        "Embed only what a new version changes",
        "Pass the deadline on",
        "Bring the stubs up to date",
    ],
)
def test_an_imperative_with_a_reason_passes(subject: str) -> None:
    assert list(check_commits.check(f"{subject}\n\nThe generator isn't needed for it.\n")) == []


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (f"Move {'x' * 56}\n\nWhy.", "the subject has 61 characters"),
        ("Generator: move verification\n\nWhy.", "begins with an area"),
        ("Moved verification\n\nWhy.", "isn't a capitalised imperative"),
        ("Moving verification\n\nWhy.", "isn't a capitalised imperative"),
        ("Moves verification\n\nWhy.", "isn't a capitalised imperative"),
        ("move verification\n\nWhy.", "isn't a capitalised imperative"),
        ("Move verification.\n\nWhy.", "ends with a full stop"),
        ("Move verification", "no body"),
        ("Move verification\n\n \n", "no body"),
        ("Move verification\nWhy.", "no blank line"),
    ],
)
def test_a_messages_fault_is_named(message: str, complaint: str) -> None:
    complaints = list(check_commits.check(message))
    assert len(complaints) == 1
    assert complaint in complaints[0]


def test_an_unknown_range_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_commits.main(["no-such-branch..HEAD"]) == 1
    assert "no commits" in capsys.readouterr().out
