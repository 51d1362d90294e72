"""reStructuredText, AsciiDoc and Org: headings are sections, code stays whole, and lines are those of the file."""

from pathlib import Path

import pytest

from citewire_retriever.ingest.document import BlockKind, ParsedDocument
from citewire_retriever.ingest.grouping import group
from ingest_files import parse_bytes, text_of

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
    """The section of each group's last words."""
    return {document.text[each.pieces[-1].start : each.pieces[-1].end]: each.section for each in group(document)}


def labels(document: ParsedDocument) -> list[tuple[int, str, int]]:
    return [
        (block.level, block.label, block.place.start_line)
        for block in document.blocks
        if block.kind is BlockKind.HEADING
    ]


def code(document: ParsedDocument) -> list[str]:
    return [text_of(document, block) for block in document.blocks if block.kind is BlockKind.CODE]


@pytest.mark.parametrize(("name", "text"), [("a.rst", RST), ("a.adoc", ADOC), ("a.org", ORG)])
def test_every_line_is_where_its_place_says(tmp_path: Path, name: str, text: str) -> None:
    document = parse_bytes(tmp_path, name, text)
    lines = text.split("\n")
    for block in document.blocks:
        first, last = block.place.start_line, block.place.end_line
        assert document.text[block.start : block.end].strip() == "\n".join(lines[first - 1 : last]).strip()
    covered = {
        number for block in document.blocks for number in range(block.place.start_line, block.place.end_line + 1)
    }
    assert {lines[number - 1] for number in set(range(1, len(lines) + 1)) - covered} <= {"", "|-------+------|"}


def test_titles_are_underlined_and_have_levels_as_they_come(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.rst", RST)
    assert labels(document) == [(1, "Tides", 1), (2, "Method", 7), (2, "Storms", 22)]
    assert document.title == "Tides"
    assert [text.split()[-1] for text in code(document)] == ["low", 'print("tide")']
    assert sections(document)["Back in the text."] == "Tides > Method"


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
