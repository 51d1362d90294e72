"""Office documents made part by part."""

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
        for name in sorted(parts, key=lambda each: each != stored):
            archive.writestr(name, parts[name], ZIP_STORED if name == stored else ZIP_DEFLATED)
    return data.getvalue()


def relations(targets: Mapping[str, tuple[str, str]]) -> str:
    """A part of relations: the last word of the type, and the target, by id."""
    each = "".join(f'<Relationship Id="{i}" Type="{R}/{kind}" Target="{to}"/>' for i, (kind, to) in targets.items())
    return f'<Relationships xmlns="{_RELATIONS}">{each}</Relationships>'


def docx(body: str, **parts: str) -> bytes:
    """A Word document: what is in its body, and other parts of `word/` by name (`styles`, `numbering`, …)."""
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


def pptx(*slides: str) -> bytes:
    """A presentation: what is in each slide."""
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
    """A workbook of one sheet: its rows, shared texts, and what stands behind the rows."""
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
