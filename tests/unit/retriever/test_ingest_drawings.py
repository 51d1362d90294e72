"""Texts in drawings on the sheets of a workbook."""

from __future__ import annotations

import io
from zipfile import ZipFile

from citewire_retriever.ingest.parsers import parse
from ingest_files import check_document, texts
from zip_packages import package, relations, xlsx


def test_text_boxes_follow_the_rows_of_their_sheet() -> None:
    def anchor(text: str, corner: str = "", *, shape: str = "", name: str = "") -> str:
        return (
            f"<d><twoCellAnchor>{corner}<sp {shape}><cNvPr {name}/><txBody><p><r><t>{text}</t></r></p><p/>"
            "<p><r><t>more</t></r></p></txBody></sp></twoCellAnchor></d>"
        )

    boxes = (
        anchor("Read this first", "<from><col>3</col><row>1</row></from>")
        + anchor("Elsewhere")
        + anchor("copy of a cell", shape='textlink="$A$1"')
        + anchor("button", name='hidden="1"')
        + f"<Fallback>{anchor('again')[3:-4]}</Fallback>"
    )
    rows = '<row r="1"><c r="A1" t="str"><v>Name</v></c></row>'
    for body, above in ((rows, ["Name"]), ("", [])):
        with ZipFile(io.BytesIO(xlsx(body))) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        document = parse(
            package(
                {
                    **parts,
                    "xl/worksheets/_rels/sheet1.xml.rels": relations({"r1": ("drawing", "../drawings/drawing1.xml")}),
                    "xl/drawings/drawing1.xml": f"<wsDr>{boxes}</wsDr>",
                }
            ),
            "a.xlsx",
        )
        check_document(document)
        assert texts(document) == ["S", *above, "Read this first\nmore", "Elsewhere\nmore"]
        assert [(block.place.sheet, block.place.cell_range, block.place.row) for block in document.blocks[-2:]] == [
            ("S", "D2", 2),
            ("S", "", 0),
        ]
