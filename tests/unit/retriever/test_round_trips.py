"""In office documents, another library finds the quote in the original at the quote's place.

Quotes are lines of chunks as they are cited. Other libraries: python-docx, python-pptx, openpyxl, xlrd, and Python's
own XML parser for the rest.
"""

from __future__ import annotations

import io
import re
import zipfile
from datetime import date, timedelta
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree as ET

import docx
import openpyxl
import pytest
import xlrd
import xlwt
from citewire.common.v1.place_pb2 import Place
from pptx import Presentation
from pptx.util import Inches

from citewire_retriever.ingest.chunks import Chunk
from round_trips import QUOTES, Taken, check, chunks_of, plain, sentence, text_of_section
from zip_packages import epub, odf


def made_docx() -> bytes:
    document = docx.Document()
    for number in range(80):
        if number % 10 == 0:
            document.add_heading(f"Chapter {number}", level=1 + number // 10 % 2)
        document.add_paragraph(sentence(number), style="List Number" if number % 7 == 0 else None)
    data = io.BytesIO()
    document.save(data)
    return data.getvalue()


def from_docx(data: bytes, chunk: Chunk) -> str:
    paragraphs: list[tuple[int, str]] = []
    for paragraph in docx.Document(io.BytesIO(data)).paragraphs:
        style = paragraph.style.name if paragraph.style is not None else ""
        level = int((style or "").removeprefix("Heading ")) if (style or "").startswith("Heading ") else 0
        paragraphs.append((level, paragraph.text))
    return text_of_section(paragraphs, chunk.section)


def made_pptx() -> bytes:
    presentation = Presentation()
    for number in range(30):
        slide: Any = presentation.slides.add_slide(presentation.slide_layouts[6])
        for line in range(3):
            box = slide.shapes.add_textbox(Inches(1), Inches(line), Inches(5), Inches(1))
            box.text_frame.text = sentence(100 * number + line)
    data = io.BytesIO()
    presentation.save(data)
    return data.getvalue()


def from_pptx(data: bytes, chunk: Chunk) -> str:
    slide: Any = Presentation(io.BytesIO(data)).slides[chunk.place.slide - 1]
    texts = [node.text or "" for node in slide.element.iter("{http://schemas.openxmlformats.org/drawingml/2006/main}t")]
    return "\n".join([f"Slide {chunk.place.slide}", *texts])  # an untitled slide is named by its number


def made_xlsx() -> bytes:
    book = openpyxl.Workbook()
    for name in ("Preise", "Größen & Maße"):
        sheet: Any = book.create_sheet(name)
        sheet.append(["Name", "Euros", "Share", "Since"])
        for row in range(40):
            sheet.append([sentence(row), row * 1234.5, row / 64, date(2024, 1, 1) + timedelta(days=row)])
            last = sheet.max_row
            sheet.cell(last, 2).number_format = "#,##0.00"
            sheet.cell(last, 3).number_format = "0.0%"
    data = io.BytesIO()
    book.save(data)
    return data.getvalue()


def from_xlsx(data: bytes, chunk: Chunk) -> str:
    sheet: Any = openpyxl.load_workbook(io.BytesIO(data), data_only=True)[chunk.place.sheet]
    if not chunk.place.cell_range:
        return str(sheet.title)
    cell_range = chunk.place.cell_range
    cells: list[Any] = list(sheet[cell_range][0]) if ":" in cell_range else [sheet[cell_range]]
    assert all(cell.row == chunk.place.row for cell in cells)
    shown: list[str] = []
    for cell in cells:
        value: Any = cell.value
        if hasattr(value, "strftime"):
            value = value.strftime("%Y-%m-%d")
        elif isinstance(value, float | int):
            forms = {"#,##0.00": f"{value:,.2f}", "0.0%": f"{100 * value + 1e-9:.1f}%"}
            value = forms.get(cell.number_format, f"{value:g}")
        heads = [sheet.cell(row, cell.column).value for row in range(1, cell.row)]
        shown += [f"{head}: {value}" for head in heads] + [str(value)]
    return "\n".join(shown)


def style(code: str) -> Any:  # noqa: ANN401 # xlwt has no types
    return cast("Any", xlwt).easyxf(num_format_str=code)


def made_xls() -> bytes:
    book: Any = xlwt.Workbook()
    for name in ("Preise", "Größen & Maße"):
        sheet = book.add_sheet(name)
        for column, head in enumerate(["Name", "Euros", "Share", "Since", "Whole"]):
            sheet.write(0, column, head)
        for row in range(40):
            sheet.write(row + 1, 0, sentence(row))
            sheet.write(row + 1, 1, row * 1234.5, style("#,##0.00"))
            sheet.write(row + 1, 2, row / 64, style("0.0%"))
            since = date(2024, 1, 1) + timedelta(days=row)
            sheet.write(row + 1, 3, since, style("YYYY-MM-DD"))
            sheet.write(row + 1, 4, row * 10**8)
    data = io.BytesIO()
    book.save(data)
    return data.getvalue()


def from_xls(data: bytes, chunk: Chunk) -> str:
    """Read with xlrd, which knows the numbers of formats."""
    book: Any = xlrd.open_workbook(file_contents=data, formatting_info=True)
    sheet = book.sheet_by_name(chunk.place.sheet)
    if not chunk.place.cell_range:
        return str(sheet.name)
    first, _, last = chunk.place.cell_range.partition(":")
    shown: list[str] = []
    for column in range(ord(first[0]) - ord("A"), ord((last or first)[0]) - ord("A") + 1):
        cell = sheet.cell(chunk.place.row - 1, column)
        code = book.format_map[book.xf_list[cell.xf_index].format_key].format_str
        value = cell.value
        if code == "YYYY-MM-DD":
            value = xlrd.xldate_as_datetime(value, book.datemode).strftime("%Y-%m-%d")
        elif isinstance(value, float):
            forms = {"#,##0.00": f"{value:,.2f}", "0.0%": f"{100 * value + 1e-9:.1f}%"}
            value = forms.get(code, f"{value:.15g}")
        shown += [f"{sheet.cell(0, column).value}: {value}", str(value)]
    return "\n".join(shown)


def made_odf(kind: str) -> bytes:
    def page(number: int) -> str:
        return f"<draw:page><draw:frame><text:p>{sentence(number)}</text:p></draw:frame></draw:page>"

    def row(number: int) -> str:
        cells = "".join(
            f"<table:table-cell><text:p>{text}</text:p></table:table-cell>" for text in sentence(number).split()
        )
        return f"<table:table-row>{cells}</table:table-row>"

    if kind == "presentation":
        return odf(kind, "".join(page(number) for number in range(60)))
    if kind == "spreadsheet":
        return odf(kind, f'<table:table table:name="S">{"".join(row(number) for number in range(60))}</table:table>')
    body = "".join(
        (f'<text:h text:outline-level="{1 + number % 2}">Head {number}</text:h>' if number % 5 == 0 else "")
        + f"<text:p>{sentence(number)}</text:p>"
        for number in range(70)
    )
    return odf(kind, body)


def from_odf(data: bytes, chunk: Chunk) -> str:
    root = ET.fromstring(zipfile.ZipFile(io.BytesIO(data)).read("content.xml"))  # noqa: S314 - made by this test
    place = chunk.place
    if place.HasField("slide"):
        slide = next(node for number, node in enumerate(root.iter(_odf("draw", "page")), 1) if number == place.slide)
        return "\n".join([f"Slide {place.slide}", *slide.itertext()])
    if place.HasField("sheet"):
        rows = list(root.iter(_odf("table", "table-row")))
        return "\n".join(
            [
                "S",
                *(
                    f"{head}: {text}"
                    for head, text in zip(rows[0].itertext(), rows[max(place.row, 1) - 1].itertext(), strict=True)
                ),
            ]
        )
    lines = [node for node in root.iter() if node.tag in {_odf("text", "h"), _odf("text", "p")}]
    levels = [int(node.get(_odf("text", "outline-level")) or 0) for node in lines]
    return text_of_section(
        [(level, "".join(node.itertext())) for level, node in zip(levels, lines, strict=True)], chunk.section
    )


def _odf(prefix: str, name: str) -> str:
    return f"{{urn:oasis:names:tc:opendocument:xmlns:{prefix}:1.0}}{name}"


def made_epub() -> bytes:
    return epub(
        {
            f"c{number}.xhtml": f"<html><body><h1>Chapter {number}</h1>"
            + "".join(f"<p>{sentence(10 * number + line)}</p>" for line in range(6))
            + "</body></html>"
            for number in range(12)
        }
    )


def from_epub(data: bytes, chunk: Chunk) -> str:
    archive = zipfile.ZipFile(io.BytesIO(data))
    for name in archive.namelist():
        if name.startswith("o/text/"):
            root = ET.fromstring(archive.read(name))  # noqa: S314 - made by this test
            if root.findtext("body/h1") == chunk.section:
                return "\n".join(root.itertext())
    return ""


def made_rtf() -> bytes:
    def coded(text: str) -> str:
        return "".join(char if char.isascii() else f"\\u{ord(char)}?" for char in text)

    return f"{{\\rtf1\\ansi {''.join(coded(sentence(number)) + chr(92) + 'par ' for number in range(60))}}}".encode()


def from_rtf(data: bytes, _: Chunk) -> str:
    """The words of a document as simple as `made_rtf`: it has only two control words, and characters by number."""
    text = data.decode().removeprefix("{\\rtf1\\ansi ").removesuffix("}").replace("\\par ", "\n")
    return re.sub(r"\\u(\d+)\?", lambda match: chr(int(match.group(1))), text)


MADE: dict[str, tuple[bytes, Taken]] = {
    "a.docx": (made_docx(), from_docx),
    "a.pptx": (made_pptx(), from_pptx),
    "a.xlsx": (made_xlsx(), from_xlsx),
    "a.xls": (made_xls(), from_xls),
    "a.odt": (made_odf("text"), from_odf),
    "a.ods": (made_odf("spreadsheet"), from_odf),
    "a.odp": (made_odf("presentation"), from_odf),
    "a.epub": (made_epub(), from_epub),
    "a.rtf": (made_rtf(), from_rtf),
}


@pytest.mark.parametrize("name", MADE)
def test_each_quote_is_at_its_place_in_the_original(name: str) -> None:
    data, taken = MADE[name]
    assert check(data, name, taken) >= QUOTES


def test_quotes_of_a_real_workbook_are_in_their_cells(shared_data: Path) -> None:
    data = (shared_data / "documents" / "xlsx" / "stanley-cups.xlsx").read_bytes()
    assert check(data, "a.xlsx", from_xlsx) >= 10


def test_a_wrong_place_is_detected() -> None:
    """The check itself fails if a place is one row, slide or section off."""
    data, taken = MADE["a.xlsx"]
    moved = next(chunk for chunk in chunks_of(data, "a.xlsx") if chunk.place.row == 5)
    wrong = Place(sheet=moved.place.sheet, row=6, cell_range=moved.place.cell_range.replace("5", "6"))
    moved.place.CopyFrom(wrong)
    assert plain(moved.text.splitlines()[0]) not in plain(taken(data, moved))
