"""The third-party notices match the lock file."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import notices


def test_the_committed_notices_are_current_and_a_stale_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert notices.main(["--check"]) == 0
    stale = tmp_path / "NOTICES.md"
    stale.write_text(notices.NOTICES.read_text().replace("| protobuf |", "| protobug |"))
    monkeypatch.setattr(notices, "NOTICES", stale)
    assert notices.main(["--check"]) == 1


def test_every_package_has_a_licence_and_none_is_for_another_system() -> None:
    names = [name for name, _ in notices.locked_packages()]
    assert {"protobuf", "fastapi", "openvino"} <= set(names)
    assert {"torch", "colorama", "pytest"}.isdisjoint(names)
    assert "see the package" not in notices.NOTICES.read_text()
