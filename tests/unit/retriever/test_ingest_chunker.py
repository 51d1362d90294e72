"""Chunks follow the structure, fit the window, lose nothing, and are the same every time."""

import asyncio
import hashlib
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from citewire.common.v1.place_pb2 import Place
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from citewire_retriever.ingest import chunker
from citewire_retriever.ingest.chunks import Chunk, ChunkRules, embedding_input
from citewire_retriever.ingest.document import BlockKind, ParsedDocument
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.code import parse_code
from citewire_retriever.ingest.parsers.html import parse_html_page
from citewire_retriever.ingest.parsers.markdown import parse_markdown
from citewire_retriever.ingest.parsers.plain import parse_plain
from ingest_files import LIMITS, make_pdf, parse_bytes, prose_page, words

RULES = ChunkRules(max_tokens=40, target_tokens=24, row_tokens=24, overlap_tokens=8)
_TOKEN = re.compile(r"\w{1,4}|[^\w\s]")


async def count(texts: Sequence[str]) -> list[int]:
    """Counts a token per four letters or sign: joined texts have no more tokens than their parts."""
    return [len(_TOKEN.findall(text)) for text in texts]


async def count_greedily(texts: Sequence[str]) -> list[int]:
    """A counter whose joined texts have more tokens than their parts: every line end costs two."""
    return [len(_TOKEN.findall(text)) + 2 * text.count("\n") for text in texts]


def cut(document: ParsedDocument, title: str = "", rules: ChunkRules = RULES) -> list[Chunk]:
    return asyncio.run(chunker.chunk(document, title, rules, count))


def check(document: ParsedDocument, chunks: list[Chunk], rules: ChunkRules) -> None:
    """Checks the properties of every document's chunks."""
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    lengths = asyncio.run(count([embedding_input(chunk.header, chunk.text) for chunk in chunks]))
    own = asyncio.run(count([chunk.text for chunk in chunks]))
    rows = [(b.start, b.end) for b in document.blocks if b.text is not None]
    for chunk, tokens, own_tokens in zip(chunks, lengths, own, strict=True):
        assert tokens <= rules.max_tokens
        assert chunk.token_count == own_tokens
        assert chunk.content_hash == hashlib.sha256(chunk.text.encode()).digest()
        assert any(char.isalnum() for char in chunk.text)
        assert chunk.verbatim == (not any(start < chunk.char_end and chunk.char_start < end for start, end in rows))
        if chunk.verbatim:
            assert chunk.text == document.text[chunk.char_start : chunk.char_end]
        if document.has_lines:
            assert chunk.place.HasField("start_line")
            assert chunk.place.HasField("end_line")
            assert document.text.count("\n", 0, chunk.char_start) + 1 <= chunk.place.start_line <= chunk.place.end_line


def prose(sentences: int, *, word: str = "w") -> str:
    return " ".join(f"Go {word}{index} to it." for index in range(sentences))


def test_small_paragraphs_share_a_chunk_up_to_the_target() -> None:
    chunks = cut(parse_plain("\n\n".join(["one two three"] * 12), LIMITS))
    assert [chunk.token_count for chunk in chunks] == [24, 24]
    assert (chunks[0].place.start_line, chunks[0].place.end_line) == (1, 11)


def test_line_ends_that_are_tokens_take_only_their_share_of_chunks() -> None:
    document = parse_plain("\n\n".join(["one two three"] * 400), LIMITS)
    chunks = asyncio.run(chunker.chunk(document, "", RULES, count_greedily))
    assert max(chunk.token_count for chunk in chunks) <= RULES.max_tokens
    assert min(chunk.token_count for chunk in chunks) > RULES.max_tokens * 0.8


def test_chunks_are_of_even_size() -> None:
    chunks = cut(parse_plain("\n\n".join(["one two three"] * 7), LIMITS))
    assert [chunk.token_count for chunk in chunks] == [16, 12]


def test_a_paragraph_that_fits_the_window_stays_whole() -> None:
    document = parse_plain(f"{prose(6)}\n\nshort one", LIMITS)
    chunks = cut(document)
    assert [chunk.text for chunk in chunks] == [prose(6), "short one"]
    assert chunks[0].token_count > RULES.target_tokens


def test_a_paragraph_that_is_cut_repeats_a_sentence() -> None:
    document = parse_plain(prose(20), LIMITS)
    chunks = cut(document)
    check(document, chunks, RULES)
    assert len(chunks) > 3
    for before, after in pairwise(chunks):
        assert after.char_start < before.char_end
        repeated = document.text[after.char_start : before.char_end]
        assert repeated.startswith("Go ")
        assert repeated.endswith(".")
        assert len(_TOKEN.findall(repeated)) <= RULES.overlap_tokens


def test_nothing_is_repeated_between_whole_paragraphs() -> None:
    chunks = cut(parse_plain("\n\n".join(prose(3, word=f"p{n}x") for n in range(9)), LIMITS))
    for before, after in pairwise(chunks):
        assert before.char_end < after.char_start


