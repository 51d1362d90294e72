"""Fixtures of the tests of `citewire eval`."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_fixtures import gateway, run
from eval_sets import write_beir, write_squad
from fake_eval_library import EvalLibrary
from fake_gateway import FakeGateway

__all__ = ["gateway", "run"]


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
