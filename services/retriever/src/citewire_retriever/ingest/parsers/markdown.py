"""Markdown (CommonMark with tables): the stored text is the file, blocks point into it."""

import re
from collections.abc import Iterator
from dataclasses import replace

from citewire.common.v1.place_pb2 import Place
from markdown_it import MarkdownIt
from markdown_it.rules_block.table import escapedSplit
from markdown_it.token import Token

from citewire_retriever.ingest.document import (
    Block,
    BlockKind,
    Format,
    LineIndex,
    ParsedDocument,
    ParseLimits,
    check_blocks,
)
from citewire_retriever.ingest.parsers.pairs import LABEL_LIMIT, one_line, pairs, unrepeated
from citewire_retriever.ingest.parsers.plain import lined_block, paragraphs
from citewire_retriever.ingest.parsers.tables import Cell, Grid

_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\n(?:.*\n){0,200}?(?:\1|\.\.\.)[ \t]*(?:\n|\Z)")
_FRONT_TITLE = re.compile(r"""^title\s*[:=]\s*(?:"([^"\n]+)"|'([^'\n]+)'|([^\n]+?))\s*$""", re.M)
# Many times a label's length, as links are removed from a heading's markup. Reading all of it could take minutes.
_INLINE_LIMIT = 20 * LABEL_LIMIT
_MARKUP = re.compile(r"[\\`*_\[\]<>&!]")
_KINDS = {"fence": BlockKind.CODE, "code_block": BlockKind.CODE}
_LISTS = {"bullet_list_open", "ordered_list_open"}


def parse_markdown(text: str, limits: ParseLimits) -> ParsedDocument:
    """Parses decoded Markdown.

    Front matter is a separate paragraph and supplies the title; otherwise a first heading of level 1 does.

    Raises:
        IngestError: TOO_LARGE.
    """
    return _Reader(text, limits).read()


def read_markdown_tables(text: str, limits: ParseLimits) -> Iterator[tuple[list[int], Grid]]:
    """The tables of decoded Markdown, each with the lines of its rows. Raises as `parse_markdown` does."""
    reader = _Reader(text, limits, keep_tables=True)
    reader.read()
    for rows in reader.tables:
        lines = [reader.lines.line_of(span[0]) for span, _ in rows]
        grid = [[reader.cell(text, head=index == 0) for text in cells] for index, (_, cells) in enumerate(rows)]
        yield lines, Grid(grid)


