"""Presentations: slides with their titles, text, tables and notes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from pptx import Presentation
from pptx.shapes.autoshape import Shape
from pptx.util import Inches

from citewire_retriever.ingest.document import BlockKind, Format, ParsedDocument
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers import parse
from zip_packages import package, pptx

Line = tuple[int, str, str]
"""(slide, section, text)"""


def lines(document: ParsedDocument) -> list[Line]:
    """Every block except headings, with the last heading as its section."""
    assert document.format is Format.SLIDES
    heading, results = "", list[Line]()
    for block in document.blocks:
        if block.kind is BlockKind.HEADING:
            heading = block.label
        else:
            results.append((block.place.slide, heading, document.text[block.start : block.end]))
    return results


def made_presentation() -> bytes:
    """A presentation by python-pptx: a title, text in boxes and groups, a table, notes, and an untitled slide."""
    presentation = Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    assert slide.shapes.title is not None
    slide.shapes.title.text = "Revenue"
    body = slide.placeholders[1]
    body.text_frame.text = "It grew."  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] # the library's types don't know that a placeholder has one
    table = slide.shapes.add_table(3, 2, Inches(1), Inches(1), Inches(4), Inches(2)).table
    for row, values in enumerate([("Year", "Euros"), ("2024", "5"), ("2025", "7")]):
        for column, value in enumerate(values):
            table.cell(row, column).text = value
    notes = slide.notes_slide.notes_text_frame
    assert notes is not None
    notes.text = "Say it slowly."
    second = presentation.slides.add_slide(presentation.slide_layouts[6])
    group = second.shapes.add_group_shape()
    box = group.shapes.add_textbox(Inches(1), Inches(1), Inches(1), Inches(1))
    box.text_frame.text = "In a group"
    data = io.BytesIO()
    presentation.save(data)
    return data.getvalue()


def test_another_librarys_presentation_is_read_by_slide() -> None:
    document = parse(made_presentation(), "a.pptx")
    assert lines(document) == [
        (1, "Revenue", "It grew."),
        (1, "Revenue", "Year: 2024\nEuros: 5"),
        (1, "Revenue", "Year: 2025\nEuros: 7"),
        (1, "Revenue", "Say it slowly."),
        (2, "Slide 2", "In a group"),
    ]
    assert document.title == "Revenue"


def test_bullets_merged_cells_and_layout_elements() -> None:
    def item(text: str, bullet: str) -> str:
        return f"<p><pPr><{bullet}/></pPr><r><t>{text}</t></r></p>"

    def cell(text: str, attributes: str = "") -> str:
        return f"<tc {attributes}><p><r><t>{text}</t></r></p></tc>"

    slide = (
        f"<sp><ph type='ftr'/>{item('Footer', 'buNone')}</sp><sp><ph type='sldNum'/>{item('7', 'buNone')}</sp>"
        f"<sp>{item('a', 'buAutoNum')}{item('b', 'buAutoNum')}{item('c', 'buChar')}<p><r><t>x</t></r><br/>"
        "<fld><t>y</t></fld></p></sp><AlternateContent><Choice><sp><p><r><t>new</t></r></p></sp></Choice>"
        "<Fallback><sp><p><r><t>old</t></r></p></sp></Fallback></AlternateContent>"
        f"<graphicFrame><tbl><tblPr firstRow='1'/><tr>{cell('A', 'gridSpan=&quot;2&quot;'.replace('&quot;', chr(34)))}"
        f"<tc hMerge='1'/></tr><tr>{cell('1')}{cell('2')}</tr><tr><tc vMerge='1'/>{cell('3')}</tr></tbl></graphicFrame>"
    )
    texts = [text for _, _, text in lines(parse(pptx(slide), "a.pptx"))]
    assert texts[:5] == ["1. a", "2. b", "- c", "x\ny", "new"]
    assert "Footer" not in "".join(texts)
    assert texts[-2:] == ["1 | 2", "1 | 3"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (package({"ppt/other.xml": ""}), IngestCode.CORRUPT),
        (pptx("<sp>")[:-80], IngestCode.CORRUPT),
        (pptx("<sp>"), IngestCode.CORRUPT),
        (pptx(), IngestCode.EMPTY),
    ],
    ids=["no presentation", "cut off", "broken", "no slide"],
)
def test_broken_presentations_end_in_a_clear_error(data: bytes, code: IngestCode) -> None:
    with pytest.raises(IngestError) as caught:
        parse(data, "a.pptx")
    assert caught.value.code is code


def test_a_real_presentation_reads_as_another_library_reads_it(shared_data: Path) -> None:
    path = shared_data / "documents" / "pptx" / "powerpoint_sample.pptx"
    document = parse(path.read_bytes(), path.name)
    for number, slide in enumerate(Presentation(str(path)).slides, 1):
        ours = "\n".join(
            document.text[block.start : block.end] for block in document.blocks if block.place.slide == number
        )
        for shape in slide.shapes:
            for paragraph in shape.text_frame.paragraphs if isinstance(shape, Shape) else ():
                assert paragraph.text.strip() in ours
