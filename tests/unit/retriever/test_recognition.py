"""Text in pictures: recognised by Tesseract in confinement, with the page and the boxes of its lines."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from citewire.common.v1.place_pb2 import Place
from PIL import Image

from citewire_kit.errors import StartupError
from citewire_retriever.ingest.chunk_rows import chunk_columns
from citewire_retriever.ingest.chunker import chunk
from citewire_retriever.ingest.chunks import ChunkRules
from citewire_retriever.ingest.document import Block, BlockKind, Format, ParsedDocument, ParseLimits
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers import parse
from citewire_retriever.ingest.parsers.scans import find_scans
from citewire_retriever.ingest.recognition import DrawnPage, RecognisedPage, Recogniser, find_recogniser, merge
from citewire_retriever.ingest.sandbox import Sandbox, SandboxRules
from ingest_files import check_document, make_pdf, prose_page, text_of
from scanned_pages import LINES, as_image, joined, picture, scanned_pdf

RULES = SandboxRules(
    seconds=120,
    cpu_seconds=30,
    cpu_seconds_per_mib=10,
    memory_mib=2048,
    files=1000,
    limits=ParseLimits(),
    confinement="available",
)
TESSERACT = pytest.mark.system(program="tesseract", package="tesseract-ocr")


async def tesseract(languages: str = "eng", *, cpu_seconds: float = 60, most_pages: int = 10) -> Recogniser:
    recogniser = await find_recogniser("tesseract", languages, cpu_seconds=cpu_seconds, most_pages=most_pages)
    assert recogniser is not None
    return recogniser


async def read(
    folder: Path,
    name: str,
    data: bytes,
    recogniser: Recogniser | None,
    told: Callable[[int, int], Awaitable[None]] | None = None,
) -> ParsedDocument:
    path = folder / "file"
    path.write_bytes(data)
    async with Sandbox.open(replace(RULES, recogniser=recogniser), processes=1) as sandbox:
        document = await sandbox.parse(path, name, "", told=told)
    assert os.listdir(folder) == ["file"], "no pages may be left behind"  # noqa: PTH208 - pathlib's doesn't suit async
    check_document(document)
    return document


def test_a_page_whose_text_is_left_out_is_not_taken_for_a_picture() -> None:
    data = make_pdf([prose_page("One", [["Text."]]), prose_page("Two", [["Text."]])])
    document = parse(data, "a.pdf")

    assert find_scans(data, replace(document, blocks=())) == []


def says(document: ParsedDocument, page: int) -> str:
    return " ".join(text_of(document, block) for block in document.blocks if block.place.page == page)


@TESSERACT
async def test_a_scanned_pdf_is_read_page_by_page_with_its_lines(tmp_path: Path) -> None:
    data = scanned_pdf(picture("First"), Image.new("L", (2550, 3300), 255), picture("Third", LINES[2:]))
    progress: list[tuple[int, int]] = []

    async def note(pages: int, of: int) -> None:
        progress.append((pages, of))

    document = await read(tmp_path, "scan.pdf", data, await tesseract(), note)
    assert progress == [(0, 3), (0, 3), (1, 3), (2, 3)], "first over all pages, then over those that are pictures"
    assert (document.format, document.media_type, document.pages) == (Format.PDF, "application/pdf", 3)
    assert all(line in says(document, 1) for line in LINES)
    assert says(document, 2) == ""
    assert LINES[3] in says(document, 3)
    assert LINES[0] not in says(document, 3)
    (line,) = [
        child
        for block in document.blocks
        for child in block.children
        if child.place.page == 1 and document.text[child.start : child.end] == LINES[1]
    ]
    (box,) = line.place.boxes.boxes
    # The position of the second line of `prose_page`: 72 points from the left, on a page 792 points high.
    assert (line.place.boxes.width, line.place.boxes.height) == pytest.approx((612, 792), abs=0.5)
    assert box.left == pytest.approx(72, abs=2)
    assert 90 < box.top < box.bottom < 160
    assert box.bottom - box.top < 15


@TESSERACT
async def test_scanned_pages_among_others_keep_their_order(tmp_path: Path) -> None:
    def text(title: str) -> bytes:
        return make_pdf([prose_page(title, [[f"Words below {title.lower()}, as text and long enough."]])])

    stamped = make_pdf([[(500, 20, 8, "regular", "17")]])
    data = joined(text("One"), scanned_pdf(picture("Two")), text("Three"), stamped, scanned_pdf(picture("Five")))
    document = await read(tmp_path, "mixed.pdf", data, await tesseract())
    assert [block.place.page for block in document.blocks] == sorted(block.place.page for block in document.blocks)
    assert "as text and long enough" in says(document, 1)
    assert LINES[1] in says(document, 2)
    assert "below three" in says(document, 3)
    assert says(document, 4) == "17"
    assert LINES[0] in says(document, 5)
    before = parse(data, "mixed.pdf")
    assert {block.label for block in before.blocks} <= {block.label for block in document.blocks}


@TESSERACT
@pytest.mark.parametrize(
    ("name", "make", "media_type", "pages"),
    [
        ("a.png", lambda: as_image(picture("Title"), "PNG"), "image/png", 1),
        ("a.jpg", lambda: as_image(picture("Title"), "JPEG"), "image/jpeg", 1),
        ("a.webp", lambda: as_image(picture("Title"), "WEBP"), "image/webp", 1),
        ("a.tiff", lambda: as_image(picture("Title"), "TIFF", picture("Second", LINES[:1])), "image/tiff", 2),
        ("turned.png", lambda: as_image(picture("Title").transpose(Image.Transpose.ROTATE_90), "PNG"), "image/png", 1),
        ("renamed.txt", lambda: as_image(picture("Title").convert("1"), "PNG"), "image/png", 1),
        ("colour.png", lambda: as_image(picture("Title").convert("RGBA"), "PNG"), "image/png", 1),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else "",
)
async def test_images_are_read(
    tmp_path: Path, name: str, make: Callable[[], bytes], media_type: str, pages: int
) -> None:
    document = await read(tmp_path, name, make(), await tesseract())
    assert (document.format, document.media_type, document.pages) == (Format.IMAGE, media_type, pages)
    assert all(line in says(document, 1) for line in LINES)
    assert pages == 1 or LINES[0] in says(document, 2)


async def test_without_a_recogniser_the_error_says_how_to_install_one(tmp_path: Path) -> None:
    for name, data in (("a.pdf", scanned_pdf(picture("First"))), ("a.png", as_image(picture("First"), "PNG"))):
        with pytest.raises(IngestError, match="apt-get install tesseract-ocr") as caught:
            await read(tmp_path, name, data, None)
        assert caught.value.code is IngestCode.NO_TEXT
    assert await find_recogniser("no-such-program", "", cpu_seconds=1, most_pages=1) is None


@TESSERACT
async def test_languages_are_those_installed_or_configured() -> None:
    default = await tesseract("")
    assert "eng" in default.languages
    assert "osd" not in default.languages
    with pytest.raises(StartupError, match="lacks the languages tlh"):
        await tesseract("eng,tlh")


def png(width: int, height: int, data: bytes) -> bytes:
    def part(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(data)) + part(b"IEND", b"")


@TESSERACT
@pytest.mark.parametrize(
    ("name", "make", "code"),
    [
        ("huge.png", lambda: png(60_000, 60_000, b"\0" * 1000), IngestCode.TOO_LARGE),
        ("short.png", lambda: as_image(picture("Title"), "PNG")[:3000], IngestCode.NO_TEXT),
        ("head.jpg", lambda: b"\xff\xd8\xff\xe0 and no more", IngestCode.CORRUPT),
        ("white.png", lambda: as_image(Image.new("L", (800, 800), 255), "PNG"), IngestCode.NO_TEXT),
        ("tiny.png", lambda: as_image(Image.new("L", (1, 1), 0), "PNG"), IngestCode.NO_TEXT),
        ("white.pdf", lambda: make_pdf([[]]), IngestCode.NO_TEXT),
        (
            "many.tiff",
            lambda: as_image(Image.new("L", (8, 8)), "TIFF", *[Image.new("L", (8, 8))] * 10),
            IngestCode.TOO_LARGE,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else "",
)
async def test_a_picture_without_text_is_an_error_that_says_why(
    tmp_path: Path, name: str, make: Callable[[], bytes], code: IngestCode
) -> None:
    with pytest.raises(IngestError) as caught:
        await read(tmp_path, name, make(), await tesseract())
    assert caught.value.code is code
    assert caught.value.message.endswith(".")


@TESSERACT
async def test_a_page_that_takes_too_long_is_left_out(tmp_path: Path) -> None:
    noise = Image.effect_noise((3000, 3000), 200)
    data = joined(scanned_pdf(noise), make_pdf([prose_page("Two", [["Words that are text, and long enough."]])]))
    document = await read(tmp_path, "a.pdf", data, await tesseract(cpu_seconds=1))
    assert says(document, 1) == ""
    assert "Words that are text" in says(document, 2)


async def count(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def table(*rows: tuple[int, int, int, int, int, int, int, float, str]) -> bytes:
    """Tesseract's table of words: block, paragraph, line, left, top, width, height, confidence, text."""
    lines = ["5\t1\t" + "\t".join(map(str, row[:3])) + "\t1\t" + "\t".join(map(str, row[3:])) for row in rows]
    return "\n".join(["level\tpage_num", *lines, "nonsense", "5\t1\tx"]).encode()


