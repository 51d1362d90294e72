"""A stack shared by tests starts in one process of pytest-xdist, and waiting tests run beside computing ones."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from xdist.workermanage import WorkerController

from stack_scheduling import StackScheduling, shared_stack

FILES = sorted(str(path.relative_to(Path.cwd())) for path in Path.cwd().glob("tests/**/test_*.py"))


def test_files_that_share_a_stack_are_known() -> None:
    assert shared_stack("tests/e2e/test_formats.py") == "stack"
    assert shared_stack("tests/faults/test_kills.py") == "paced"
    assert shared_stack("tests/faults/test_fuzz_http.py") == "target"
    assert shared_stack("tests/e2e/test_page.py") is None, "it starts one of its own"
    assert shared_stack("tests/e2e/test_accounting.py") == "egress_stack"
    assert shared_stack("tests/e2e/test_up.py") is None, "its tests start one of their own"
    assert shared_stack("tests/faults/test_ingest_faults.py") is None
    assert shared_stack("tests/integration/test_citus_copy.py") == "citus_cluster"
    assert shared_stack("tests/integration/test_citus_restore.py") is None, "it starts its own cluster"
    assert shared_stack("tests/unit/tooling/test_stack_scheduling.py") is None


class Process:
    """A worker process as the scheduler sees it; it records the tests that it gets."""

    shutting_down = False

    def __init__(self, tests: list[str]) -> None:
        self.gateway = SimpleNamespace(id="gw", spec="popen")
        self.tests = tests
        self.given: list[str] = []

    def send_runtest_some(self, indexes: list[int]) -> None:
        self.given += [self.tests[index].partition("::")[0] for index in indexes]

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduling_of(processes: int) -> StackScheduling:
    told = [f"{processes}*popen"]
    option = SimpleNamespace(maxprocesses=None, numprocesses=processes, tx=told, loadscopereorder=False)

    def getvalue(_: str) -> list[str]:
        return told

    return StackScheduling(cast("pytest.Config", SimpleNamespace(option=option, getvalue=getvalue)))


def test_at_most_two_workers_run_waiting_tests_while_others_compute() -> None:
    waits = [f"tests/e2e/test_{name}.py" for name in ("ollama", "page", "watch")]  # each with its own stack
    computes = [f"tests/unit/kit/test_{number}.py" for number in range(5)]
    tests = [f"{file}::test_{number}" for file in computes + waits for number in range(3)]
    scheduling = scheduling_of(3)
    processes = [Process(tests) for _ in range(3)]
    nodes = cast("list[WorkerController]", processes)
    for node in nodes:
        scheduling.add_node(node)
        scheduling.add_node_collection(node, tests)
    scheduling.schedule()
    assert [process.given for process in processes] == [[waits[0]] * 3, [waits[1]] * 3, [computes[0]] * 3]

    def end(number: int) -> None:
        file = processes[number].given[-1]
        for index, test in enumerate(tests):
            if test.startswith(file):
                scheduling.mark_test_complete(nodes[number], index)

    end(2)
    assert processes[2].given[-1] == computes[1], "two workers run waiting tests already"
    end(0)
    assert processes[0].given[-1] == waits[2]
    end(1)
    assert processes[1].given[-1] == computes[2], "no waiting test is left"


def test_files_that_share_a_stack_are_one_unit_and_others_are_separate() -> None:
    scheduling = scheduling_of(2)
    scopes = {file: scheduling._split_scope(f"{file}::test_one[a::b]") for file in FILES}  # pyright: ignore[reportPrivateUsage] # what xdist asks
    shared = {"stack", "paced", "target", "egress_stack", "citus_cluster"}
    assert {scope for scope in scopes.values() if not scope.endswith(".py")} == shared
    assert all(scope == file for file, scope in scopes.items() if scope.endswith(".py"))
