"""Reasons are a contract: every reason in the code is a documented value of ErrorReason."""

from __future__ import annotations

import re
from pathlib import Path

from citewire.common.v1.common_pb2 import ErrorReason

ROOT = Path(__file__).resolve().parents[2]
# Text with spaces doesn't match: a decision's reason is a sentence.
LITERAL = re.compile(r"""\breason\s*=\s*f?["']([^"'\s]+)["']""")


def literals() -> dict[str, list[str]]:
    """Reasons in our sources, with the files that give them."""
    results: dict[str, list[str]] = {}
    for folder in ("libs", "services", "gateway", "cli"):
        for path in sorted((ROOT / folder).rglob("src/**/*.py")):
            for reason in LITERAL.findall(path.read_text("utf-8")):
                results.setdefault(reason, []).append(str(path.relative_to(ROOT)))
    return results


def test_every_reason_in_the_code_is_documented() -> None:
    documented = {name.removeprefix("ERROR_REASON_") for name in ErrorReason.keys()}  # noqa: SIM118 # not a dict
    result = literals()
    assert "TENANT_MISSING" in result, "the search itself is broken"
    unknown = {reason: files for reason, files in result.items() if reason not in documented}
    assert not unknown