def recognised_page(*rows: tuple[int, int, int, int, int, int, int, float, str], page: int = 1) -> RecognisedPage:
    head = json.dumps({"width": 100, "height": 200, "points": [50, 100]}).encode()
    drawn = DrawnPage.read(head + b"\n" + bytes(100 * 200))
    assert drawn is not None
    return RecognisedPage.read(page, drawn, table(*rows))


EMPTY = ParsedDocument(Format.PDF, "application/pdf", "", (), pages=2)


def test_words_are_joined_to_lines_and_paragraphs() -> None:
    page = recognised_page(
        (1, 1, 1, 10, 10, 20, 8, 95, "Travel"),
        (1, 1, 1, 40, 10, 20, 8, 95, "ex-"),
        (1, 1, 2, 10, 20, 30, 8, 91, "penses"),
        (1, 1, 2, 60, 20, 30, 8, 12, "~|;"),
        (1, 2, 1, 10, 40, 30, 8, 88, 'Quote" signs'),
        (2, 1, 1, 10, 60, 30, 8, 88, "E-"),
        (2, 1, 2, 10, 70, 30, 8, 88, "Mail"),
    )
    document = merge(EMPTY, [page], ParseLimits())
    check_document(document)
    assert [text_of(document, block) for block in document.blocks] == ["Travel expenses", 'Quote" signs', "E- Mail"]
    boxes = [child.place.boxes.boxes[0] for child in document.blocks[0].children]
    assert [(box.left, box.top, box.right, box.bottom) for box in boxes] == [(5, 5, 30, 9), (5, 10, 20, 14)]


