"""Peculiarities of other programs' files: forms, crop marks, charts, odd dialects, wrapped mails, unread formats."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from datetime import date
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from citewire_retriever.ingest.boxes import SoughtText
from citewire_retriever.ingest.detect import detect
from citewire_retriever.ingest.document import Format, ParseLimits
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.nesting import Budget
from citewire_retriever.ingest.parsers.outlook_rtf import rtf_text
from citewire_retriever.ingest.parsers.pdf_boxes import find_boxes
from hard_pdfs import form_pdf
from ingest_files import by_part, make_pdf, parse_bytes, texts
from zip_packages import R, W, odf, package, relations


def test_a_forms_fields_are_read_in_their_position(tmp_path: Path) -> None:
    data = form_pdf([("Name of the applicant:", "Maria Schneider"), ("Number of days:", "17")])
    document = parse_bytes(tmp_path, "form.pdf", data)
    assert texts(document) == ["Name of the applicant: Maria Schneider Number of days: 17"]
    (page,) = find_boxes(data, [SoughtText(1, "Maria Schneider", "", "")])
    (box,) = page.boxes
    assert box.left == pytest.approx(252, abs=2)
    assert box.top < 72 < box.bottom + 12


def test_printers_marks_beside_the_page_are_not_read(tmp_path: Path) -> None:
    page = [
        (10.0, 20.0, 8.0, "regular", "C:\\jobs\\brochure.indd 3"),
        (100.0, 770.0, 8.0, "regular", "Cut here"),
        (100.0, 600.0, 10.0, "regular", "What everybody sees on this page."),
    ]
    data = make_pdf([page], crop=b"/CropBox [50 50 550 750]")
    assert texts(parse_bytes(tmp_path, "a.pdf", data)) == ["What everybody sees on this page."]
    assert len(texts(parse_bytes(tmp_path, "a.pdf", make_pdf([page])))) == 3


def with_chart(categories: list[Any], series: Mapping[str, tuple[float | None, ...]], *, title: str = "") -> bytes:
    """A presentation whose second slide has a chart."""
    presentation: Any = Presentation()
    presentation.slides.add_slide(presentation.slide_layouts[6])
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "Regions"
    data: Any = CategoryChartData(number_format="0.0")
    data.categories = categories
    for name, values in series.items():
        data.add_series(name, values)
    size = [Inches(length) for length in (1, 1, 6, 4)]
    chart = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *size, data).chart
    if title:
        chart.has_title = True
        chart.chart_title.text_frame.text = title
    file = io.BytesIO()
    presentation.save(file)
    return file.getvalue()


def test_a_charts_values_are_read_on_its_slide(tmp_path: Path) -> None:
    series = {"2025": (19.25, 21.4), "2026": (22.1, None)}
    document = parse_bytes(tmp_path, "a.pptx", with_chart(["North", "South"], series, title="Revenue in million"))
    on_second = [document.text[block.start : block.end] for block in document.blocks if block.place.slide == 2]
    assert on_second == ["Regions", "Revenue in million", "North\n2025: 19.3\n2026: 22.1", "South\n2025: 21.4"]


def test_dates_of_a_charts_categories_are_shown_as_dates(tmp_path: Path) -> None:
    data = with_chart([date(2026, 1, 31), date(2026, 2, 28)], {"Visits": (1200, 1300)})
    shown = texts(parse_bytes(tmp_path, "a.pptx", data))
    assert shown[-2:] == ["2026-01-31\nVisits: 1200.0", "2026-02-28\nVisits: 1300.0"]


CHART = """<c:chartSpace xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"
 xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><c:chart><c:title><c:tx><c:rich><a:p><a:r>
