"""Compares the result for a page with its content: words, their order, headings and tables."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final, cast

from apted import APTED, Config
from markdown_it import MarkdownIt
from markdown_it.token import Token
from rapidfuzz.distance import LCSseq, Levenshtein

_CUT: Final = re.compile("(?<=\\w)[-\u00ad\u2010\u2011\ufffe]\\s*(?=\\w)")
"""A hyphen, whether it belongs to the word or to a line break."""
_TOKEN: Final = re.compile(r"[^\W_]+")
_SAME_HEADING: Final = 0.9

_MARKDOWN = (
    MarkdownIt("commonmark")
    .enable("table")
    .disable(["list", "blockquote", "code", "lheading", "reference", "html_block", "html_inline"])
)
"""List numbers are text, being on the page. Plain text of tools without Markdown mustn't be parsed as Markdown."""


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a page: text, a heading, or a table."""

    text: str = ""
    """Its text; empty for a table."""
    level: int = 0
    """The level of a heading, 1 to 6."""
    rows: tuple[tuple[str, ...], ...] = ()
    """The cells of a table."""


@dataclass(frozen=True, slots=True)
class PageScore:
    """The measures for one page."""

    recall: float
    """Share of the page's words that were read."""
    precision: float
    """Share of the words read that are on the page."""
    order: float
    """Of the words in both, the share in the page's order: the longest common subsequence."""
    teds: tuple[float, ...]
    """For each table of the page, its similarity to the table that was read."""
    false_tables: int
    """Tables that were read but aren't on the page."""
    headings: Counter[str] = field(default_factory=Counter[str])
    """How many are in the page ("gold"), were read ("read"), are in both ("both"), and these at the same "level": the
    first, second… of the levels that these have on the page, as a tool doesn't know whether a title stands above.
    """


def score(gold: Sequence[Element], read: Sequence[Element]) -> PageScore:
    """Measures the result for a page."""
    expected, got = _tokens(gold), _tokens(read)
    both = (Counter(expected) & Counter(got)).total()
    tables = [element.rows for element in gold if element.rows]
    outputs = [element.rows for element in read if element.rows]
    similarities = match_tables(tables, outputs)
    return PageScore(
        recall=both / len(expected),
        precision=both / max(1, len(got)),
        order=LCSseq.similarity(expected, got) / max(1, both),
        teds=similarities,
        false_tables=max(0, len(outputs) - sum(value > 0 for value in similarities)),
        headings=_count_headings(gold, read),
    )


def f1(counts: Counter[str], matches: str) -> float:
    """The harmonic mean of recall and precision of headings, matches being "both" or "level"."""
    return 2 * counts[matches] / max(1, counts["gold"] + counts["read"])


def mean(values: Iterable[float]) -> float:
    """The mean; 0 if there are no values."""
    return fmean(values) if (values := list(values)) else 0.0


def read_markdown(text: str) -> list[Element]:
    """The elements of a page that a tool wrote as Markdown."""
    tokens = iter(_MARKDOWN.parse(text))
    result: list[Element] = []
    for token in tokens:
        if token.type == "heading_open":
            result.append(Element(_text(next(tokens)), level=int(token.tag[1])))
        elif token.type == "table_open":
            result.append(Element(rows=tuple(_rows(tokens))))
        elif token.type in {"inline", "fence"}:
            result.append(Element(_text(token)))
    return result


def match_tables(gold: Sequence[Sequence[Sequence[str]]], read: Sequence[Sequence[Sequence[str]]]) -> tuple[float, ...]:
    """For each table of a page, its similarity to the table that was read; the most similar are paired first."""
    pairs = sorted(
        ((teds(table, other), i, k) for i, table in enumerate(gold) for k, other in enumerate(read)), reverse=True
    )
    values: dict[int, float] = {}
    taken: set[int] = set()
    for value, i, k in pairs:
        if i not in values and k not in taken and value > 0:
            values[i] = value
            taken.add(k)
    return tuple(values.get(i, 0.0) for i in range(len(gold)))


def teds(gold: Sequence[Sequence[str]], read: Sequence[Sequence[str]]) -> float:
    """Similarity of two tables by the edits of their trees (TEDS; Zhong, ShafieiBavani and Jimeno Yepes 2020), 0 to 1.

    Cells that span columns or rows count as cells of the first one, as Markdown has no spans.
    """
    trees = _tree(gold), _tree(read)
    distance = cast("float", APTED(*trees, _Costs()).compute_edit_distance())
    return 1 - distance / max(map(_size, trees))


@dataclass(frozen=True, slots=True)
class _Node:
    tag: str
    text: str = ""
    children: tuple[_Node, ...] = ()


class _Costs(Config):
    def rename(  # pyright: ignore[reportIncompatibleMethodOverride] # the library adds costs, integers or not
        self, node1: _Node, node2: _Node
    ) -> float:
        """A cell's text costs the share of it that differs."""
        if node1.tag != node2.tag:
            return 1.0
        return Levenshtein.normalized_distance(node1.text, node2.text)

    def children(self, node: _Node) -> tuple[_Node, ...]:
        return node.children


def _tree(rows: Sequence[Sequence[str]]) -> _Node:
    cells = (tuple(_Node("cell", "".join(_normalised(cell).split())) for cell in row) for row in rows)
    return _Node("table", "", tuple(_Node("row", "", row) for row in cells))


def _size(node: _Node) -> int:
    return 1 + sum(map(_size, node.children))


def _normalised(text: str) -> str:
    return _CUT.sub("", unicodedata.normalize("NFKC", text)).casefold()


def _words(text: str) -> list[str]:
    return _TOKEN.findall(_normalised(text))


def _tokens(elements: Iterable[Element]) -> list[str]:
    texts = (text for element in elements for text in (element.text, *(cell for row in element.rows for cell in row)))
    return [word for text in texts for word in _words(text)]


def _count_headings(gold: Sequence[Element], read: Sequence[Element]) -> Counter[str]:
    expected = [(" ".join(_words(element.text)), element.level) for element in gold if element.level]
    got = [(" ".join(_words(element.text)), element.level) for element in read if element.level]
    counts = Counter(gold=len(expected), read=len(got))
    levels: list[tuple[int, int]] = []
    for text, level in expected:
        near = next(
            (heading for heading in got if Levenshtein.normalized_similarity(text, heading[0]) >= _SAME_HEADING), None
        )
        if near is not None:
            got.remove(near)
            levels.append((level, near[1]))
    ranks = zip(_ranks([level for level, _ in levels]), _ranks([level for _, level in levels]), strict=True)
    counts["both"] = len(levels)
    counts["level"] = sum(rank == other for rank, other in ranks)
    return counts


def _ranks(levels: Sequence[int]) -> list[int]:
    ordered = sorted(set(levels))
    return [ordered.index(level) for level in levels]


def _rows(tokens: Iterator[Token]) -> Iterator[tuple[str, ...]]:
    row: list[str] = []
    for token in tokens:
        if token.type == "inline":
            row.append(_text(token))
        elif token.type == "tr_close":
            yield tuple(row)
            row = []
        elif token.type == "table_close":
            return


def _text(token: Token) -> str:
    if token.type == "fence":
        return token.content
    parts = (child for child in token.children or () if child.type != "image")
    return "".join("\n" if part.type.endswith("break") else part.content for part in parts)
