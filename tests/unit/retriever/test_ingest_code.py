"""Source code: top-level definitions with their lines, for languages with and without a grammar."""

from pathlib import Path

import pytest

from citewire_retriever.ingest.document import Block, BlockKind, ParsedDocument
from ingest_files import parse_bytes, words

PYTHON = '''\
"""Module."""
import os

# Comment of f,
# two lines.
@decorator(
    1
)
def f():
    # inner
    return 1

x = 3

class A(Base):
    """Doc."""

    size = 1

    @property
    def name(self):
        return "a"

    class Inner:
        def deep(self): ...

async def g(): pass
'''


def outline(document: ParsedDocument) -> list[tuple[str, int | None, int | None]]:
    return [(b.label, b.place.start_line, b.place.end_line) for b in document.blocks if b.kind is BlockKind.DEFINITION]


def members(block: Block) -> list[tuple[str, int | None]]:
    return [(b.label, b.place.start_line) for b in block.children]


def test_python(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.py", PYTHON)
    # A definition starts at its decorator; the comment above is in its text but not in its lines.
    assert outline(document) == [("f", 6, 11), ("A", 15, 25), ("g", 27, 27)]
    function, klass = [b for b in document.blocks if b.kind is BlockKind.DEFINITION][:2]
    assert document.text[function.start :].startswith("# Comment of f,")
    assert members(klass) == [("", 15), ("name", 20), ("Inner", 24)]
    assert document.media_type == "text/x-python"


LANGUAGES: list[tuple[str, str, list[tuple[str, int | None, int | None]]]] = [
    (
        "a.go",
        'package a\n\nimport "fmt"\n\n// Server serves.\ntype Server struct {\n\ta int\n}\n\n// Run runs.\n'
        "func (s *Server) Run() error {\n\tfmt.Println()\n\treturn nil\n}\n\nfunc main() {}\n",
        [("Server", 6, 8), ("Run", 11, 14), ("main", 16, 16)],
    ),
    (
        "a.rs",
        "use std::fmt;\n\n/// Doc.\n#[derive(Debug)]\npub struct Point {\n    x: i32,\n}\n\nimpl Point {\n"
        "    pub fn new() -> Self {\n        Point { x: 1 }\n    }\n}\n\nmod inner {\n    pub fn helper() -> u8 {\n"
        "        1\n    }\n}\n",
        [("Point", 4, 7), ("Point", 9, 13), ("inner > helper", 16, 18)],
    ),
    (
        "A.java",
        "package a;\n\nimport java.util.*;\n\n/** Doc. */\n@Service\npublic class A {\n    int x;\n\n    void f() {\n"
        "    }\n}\n\ninterface E {\n    void f();\n}\n",
        [("A", 6, 12), ("E", 14, 16)],
    ),
    (
        "a.h",
        "#ifndef A_H\n#define A_H\n\n/* A point. */\nstruct point {\n    int x;\n};\n\nstatic int add(int a,\n"
        "               int b)\n{\n    return a + b;\n}\n#endif\n",
        [("point", 5, 7), ("add", 9, 13)],
    ),
    (
        "a.cpp",
        "namespace foo {\ntemplate <typename T>\nclass Box {\n  T v;\n};\n\nint f(int x) {\n  return x;\n}\n}\n",
        [("foo > Box", 2, 5), ("foo > f", 7, 9)],
    ),
    (
        "a.ts",
        "import x from 'x';\n\n/** Doc. */\nexport interface Props {\n  a: string;\n}\n\nexport const f = () => {\n"
        "  return `}`;\n};\n\nexport default function g() {\n  return /}/;\n}\n\nexport const short = 1;\n",
        [("Props", 4, 6), ("f", 8, 10), ("g", 12, 14)],
    ),
    (
        "a.tsx",
        "export class View extends Base {\n  handle = () => {\n    return 1;\n  };\n  render() {\n"
        "    return <b>{'}'}</b>;\n  }\n}\n",
        [("View", 1, 8)],
    ),
    (
        "a.js",
        "'use strict';\n\nfunction f() {\n  return '}';\n}\n\nasync function* g() {}\n",
        [("f", 3, 5), ("g", 7, 7)],
    ),
    (
        "a.cs",
        "using System;\n\nnamespace Foo.Bar\n{\n    [Serializable]\n    public class Thing\n    {\n"
        "        int X() => 1;\n"
        "    }\n}\n",
        [("Foo.Bar > Thing", 5, 9)],
    ),
    ("a.rb", "module Foo\n  class Bar\n    def go\n      1\n    end\n  end\nend\n", [("Foo > Bar", 2, 6)]),
    ("a.php", "<?php\nfunction f($a) {\n    return $a;\n}\n", [("f", 2, 4)]),
    ("a.sh", "#!/bin/sh\nset -e\n\nhello() {\n  echo hi\n}\n\nhello\n", [("hello", 4, 6)]),
    (
        "a.kt",
        "package a\n\n/** Doc */\nclass Foo {\n    fun bar() = 1\n\n    fun baz() = 2\n}\n\nfun main() {\n}\n\n"
        "val x = 3\n",
        [("Foo", 4, 8), ("main", 10, 11)],
    ),
    (
        "a.sql",
        "-- Users.\nCREATE TABLE IF NOT EXISTS users (\n  id int\n);\n\nINSERT INTO users VALUES (1);\n",
        [("users", 2, 4)],
    ),
    ("a.lua", "local x = 1\n\nfunction f(a)\n  return a\nend\n", [("f", 3, 5)]),
]


@pytest.mark.parametrize(("name", "text", "expected"), LANGUAGES, ids=[case[0] for case in LANGUAGES])
def test_languages(tmp_path: Path, name: str, text: str, expected: list[tuple[str, int, int]]) -> None:
    document = parse_bytes(tmp_path, name, text)
    assert outline(document) == expected
    covered = "\n".join(document.text[b.start : b.end] for b in document.blocks)
    assert words(covered) == words(text)


def test_members_of_a_class(tmp_path: Path) -> None:
    text = LANGUAGES[2][1]
    document = parse_bytes(tmp_path, "A.java", text)
    klass = next(b for b in document.blocks if b.kind is BlockKind.DEFINITION)
    assert members(klass) == [("", 6), ("f", 10)]
    assert document.text[klass.children[0].start :].startswith("/** Doc. */")


def test_broken_code_is_read_as_far_as_possible(tmp_path: Path) -> None:
    text = "def fine():\n    return 1\n\ndef broken(:\n    print 'x'\n\nclass Later:\n    pass\n"
    document = parse_bytes(tmp_path, "a.py", text)
    assert ("fine", 1, 2) in outline(document)
    assert words("\n".join(document.text[b.start : b.end] for b in document.blocks)) == words(text)


def test_several_definitions_on_one_row_are_one_block(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.js", "function a(){}function b(){};function c(){}\nfunction d(){}\n")
    assert outline(document) == [("a", 1, 1), ("d", 2, 2)]


@pytest.mark.timeout(60)
def test_minified_and_deeply_nested_code_is_handled(tmp_path: Path) -> None:
    parse_bytes(tmp_path, "a.js", "var x=[" + "1," * 300_000 + "];" + "function f(){return 1}" * 5000)
    parse_bytes(tmp_path, "a.py", "x = " + "(" * 5000 + ")" * 5000 + "\n")
    parse_bytes(tmp_path, "a.kt", "class " * 50_000)