def test_sections_are_separate_and_named() -> None:
    text = "# A\n\nalpha\n\n## B\n\nbeta\n\n### C\n\ngamma\n\n## D\n\ndelta\n\n# E\n\nepsilon\n"
    chunks = cut(parse_markdown(text, LIMITS))
    assert [(chunk.section, chunk.text) for chunk in chunks] == [
        ("A", "# A\n\nalpha"),
        ("A > B", "## B\n\nbeta"),
        ("A > B > C", "### C\n\ngamma"),
        ("A > D", "## D\n\ndelta"),
        ("E", "# E\n\nepsilon"),
    ]


def test_a_heading_without_text_is_in_the_path_of_later_chunks() -> None:
    chunks = cut(parse_markdown("# A\n\n## B\n\nbeta\n\n## Empty\n\n## D\n\ndelta\n\n## Last\n", LIMITS))
    assert [(chunk.section, chunk.text) for chunk in chunks] == [
        ("A > B", "## B\n\nbeta"),
        ("A > Empty", "## Empty"),  # without text below it, it would be lost
        ("A > D", "## D\n\ndelta"),
        ("A > Last", "## Last"),
    ]


def test_a_heading_stays_with_the_text_below_it() -> None:
    text = f"## Heading\n\n{prose(6)}\n\n{prose(3, word='z')}"
    chunks = cut(parse_markdown(text, LIMITS))
    assert chunks[0].text == f"## Heading\n\n{prose(6)}"


def test_title_and_section_are_embedded_and_leave_room() -> None:
    document = parse_markdown(f"# Title\n\n## Part\n\n{prose(20)}", LIMITS)
    chunks = cut(document, "Title")
    assert {chunk.header for chunk in chunks} == {"Title\nPart"}
    assert chunks[0].section == "Title > Part"
    check(document, chunks, RULES)


def test_a_long_title_is_shortened_to_its_share() -> None:
    document = parse_plain(prose(20), LIMITS)
    chunks = cut(document, "Very " * 300 + "long")
    check(document, chunks, RULES)
    (header,) = {chunk.header for chunk in chunks}
    assert header.startswith("Very Very")
    assert asyncio.run(count([header]))[0] <= RULES.max_tokens * RULES.header_share


def test_small_rows_share_a_chunk_with_a_place_for_each(tmp_path: Path) -> None:
    rows = [f"Tea{number},hot" for number in range(9)]
    document = parse_bytes(tmp_path, "a.csv", "\n".join(["Name,Note", *rows[:4], "", *rows[4:]]))
    chunks = cut(document)
    check(document, chunks, RULES)
    assert [(chunk.place.row, chunk.place.end_row) for chunk in chunks] == [(2, 4), (5, 8), (9, 11)]
    for chunk in chunks:
        for start, place in chunk.places:
            assert chunk.text[start:].startswith(f"Name: Tea{place.row - 2 - (place.row > 6)}\nNote: hot")
            assert place == Place(row=place.row)


def test_rows_share_no_chunk_with_other_text() -> None:
    document = parse_html_page(
        "<p>Before.</p><table><tr><th>a<th>b<tr><td>1<td>2<tr><td>3<td>4</table><p>After.", LIMITS
    )
    assert [chunk.text for chunk in cut(document)] == ["Before.", "a: 1\nb: 2\n\na: 3\nb: 4", "After."]


def test_rows_of_a_markdown_table_are_pairs_over_their_lines() -> None:
    document = parse_markdown("| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\nAfter.", LIMITS)
    table, after = cut(document)
    assert table.text == "a: 1\nb: 2\n\na: 3\nb: 4"
    assert (table.place.start_line, table.place.end_line, table.verbatim) == (3, 4, False)
    assert table.places == ((0, Place(start_line=3, end_line=3)), (11, Place(start_line=4, end_line=4)))
    assert document.text[table.char_start : table.char_end] == "| 1 | 2 |\n| 3 | 4 |"
    assert after.text == "After."


def test_a_long_row_is_cut_between_its_cells(tmp_path: Path) -> None:
    header = ",".join(f"column{n}" for n in range(12))
    document = parse_bytes(tmp_path, "a.csv", f"{header}\n{','.join(f'value{n}' for n in range(12))}\n")
    chunks = cut(document)
    check(document, chunks, RULES)
    assert len(chunks) > 1
    assert {chunk.place.row for chunk in chunks} == {2}
    assert all(line.startswith("column") for chunk in chunks for line in chunk.text.split("\n"))


def test_pages_are_separate(tmp_path: Path) -> None:
    pages = [prose_page("Heading", [["Short text here on the page."]]), [(72.0, 700.0, 10.0, "regular", "It goes on.")]]
    document = parse_bytes(tmp_path, "a.pdf", make_pdf(pages))
    chunks = cut(document)
    assert [(chunk.place.page, chunk.section) for chunk in chunks] == [(1, "Heading"), (2, "Heading")]


