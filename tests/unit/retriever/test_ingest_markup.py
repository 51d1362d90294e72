"""reStructuredText, AsciiDoc and Org: headings are sections, code stays whole, and lines are those of the file."""

from pathlib import Path

import pytest

from citewire_retriever.ingest.document import BlockKind, ParsedDocument
from citewire_retriever.ingest.grouping import group
from ingest_files import parse_bytes, text_of, texts

RST = """=====
Tides
=====

Heights at the pier.

Method
------

We looked, and noted::

    10:00  high

    16:00  low

.. code-block:: python

   print("tide")

Back in the text.

Storms
------
None.

======  =====
Month   Days
======  =====
May     3
======  =====
"""
ADOC = """= Tides
:toc:

Heights at the pier.

== Method

[source,python]
----
== no heading
print("tide")
----

=== Details
None.

----
never closed
"""
ORG = """#+TITLE: All tides
* TODO [#A] Method :work:pier:
Text of it.
#+BEGIN_SRC python
* no heading
#+END_SRC
| Month | Days |
|-------+------|
| May   | 3    |
| June  |      |
** Storms
None.
"""


def sections(document: ParsedDocument) -> dict[str, str]:
    """The section of each text, by the text's last words."""
    return {document.text[part.pieces[-1].start : part.pieces[-1].end]: part.section for part in group(document)}


def labels(document: ParsedDocument) -> list[tuple[int, str, int]]:
    return [
        (block.level, block.label, block.place.start_line)
        for block in document.blocks
        if block.kind is BlockKind.HEADING
    ]


def code(document: ParsedDocument) -> list[str]:
    return [text_of(document, block) for block in document.blocks if block.kind is BlockKind.CODE]


