"""Markdown: the stored text is the file, and every word of it is in a block."""

from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from citewire_retriever.ingest.document import BlockKind
from citewire_retriever.ingest.parsers.markdown import parse_markdown
from ingest_files import LIMITS, check_document, parse_bytes, texts, words

PAGE = """\
---
title: "The Guide"
tags: [a, b]
---
# Heading *one* with `code`

First paragraph,
second line.

Setext heading
--------------

- item one
- item two
  with more

  and a paragraph

| Name | Price |
|------|------:|
| Tea  | 3 |
| Cake | `4` |
| Air  |   |

```python
# not a heading
def f(): ...
```

[ref]: https://example.org/somewhere "Title words"

> A quote.

***

<div>raw html</div>
"""


def test_a_page(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "guide.md", PAGE)
    assert document.title == "The Guide"
    assert document.text == PAGE
    headings = [(b.level, b.label, b.place.start_line) for b in document.blocks if b.kind is BlockKind.HEADING]
    assert headings == [(1, "Heading one with code", 5), (2, "Setext heading", 10)]
    rows = [(text, b.place.start_line) for text, b in zip(texts(document), document.blocks, strict=True)
            if b.kind is BlockKind.ROW]  # fmt: skip
    assert rows == [("Name: Tea\nPrice: 3", 21), ("Name: Cake\nPrice: `4`", 22), ("Name: Air", 23)]
    (items,) = [b.children for b in document.blocks if b.kind is BlockKind.LIST]
    assert [document.text[item.start : item.end] for item in items] == [
        "- item one",
        "- item two\n  with more\n\n  and a paragraph",
    ]
    (code,) = texts(document, BlockKind.CODE)
    assert code.startswith("```python")
    assert '[ref]: https://example.org/somewhere "Title words"' in texts(document)
    assert texts(document)[0].startswith("---\ntitle")


def test_the_title_is_the_first_heading_of_level_one(tmp_path: Path) -> None:
    assert parse_bytes(tmp_path, "a.md", "Text\n\n# Title\n\nMore").title == "Title"
    assert parse_bytes(tmp_path, "a.md", "## Not a title\n\n# Later").title is None
    assert parse_bytes(tmp_path, "a.md", "+++\ntitle = 'TOML'\n+++\n# Other").title == "TOML"


def test_a_rule_at_the_start_is_no_front_matter(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.md", "---\n\n# Title\n\ntext\n")
    assert document.title == "Title"


def test_a_table_without_rows_keeps_its_header(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.md", "| Name | Price |\n|---|---|\n")
    assert words("\n".join(texts(document))) >= {"Name", "Price"}


def test_names_of_columns_without_values_are_kept(tmp_path: Path) -> None:
    text = "Form:\n\n| Applicant | Approved by | Date |\n|---|---|---|\n| Ann | | Monday |\n| Bob | | |\n"
    document = parse_bytes(tmp_path, "a.md", text)
    assert [(block.place.start_line, each) for block, each in zip(document.blocks, texts(document), strict=True)] == [
        (1, "Form:"), (3, "Approved by"), (5, "Applicant: Ann\nDate: Monday"), (6, "Applicant: Bob")
    ]  # fmt: skip


def test_cells_beyond_the_header_are_kept(tmp_path: Path) -> None:
    lines = ["| Command | Meaning |", "|---|---|", "| `a | b` | pipes a to b |", "| c | d |", "| \\| | bar | |"]
    assert texts(parse_bytes(tmp_path, "a.md", "\n".join(lines))) == [
        "Command: `a\nMeaning: b`\ncolumn 3: pipes a to b", "Command: c\nMeaning: d", "Command: |\nMeaning: bar"
    ]  # fmt: skip


def test_headings_in_quotes_and_lists_open_no_section(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.md", "# A\n\n> # quoted\n\n- # listed\n")
    assert [b.label for b in document.blocks if b.kind is BlockKind.HEADING] == ["A"]


_LINES = st.sampled_from(
    ["# A", "## B b", "text one", "- item", "  - nested", "", "", "| a | b |", "|---|---|", "| c | d |", "```", "> q",
     "    code", "1. first", "[x]: http://y.example", "***", "<b>html", "Setext", "===", "a | b", "\t", "\\", "---"]
)  # fmt: skip


@given(st.lists(_LINES, max_size=25).map("\n".join))
@example("[x]: http://y.example\n| a | b |\n|---|---|\n| a | b |")
def test_no_word_is_lost_and_no_span_is_wrong(text: str) -> None:
    document = parse_markdown(text, LIMITS)
    check_document(document)
    assert document.text == text
    inside = words("\n".join(texts(document)))
    columns = {"a", "b", "c", "d"}  # the name of a column without values isn't in any block
    assert words(text) - columns <= inside | {"x"}