<a:t>Shares</a:t></a:r></a:p></c:rich></c:tx></c:title><c:plotArea><c:pieChart>
<c:ser><c:tx><c:v>Share</c:v></c:tx>
<c:cat><c:strRef><c:strCache><c:pt idx="0"><c:v>North</c:v></c:pt><c:pt idx="1"><c:v>South</c:v></c:pt></c:strCache>
</c:strRef></c:cat><c:val><c:numRef><c:numCache><c:formatCode>0%</c:formatCode>
<c:pt idx="0"><c:v>0.25</c:v></c:pt><c:pt idx="1">
<c:v>0.75</c:v></c:pt></c:numCache></c:numRef></c:val></c:ser></c:pieChart></c:plotArea></c:chart></c:chartSpace>"""


def test_a_word_documents_chart_follows_its_paragraph(tmp_path: Path) -> None:
    drawing = '<w:p><w:r><w:t>By region:</w:t><w:drawing><chart r:id="c"/></w:drawing></w:r></w:p>'
    parts = {
        "[Content_Types].xml": "<Types/>",
        "word/document.xml": f'<w:document xmlns:w="{W}" xmlns:r="{R}"><w:body>{drawing}</w:body></w:document>',
        "word/_rels/document.xml.rels": relations({"c": ("chart", "charts/chart1.xml")}),
        "word/charts/chart1.xml": CHART,
    }
    document = parse_bytes(tmp_path, "a.docx", package(parts))
    assert texts(document) == ["By region:", "Shares", "North\nShare: 25%", "South\nShare: 75%"]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("Name^City\nSmith^Oslo\n", ["Name: Smith\nCity: Oslo"]),
        ("Name~City\nSmith~Oslo\n", ["Name: Smith\nCity: Oslo"]),
        ("'Name','Note'\n'Smith, John','it''s'\n'b','c'\n", ["Name: Smith, John\nNote: it's", "Name: b\nNote: c"]),
        (
            '"Name","Note"\n"Smith","He said \\"hi, all\\", and left"\n"b","c:\\\\d"\n',
            ['Name: Smith\nNote: He said "hi, all", and left', "Name: b\nNote: c:\\d"],
        ),
        ('Path,Note\n"C:\\dir\\","a"\n"D:\\","b"\n', ["Path: C:\\dir\\\nNote: a", "Path: D:\\\nNote: b"]),
        (
            "Report:,Sales\nCreated:,2026-01-02\n\nRegion,Q1,Q2,Q3\nNorth,1,2,3\nSouth,4,5,6\n",
            ["Report:\nSales", "Created:\n2026-01-02", "Region: North\nQ1: 1\nQ2: 2\nQ3: 3",
             "Region: South\nQ1: 4\nQ2: 5\nQ3: 6"],
        ),
    ],
    ids=["caret", "tilde", "single quotes", "backslash", "paths", "metadata above"],
)  # fmt: skip
def test_dialects_of_csv(tmp_path: Path, text: str, rows: list[str]) -> None:
    assert texts(parse_bytes(tmp_path, "a.csv", text)) == rows


def test_terminal_colours_are_not_binary_data(tmp_path: Path) -> None:
    line = "\x1b[32mINFO\x1b[0m \x1b[1mstarted\x1b[22m\x1b]0;title\x07\n"
    assert texts(parse_bytes(tmp_path, "run.log", line * 20)) == ["\n".join(["INFO started"] * 20)]


SAVED = b"""From: <Saved by Blink>
Subject: A page
MIME-Version: 1.0
Content-Type: multipart/related; type="text/html"; boundary="b"

--b
Content-Type: text/html
Content-Transfer-Encoding: quoted-printable

<html><head><title>Hours</title></head><body><h1>Opening hours</h1><p>From 9=
 to 5.</p></body></html>
--b
Content-Type: text/css
Content-Location: cid:css

body {color: red}
--b--
"""


def test_a_saved_web_page_is_read_as_the_page(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "page.mhtml", SAVED)
    assert texts(document) == ["Opening hours", "From 9 to 5."]
    assert (document.title, document.media_type) == ("Hours", "application/x-mimearchive")


MAILBOX = b"""From a@example.com Tue Nov 24 10:00:00 2026
From: a@example.com
Subject: One/Two

Body one.
>From the start.

From b@example.com Tue Nov 24 11:00:00 2026
From: b@example.com

