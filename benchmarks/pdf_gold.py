"""The gold standard for reading PDF pages: `pdf_gold.txt`, with the words for its numbers."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pypdfium2

from benchmarks.pdf_scores import Element

GOLD = Path(__file__).with_name("pdf_gold.txt")
_HEAD = re.compile(r"= (?P<file>\S+) (?P<page>\d+), (?P<licence>[\w.-]+), (?P<count>\d+) words, (?P<sum>[0-9a-f]{8})")
_KINDS = ("p", "omit", *(f"h{level}" for level in range(1, 7)))


@dataclass(frozen=True, slots=True)
class GoldPage:
    """A page as read by people."""

    file: str
    """The file's name."""
    number: int
    """The page, from 1."""
    elements: tuple[Element, ...]
    """Its elements, in reading order."""


@dataclass(frozen=True, slots=True)
class _Draft:
    kind: str
    rows: tuple[tuple[tuple[int, ...], ...], ...]
    """The numbers of each cell; one cell if it isn't a table."""


def read_gold(files: Path) -> list[GoldPage]:
    """Returns the pages, with their words from the PDF files of a folder.

    Raises:
        ValueError: A line doesn't match the format in the file's head, or a page's words have changed.
    """
    parts = re.split(r"^(?==)", GOLD.read_text(encoding="utf-8"), flags=re.M)[1:]
    return [_read_page(part.splitlines(), files) for part in parts]


def _read_page(lines: Sequence[str], files: Path) -> GoldPage:
    head = _HEAD.fullmatch(lines[0])
    if head is None:
        msg = f"not the head of a page: {lines[0]}"
        raise ValueError(msg)
    file, number = head["file"], int(head["page"])
    words = page_words(files / file, number)
    if (len(words), checksum(words)) != (int(head["count"]), head["sum"]):
        msg = f"{file}, page {number}: the words are others than those that were numbered; pdfium may read it otherwise"
        raise ValueError(msg)
    return GoldPage(file, number, tuple(elements(lines[1:], words)))


def page_words(path: Path, number: int) -> list[str]:
    """The words of a page, numbered from 1 in the order of its content."""
    with pypdfium2.PdfDocument(path) as document:
        return document[number - 1].get_textpage().get_text_range().split()


def checksum(words: Sequence[str]) -> str:
    """A digest that detects changed words or a changed order."""
    return f"{zlib.crc32(' '.join(words).encode('utf-8', 'surrogatepass')):08x}"


def elements(lines: Sequence[str], words: Sequence[str]) -> Iterator[Element]:
    """Parses a page's elements from its lines.

    Raises:
        ValueError: A line doesn't match the format in the file's head, or words are in no line or in two.
    """
    drafts = list(_drafts(lines))
    starts = sorted(number for draft in drafts for row in draft.rows for cell in row for number in cell)
    if not starts or starts[0] != 0 or starts[-1] >= len(words) or len(set(starts)) < len(starts):
        msg = f"numbers must begin with 0, be different and below {len(words)}: {starts}"
        raise ValueError(msg)
    ends = dict(zip(starts, [*starts[1:], len(words)], strict=True))
    for draft in drafts:
        rows = tuple(
            tuple(" ".join(" ".join(words[number : ends[number]]) for number in cell) for cell in row)
            for row in draft.rows
        )
        if draft.kind == "table":
            yield Element(rows=rows)
        elif draft.kind != "omit":
            yield Element(rows[0][0], level=int(draft.kind[1]) if draft.kind[0] == "h" else 0)


def _drafts(lines: Sequence[str]) -> Iterator[_Draft]:
    rows: list[tuple[tuple[int, ...], ...]] = []
    in_table = False
    for line in filter(None, lines):
        kind, _, rest = line.partition(" ")
        if in_table and kind != "row":
            yield _Draft("table", tuple(rows))
            rows, in_table = [], False
        if kind == "row" and in_table:
            rows.append(tuple(tuple(map(int, cell.split())) for cell in rest.split("|")))
        elif kind == "table":
            in_table = True
        elif kind in _KINDS:
            yield _Draft(kind, ((tuple(map(int, rest.split())),),))
        else:
            msg = f"not a line of a page: {line}"
            raise ValueError(msg)
    if in_table:
        yield _Draft("table", tuple(rows))
