"""Checks the messages of new commits: an imperative subject of at most 60 characters, and a body with the reason.

Usage: python scripts/check_commits.py [RANGE]   (default: origin/main..HEAD, or only HEAD without that branch)
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST_SUBJECT = 60
AREA = re.compile(r"^[\w/ .-]+: ")
# First words that aren't imperatives: "Added", "Adding", "Adds"; but not "Embed", "Bring", "Pass", "Focus".
NOT_IMPERATIVE = re.compile(r"^(?!\w*(?:eed|mbed|ring|ss|us)\b)\w+(?:ed|ing|s)\b")


def main(arguments: list[str]) -> int:
    """Checks a range of commits and returns 1 if a message breaks a rule."""
    commits = arguments[0] if arguments else _default_range()
    listed = _git("log", "--no-merges", "--format=%h%x00%B%x01", *commits.split())
    if listed is None:
        sys.stdout.write(f"git knows no commits {commits!r}\n")
        return 1
    complaints: list[str] = []
    for entry in listed.split("\x01"):
        commit, _, message = entry.strip().partition("\0")
        complaints += [f"{commit}: {complaint}" for complaint in check(message)] if commit else []
    sys.stdout.writelines(f"{complaint}\n" for complaint in complaints)
    return 1 if complaints else 0


def check(message: str) -> Iterator[str]:
    """Yields the rules that a message breaks."""
    subject, *rest = message.strip().splitlines()
    if len(subject) > LONGEST_SUBJECT:
        yield f"the subject has {len(subject)} characters, {LONGEST_SUBJECT} at most: {subject}"
    if AREA.match(subject):
        yield f"the subject begins with an area: {subject}"
    elif not subject[0].isupper() or NOT_IMPERATIVE.match(subject):
        yield f"the subject's first word isn't a capitalised imperative: {subject}"
    if subject.endswith("."):
        yield f"the subject ends with a full stop: {subject}"
    if not any(line.strip() for line in rest):
        yield f"there is no body that says why: {subject}"
    elif rest[0].strip():
        yield f"no blank line follows the subject: {subject}"


def _default_range() -> str:
    return "origin/main..HEAD" if _git("rev-parse", "--verify", "--quiet", "origin/main") else "-1 HEAD"


def _git(*arguments: str) -> str | None:
    """Returns the output of a git command; None if it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
