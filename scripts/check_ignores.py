"""Fails for every silenced check that doesn't say which one it silences, and why.

The form is `# noqa: S608 # reason`, `# type: ignore[code] # reason` or `# pyright: ignore[rule] # reason`.

Usage: python scripts/check_ignores.py [FILE…]   (default: every Python file that git knows)
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

SILENCER = re.compile(
    r"#\s*(?:(?P<ruff>(?:ruff:\s*|flake8:\s*)?noqa)|(?P<types>(?:pyright|type):\s*ignore))(?P<rest>.*)"
)
NAMED = {
    "ruff": re.compile(r":\s*[A-Z]+[0-9]+(?:,\s*[A-Z]+[0-9]+)*(?P<why>.*)"),
    "types": re.compile(r"\[[\w, -]+\](?P<why>.*)"),
}
FEWEST_LETTERS = 8  # shorter than this is not a reason
GENERATED = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")


def main(arguments: Sequence[str]) -> int:
    """Checks the files and returns 1 if a silenced check lacks its name or its reason."""
    paths = [Path(argument) for argument in arguments] or _known_files()
    complaints = [
        complaint for path in paths for complaint in check(str(path), path.read_text(encoding="utf-8").splitlines())
    ]
    for complaint in complaints:
        sys.stdout.write(f"{complaint}\n")
    return 1 if complaints else 0


def check(name: str, lines: Sequence[str]) -> Iterator[str]:
    """Yields a complaint, with file and line, for each silenced check without code or reason."""
    for number, line in enumerate(lines, start=1):
        found = SILENCER.search(line)
        if found is None or _is_quoted(line, found.start()):
            continue
        named = NAMED["ruff" if found["ruff"] else "types"].match(found["rest"])
        if named is None:
            yield f"{name}:{number}: name the check that is silenced: {line.strip()}"
        elif sum(letter.isalpha() for letter in named["why"]) < FEWEST_LETTERS:
            yield f"{name}:{number}: say why the check is silenced, after a second #: {line.strip()}"


def _is_quoted(line: str, position: int) -> bool:
    """Whether the comment sign stands inside a string or a code span, as in this file's own texts."""
    before = line[:position]
    return any(before.count(quote) % 2 == 1 for quote in ('"', "`"))


def _known_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [Path(name) for name in listed.stdout.split("\0") if name and not name.endswith(GENERATED)]
    return [path for path in paths if path.is_file()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
