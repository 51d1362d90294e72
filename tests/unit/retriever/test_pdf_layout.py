"""The layout of PDF pages, which their content doesn't state: columns, tables, running heads, sizes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from citewire_retriever.ingest import chunker
from citewire_retriever.ingest.boxes import SoughtText
from citewire_retriever.ingest.chunks import Chunk, ChunkRules
from citewire_retriever.ingest.document import Block, BlockKind, ParsedDocument, ParseLimits
from citewire_retriever.ingest.parsers.pdf import parse_pdf
from citewire_retriever.ingest.parsers.pdf_boxes import find_boxes
from ingest_files import Placed, make_pdf, prose_page
from pdf_words import alphanumerics, text_inside

LEFT = [
    "Rents have risen in most of the",
    "cities that the survey covers, and",
    "nowhere more than in the harbour",
    "towns. Owners name the price of",
    "energy first, then that of repairs.",
]
RIGHT = [
    "Tenants see it differently: to them",
    "the reason is that so few homes are",
    "built, and that those are large. The",
    "council will hear both sides before",
    "the summer, and decide in autumn.",
]


def read(data: bytes) -> ParsedDocument:
    return parse_pdf(data, ParseLimits())


def text_of(document: ParsedDocument, block: Block) -> str:
    return document.text[block.start : block.end]


def columns_by_rows() -> list[Placed]:
    """Two columns, written row by row."""
    page: list[Placed] = [(72, 720, 18, "bold", "A survey of rents in all the cities of the coast and inland")]
    for index, pair in enumerate(zip(LEFT, RIGHT, strict=True)):
        for x, text in zip((72, 320), pair, strict=True):
            page.append((x, 680 - 13 * index, 11, "regular", text))
    return page


def table(rows: Sequence[Sequence[str]], *, top: float = 660, right: float = 420) -> list[Placed]:
    """Cells in 10 points, right-aligned except in the first column."""
    page: list[Placed] = []
    for index, row in enumerate(rows):
        for column, text in enumerate(row):
            x = right + 80 * (column - 1) - 5 * len(text) if column else 72
            if text:
                page.append((x, top - 14 * index, 10, "regular", text))
    return page


ROWS = [
    ("", "2024", "2023"),
    ("Net revenue", "$ 86,392", "$ 79,474"),
    ("Cost of sales", "40,576", "37,075"),
    ("Gross profit", "45,816", "42,399"),
    ("Interest, net", "(939)", "(1,863)"),
]


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_a_rotated_page_is_read_like_an_upright_one(rotation: int) -> None:
    pages = [
        prose_page(title, [[f"{title} are the first of it, as is written here."], [f"{title} are the last of it."]])
        for title in ("Balloons", "Airships")
    ]
    document = read(make_pdf(pages, rotation=rotation))
    assert [(block.kind, block.level, text_of(document, block).split()[0]) for block in document.blocks] == [
        (kind, level, title)
        for title in ("Balloons", "Airships")
        for kind, level in ((BlockKind.HEADING, 1), (BlockKind.PARAGRAPH, 0))
    ]
    assert document.text.index("Airships are the first") < document.text.index("Airships are the last")


def test_columns_are_read_one_after_another_however_they_are_written() -> None:
    document = read(make_pdf([columns_by_rows()]))
    assert " ".join([*LEFT, *RIGHT]) in " ".join(document.text.split())


def test_columns_of_a_page_full_of_lines_are_read_one_after_another() -> None:
    left, right = (
        [f"The {side} column says this in its line {number}." for number in range(56)] for side in ("left", "right")
    )
    lines = zip((72, 320), (left, right), strict=True)
    page: list[Placed] = [(x, 760 - 12 * n, 9, "regular", text) for x, side in lines for n, text in enumerate(side)]

    document = read(make_pdf([page]))

    assert " ".join([*left, *right]) in " ".join(document.text.split())
    assert all(block.kind is not BlockKind.TABLE for block in document.blocks)


def test_columns_of_an_index_are_read_one_after_another_and_are_no_table() -> None:
    left, right = ([f"{letter}{number}ndex, {number + 3}" for number in range(24)] for letter in "IX")
    page: list[Placed] = []
    for x, side, gap in ((72, left, 4), (320, right, 9)):  # between two letters of the alphabet
        heights = (720 - 13 * number - (gap if number > 3 else 0) for number in range(24))
        page += [(x, top, 10, "regular", text) for text, top in zip(side, heights, strict=True)]

    document = read(make_pdf([page]))

    assert " ".join(document.text.split()) == " ".join([*left, *right])
    assert all(block.kind is not BlockKind.TABLE for block in document.blocks)


def test_a_word_cut_at_a_cells_line_end_is_one_word() -> None:
    rows = [
        ("Symbol", "What it means"),
        ("dn", "A linear map from an exam-"),
        ("", "ple that stands above"),
        ("kn", "A norm"),
    ]
    page: list[Placed] = [
        (x, 700 - 13 * number, 10, "regular", text)
        for number, row in enumerate(rows)
        for x, text in zip((72, 160), row, strict=True)
        if text
    ]

    document = read(make_pdf([page]))

    assert "dn\tA linear map from an example that stands above\nkn\tA norm" in document.text
    assert "\x02" not in document.text


@pytest.mark.parametrize(
    "quote", ["and nowhere more than in the harbour towns.", "repairs. Tenants see it differently"]
)
def test_a_quote_across_lines_of_a_column_is_found_on_the_page(tmp_path: Path, quote: str) -> None:
    data = make_pdf([columns_by_rows()])
    path = tmp_path / "a.pdf"
    path.write_bytes(data)
    (shown,) = find_boxes(data, [SoughtText(1, quote)])
    assert len(shown.boxes) == (3 if "harbour" in quote else 2)
    assert sorted(alphanumerics(text_inside(path, 1, shown.boxes))) == sorted(alphanumerics(quote))


def test_a_text_stored_in_the_order_of_the_content_is_still_found() -> None:
    (shown,) = find_boxes(make_pdf([columns_by_rows()]), [SoughtText(1, f"{LEFT[1]} {RIGHT[1]} {LEFT[2]}")])
    assert len(shown.boxes) >= 2


def test_a_table_has_a_row_per_line_and_column_names_above_each_chunk() -> None:
    title: Placed = (72, 700, 14, "bold", "Statement of income")
    document = read(make_pdf([[title, *table(ROWS)]]))
    (block,) = [block for block in document.blocks if block.kind is BlockKind.TABLE]
    assert block.label == "2024 | 2023"
    rows = [text_of(document, row).split("\t") for row in block.children]
    assert rows == [[cell for cell in row if cell] for row in ROWS]
    assert all(row.place.page == 1 for row in block.children)


async def cut(document: ParsedDocument, target: int) -> list[Chunk]:
    """Chunks of a document, where each word is a token."""

    async def count(texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    return await chunker.chunk(document, "Report", ChunkRules(64, target_tokens=target, row_tokens=target), count)


@pytest.mark.parametrize("above", ["", "In millions, as of the end of the year:"])
async def test_rows_share_a_chunk_whose_section_names_the_columns_once(above: str) -> None:
    title: Placed = (72, 710, 14, "bold", "Statement of income")
    rows = [*ROWS, *ROWS[1:]]
    caption: list[Placed] = [(72, 690, 10, "regular", above)] if above else []
    document = read(make_pdf([[title, *caption, *table(rows)]]))
    chunks = await cut(document, target=24)
    assert 1 < len(chunks) < len(rows)
    first, *others = (chunk.section for chunk in chunks)
    assert first == "Statement of income"  # the first chunk contains the names
    assert set(others) == {"Statement of income > 2024 | 2023"}
    assert [chunk.header.splitlines()[1] for chunk in chunks] == [first, *others]
    assert all(document.text[chunk.char_start : chunk.char_end] == chunk.text for chunk in chunks)
    assert "Cost of sales\t40,576\t37,075" in "\n".join(chunk.text for chunk in chunks)


def headings(document: ParsedDocument) -> list[str]:
    return [block.label for block in document.blocks if block.kind is BlockKind.HEADING]


def sections(document: ParsedDocument) -> list[tuple[str, str]]:
    """Each table's column names, and the heading above it."""
    named: list[tuple[str, str]] = []
    heading = ""
    for block in document.blocks:
        heading = block.label if block.kind is BlockKind.HEADING else heading
        if block.kind is BlockKind.TABLE:
            named.append((heading, block.label))
    return named