PYTHON = """\
import os

# About f.
@cached
def f():
    return 1

class Small:
    def a(self): return 1
    def b(self): return 2

class Large:
    '''What it is.'''

    def first(self):
        one = 1
        two = 2
        return one + two

    @property
    def second(self):
        three = 3
        return three * 3 + 3

    def end():
        a = 1; b = 2; c = 3; d = 4; e = 5; f = 6
        g = 1; h = 2; i = 3; j = 4; k = 5; l = 6

        m = 1; n = 2; o = 3; p = 4; q = 5; r = 6
"""


def test_definitions_are_separate_and_large_ones_are_divided_by_members() -> None:
    document = parse_code(PYTHON, "python", LIMITS)
    chunks = cut(document)
    check(document, chunks, RULES)
    results = [(chunk.section, chunk.place.start_line, chunk.place.end_line) for chunk in chunks]
    assert results[:3] == [("", 1, 1), ("f", 4, 6), ("Small", 8, 10)]
    assert chunks[1].text.startswith("# About f.")
    assert results[3:6] == [("Large", 12, 13), ("Large > first", 15, 18), ("Large > second", 20, 23)]
    assert {section for section, _, _ in results[6:]} == {"Large > end"}
    assert [start for _, start, _ in results[6:]] == [25, 27, 29]


@pytest.mark.parametrize(
    "text",
    [
        "x" * 50_000,
        "word " * 20_000,
        "  ".join("abc" for _ in range(10_000)),
        "漢字" * 20_000,
        "a" + " " * 100_000 + "b",
        "line\n" * 20_000,
        "🙂" * 3000,
    ],
    ids=["one word", "no sentence", "blanks", "no blank", "gap", "lines", "astral"],
)
@pytest.mark.timeout(60)
def test_text_without_structure_is_cut_too(text: str) -> None:
    document = parse_plain(text, LIMITS)
    chunks = cut(document, "Title")
    lengths = asyncio.run(count([chunk.text for chunk in chunks]))
    assert max(lengths) <= RULES.max_tokens
    assert max(len(chunk.text) for chunk in chunks) <= RULES.max_tokens * 16
    letters = sum(not char.isspace() for char in text)
    assert sum(not char.isspace() for chunk in chunks for char in chunk.text) >= letters


def test_with_a_counter_that_is_not_additive_chunks_still_fit_the_window() -> None:
    document = parse_plain("\n".join(["one two three four"] * 80), LIMITS)
    chunks = asyncio.run(chunker.chunk(document, "T", RULES, count_greedily))
    lengths = asyncio.run(count_greedily([embedding_input(chunk.header, chunk.text) for chunk in chunks]))
    assert max(lengths) <= RULES.max_tokens
    assert words("\n".join(chunk.text for chunk in chunks)) == words(document.text)


def test_too_many_chunks_are_refused() -> None:
    rules = ChunkRules(max_tokens=40, target_tokens=24, max_chunks=5)
    with pytest.raises(IngestError) as caught:
        cut(parse_plain(prose(200), LIMITS), rules=rules)
    assert caught.value.code is IngestCode.TOO_LARGE


_BLOCK = st.sampled_from(
    [
        "# Head one", "## Head *two*", "### Three [link](http://x.example/path)", prose(2), prose(9),
        prose(30, word="k"),
        "- a\n- b\n  - c\n- " + prose(12), "| x | y |\n|---|---|\n| 1 | 2 |\n| " + prose(12) + " | 4 |",
        "```\n" + "code line = 1\n" * 20 + "\n" + "more = 2\n" * 5 + "```", "[ref]: http://z.example", "> " + prose(5),
        "word" * 60, "<div>\nhtml\n</div>", "***", "Setext\n======",
    ]
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(_BLOCK, min_size=1, max_size=12), st.sampled_from(["", "A title", "Title " * 20]))
def test_no_word_is_lost_no_chunk_too_long_no_boundary_crossed(blocks: list[str], title: str) -> None:
    document = parse_markdown("\n\n".join(blocks), LIMITS)
    chunks = cut(document, title)
    check(document, chunks, RULES)
    spoken = words("\n".join(f"{chunk.section}\n{chunk.text}" for chunk in chunks))
    columns = {"x", "y"}  # a column's name is in its rows
    long = {word for word in words(document.text) if len(word) > 100}  # cut inside, if it must be
    assert words(document.text) - long - columns <= spoken
    headings = [b.start for b in document.blocks if b.kind is BlockKind.HEADING]
    for chunk in chunks:
        assert not [start for start in headings if chunk.char_start < start < chunk.char_end]
    assert chunks == cut(document, title)


def test_sentences_of_zero_tokens_are_not_repeated_endlessly() -> None:
    """A remote model's tokens are estimated, so a sentence may count as zero tokens."""

    async def estimate(texts: Sequence[str]) -> list[int]:
        return [len(text) // 4 for text in texts]

    document = parse_plain("? " * 4_000 + "end", LIMITS)
    chunks = asyncio.run(chunker.chunk(document, "", RULES, estimate))
    assert sum(len(chunk.text) for chunk in chunks) < 3 * len(document.text)