class _Reader:
    def __init__(self, text: str, limits: ParseLimits, *, keep_tables: bool = False) -> None:
        self.keep_tables = keep_tables
        self.text = text
        self.limits = limits
        self.lines = LineIndex(text)
        self.blocks: list[Block] = []
        self.tables: list[list[tuple[tuple[int, int], list[str]]]] = []
        """Spans and cells of their rows, as written."""
        self.heads: list[tuple[int, int]] = []
        """Spans of table heads, whose words are repeated in every row."""
        # Inline markup is only read for headings and cells: it would be most of the parser's work.
        self.markdown = MarkdownIt("commonmark").enable("table").disable("inline")
        self.inline = MarkdownIt("commonmark")

    def read(self) -> ParsedDocument:
        front = _FRONT_MATTER.match(self.text)
        title = None
        body_line = 0
        if front:
            named = _FRONT_TITLE.search(front.group())
            title = next((one_line(group) for group in named.groups() if group), None) if named else None
            self._add(lined_block(BlockKind.PARAGRAPH, 0, len(front.group().rstrip()), self.lines))
            body_line = front.group().count("\n")
        offset = self._offset(body_line)
        self._blocks(self.markdown.parse(self.text[offset:]), body_line)
        self._fill_gaps()
        check_blocks(len(self.blocks), self.limits)
        return ParsedDocument(
            Format.MARKDOWN,
            "text/markdown",
            self.text,
            tuple(self.blocks),
            title or self._first_title(),
            has_lines=True,
        )

    def _blocks(self, tokens: list[Token], first_line: int) -> None:
        """Turns the top level of the token stream into blocks."""
        index = 0
        while index < len(tokens):
            end = _closing(tokens, index)
            token = tokens[index]
            if token.map is not None and token.type != "hr":
                span = self._span(token.map[0] + first_line, token.map[1] + first_line)
                if token.type == "heading_open":
                    label = self._plain(tokens[index + 1].content)
                    level = int(token.tag[1])
                    self._add(lined_block(BlockKind.HEADING, *span, self.lines, level=level, label=label))
                elif token.type == "table_open":
                    self._table(tokens[index:end], first_line)
                elif token.type in _LISTS:
                    self._list(tokens[index:end], span, first_line)
                elif span[0] < span[1]:
                    self._add(lined_block(_KINDS.get(token.type, BlockKind.PARAGRAPH), *span, self.lines))
            index = end

    def _list(self, tokens: list[Token], span: tuple[int, int], first_line: int) -> None:
        items = [
            lined_block(BlockKind.PARAGRAPH, *item, self.lines)
            for token in tokens
            if token.type == "list_item_open" and token.level == 1 and token.map is not None
            for item in [self._span(token.map[0] + first_line, token.map[1] + first_line)]
            if item[0] < item[1]
        ]
        whole = lined_block(BlockKind.LIST, *span, self.lines)
        self._add(replace(whole, children=tuple(items)))

    def _table(self, tokens: list[Token], first_line: int) -> None:
        """A table's rows as pairs, below the names that none of them repeats."""
        rows: list[tuple[tuple[int, int], list[str]]] = []
        for token in tokens:
            if token.type == "tr_open" and token.map is not None:
                rows.append((self._span(token.map[0] + first_line, token.map[1] + first_line), []))
            elif token.type == "inline" and rows:
                rows[-1][1].append(one_line(token.content))
        if not rows:
            return
        for span, cells in rows[1:]:
            cells += self._beyond(span, len(cells))
        if self.keep_tables:
            self.tables.append(rows)
        head_span, header = rows[0]
        below = rows[1:]
        self.heads.append((head_span[0], below[0][0][0] if below else head_span[1]))
        self._row(head_span, " | ".join(unrepeated(header, (cells for _, cells in below))))
        for span, cells in below:
            self._row(span, pairs(header, cells))

    def _beyond(self, span: tuple[int, int], width: int) -> list[str]:
        """A row's cells beyond the header, which the parser drops: often those of a bar that isn't escaped."""
        cells = escapedSplit(self.text[span[0] : span[1]].strip())
        cells = cells[1:] if not cells[0] else cells
        return [one_line(cell) for cell in cells[width:]]

    def _row(self, span: tuple[int, int], text: str) -> None:
        if text:
            line = self.lines.line_of(span[0])
            self._add(Block(BlockKind.ROW, *span, place=Place(start_line=line, end_line=line), text=text))

    def cell(self, content: str, *, head: bool) -> Cell:
        """A cell without its markup, on one line; HTML is kept, so such a cell isn't a number."""
        if len(content) > _INLINE_LIMIT or not _MARKUP.search(content):
            return Cell(content, head)
        children = self.inline.parseInline(content)[0].children or []
        if any(child.type == "html_inline" for child in children):
            return Cell(content, head, plain=False)
        return Cell(one_line(_joined(children)), head)

    def _fill_gaps(self) -> None:
        """Adds text that the parser drops (link definitions) as paragraphs, so that no word is lost."""
        filled: list[Block] = []
        position = 0
        known = [(block.start, block.end, block) for block in self.blocks]
        known += [(*head, None) for head in self.heads]
        end = len(self.text)
        for start, stop, block in [*sorted(known, key=lambda each: each[:2]), (end, end, None)]:
            between = paragraphs(self.text, position, start, self.lines)
            filled += [gap for gap in between if any(map(str.isalnum, self.text[gap.start : gap.end]))]
            filled += [] if block is None else [block]
            position = max(position, stop)
        self.blocks = filled

    def _first_title(self) -> str | None:
        heading = next((block for block in self.blocks if block.kind is BlockKind.HEADING), None)
        return heading.label if heading is not None and heading.level == 1 and heading.label else None

    def _plain(self, content: str) -> str:
        """Inline Markdown without its markup, on one line."""
        children = self.inline.parseInline(content[:_INLINE_LIMIT])[0].children or []
        return one_line(_joined(children))[:LABEL_LIMIT]

    def _offset(self, line: int) -> int:
        starts = self.lines.starts
        return starts[line] if line < len(starts) else len(self.text)

    def _span(self, first: int, last: int) -> tuple[int, int]:
        """Offsets of lines [first, last), without white space at the end."""
        start = self._offset(first)
        end = self._offset(last)
        return start, start + len(self.text[start:end].rstrip())

    def _add(self, block: Block) -> None:
        self.blocks.append(block)


def _joined(tokens: list[Token]) -> str:
    return "".join(" " if token.type.endswith("break") else _visible(token) for token in tokens)


def _visible(token: Token) -> str:
    if token.type == "image":
        return token.content
    return token.content if token.type in {"text", "code_inline"} else ""


def _closing(tokens: list[Token], index: int) -> int:
    """The index behind the token's closing partner."""
    depth = 0
    while index < len(tokens):
        depth += tokens[index].nesting
        index += 1
        if depth <= 0:
            break
    return index