PROSE: list[Placed] = [(72, 200 - 14 * line, 10, "regular", "Some text that fills a line of it.") for line in range(9)]


def statement(*titles: str, years: bool = True) -> list[Placed]:
    """A page of a report: centred titles above the table's first columns."""
    page: list[Placed] = []
    for index, title in enumerate(titles):
        page.append((285 - 3 * len(title), 740 - 13 * index, 10, "bold", title))
    return [*page, *table(ROWS if years else ROWS[1:]), *PROSE]


def test_a_centred_title_above_a_table_is_a_heading_and_no_column_name() -> None:
    document = read(make_pdf([statement("ACME, INC.", "BALANCE SHEET"), statement("ACME, INC.", "CASH FLOWS")]))
    assert sections(document) == [("ACME, INC. BALANCE SHEET", "2024 | 2023"), ("ACME, INC. CASH FLOWS", "2024 | 2023")]


def test_a_title_of_three_lines_above_a_table_is_a_heading() -> None:
    lines = ["THE AMALGAMATED HARBOUR WORKS, INC. AND SUBSIDIARIES", "CONSOLIDATED STATEMENTS OF OPERATIONS"]
    document = read(make_pdf([statement(*lines, "(in millions of dollars, except amounts per share)")]))
    ((title, _),) = sections(document)
    assert lines[1] in title


