"""Assigns test files to the processes of pytest-xdist."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).resolve().parents[2]
PROCESSES = ("tests/e2e/", "tests/faults/")
"""Folders of tests that start processes: these mostly wait, and have time limits."""
MOST_AT_ONCE = 2
_STACKS = {"paced": {"paced"}, "target": {"target"}, "egress_stack": {"egress_stack"}, "stack": {"stack", "api"}}
"""Fixtures of stacks that last for the whole run, each with the fixtures that use it; a file's first one counts."""
_CLUSTERS = {"citus_cluster": {"citus_cluster", "citus_template", "citus_database"}}
"""The same in another folder: a cluster's servers compute."""
_SHARED = {PROCESSES: _STACKS, ("tests/integration/",): _CLUSTERS}


class StackScheduling(LoadFileScheduling):
    """Distributes files over the processes of a run, so that they end early and no test exceeds its time limit.

    A shared stack or cluster starts in one process only, as it takes CPU for seconds. Files that start processes come
    first, but at most two at once: others use the time in which those wait.
    """

    def _split_scope(self, nodeid: str) -> str:
        """The file, or the stack that it shares with others."""
        file = super()._split_scope(nodeid)
        return shared_stack(file) or file

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Gives a process the next unit of the kind whose turn it is."""
        self.workqueue.move_to_end(self._next_scope(node), last=False)
        super()._assign_work_unit(node)

    def _next_scope(self, node: WorkerController) -> str:
        others = [work for other, work in self.assigned_work.items() if other is not node]
        busy = sum(any(_waits(scope) and not all(unit.values()) for scope, unit in work.items()) for work in others)
        may_wait = busy < MOST_AT_ONCE
        return next((scope for scope in self.workqueue if _waits(scope) is may_wait), next(iter(self.workqueue)))


def _waits(scope: str) -> bool:
    return scope in _STACKS or scope.startswith(PROCESSES)


@cache
def shared_stack(file: str) -> str | None:
    """Returns the session's fixture, a stack or a cluster, that a file's tests use; None if they use none."""
    shared = next((fixtures for folders, fixtures in _SHARED.items() if file.startswith(folders)), None)
    if shared is None:
        return None
    module = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    requested = {
        argument.arg
        for function in functions
        if function.name.startswith("test_") or function.decorator_list  # a test or a fixture
        for argument in function.args.args
    }
    own = {function.name for function in functions}
    return next((name for name, names in shared.items() if name not in own and requested & names - own), None)
