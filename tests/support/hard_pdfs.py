"""PDFs that need more than the reader's own script: unusual fonts and placing of text, images in rare formats."""

from __future__ import annotations

import io
import struct
import unicodedata
from collections.abc import Sequence

from PIL import Image, ImageDraw

from ingest_files import assemble_pdf

_WIDTH, _HEIGHT = 200, 100


def east_asian_pdf(text: str) -> bytes:
    """A page of Japanese whose font isn't embedded, in Windows's encoding: readers need a table of its characters."""
    shown = text.encode("cp932").hex().encode()
    content = b"BT /F1 18 Tf 72 700 Td <%s> Tj ET" % shown
    return assemble_pdf([
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type0 /BaseFont /Ryumin-Light /Encoding /90ms-RKSJ-H /DescendantFonts [6 0 R] >>",
        b"<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Ryumin-Light /FontDescriptor 7 0 R"
        b" /CIDSystemInfo << /Registry (Adobe) /Ordering (Japan1) /Supplement 2 >> /DW 1000 >>",
        b"<< /Type /FontDescriptor /FontName /Ryumin-Light /Flags 4 /FontBBox [0 -200 1000 900] /ItalicAngle 0"
        b" /Ascent 800 /Descent -200 /CapHeight 700 /StemV 80 >>",
    ])  # fmt: skip


def placed_pdf(runs: Sequence[tuple[float, float, str]], *, is_leftwards: bool = False) -> bytes:
    """A page of runs of characters, each at its x and y: in 12 points, and all characters 6 points wide.

    Args:
        runs: The runs in the order of the content; the characters of each are placed from left to right.
        is_leftwards: Whether runs of Arabic and Hebrew begin with the last character, from which each moves to the one
            on its left, as macOS writes them.
    """
    codes = {char: code for code, char in enumerate(dict.fromkeys("".join(text for _, _, text in runs)), start=33)}
    shown: list[bytes] = []
    for x, y, text in runs:
        turn = is_leftwards and any(unicodedata.bidirectional(char) in {"R", "AL"} for char in text)
        glyphs = [b"<%02x>" % codes[char] for char in (text[::-1] if turn else text)]
        start = x + 6 * (len(text) - 1) if turn else x
        shown.append(b"BT /F1 12 Tf %f %f Td [%s] TJ ET" % (start, y, (b" 1000 " if turn else b" ").join(glyphs)))
    content = b"\n".join(shown)
    names = b" ".join(b"/g%d" % code for code in codes.values())
    procedures = b" ".join(b"/g%d 6 0 R" % code for code in codes.values())
    glyph = b"500 0 0 0 500 700 d1 0 0 500 700 re f"
    last = 32 + len(codes)
    pairs = b"\n".join(b"<%02x> <%s>" % (code, char.encode("utf-16-be").hex().encode()) for char, code in codes.items())
    mapping = (
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /A def /CMapType 2 def"
        b" 1 begincodespacerange <00> <ff> endcodespacerange %d beginbfchar\n%s\nendbfchar endcmap end end"
        % (len(codes), pairs)
    )
    return assemble_pdf([
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type3 /FontBBox [0 0 500 700] /FontMatrix [.001 0 0 .001 0 0] /FirstChar 33"
        b" /LastChar %d /Widths [%s] /Encoding << /Type /Encoding /Differences [33 %s] >> /CharProcs << %s >>"
        b" /ToUnicode 7 0 R >>" % (last, b"500 " * len(codes), names, procedures),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(glyph), glyph),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(mapping), mapping),
    ])  # fmt: skip


def picture_pdf(picture_filter: str, text: str) -> bytes:
    """A page with a line of text and characters of the font Symbol, over a picture in `JPXDecode` or `JBIG2Decode`.

    The picture is black in the left half of the page's lower part, and white in the right half.
    """
    data, bits = (_jpeg_2000(), 8) if picture_filter == "JPXDecode" else (_jbig2(), 1)
    content = (
        b"q 612 0 0 306 0 0 cm /I1 Do Q BT /F1 12 Tf 72 700 Td (%s) Tj ET BT /F2 40 Tf 72 600 Td (abc) Tj ET"
        % text.encode("ascii")
    )
    return assemble_pdf([
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources"
        b" << /Font << /F1 5 0 R /F2 6 0 R >> /XObject << /I1 7 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Symbol >>",
        b"<< /Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent %d"
        b" /Filter /%s /Length %d >>\nstream\n%s\nendstream"
        % (_WIDTH, _HEIGHT, bits, picture_filter.encode(), len(data), data),
    ])  # fmt: skip


def _halves(mode: str, black: int, white: int) -> Image.Image:
    picture = Image.new(mode, (_WIDTH, _HEIGHT), white)
    ImageDraw.Draw(picture).rectangle((0, 0, _WIDTH // 2 - 1, _HEIGHT), fill=black)
    return picture


def _jpeg_2000() -> bytes:
    data = io.BytesIO()
    _halves("L", 0, 255).save(data, "JPEG2000", no_jp2=False)
    return data.getvalue()


def _jbig2() -> bytes:
    """A page with one generic region in MMR, which is Group 4 of fax machines (ISO/IEC 14492, 7.4.6)."""
    tiff = io.BytesIO()
    _halves("1", 1, 0).save(tiff, "TIFF", compression="group4")  # in a fax, black is 1
    with Image.open(tiff) as image:
        offset, length = image.tag_v2[273][0], image.tag_v2[279][0]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType] # TIFF's own
    fax = tiff.getvalue()[offset : offset + length]
    page = struct.pack(">IIIIBH", _WIDTH, _HEIGHT, 0, 0, 0, 0)
    region = struct.pack(">IIIIBB", _WIDTH, _HEIGHT, 0, 0, 0, 1) + fax
    return b"".join(
        struct.pack(">IBBBI", number, kind, 0, 1, len(body)) + body
        for number, (kind, body) in enumerate([(48, page), (38, region)])
    )


def form_pdf(fields: list[tuple[str, str]]) -> bytes:
    """A page with a form: the labels are its text, and the values beside them are only in the fields."""
    objects: list[bytes] = []
    labels: list[bytes] = []
    first = 6
    for number, (label, value) in enumerate(fields):
        bottom = 720 - 20 * number
        labels.append(b"BT /F1 12 Tf 72 %d Td (%s) Tj ET" % (bottom, label.encode()))
        shown = b"/Tx BMC q BT /F1 12 Tf 2 3 Td (%s) Tj ET Q EMC" % value.encode()
        objects += [
            b"<< /Type /Annot /Subtype /Widget /FT /Tx /T (field%d) /V (%s) /F 4 /Rect [250 %d 450 %d] /P 3 0 R"
            b" /DA (/F1 12 Tf 0 g) /AP << /N %d 0 R >> >>"
            % (number, value.encode(), bottom - 3, bottom + 15, first + 2 * number + 1),
            b"<< /Type /XObject /Subtype /Form /BBox [0 0 200 18] /Resources << /Font << /F1 5 0 R >> >>"
            b" /Length %d >>\nstream\n%s\nendstream" % (len(shown), shown),
        ]
    content = b"\n".join(labels)
    references = b" ".join(b"%d 0 R" % (first + 2 * number) for number in range(len(fields)))
    return assemble_pdf([
        b"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [%s] /DR << /Font << /F1 5 0 R >> >> >> >>" % references,
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Annots [%s]"
        b" /Resources << /Font << /F1 5 0 R >> >> >>" % references,
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        *objects,
    ])  # fmt: skip
