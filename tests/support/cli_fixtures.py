"""Fixtures for tests of the command line and of its `eval` command."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from citewire_cli.app import app
from cli_types import Run
from fake_gateway import FakeGateway, fake_gateway

_command = cache(get_command)
"""Builds the commands once: each invocation would otherwise build some hundred anew, which is most of its time."""


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with fake_gateway() as server:
        yield server


@pytest.fixture
def run(gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs the command in this process, against the fake gateway."""
    monkeypatch.setenv("CITEWIRE_URL", gateway.url)
    monkeypatch.setenv("CITEWIRE_DATA_DIR", str(tmp_path / "no-stack"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("CITEWIRE_API_KEY", raising=False)
    monkeypatch.setattr("typer.testing._get_command", _command)

    def invoke(*arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(app, list(arguments), input=stdin)

    return invoke
