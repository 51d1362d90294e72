"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from citewire_cli.app import app
from cli_types import Run
from eval_sets import write_beir, write_squad
from fake_eval_library import EvalLibrary
from fake_gateway import FakeGateway, fake_gateway


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

    def invoke(*arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(app, list(arguments), input=stdin)

    return invoke


@pytest.fixture
def library(gateway: FakeGateway) -> EvalLibrary:
    library = EvalLibrary()
    library.attach(gateway)
    return library


@pytest.fixture
def squad(tmp_path: Path) -> Path:
    return write_squad(tmp_path)


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    return write_beir(tmp_path)
