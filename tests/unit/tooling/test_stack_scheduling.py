"""A stack that tests share starts in one process of pytest-xdist, not in each."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from stack_scheduling import StackScheduling, shared_stack

FILES = sorted(str(path.relative_to(Path.cwd())) for path in Path.cwd().glob("tests/**/test_*.py"))


def test_files_that_share_a_stack_are_known() -> None:
    assert shared_stack("tests/e2e/test_formats.py") == "stack"
    assert shared_stack("tests/faults/test_kills.py") == "paced"
    assert shared_stack("tests/e2e/test_page.py") is None, "it starts one of its own"
    assert shared_stack("tests/e2e/test_accounting.py") is None, "its tests start one of their own"
    assert shared_stack("tests/unit/tooling/test_stack_scheduling.py") is None


def test_a_shared_stack_is_one_unit_of_work_and_every_other_file_its_own() -> None:
    option = SimpleNamespace(maxprocesses=None, numprocesses=2, tx=["2*popen"], loadscopereorder=False)

    def getvalue(_: str) -> list[str]:
        return ["2*popen"]

    config = cast("pytest.Config", SimpleNamespace(option=option, getvalue=getvalue))
    scheduling = StackScheduling(config)
    scopes = {file: scheduling._split_scope(f"{file}::test_one[a::b]") for file in FILES}  # pyright: ignore[reportPrivateUsage] # what xdist asks
    assert {scope for scope in scopes.values() if not scope.endswith(".py")} == {"stack", "paced"}
    assert all(scope == file for file, scope in scopes.items() if scope.endswith(".py"))
