"""The check that every silenced check is named and explained."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast

import pytest

ROOT = Path(__file__).resolve().parents[3]


class _Script(Protocol):
    def check(self, name: str, source: str) -> Iterator[str]: ...


@pytest.fixture(scope="module")
def script() -> Iterator[_Script]:
    spec = importlib.util.spec_from_file_location("check_ignores", ROOT / "scripts" / "check_ignores.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield cast("_Script", module)
    del sys.modules[spec.name]


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
def test_named_and_explained(script: _Script, line: str) -> None:
    assert list(script.check("a.py", line)) == []


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
def test_nameless_or_unexplained(script: _Script, line: str, complaint: str) -> None:
    found = list(script.check("a.py", f"\n{line}"))
    assert len(found) == 1
    assert found[0].startswith("a.py:2: ")
    assert complaint in found[0]
