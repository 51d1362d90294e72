"""Which process of pytest-xdist runs which files: those that share a stack of the whole session run in one, in turn."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).resolve().parents[2]


class StackScheduling(LoadFileScheduling):
    """Spreads files over the processes, but starts each shared stack in one of them only: it takes CPU for seconds."""

    def _split_scope(self, nodeid: str) -> str:
        """The file, or the stack that it shares with others."""
        file = super()._split_scope(nodeid)
        return shared_stack(file) or file


@cache
def shared_stack(file: str) -> str | None:
    """Says which fixture of the session, a stack, the tests of a file use; None if they use none."""
    if not file.startswith(("tests/e2e/", "tests/faults/")):
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
    if "paced" in requested - own:
        return "paced"
    return "stack" if "stack" not in own and requested & {"stack", "api"} - own else None