def test_recognised_text_replaces_a_pages_little_text() -> None:
    blocks = (
        Block(BlockKind.PARAGRAPH, 0, 4, place=Place(page=1)),
        Block(BlockKind.PARAGRAPH, 6, 9, place=Place(page=2)),
    )
    document = replace(EMPTY, text="Page\n\n3/4", blocks=blocks)
    merged = merge(document, [recognised_page((1, 1, 1, 0, 0, 9, 9, 90, "Scan"), page=2)], ParseLimits())
    assert [(text_of(merged, block), block.place.page) for block in merged.blocks] == [("Page", 1), ("Scan", 2)]


def test_chunks_store_the_boxes_of_their_lines() -> None:
    page = recognised_page(*((1, 1, line, 10, 10 * line, 80, 8, 90.0, f"word{line} " * 9) for line in range(1, 9)))
    chunks = asyncio.run(chunk(merge(EMPTY, [page], ParseLimits()), "T", ChunkRules(max_tokens=64), count))
    stored = chunk_columns(chunks)["places"]
    lines = [part for places in stored for part in places.obj]
    assert len(lines) >= 8
    for _, place in lines:
        assert Place(**place).boxes.boxes[0].right == 45
    assert all(place.obj == {"page": 1} for place in chunk_columns(chunks)["place"])


@pytest.mark.parametrize(
    "answer", [b"{}\n", b"[]\n", b'{"width":9,"height":9,"points":[1,1]}\nshort', b'{"width":1e9,"height":1e9}\n']
)
def test_an_invalid_image_is_refused(answer: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        DrawnPage.read(answer)