From here on it is the second.
"""


@pytest.mark.parametrize("name", ["mails.mbox", "Inbox"])
def test_a_mailboxs_messages_are_its_parts(tmp_path: Path, name: str) -> None:
    parts = by_part(parse_bytes(tmp_path, name, MAILBOX))
    assert parts == {
        "One-Two.eml": ["From: a@example.com\nSubject: One/Two", "Body one.\n>From the start."],
        "message 2.eml": ["From: b@example.com", "From here on it is the second."],
    }


def test_a_mail_is_recognised_without_a_file_name() -> None:
    head = b"Return-Path: <a@example.com>\r\nReceived: from x\r\n by y\r\nFrom: a@example.com\r\n\r\nHello"
    assert detect(head, "1701.M1P2.host:2,S").format is Format.MAIL
    assert detect(b"From: a\r\nnot a header\r\nReceived: x\r\n", "notes").format is Format.TEXT
    assert detect(head, "example.txt").format is Format.TEXT


def tnef(*attributes: tuple[int, int, bytes]) -> bytes:
    """Outlook's attribute format (TNEF): level, number with type, value."""
    data = struct.pack("<IH", 0x223E9F78, 1)
    for level, number, value in attributes:
        data += struct.pack("<BII", level, number, len(value)) + value + struct.pack("<H", sum(value) & 0xFFFF)
    return data


def properties(*entries: tuple[int, int, bytes]) -> bytes:
    data = struct.pack("<I", len(entries))
    for kind, number, value in entries:
        data += struct.pack("<HHII", kind, number, 1, len(value)) + value + bytes(-len(value) % 4)
    return data


WRAPPED = tnef(
    (1, 0x00069007, struct.pack("<II", 1252, 0)),
    (1, 0x00069003, properties((0x1F, 0x1000, "The body in Outlook's wrapping.\0".encode("utf-16-le")))),
    (2, 0x00069002, bytes(14)),
    (2, 0x00018010, b"PLAN~1.TXT\0"),
    (2, 0x0006800F, b"We hire three people in May.\n"),
    (2, 0x00069005, properties((0x1F, 0x3707, "Größenplan.txt\0".encode("utf-16-le")))),
)


def mail(text: str) -> EmailMessage:
    message = EmailMessage()
    message["From"] = "a@example.com"
    message["Subject"] = "Plan"
    if text:
        message.set_content(text)
    return message


@pytest.mark.parametrize(("text", "shown"), [("", "The body in Outlook's wrapping."), ("See below.", "See below.")])
def test_the_content_of_a_winmail_dat_is_read(tmp_path: Path, text: str, shown: str) -> None:
    message = mail(text)
    message.add_attachment(WRAPPED, maintype="application", subtype="ms-tnef", filename="winmail.dat")
    parts = by_part(parse_bytes(tmp_path, "a.eml", message.as_bytes()))
    assert parts == {
        "": ["From: a@example.com\nSubject: Plan\nAttachments: Größenplan.txt", shown],
        "Größenplan.txt": ["We hire three people in May."],
    }


@pytest.mark.parametrize("length", [3, 20, 60, 100, len(WRAPPED) - 3])
def test_a_truncated_winmail_dat_spoils_nothing_else(tmp_path: Path, length: int) -> None:
    message = mail("See below.")
    message.add_attachment(WRAPPED[:length], maintype="application", subtype="ms-tnef", filename="winmail.dat")
    assert "See below." in parse_bytes(tmp_path, "a.eml", message.as_bytes()).text


def test_a_plain_text_stub_does_not_hide_the_html(tmp_path: Path) -> None:
    message = mail("Your program can't show HTML.")
    message.add_alternative(f"<h1>Launch</h1><p>{'We launch on 3 May in Oslo. ' * 20}</p>", subtype="html")
    assert "We launch on 3 May" in parse_bytes(tmp_path, "a.eml", message.as_bytes()).text
    message = mail("We launch on 3 May in Oslo.")
    message.add_alternative("<p>We launch on <b>3 May</b> in Oslo.</p>", subtype="html")
    assert parse_bytes(tmp_path, "a.eml", message.as_bytes()).text.count("3 May") == 1


def test_an_invitation_is_read(tmp_path: Path) -> None:
    event = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Budget\nLOCATION:Room 5\nEND:VEVENT\nEND:VCALENDAR\n"
    message = mail("Please come.")
    message.add_alternative(event, subtype="calendar")
    parts = by_part(parse_bytes(tmp_path, "a.eml", message.as_bytes()))
    assert "place: Room 5" in "\n".join(parts["invitation.ics"])


OFFICE = "[Content_Types].xml"