def test_a_table_continued_on_the_next_page_keeps_its_title_and_columns() -> None:
    document = read(make_pdf([statement("BALANCE SHEET")[: 1 + 14], table(ROWS[1:])]))
    assert sections(document) == [("BALANCE SHEET", "2024 | 2023")] * 2


def test_a_table_with_other_columns_or_a_heading_inherits_no_column_names() -> None:
    narrow = table([row[:2] for row in ROWS[1:]])
    document = read(make_pdf([table(ROWS), narrow, statement("CASH FLOWS", years=False)]))
    assert sections(document) == [("", "2024 | 2023"), ("", ""), ("CASH FLOWS", "")]


def test_a_numbered_heading_may_end_in_a_full_stop_and_be_followed_by_another() -> None:
    page: list[Placed] = [
        (72, 740, 10, "bold", "Item 3. Legal proceedings."),
        (72, 718, 10, "bold", "Claims against the harbour"),
        *((72, 698 - 14 * line, 10, "regular", "Some text that fills a line of it.") for line in range(9)),
        (72, 550, 10, "bold", "We believe that no claim is founded."),
        *((72, 530 - 14 * line, 10, "regular", "More text that fills a line of it.") for line in range(9)),
    ]
    assert headings(read(make_pdf([page]))) == ["Item 3. Legal proceedings.", "Claims against the harbour"]


def test_a_table_above_headers_without_rows_is_a_table() -> None:
    rows = [("4071", str(number + 2), "0.61", f"{number},250.00") for number in range(2)]
    page = table([("Item", "Count", "Price", "Amount"), *rows])
    for number, title in enumerate(("Claims", "Documents", "History")):
        top = 606 - 42 * number
        page.append((72, top, 10, "bold", title))
        page += [(72 + (85 + 17 * number) * n, top - 14, 10, "bold", f"{title} by {n}") for n in range(4)]
        page.append((72, top - 28, 10, "regular", "No results"))

    (block,) = [block for block in read(make_pdf([page])).blocks if block.kind is BlockKind.TABLE]

    assert block.label == "Item | Count | Price | Amount"
    assert len(block.children) == 3


