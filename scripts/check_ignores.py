"""Fails for every suppressed check without its name and a reason.

The form is `# noqa: S608 # reason`, `# type: ignore[code] # reason` or `# pyright: ignore[rule] # reason`.

Usage: python scripts/check_ignores.py [FILE…]   (default: all Python files known to git)
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

SILENCER = re.compile(
    r"#\s*(?:(?P<ruff>(?:ruff:\s*|flake8:\s*)?noqa)|(?P<types>(?:pyright|type):\s*ignore))(?P<rest>.*)"
)
NAMED = {
    "ruff": re.compile(r":\s*[A-Z]+[0-9]+(?:,\s*[A-Z]+[0-9]+)*(?P<why>.*)"),
    "types": re.compile(r"\[[\w, -]+\](?P<why>.*)"),
}
FEWEST_LETTERS = 8  # anything shorter isn't a reason
GENERATED = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")


def main(arguments: Sequence[str]) -> int:
    """Checks the files and returns 1 if a suppressed check lacks its name or reason."""
    paths = [Path(argument) for argument in arguments] or _known_files()
    complaints = [line for path in paths for line in check(str(path), path.read_text(encoding="utf-8"))]
    for complaint in complaints:
        sys.stdout.write(f"{complaint}\n")
    return 1 if complaints else 0


def check(name: str, source: str) -> Iterator[str]:
    """Yields a complaint, with file and line, for each suppressed check without name or reason."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        match = SILENCER.search(token.string) if token.type == tokenize.COMMENT else None
        if match is None:
            continue
        named = NAMED["ruff" if match["ruff"] else "types"].match(match["rest"])
        if named is None:
            yield f"{name}:{token.start[0]}: name the check that is silenced: {token.line.strip()}"
        elif sum(letter.isalpha() for letter in named["why"]) < FEWEST_LETTERS:
            yield f"{name}:{token.start[0]}: say why the check is silenced, after a second #: {token.line.strip()}"


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
