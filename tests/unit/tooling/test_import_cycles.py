"""No package's modules import each other in a cycle, even in functions or for type checkers."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCES = sorted({path.parent for path in ROOT.glob("*/src/*/__init__.py")}
                 | {path.parent for path in ROOT.glob("*/*/src/*/__init__.py")})  # fmt: skip


def modules_of(package: Path) -> dict[str, Path]:
    """Returns the modules of a package by their full names."""
    names: dict[str, Path] = {}
    for path in package.rglob("*.py"):
        parts = (package.name, *path.relative_to(package).with_suffix("").parts)
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imports_of(path: Path, modules: Mapping[str, Path]) -> set[str]:
    """Returns the modules of its package that a module imports anywhere."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            submodules = inner & modules.keys()
            names |= submodules or {node.module}
    return names & modules.keys()


def cycles_of(graph: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Yields a cycle for each import that closes one."""
    finished: set[str] = set()

    def visit(module: str, path: list[str]) -> Iterator[list[str]]:
        for imported in sorted(graph[module]):
            if imported in path:
                yield [*path[path.index(imported) :], imported]
            elif imported not in finished:
                yield from visit(imported, [*path, imported])
        finished.add(module)

    for module in sorted(graph):
        if module not in finished:
            yield from visit(module, [module])


def test_the_packages_are_found() -> None:
    assert {"citewire_gateway", "citewire_kit", "citewire_retriever", "citewire_cli"} <= {path.name for path in SOURCES}


def test_a_cycle_is_detected() -> None:
    assert list(cycles_of({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == [["a", "b", "c", "a"]]


@pytest.mark.parametrize("package", SOURCES, ids=lambda path: path.name)
def test_modules_do_not_import_each_other_in_a_cycle(package: Path) -> None:
    modules = modules_of(package)
    graph = {name: imports_of(path, modules) - {name} for name, path in modules.items()}
    assert [" -> ".join(cycle) for cycle in cycles_of(graph)] == []
