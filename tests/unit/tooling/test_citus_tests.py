"""Every test of the retriever and the worker with a database runs on a cluster too (`make test-citus`), or says why."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("tests/integration", "tests/contract")
_OURS = re.compile(r"\b(retriever_process|ingest_harness|corpus_rows|enrichment_library|running_office)\b")
"""Modules of test helpers that tests of the two use."""
_FIXTURE = re.compile(r"\((?:[^()]*, |\s*)?(?:database|shared_database|me|harness): ")
_LEFT_OUT = re.compile(r"^pytestmark = pytest\.mark\.one_postgres\(", re.MULTILINE)


def listed_files() -> set[str]:
    """The files that the Makefile names."""
    block = re.search(
        r"^CITUS_TESTS \?= ((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert block is not None
    groups = re.findall(r"addprefix (\S+),([^()]+)\)", block[1])
    return {f"{prefix}{name}.py" for prefix, names in groups for name in names.replace("\\", " ").split()}


def test_every_file_is_listed_or_says_why_not() -> None:
    files = listed_files()
    assert len(files) > 40
    assert [name for name in files if not (ROOT / name).is_file()] == []
    missing: list[str] = []
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).glob("test_*.py"))):
        text = path.read_text(encoding="utf-8")
        if _OURS.search(text) and _FIXTURE.search(text) and not _LEFT_OUT.search(text):
            missing.append(str(path.relative_to(ROOT)))
    assert set(missing) <= files, sorted(set(missing) - files)
