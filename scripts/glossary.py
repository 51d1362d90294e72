"""Rejects names in hand-written code that docs/glossary.md rules out in its columns "not".

It checks the names of classes, functions, parameters, attributes, variables and modules in Python wherever they are
bound (imports, patterns, comprehensions and f-strings included), of messages and fields in the protos, and of columns,
aliases and common table expressions in SQL. Names of tests are sentences and may use any word.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = ROOT / "docs" / "glossary.md"
MOST_TERMS = 40

PROTO_TYPE = re.compile(r"^\s*(?:message|enum|service)\s+(\w+)")
PROTO_FIELD = re.compile(r"^\s*(?:repeated |optional )?[\w.<>, ]+\s(\w+)\s*=\s*\d+|^\s*(?:rpc|oneof)\s+(\w+)")
SQL_TYPES = (
    "bigint|integer|smallint|text|boolean|bytea|jsonb|uuid|date|numeric|double|real|timestamptz|tsvector|halfvec"
)
SQL_COLUMN = re.compile(rf"^\s+(\w+)\s+(?:{SQL_TYPES})\b|\bAS\s+(\w+)\b|\b(\w+)\s+AS\s+(?:MATERIALIZED\s+)?\(")


class Name(NamedTuple):
    """A name in the code."""

    text: str
    line: int
    is_type: bool


@dataclass(frozen=True)
class Glossary:
    """The rules of docs/glossary.md for names."""

    terms: list[str]
    """The terms that it explains."""
    ruled_out: list[str]
    """The patterns in the columns "not"."""
    exceptions: list[tuple[str, str]]
    """Allowed names, each with the pattern of the paths where it is allowed."""

    def complaint(self, path: str, name: Name) -> str | None:
        """Returns the pattern that rules a name out, or None."""
        if any(name.text == text and fnmatchcase(path, where) for text, where in self.exceptions):
            return None
        forms = (name.text, snake_case(name.text)) if name.is_type else (snake_case(name.text),)
        return next((word for word in self.ruled_out for form in forms if fnmatchcase(form.strip("_"), word)), None)


def main() -> int:
    """Checks all files known to git and returns 1 if a name is ruled out."""
    glossary = read(GLOSSARY.read_text(encoding="utf-8"))
    complaints = [
        f"{path}:{name.line}: `{name.text}` is ruled out by docs/glossary.md (`{word}`)"
        for path in _known_files()
        for name in names(path, (ROOT / path).read_text(encoding="utf-8"))
        if (word := glossary.complaint(path, name))
    ]
    if len(glossary.terms) > MOST_TERMS:
        complaints.append(f"docs/glossary.md: {len(glossary.terms)} terms; {MOST_TERMS} are the most")
    sys.stdout.writelines(f"{complaint}\n" for complaint in complaints)
    return 1 if complaints else 0


def read(markdown: str) -> Glossary:
    """Reads the glossary's tables."""
    sections = {part.partition("\n")[0]: part for part in re.split(r"^#+ ", markdown, flags=re.MULTILINE)}
    terms = _rows(sections["Glossary"])
    words = [word for row in terms for word in _names_in(row[3])]
    words += [word for row in _rows(sections.get("Names that say nothing", "")) for word in _names_in(row[0])]
    return Glossary(
        terms=[row[0] for row in terms],
        ruled_out=words,
        exceptions=[
            (_names_in(row[0])[0], _names_in(row[1])[0]) for row in _rows(sections.get("Exceptions", "")) if row[2]
        ],
    )


def names(path: str, source: str) -> Iterator[Name]:
    """Yields the names that a file declares."""
    yield Name(Path(path).stem, 1, is_type=False)
    if path.endswith(".py"):
        yield from _python_names(source)
        return
    for number, line in enumerate(source.splitlines(), 1):
        if path.endswith(".proto"):
            declared = PROTO_TYPE.match(line)
            member = PROTO_FIELD.match(line)
            if declared:
                yield Name(declared[1], number, is_type=True)
            elif member:
                yield Name(member[1] or member[2], number, is_type=False)
        else:
            for column in SQL_COLUMN.finditer(line):
                yield Name(column[1] or column[2] or column[3], number, is_type=False)


def snake_case(name: str) -> str:
    """The name in lower case, with underscores between its words."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _python_names(source: str) -> Iterator[Name]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ClassDef(name=text):
                yield Name(text, node.lineno, is_type=True)
            case ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text):
                if not text.startswith("test_"):
                    yield Name(text, node.lineno, is_type=False)
            case (
                ast.arg(arg=text)
                | ast.Name(id=text, ctx=ast.Store())
                | ast.Attribute(value=ast.Name(id="self" | "cls"), attr=text, ctx=ast.Store())
                | ast.ExceptHandler(name=str(text))
                | ast.MatchAs(name=str(text))
                | ast.MatchStar(name=str(text))
                | ast.MatchMapping(rest=str(text))
                | ast.alias(asname=str(text))
            ):
                yield Name(text, node.lineno, is_type=False)
            case _:
                pass


def _rows(section: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _names_in(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def _known_files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.py", "*.proto", "*.sql"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for path in listed.stdout.split("\0") if path and "_pb2" not in path and (ROOT / path).is_file()]


if __name__ == "__main__":
    sys.exit(main())
