"""PDF: pages, paragraphs, headings, and files that can't be read."""

from pathlib import Path

import pytest

from citewire_retriever.ingest.document import BlockKind, ParseLimits
from citewire_retriever.ingest.errors import IngestCode, IngestError
from hard_pdfs import placed_pdf
from ingest_files import make_pdf, parse_bytes, prose_page, texts

FIRST = [
    ["The first paragraph has lines that are long enough to be", "full, so they run on as one text of the para-",
     "graph, and a well-known word stays as it is: well-", "known."],
    ["The second paragraph is another one (with brackets)."],
]  # fmt: skip


def test_pages_paragraphs_and_headings(tmp_path: Path) -> None:
    data = make_pdf([prose_page("Opening", FIRST), prose_page("Closing", [["Nothing more is said here today."]])])
    document = parse_bytes(tmp_path, "a.pdf", data)
    assert document.pages == 2
    assert document.title == "Opening"
    assert [(b.kind.value, b.place.page, t) for b, t in zip(document.blocks, texts(document), strict=True)] == [
        ("heading", 1, "Opening"),
        (
            "paragraph",
            1,
            "The first paragraph has lines that are long enough to be full, so they run on as one text of the"
            " paragraph, and a well-known word stays as it is: well-known.",
        ),
        ("paragraph", 1, "The second paragraph is another one (with brackets)."),
        ("heading", 2, "Closing"),
        ("paragraph", 2, "Nothing more is said here today."),
    ]


def test_the_outline_names_the_headings_and_others_are_below_them(tmp_path: Path) -> None:
    page = [
        (72.0, 720.0, 10.0, "regular", "1.2 Terms"),
        (72.0, 690.0, 10.0, "regular", "Text about the terms of it all."),
        (72.0, 650.0, 18.0, "bold", "Large but not in the outline"),
        (72.0, 620.0, 10.0, "regular", "More text about something else."),
    ]
    data = make_pdf([page, page], outline=[("Terms", 0), ("Terms", 1), ("Not there", 1)])
    document = parse_bytes(tmp_path, "a.pdf", data)
    headings = [(b.place.page, b.label, b.level) for b in document.blocks if b.kind is BlockKind.HEADING]
    large = "Large but not in the outline"
    assert headings == [(1, "1.2 Terms", 1), (1, large, 2), (2, "1.2 Terms", 1), (2, large, 2)]


def test_lines_of_scripts_without_spaces_are_joined_without_one(tmp_path: Path) -> None:
    lines = ["湖の深さは二百五十メートルで、岸", "からは見えない。水温は夏でも低く", "Inari という名前を持つ。"]
    page = [(72.0, 700.0 - 12 * n, 10.0, "mincho", line) for n, line in enumerate(lines)]
    (text,) = texts(parse_bytes(tmp_path, "a.pdf", make_pdf([page])))
    assert text == "湖の深さは二百五十メートルで、岸からは見えない。水温は夏でも低く Inari という名前を持つ。"


def test_characters_beyond_the_basic_plane_are_read(tmp_path: Path) -> None:
    data = placed_pdf([(72, 700, "The rate 𝑟 is in 𝟛 parts 😀.")])
    assert texts(parse_bytes(tmp_path, "a.pdf", data)) == ["The rate 𝑟 is in 𝟛 parts 😀."]


def test_text_is_read_up_to_the_edges_of_a_page_that_inherits_its_size(tmp_path: Path) -> None:
    page = [(72.0, 822.0, 10.0, "regular", "The letterhead."), (900.0, 700.0, 10.0, "regular", "The margin.")]
    data = make_pdf([page], inherited=b"/MediaBox [0 0 1191 842]")
    assert parse_bytes(tmp_path, "a.pdf", data).text.split("\n\n") == ["The letterhead.", "The margin."]


def test_a_crop_box_beside_the_page_is_ignored(tmp_path: Path) -> None:
    data = make_pdf([prose_page("Opening", FIRST)], crop=b"/CropBox [700 800 900 990]")
    assert texts(parse_bytes(tmp_path, "a.pdf", data))[0] == "Opening"


def test_a_thai_vowel_stays_with_its_letter(tmp_path: Path) -> None:
    data = placed_pdf([(72, 700, "จ ำนวน และ ค ำแปล")])
    assert texts(parse_bytes(tmp_path, "a.pdf", data)) == ["จำนวน และ คำแปล"]


@pytest.mark.parametrize("title", ["(anonymous)", "untitled", "Microsoft Word - fees.docx"])
def test_a_title_filled_in_by_a_program_is_ignored(tmp_path: Path, title: str) -> None:
    data = make_pdf([prose_page("Fees of the harbour", FIRST)])
    data = data.replace(
        b"/Root 1 0 R",
        b"/Root 1 0 R /Info << /Title (%s) >>" % title.encode().replace(b"(", b"\\(").replace(b")", b"\\)"),
    )
    assert parse_bytes(tmp_path, "a.pdf", data).title == "Fees of the harbour"


def test_rows_of_numbers_keep_their_lines(tmp_path: Path) -> None:
    page = [(72.0, 700.0 - 12 * n, 10.0, "regular", f"Item {n} 1{n} 2{n} 3{n}") for n in range(4)]
    (text,) = texts(parse_bytes(tmp_path, "a.pdf", make_pdf([page])))
    assert text.split("\n") == [f"Item {n} 1{n} 2{n} 3{n}" for n in range(4)]


def test_cells_beside_each_other_are_one_line(tmp_path: Path) -> None:
    page = [
        (72.0, 700.0, 10.0, "regular", "Revenue"),
        (140.0, 700.0, 10.0, "regular", "8,890"),
        (200.0, 703.0, 7.0, "regular", "(1)"),
    ]
    assert texts(parse_bytes(tmp_path, "a.pdf", make_pdf([page]))) == ["Revenue 8,890 (1)"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"%PDF-1.7\n", IngestCode.CORRUPT),
        (b"%PDF-1.7\nnonsense\n%%EOF\n", IngestCode.CORRUPT),
        (make_pdf([prose_page("Title", FIRST)])[:-200], IngestCode.CORRUPT),
        (make_pdf([[]]), IngestCode.NO_TEXT),
    ],
    ids=["header only", "nonsense", "truncated", "no text"],
)
def test_files_that_cannot_be_read(tmp_path: Path, data: bytes, code: IngestCode) -> None:
    with pytest.raises(IngestError) as caught:
        parse_bytes(tmp_path, "a.pdf", data)
    assert caught.value.code is code


def test_too_many_pages_are_refused(tmp_path: Path) -> None:
    data = make_pdf([prose_page("Page", FIRST)] * 3)
    with pytest.raises(IngestError) as caught:
        parse_bytes(tmp_path, "a.pdf", data, limits=ParseLimits(max_pages=2))
    assert caught.value.code is IngestCode.TOO_LARGE


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 0.95])
def test_no_part_of_a_file_passes_for_the_whole(tmp_path: Path, share: float) -> None:
    data = make_pdf([prose_page("Page", FIRST)] * 5)
    with pytest.raises(IngestError) as caught:
        parse_bytes(tmp_path, "a.pdf", data[: int(len(data) * share)])
    assert caught.value.code is IngestCode.CORRUPT