@pytest.mark.parametrize(
    ("head", "name", "message"),
    [
        (b"\0\0\0\x18ftypheic", "photo.jpg", "an HEIC or AVIF image, whatever its name: save it as PNG or JPEG"),
        (b"\0\0\0\x20ftypisom", "talk.mp4", "an audio or video file, .*: upload its transcript or its subtitles"),
        (b"%!PS-Adobe-3.0\n", "a.ps", r"a PostScript file, .*\(`ps2pdf FILE`\)"),
        (b"AC1032\0\0", "plan.dwg", "a drawing, whatever its name: save it as PDF"),
        (b"name".ljust(60, b"\0") + b"BOOKMOBI", "a.mobi", "a Kindle e-book, .*: save it as EPUB or PDF"),
        (WRAPPED, "winmail.dat", "upload the e-mail that it came with"),
        (bytes(range(256)) * 4, "unknown.bin", "neither text nor of a known format. Supported: PDF"),
        (bytes(range(256)) * 4, "notes.txt", "binary data, not text in a known encoding: save it as UTF-8 text"),
        (
            package({OFFICE: "", "xl/workbook.bin": b"\x83"}),
            "a.xlsb",
            r"a binary Excel workbook, .*: save it as \.xlsx",
        ),
        (
            package({OFFICE: "", "visio/document.xml": ""}),
            "a.vsdx",
            "a Visio drawing, whatever its name: save it as PDF",
        ),
        (package({"Index/Document.iwa": b"\0"}), "a.pages", "Pages, Numbers or Keynote, .*: export it"),
        (package({OFFICE: "", "FixedDocSeq.fdseq": ""}), "a.xps", "an XPS document"),
        (
            package({"mimetype": "application/vnd.oasis.opendocument.graphics", "a.xml": ""}, stored="mimetype"),
            "a.odg",
            "an OpenDocument drawing, whatever its name: save it as PDF",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value and " " not in value else "",
)
def test_formats_that_arent_read_say_what_to_do(head: bytes, name: str, message: str) -> None:
    with pytest.raises(IngestError, match=message) as caught:
        detect(head[:65_536], name)
    assert caught.value.code is IngestCode.UNSUPPORTED_FORMAT


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("The ftyp box names a brand.", Format.TEXT),
        ("Größe und Maß".encode("utf-16"), Format.TEXT),
        ("予定\n".encode("iso2022_jp") * 50, Format.TEXT),
        ("Больше слов ".encode("utf-16-le") * 50, Format.TEXT),
        (package({"visio/a.txt": "words"}), Format.ARCHIVE),
    ],
    ids=["a word of theirs", "UTF-16", "escapes", "UTF-16 without a mark", "a folder of theirs"],
)
def test_files_that_only_look_unsupported_are_read(head: str | bytes, expected: Format) -> None:
    assert detect(head.encode() if isinstance(head, str) else head, "unknown").format is expected


def test_cells_without_a_text_show_their_values(tmp_path: Path) -> None:
    cell = '<table:table-cell office:value-type="{}" office:{}="{}"/>'
    cells = [
        cell.format("float", "value", "2.5"),
        cell.format("percentage", "value", "0.25"),
        cell.format("date", "date-value", "2026-01-31"),
        cell.format("boolean", "boolean-value", "true"),
    ]
    names = "".join(
        f'<table:table-cell office:value-type="string"><text:p>{name}</text:p></table:table-cell>' for name in "abcd"
    )
    rows = f"<table:table-row>{names}</table:table-row><table:table-row>{''.join(cells)}</table:table-row>"
    data = odf("spreadsheet", f'<table:table table:name="S">{rows}</table:table>')
    assert texts(parse_bytes(tmp_path, "a.ods", data))[1:] == ["a: 2.5\nb: 25%\nc: 2026-01-31\nd: TRUE"]


@pytest.mark.parametrize("name", ["page.html", "page.mht"])
def test_a_web_page_inside_a_word_document_is_read(tmp_path: Path, name: str) -> None:
    body = '<w:p><w:r><w:t>Before.</w:t></w:r></w:p><w:altChunk r:id="p"/>'
    parts = {
        "[Content_Types].xml": "<Types/>",
        "word/document.xml": f'<w:document xmlns:w="{W}" xmlns:r="{R}"><w:body>{body}</w:body></w:document>',
        "word/_rels/document.xml.rels": relations({"p": ("aFChunk", name)}),
        f"word/{name}": SAVED if name.endswith("mht") else "<h1>Opening hours</h1><p>From 9 to 5.</p>",
    }
    assert texts(parse_bytes(tmp_path, "a.docx", package(parts))) == ["Before.", "Opening hours", "From 9 to 5."]