def test_a_line_above_a_table_stays_with_it() -> None:
    caption: Placed = (72, 690, 10, "regular", "In millions, as of the end of the year:")
    above: Placed = (72, 730, 10, "regular", "Some other text that stands above all of this on the page.")
    document = read(make_pdf([[above, caption, *table(ROWS)]]))
    (block,) = [block for block in document.blocks if block.kind is BlockKind.TABLE]
    assert text_of(document, block.children[0]) == caption[4]


def test_lines_with_numbers_are_no_table() -> None:
    lines = ["In 2024 it sold 86 ships, in 2023 it sold 79.", "Of these 12 were new, and 3 were lost at sea."]
    page: list[Placed] = [(72, 700 - 13 * index, 10, "regular", text) for index, text in enumerate(lines)]
    assert all(block.kind is not BlockKind.TABLE for block in read(make_pdf([page])).blocks)


def test_running_heads_are_read_once_and_page_numbers_never() -> None:
    pages: list[list[Placed]] = [
        [
            (72, 760, 9, "regular", "Harbour Works, annual report"),
            *((72, 700 - 13 * index, 10, "regular", f"Line {index} of part {number}.") for index in range(30)),
            (300, 30, 9, "regular", str(number)),
        ]
        for number in range(1, 7)
    ]
    document = read(make_pdf(pages))
    assert document.text.count("Harbour Works") == 1
    assert document.text.startswith("Harbour Works, annual report")
    lines = document.text.split("\n")
    assert not any(line.strip() in {"1", "2", "6"} for line in lines)
    assert all(f"Line {index} of part {number}." in document.text for index in range(30) for number in range(1, 7))


def test_heads_with_page_numbers_are_left_out_however_short_the_chapter_is() -> None:
    pages: list[list[Placed]] = [
        [
            (72, 760, 9, "regular", f"{number + 11} Chapter {'abdefghjkm'[number // 2] * 5}"),
            *((72, 700 - 13 * index, 10, "regular", f"Line {index} of part {number}.") for index in range(30)),
        ]
        for number in range(20)
    ]

    text = read(make_pdf(pages)).text

    assert [text.count(f"Chapter {letter * 5}") for letter in "abdefghjkm"] == [1] * 10


def test_numbers_that_dont_follow_the_pages_are_kept() -> None:
    pages: list[list[Placed]] = [
        [
            (72, 760, 9, "regular", f"Room {number * number} of the building"),
            *((72, 700 - 13 * index, 10, "regular", f"Line {index} of part {number}.") for index in range(30)),
            (72, 40, 9, "regular", f"{chr(97 + number) * 3}z costs {7 * number} a day"),
        ]
        for number in range(20)
    ]

    text = read(make_pdf(pages)).text

    assert all(f"costs {7 * number} a day" in text for number in range(20))


def test_identical_pages_keep_their_text() -> None:
    page: list[Placed] = [(72, 760, 10, "regular", "This page is left empty.")]
    document = read(make_pdf([page] * 5))
    assert [block.place.page for block in document.blocks] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("scale", [0.02, 0.75, 1])
def test_font_sizes_do_not_depend_on_the_pages_units(scale: float) -> None:
    page: list[Placed] = [
        (72, 700, 16, "regular", "Terms of delivery"),
        *((72, 670 - 13 * index, 10, "regular", "Text of usual size that fills its line.") for index in range(4)),
        *((72, 600 - 13 * index, 10, "regular", "Another paragraph that stands below it.") for index in range(4)),
    ]
    document = read(make_pdf([page], scale=scale))
    kinds = [block.kind for block in document.blocks]
    assert kinds == [BlockKind.HEADING, BlockKind.PARAGRAPH, BlockKind.PARAGRAPH]
