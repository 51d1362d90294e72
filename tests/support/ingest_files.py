"""Small files of every format for tests of ingest, and checks that hold for every parsed document."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from citewire_retriever.ingest.document import Block, BlockKind, ParsedDocument, ParseLimits
from citewire_retriever.ingest.parsers import parse

LIMITS = ParseLimits()
_WORD = re.compile(r"\w+")
_ESCAPES = str.maketrans({char: f"\\{char}" for char in "()\\"})

Placed = tuple[float, float, float, str, str]
"""A text on a page: x, y, size, font (`regular` or `bold`), text."""


def words(text: str) -> set[str]:
    """The words of a text."""
    return set(_WORD.findall(text))


def text_of(document: ParsedDocument, block: Block) -> str:
    """The text of a block."""
    return document.text[block.start : block.end] if block.text is None else block.text


def by_part(document: ParsedDocument) -> dict[str, list[str]]:
    """Texts without headings, by the part that they are in."""
    parts: dict[str, list[str]] = {}
    for block in document.blocks:
        if block.kind is not BlockKind.HEADING:
            parts.setdefault(block.place.part, []).append(text_of(document, block))
    return parts


def texts(document: ParsedDocument, kind: BlockKind | None = None) -> list[str]:
    """The texts of the blocks (of a kind), in order."""
    return [text_of(document, block) for block in document.blocks if kind in {None, block.kind}]


def all_blocks(blocks: tuple[Block, ...]) -> Iterator[Block]:
    """Blocks and their children."""
    for block in blocks:
        yield block
        yield from all_blocks(block.children)


def check_document(document: ParsedDocument) -> None:
    """Checks that spans are in order and within the text, lines match the spans, and everything can be stored."""
    position = 0
    for block in document.blocks:
        assert position <= block.start < block.end <= len(document.text), block
        position = block.end
        last = block.start
        for child in block.children:
            assert last <= child.start < child.end <= block.end, (block, child)
            last = child.end
    for block in all_blocks(document.blocks):
        assert text_of(document, block).strip(), block
        if document.has_lines:
            first = document.text.count("\n", 0, block.start) + 1
            assert block.place.HasField("start_line")
            assert block.place.HasField("end_line")
            assert first <= block.place.start_line <= block.place.end_line, block
        inside = block.place.part  # its pages aren't the file's
        assert not block.place.HasField("page") or inside or 1 <= block.place.page <= (document.pages or 0)
    assert "\0" not in document.text
    document.text.encode("utf-8")


def parse_bytes(folder: Path, name: str, data: str | bytes, *, limits: ParseLimits = LIMITS) -> ParsedDocument:
    """Parses a file of this name and content, and checks the result."""
    path = folder / "file"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    document = parse(path.read_bytes(), name, "", limits)
    check_document(document)
    return document


_TURNS = {
    0: (b"/MediaBox [0 0 612 792]", b""),
    90: (b"/Rotate 90 /MediaBox [0 0 792 612]", b"0 1 -1 0 792 0 cm "),
    180: (b"/Rotate 180 /MediaBox [0 0 612 792]", b"-1 0 0 -1 612 792 cm "),
    270: (b"/Rotate 270 /MediaBox [0 0 792 612]", b"0 -1 1 0 0 612 cm "),
}
"""By rotation: a page that is still shown upright, and the rotation of its text."""


def make_pdf(
    pages: list[list[Placed]],
    *,
    outline: Sequence[tuple[str, int]] = (),
    rotation: int = 0,
    crop: bytes = b"",
    inherited: bytes = b"",
    scale: float = 1,
) -> bytes:
    """A PDF of text.

    Args:
        pages: For each page its texts, as (x, y, size, font, text); font is `regular`, `bold` or `mincho` (Japanese).
        outline: Entries as (title, index of the page).
        rotation: How readers turn the pages; their text is turned the other way.
        crop: A crop box of the pages, as the page is stored; empty: none.
        inherited: A media box that they inherit instead of having their own.
        scale: A factor for places and sizes, as of writers that count in units this much smaller.
    """
    fonts = {"regular": "/F1", "bold": "/F2", "mincho": "/F3"}
    objects: list[bytes] = [b"", b""]  # catalogue and pages are filled in below

    def add(body: bytes) -> int:
        objects.append(body)
        return len(objects)

    regular = add(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    bold = add(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >>")
    mincho = add(
        b"<< /Type /Font /Subtype /Type0 /BaseFont /HeiseiMin-W3 /Encoding /UniJIS-UCS2-H"
        b" /DescendantFonts [<< /Type /Font /Subtype /CIDFontType0 /BaseFont /HeiseiMin-W3 /CIDSystemInfo"
        b" << /Registry (Adobe) /Ordering (Japan1) /Supplement 2 >> >>] >>"
    )
    kids: list[int] = []
    media, turn = (b"", b"") if inherited else _TURNS[rotation]
    for page in pages:
        shown = [
            f"BT {fonts[font]} {size / scale} Tf {x / scale} {y / scale} Td {_string(text, font)} Tj ET"
            for x, y, size, font, text in page
        ]
        scaled = f"{scale} 0 0 {scale} 0 0 cm\n".encode() if scale != 1 else b""
        stream = turn + scaled + "\n".join(shown).encode("cp1252")
        content = add(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        kids.append(
            add(
                b"<< /Type /Page /Parent 2 0 R %s %s /Contents %d 0 R"
                b" /Resources << /Font << /F1 %d 0 R /F2 %d 0 R /F3 %d 0 R >> >> >>"
                % (media, crop, content, regular, bold, mincho)
            )
        )
    catalogue = b"<< /Type /Catalog /Pages 2 0 R"
    if outline:
        root = len(objects) + 1
        first = root + 1
        add(b"<< /Type /Outlines /First %d 0 R /Last %d 0 R /Count %d >>" % (first, root + len(outline), len(outline)))
        for index, (title, page) in enumerate(outline):
            links = (b" /Prev %d 0 R" % (first + index - 1)) if index else b""
            links += (b" /Next %d 0 R" % (first + index + 1)) if index < len(outline) - 1 else b""
            add(b"<< /Title (%s) /Parent %d 0 R /Dest [%d 0 R /Fit]%s >>" % (title.encode(), root, kids[page], links))
        catalogue += b" /Outlines %d 0 R" % root
    objects[0] = catalogue + b" >>"
    references = b" ".join(b"%d 0 R" % kid for kid in kids)
    objects[1] = b"<< /Type /Pages %s /Kids [%s] /Count %d >>" % (inherited, references, len(kids))
    return assemble_pdf(objects)


def _string(text: str, font: str) -> str:
    return f"<{text.encode('utf-16-be').hex()}>" if font == "mincho" else f"({text.translate(_ESCAPES)})"


def assemble_pdf(objects: list[bytes]) -> bytes:
    """A PDF of these objects, numbered from 1; the first is its catalogue."""
    data = b"%PDF-1.7\n"
    places: list[int] = []
    for number, body in enumerate(objects, start=1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    data += b"".join(b"%010d 00000 n \n" % place for place in places)
    return data + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)


def prose_page(title: str, paragraphs: list[list[str]], *, size: float = 10) -> list[Placed]:
    """A page with a large heading and paragraphs of lines."""
    lines: list[Placed] = [(72, 720, size * 1.6, "bold", title)]
    y = 690.0
    for paragraph in paragraphs:
        for line in paragraph:
            lines.append((72, y, size, "regular", line))
            y -= size * 1.2
        y -= size * 1.2
    return lines