def test_zeros_after_a_pdfs_end_are_not_taken_for_truncation(tmp_path: Path) -> None:
    data = make_pdf([[(72.0, 700.0, 10.0, "regular", "All of it is here.")]])
    assert texts(parse_bytes(tmp_path, "a.pdf", data + bytes(9000))) == ["All of it is here."]
    with pytest.raises(IngestError, match="truncated"):
        parse_bytes(tmp_path, "a.pdf", data[:-30] + bytes(9000))


def test_a_tab_separated_table_named_xls_is_read_as_a_table(tmp_path: Path) -> None:
    assert texts(parse_bytes(tmp_path, "export.xls", "Name\tCity\nSmith\tOslo\n")) == ["Name: Smith\nCity: Oslo"]


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Name;Stadt\nMüller;Köln an der Straße\nGröße;Äpfel\n", "cp850"),
        ("Vardas;Miestas\nŽydrūnas;Šiauliai\nEglė;Klaipėda\n", "cp1257"),
        ("Nume;Oraş\nŞtefan;Iaşi\nIon;Bucureşti în ţară\n", "cp1250"),
        ("Name;Stadt\nMüller;Köln an der Straße\nGröße;Äpfel\n", "cp1252"),
    ],
)
def test_encodings_of_exports(tmp_path: Path, text: str, encoding: str) -> None:
    first = text.splitlines()[1].split(";")
    assert texts(parse_bytes(tmp_path, "a.csv", text.encode(encoding)))[0].endswith(first[1])


def test_zero_bytes_do_not_turn_a_text_into_chinese(tmp_path: Path) -> None:
    data = b"Name,City\nSm\0ith,Oslo\n" + b"Jones,Bergen in the west\n" * 20
    assert texts(parse_bytes(tmp_path, "a.csv", data))[0] == "Name: Smith\nCity: Oslo"


def test_a_rule_below_the_header_is_no_row(tmp_path: Path) -> None:
    text = "| Name | City |\n|------|:----:|\n| Smith | Oslo |\n"
    assert texts(parse_bytes(tmp_path, "a.csv", text)) == ["Name: Smith\nCity: Oslo"]


def test_drawings_and_unknown_xml_are_read_as_xml(tmp_path: Path) -> None:
    drawing = "<svg xmlns='http://www.w3.org/2000/svg'><title>Plan</title><text>Room 5</text></svg>"
    assert texts(parse_bytes(tmp_path, "a.svg", drawing)) == ["title: Plan\ntext: Room 5"]
    assert detect(b'<?xml version="1.0"?>\n<kml/>', "a.kml").format is Format.DATA


def test_a_signature_is_no_attachment(tmp_path: Path) -> None:
    message = mail("Signed.")
    message.add_attachment(b"\x30\x82\x01", maintype="application", subtype="pkcs7-signature", filename="smime.p7s")
    assert texts(parse_bytes(tmp_path, "a.eml", message.as_bytes())) == [
        "From: a@example.com\nSubject: Plan",
        "Signed.",
    ]


HELLO = bytes.fromhex(
    "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af3206865 6c090020627705b06c647d0a800fa0"
)
CROSSING = bytes.fromhex("1a0000001c0000004c5a4675e2d44b51410004205758595a0d6e7d010eb0")
"""The two examples of MS-OXRTFCP; in the second, a reference overlaps with its own output."""


@pytest.mark.parametrize(("data", "expected"), [(HELLO, "hello world"), (CROSSING, "WXYZ" * 5), (HELLO[:20], "")])
def test_outlooks_compressed_rtf(data: bytes, expected: str) -> None:
    assert rtf_text(data, Budget(), ParseLimits()) == expected


def test_compressed_rtf_counts_as_inflated() -> None:
    with pytest.raises(IngestError, match="too large when decompressed"):
        rtf_text(HELLO, Budget(inflated=10), ParseLimits())


def test_a_message_that_outlook_stores_as_rtf_is_read(tmp_path: Path) -> None:
    parts = tnef((1, 0x00069003, properties((0x102, 0x1009, HELLO))))
    message = mail("")
    message.add_attachment(parts, maintype="application", subtype="ms-tnef", filename="winmail.dat")
    assert texts(parse_bytes(tmp_path, "a.eml", message.as_bytes())) == [
        "From: a@example.com\nSubject: Plan",
        "hello world",
    ]