ADOC_TABLE = """.Fleet
[%header,cols="1,2*"]
|===
|Boat |Length
^|Berth

// a comment
|Gull |7 a|pier \\| north

|Tern
|8
over two lines
|

2+|none |quay
|===
After it.
"""
GRID = """Before it.

+--------+------------+
| Boat   | Length     |
+========+============+
| Gull   | 7          |
+--------+------------+
| Tern,  | 8 in all,  |
| Auk    | or fewer   |
+--------+------------+

After it.
"""
SIMPLE = """Before it.

=====  ======
Boat   Length
=====  ======
Gull   7
       metres

Tern   8
=====  ======

After it.
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "a.adoc",
            ADOC_TABLE,
            [
                (8, 8, "Boat: Gull\nLength: 7\nBerth: pier | north"),
                (10, 13, "Boat: Tern\nLength: 8 over two lines"),
                (15, 15, "Boat: none\nBerth: quay"),
            ],
        ),
        ("a.adoc", "|===\n|Boat |Length\n\n|Gull |7\n|===\n", [(4, 4, "Boat: Gull\nLength: 7")]),
        ("a.rst", GRID, [(6, 6, "Boat: Gull\nLength: 7"), (8, 9, "Boat: Tern, Auk\nLength: 8 in all, or fewer")]),
        ("a.rst", SIMPLE, [(6, 7, "Boat: Gull\nLength: 7 metres"), (9, 9, "Boat: Tern\nLength: 8")]),
    ],
)
def test_rows_of_tables_have_their_lines_and_headers(
    tmp_path: Path, name: str, text: str, expected: list[tuple[int, int, str]]
) -> None:
    document = parse_bytes(tmp_path, name, text)
    rows = [block for block in document.blocks if block.kind is BlockKind.ROW]
    assert [(row.place.start_line, row.place.end_line, row.text) for row in rows] == expected
    others = [text_of(document, block) for block in document.blocks if block.kind is not BlockKind.ROW]
    assert not any("Gull" in other or "===" in other for other in others)
    assert any("Boat" in other for other in others)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.adoc", "|===\n|Gull |7\n|Tern |8\n|===\n"),  # no header
        ("a.adoc", "|===\n|Boat |Length\n\n.2+|Gull |7\n|8\n|===\n"),  # a cell across rows
        ("a.adoc", "|===\n|Boat |Length\n\n|Gull |7\n|8\n|===\n"),  # a cell is missing
        ("a.adoc", "|===\n|Boat |Length\n\n|Gull |7 |Tern |8\n|===\n"),  # two rows on a line
        ("a.adoc", "|===\n|Boat |Length\n\n99+|Gull |7\n"),  # it doesn't end
        ("a.rst", "+------+--+\n| Gull |7 |\n+------+--+\n"),
        ("a.rst", "+---+---+\n| A | B |\n+===+===+\n| Gull  |\n+---+---+\n"),
        ("a.rst", "====  ====\nGull  7\n====  ====\n"),
        ("a.rst", "====  ====\nA     B\n====  ====\nGull of 7\n====  ====\n"),
    ],
)
def test_tables_that_cant_be_read_by_rows_are_text(tmp_path: Path, name: str, text: str) -> None:
    document = parse_bytes(tmp_path, name, text)
    assert all(block.kind is not BlockKind.ROW for block in document.blocks)
    assert "Gull" in " ".join(text_of(document, block) for block in document.blocks)


@pytest.mark.parametrize(("name", "text"), [("a.rst", RST), ("a.adoc", ADOC), ("a.org", ORG)])
def test_every_line_is_at_its_place(tmp_path: Path, name: str, text: str) -> None:
    document = parse_bytes(tmp_path, name, text)
    lines = text.split("\n")
    for block in document.blocks:
        first, last = block.place.start_line, block.place.end_line
        assert document.text[block.start : block.end].strip() == "\n".join(lines[first - 1 : last]).strip()
    covered = {
        number for block in document.blocks for number in range(block.place.start_line, block.place.end_line + 1)
    }
    assert {lines[number - 1] for number in set(range(1, len(lines) + 1)) - covered} <= {
        "",
        "|-------+------|",
        "======  =====",
    }


def test_underlined_titles_have_levels_in_the_order_of_appearance(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.rst", RST)
    assert labels(document) == [(1, "Tides", 1), (2, "Method", 7), (2, "Storms", 22)]
    assert document.title == "Tides"
    assert [text.split()[-1] for text in code(document)] == ["low", 'print("tide")']
    assert sections(document)["Back in the text."] == "Tides > Method"


def test_code_is_cut_below_a_paragraph_of_several_lines(tmp_path: Path) -> None:
    text = "The tool writes what\nlooks like this::\n\n  code\n  more\n\nOr::\n\n  this\n"
    document = parse_bytes(tmp_path, "a.rst", text)
    assert [
        (block.kind, block.place.start_line, each) for block, each in zip(document.blocks, texts(document), strict=True)
    ] == [
        (BlockKind.PARAGRAPH, 1, "The tool writes what\nlooks like this::"),
        (BlockKind.CODE, 4, "  code\n  more"),
        (BlockKind.CODE, 7, "Or::\n\n  this"),
    ]


def test_equals_signs_are_headings_but_not_in_code(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.adoc", ADOC)
    assert labels(document) == [(1, "Tides", 1), (2, "Method", 6), (3, "Details", 14)]
    assert len(code(document)) == 1
    assert sections(document)["----\nnever closed"] == "Tides > Method > Details"


def test_stars_are_headings_and_tables_have_rows(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.org", ORG)
    assert document.title == "All tides"
    assert labels(document) == [(1, "Method", 2), (2, "Storms", 11)]
    assert len(code(document)) == 1
    rows = [(block.text, block.place.start_line) for block in document.blocks if block.kind is BlockKind.ROW]
    assert rows == [("Month: May\nDays: 3", 9), ("Month: June", 10)]


def test_an_org_table_without_names_of_columns_is_text(tmp_path: Path) -> None:
    document = parse_bytes(
        tmp_path, "a.org", "| Ann | 31 |\n| Bob | 27 |\n\n| 2026 | May |\n|------|-----|\n| 7 | 8 |\n"
    )
    assert texts(document) == ["| Ann | 31 |\n| Bob | 27 |", "| 2026 | May |", "2026: 7\nMay: 8"]


def test_long_rows_of_an_org_table_are_rows(tmp_path: Path) -> None:
    long = "It rained. " * 40
    document = parse_bytes(tmp_path, "a.org", f"| Day | Report |\n|---+---|\n| May 1 | {long}|\n| May 2 | None |\n")
    assert texts(document, BlockKind.ROW) == [f"Day: May 1\nReport: {long.strip()}", "Day: May 2\nReport: None"]


def test_asciidoc_titles_may_be_underlined(tmp_path: Path) -> None:
    text = (
        "copy(1)\n=======\n\nNAME\n----\ncopy - copies files\n\n[[options]]\nMore options\n~~~~~~~~~~~~\nNone.\n\n"
        "----\nwe ran\n\ncode\n----\n\nTODO\n----\nTests.\n\nA longer sentence\n----\nls\n----\n"
    )
    document = parse_bytes(tmp_path, "copy.adoc", text)
    headings = [block for block in document.blocks if block.kind is BlockKind.HEADING]
    assert [(block.label, block.level) for block in headings] == [
        ("copy(1)", 1), ("NAME", 2), ("More options", 3), ("TODO", 2)
    ]  # fmt: skip
    assert (headings[2].place.start_line, headings[2].place.end_line) == (9, 10)
    assert texts(document, BlockKind.CODE) == ["----\nwe ran\n\ncode\n----", "----\nls\n----"]
    assert document.title == "copy(1)"
