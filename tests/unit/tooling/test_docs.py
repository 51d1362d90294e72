"""Links, targets, tests and functions named in the documents exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "deploy/**/*.md", "libs/*/*.md", "cli/*.md")
    for path in ROOT.glob(pattern)
)
MOST_LINES_OF_A_DECISION = 80
MOST_LINES_OF_THE_README = 120
ADR_SECTIONS = ["Context", "Decision", "Consequences", "What would make us change it"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_existing_files(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", text)
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_to_headings_lead_to_existing_headings(document: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#\s]*)#([^)\s]+)\)", document.read_text(encoding="utf-8"))
    targets = [(document.parent / path if path else document, heading) for path, heading in links]
    assert [(path.name, heading) for path, heading in targets if heading not in _headings(path)] == []


def _headings(document: Path) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_named_targets_are_in_the_makefile(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    text = document.read_text(encoding="utf-8")
    named = set(re.findall(r"^make ([a-z-]+)", text, re.MULTILINE)) | set(re.findall(r"`make ([a-z-]+)[^`]*`", text))
    assert named - targets == set()


@pytest.mark.parametrize("decision", sorted(ROOT.glob("docs/adr/*.md")), ids=lambda path: path.stem)
def test_a_decision_has_its_four_parts(decision: Path) -> None:
    text = decision.read_text(encoding="utf-8")
    number = int(decision.stem.split("-")[0])
    assert text.startswith(f"# {number}. ")
    sections = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert [section for section in sections if section != "Measured"] == ADR_SECTIONS
    assert len(text.splitlines()) <= MOST_LINES_OF_A_DECISION


def test_every_decision_is_listed_once_by_its_title() -> None:
    listed = re.findall(
        r"^- (\[\d+\]\(.+\): .+)$", (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    expected = [_entry(decision) for decision in sorted(ROOT.glob("docs/adr/*.md"))]
    assert sorted(listed) == sorted(expected)


def _entry(decision: Path) -> str:
    number, title = decision.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ").split(". ", 1)
    return f"[{number}](adr/{decision.name}): {title}"


def test_the_readme_is_short_and_has_one_table_of_figures() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES_OF_THE_README
    assert len(re.findall(r"^\|[ :|-]*-:[ :|-]*\|$", text, re.MULTILINE)) == 1


def test_every_target_is_in_the_help() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.findall(r"^\.PHONY: ([a-z]+)$", makefile, re.MULTILINE))
    explained = set(re.findall(r"^([a-z]+):.*## \S", makefile, re.MULTILINE))
    assert phony
    assert phony == explained


def test_tests_that_documents_name_exist() -> None:
    named = [
        (document.name, *reference)
        for document in DOCUMENTS
        for reference in re.findall(r"`([a-z_0-9/]+\.py)::(\w+)`", document.read_text(encoding="utf-8"))
    ]
    assert len(named) > 50
    missing = [
        f"{document}: {path}::{name}"
        for document, path, name in named
        if not (ROOT / "tests" / path).exists()
        or not re.search(rf"def {name}\(", (ROOT / "tests" / path).read_text(encoding="utf-8"))
    ]
    assert missing == []


def test_commands_of_tests_that_documents_name_run_some() -> None:
    commands = [
        (document.name, path, words)
        for document in DOCUMENTS
        for path, words in re.findall(
            r"pytest (tests/[a-z0-9_/]+\.py)(?: -k (\w+))?", document.read_text(encoding="utf-8")
        )
    ]
    assert len(commands) > 10
    assert [command for command in commands if not _selects(ROOT / command[1], command[2])] == []


def _selects(path: Path, words: str) -> bool:
    return path.is_file() and re.search(rf"def test_\w*{words}", path.read_text(encoding="utf-8")) is not None


def test_the_walkthrough_is_short_and_names_functions_that_exist() -> None:
    text = (ROOT / "docs" / "walkthrough.md").read_text(encoding="utf-8")
    walks = re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]
    assert [len(re.findall(r"^\d+\. `", walk, re.MULTILINE)) <= 12 for walk in walks] == [True, True, True]
    stops = re.findall(r"^\d+\. `([^`:]+):([\w.]+)`", text, re.MULTILINE)
    assert len(stops) == len(re.findall(r"^\d+\. ", text, re.MULTILINE))
    assert [f"{path}:{name}" for path, name in stops if name not in _functions(ROOT / path)] == []


def _functions(path: Path) -> set[str]:
    """Functions and methods of a file, the latter as `Class.method`."""
    body = ast.parse(path.read_text(encoding="utf-8")).body if path.is_file() else []
    methods = {(node.name, method) for node in body if isinstance(node, ast.ClassDef) for method in node.body}
    functions = [("", node) for node in body] + list(methods)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {f"{owner}.{node.name}".lstrip(".") for owner, node in functions if isinstance(node, kinds)}
