"""Office documents and archives, built part by part."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

if TYPE_CHECKING:
    from collections.abc import Mapping

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"


def package(parts: Mapping[str, str | bytes], *, stored: str = "") -> bytes:
    """A ZIP archive of parts; one of them, which comes first, isn't compressed."""
    data = io.BytesIO()
    with ZipFile(data, "w", ZIP_DEFLATED) as archive:
        for name in sorted(parts, key=lambda name: name != stored):
            archive.writestr(name, parts[name], ZIP_STORED if name == stored else ZIP_DEFLATED)
    return data.getvalue()


def tar_entry(name: str, content: bytes, kind: bytes = b"0", *, size: int | None = None) -> bytes:
    """A header of a TAR archive with its content; `size` is the size in the header, if it is wrong."""
    length = len(content) if size is None else size
    head = name.encode()[:100].ljust(100, b"\0") + b"0000644\0" * 3 + b"%011o\0" % length + b"0" * 11 + b"\0"
    rest = kind + bytes(100) + b"ustar\x0000" + bytes(247)
    checksum = sum(head) + sum(rest) + 8 * 32
    return head + b"%06o\0 " % checksum + rest + content + bytes(-len(content) % 512)


def relations(targets: Mapping[str, tuple[str, str]]) -> str:
    """A relationships part: the last word of the type, and the target, by id."""
    entries = "".join(f'<Relationship Id="{i}" Type="{R}/{kind}" Target="{to}"/>' for i, (kind, to) in targets.items())
    return f'<Relationships xmlns="{_RELATIONS}">{entries}</Relationships>'


def docx(body: str, **parts: str) -> bytes:
    """A Word document: the content of its body, and other parts of `word/` by name (`styles`, `numbering`, …)."""
    targets = {f"r{name}": (name, f"{name}.xml") for name in parts}
    return package(
        {
            "[Content_Types].xml": "<Types/>",
            "_rels/.rels": relations({"r": ("officeDocument", "word/document.xml")}),
            "word/document.xml": f'<w:document xmlns:w="{W}" xmlns:r="{R}"><w:body>{body}</w:body></w:document>',
            "word/_rels/document.xml.rels": relations(targets),
            **{f"word/{name}.xml": f'<w:{name} xmlns:w="{W}">{text}</w:{name}>' for name, text in parts.items()},
        }
    )


def paragraph(text: str, properties: str = "") -> str:
    """A paragraph of a Word document."""
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


_ODF_NAMES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for name in ("office", "text", "table", "draw", "presentation", "style")
)


def odf(kind: str, body: str, *, styles: str = "", title: str = "") -> bytes:
    """An OpenDocument file of a kind (`text`, `spreadsheet`, `presentation`): its body's content, and its styles."""
    return package(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content {_ODF_NAMES}><office:automatic-styles>{styles}"
            f"</office:automatic-styles><office:body><office:{kind}>{body}</office:{kind}></office:body>"
            "</office:document-content>",
            "meta.xml": f"<meta><title>{title}</title></meta>",
        },
        stored="mimetype",
    )


def epub(chapters: Mapping[str, str], *, contents: str = "", more: Mapping[str, str] | None = None) -> bytes:
    """An e-book: chapters by name in reading order, a table of contents of version 3, and other parts."""
    items = "".join(
        f'<item id="i{index}" href="text/{name}" media-type="application/xhtml+xml"/>'
        for index, name in enumerate(chapters)
    )
    spine = "".join(f'<itemref idref="i{index}"/>' for index in range(len(chapters)))
    nav = '<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>' if contents else ""
    return package(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="o/c.opf"/></rootfiles></container>',
            "o/c.opf": f'<package xmlns:dc="d"><metadata><dc:title>A book</dc:title></metadata><manifest>{items}{nav}'
            f'</manifest><spine><itemref idref="nav"/>{spine}</spine></package>',
            "o/nav.xhtml": f"<html><body><nav>{contents}</nav></body></html>",
            **{f"o/text/{name}": text for name, text in chapters.items()},
            **(more or {}),
        },
        stored="mimetype",
    )


def pptx(*slides: str) -> bytes:
    """A presentation: the content of each slide."""
    ids = "".join(f'<sldId r:id="r{number}"/>' for number in range(len(slides)))
    return package(
        {
            "_rels/.rels": relations({"r": ("officeDocument", "ppt/presentation.xml")}),
            "ppt/presentation.xml": f'<presentation xmlns:r="{R}"><sldIdLst>{ids}</sldIdLst></presentation>',
            "ppt/_rels/presentation.xml.rels": relations(
                {f"r{number}": ("slide", f"slides/slide{number}.xml") for number in range(len(slides))}
            ),
            **{f"ppt/slides/slide{number}.xml": f"<sld>{slide}</sld>" for number, slide in enumerate(slides)},
        }
    )


def xlsx(rows: str, *, shared: str = "", behind: str = "") -> bytes:
    """A workbook with one sheet: its rows, shared texts, and the content after the rows."""
    return package(
        {
            "_rels/.rels": relations({"r": ("officeDocument", "xl/workbook.xml")}),
            "xl/workbook.xml": f'<workbook xmlns:r="{R}"><sheets><sheet name="S" r:id="r1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": relations(
                {"r1": ("worksheet", "worksheets/sheet1.xml"), "r2": ("sharedStrings", "sharedStrings.xml")}
            ),
            "xl/worksheets/sheet1.xml": f"<worksheet><sheetData>{rows}</sheetData>{behind}</worksheet>",
            "xl/sharedStrings.xml": f"<sst>{shared}</sst>",
        }
    )
