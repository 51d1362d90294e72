"""Word documents: the text that is read, its headings, and what is left out."""

from __future__ import annotations

import pytest

from citewire_retriever.ingest.document import BlockKind, Format, ParsedDocument
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers import parse
from zip_packages import W, docx, package, paragraph

STYLES = (
    '<w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Own"><w:name w:val="Kapitel"/><w:basedOn w:val="berschrift1"/>'
    '<w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>'
    '<w:style w:type="paragraph" w:styleId="T3"><w:name w:val="Título 3"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="TOC"><w:name w:val="toc 1"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Loop"><w:name w:val="a"/><w:basedOn w:val="Loop"/></w:style>'
)


def read(data: bytes) -> ParsedDocument:
    document = parse(data, "a.docx")
    assert document.format is Format.DOCX
    return document


def texts(document: ParsedDocument) -> list[str]:
    return [document.text[block.start : block.end] for block in document.blocks]


def test_headings_are_recognised_by_style_or_outline_level() -> None:
    body = (
        paragraph("Contents line", '<w:pStyle w:val="TOC"/>')
        + paragraph("One", '<w:pStyle w:val="berschrift1"/>')
        + paragraph("Two", '<w:pStyle w:val="Own"/>')
        + paragraph("Three", '<w:pStyle w:val="T3"/>')
        + paragraph("Four", '<w:outlineLvl w:val="3"/>')
        + paragraph("Body", '<w:pStyle w:val="Loop"/>')
        + paragraph("No heading", '<w:pStyle w:val="berschrift1"/><w:outlineLvl w:val="9"/>')
    )
    document = read(docx(body, styles=STYLES))
    levels = [(block.label, block.level) for block in document.blocks if block.kind is BlockKind.HEADING]
    assert levels == [("One", 1), ("Two", 2), ("Three", 3), ("Four", 4)]
    assert texts(document)[-2:] == ["Body", "No heading"]
    assert document.title == "One"


def test_lists_have_the_numbers_that_word_shows() -> None:
    def item(text: str, level: int, number: int = 1) -> str:
        return paragraph(text, f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>')

    numbering = (
        '<w:abstractNum w:abstractNumId="7">'
        '<w:lvl w:ilvl="0"><w:start w:val="3"/><w:numFmt w:val="upperRoman"/><w:lvlText w:val="%1."/></w:lvl>'
        '<w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1.%2)"/></w:lvl>'
        '<w:lvl w:ilvl="2"><w:numFmt w:val="bullet"/><w:lvlText w:val="·"/></w:lvl></w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="7"/>'
        '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride></w:num>'
    )
    body = "".join(
        [item("a", 0), item("b", 1), item("c", 1), item("d", 2), item("e", 0), item("f", 1), item("g", 0, 2)]
    )
    shown = ["III. a", "III.a) b", "III.b) c", "- d", "IV. e", "IV.a) f", "I. g"]
    assert texts(read(docx(body, numbering=numbering))) == shown


def test_hidden_text_is_left_out_and_notes_follow_their_paragraph() -> None:
    body = (
        "<w:p><w:r><w:t>Shown </w:t></w:r><w:del><w:r><w:delText>deleted</w:delText></w:r></w:del>"
        "<w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins>"
        "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r>"
        "<w:r><w:instrText>PAGEREF x</w:instrText></w:r>"
        '<w:hyperlink r:id="r"><w:r><w:t> link</w:t></w:r></w:hyperlink>'
        "<w:r><w:pict><w:txbxContent><w:p><w:r><w:t>In a box</w:t></w:r></w:p></w:txbxContent></w:pict></w:r>"
        '<w:r><w:footnoteReference w:id="2"/></w:r></w:p>'
        "<w:sdt><w:sdtContent><w:p><w:r><w:t>Controlled</w:t></w:r></w:p></w:sdtContent></w:sdt>"
    )
    notes = f'<w:footnote w:id="2">{paragraph("The note.")}</w:footnote>'
    document = read(docx(body, footnotes=notes, header=paragraph("Header")))
    assert texts(document) == ["Shown inserted link", "The note.", "In a box", "Controlled"]


def test_tables_are_read_by_row_with_their_header() -> None:
    def row(*cells: str, properties: str = "") -> str:
        return f"<w:tr>{properties}{''.join(f'<w:tc>{cell}</w:tc>' for cell in cells)}</w:tr>"

    restart = f'<w:tcPr><w:vMerge w:val="restart"/></w:tcPr>{paragraph("Fruit")}'
    wide = f'<w:tcPr><w:gridSpan w:val="2"/></w:tcPr>{paragraph("Price")}'
    body = (
        "<w:tbl>"
        + row(paragraph("Kind"), wide, properties="<w:trPr><w:tblHeader/></w:trPr>")
        + row(paragraph(""), paragraph("2024"), paragraph("2025"), properties="<w:trPr><w:tblHeader/></w:trPr>")
        + row(restart, paragraph("1"), paragraph("2"))
        + row("<w:tcPr><w:vMerge/></w:tcPr><w:p/>", paragraph("3"), paragraph("4"))
        + row(paragraph("gone"), properties="<w:trPr><w:del/></w:trPr>")
        + "</w:tbl>"
    )
    document = read(docx(body))
    assert texts(document) == [
        "Kind: Fruit\nPrice / 2024: 1\nPrice / 2025: 2",
        "Kind: Fruit\nPrice / 2024: 3\nPrice / 2025: 4",
    ]
    assert {block.kind for block in document.blocks} == {BlockKind.ROW}


def test_no_word_of_a_tables_first_row_is_lost() -> None:
    def table(*rows: tuple[str, str]) -> str:
        lines = ["".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in cells) for cells in rows]
        return f"<w:tbl>{''.join(f'<w:tr>{line}</w:tr>' for line in lines)}</w:tbl>"

    prose = "These are the terms on which we offer the flat. " * 6
    body = table(("Landlord", "Tenant"), ("Ann", "")) + table(("Terms", prose), ("Rent", "due monthly"))
    assert texts(read(docx(body))) == [
        "Tenant", "Landlord: Ann", f"Terms | {prose.strip()}", "Rent | due monthly"
    ]  # fmt: skip


def test_a_table_in_a_note_is_read() -> None:
    body = '<w:p><w:r><w:t>Sums</w:t><w:footnoteReference w:id="2"/></w:r></w:p>'
    table = f"<w:tbl><w:tr><w:tc>{paragraph('Rent')}</w:tc><w:tc>{paragraph('700')}</w:tc></w:tr></w:tbl>"
    note = f'<w:footnote w:id="2">{paragraph("In euros:")}{table}</w:footnote>'
    assert texts(read(docx(body, footnotes=note))) == ["Sums", "In euros:", "Rent | 700"]


def test_a_strict_document_reads_as_a_transitional_one() -> None:
    heading = paragraph("One", '<w:outlineLvl w:val="0"/>')
    strict = "http://purl.oclc.org/ooxml/wordprocessingml/main"
    body = f'<w:document xmlns:w="{strict}"><w:body>{heading}'
    document = read(package({"word/document.xml": f"{body}</w:body></w:document>"}))
    assert document == read(docx(heading))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (docx("")[:-40], IngestCode.CORRUPT),
        (package({"word/other.xml": "<a/>"}), IngestCode.CORRUPT),
        (package({"word/document.xml": "<w:document"}), IngestCode.CORRUPT),
        (package({"word/document.xml": "<a>" * 10_000 + "</a>" * 10_000}), IngestCode.CORRUPT),
        (package({"word/document.xml": b"<a>" + b" " * 60_000_000 + b"</a>"}), IngestCode.TOO_LARGE),
        (docx(""), IngestCode.EMPTY),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), IngestCode.PASSWORD_REQUIRED),
        (b"hello", IngestCode.CORRUPT),
    ],
    ids=["cut off", "no document", "broken", "deep", "bomb", "nothing", "encrypted", "text"],
)
def test_hostile_and_broken_documents_end_in_a_clear_error(data: bytes, code: IngestCode) -> None:
    with pytest.raises(IngestError) as caught:
        parse(data, "a.docx")
    assert caught.value.code is code
    assert caught.value.message.endswith(".")


def test_entities_are_neither_expanded_nor_fetched() -> None:
    text = (
        f'<!DOCTYPE d [<!ENTITY name "x"><!ENTITY passwords SYSTEM "file:///etc/passwd">]><w:document xmlns:w="{W}">'
        "<w:body><w:p><w:r><w:t>before</w:t></w:r><w:r><w:t>&name;&passwords;</w:t></w:r></w:p></w:body></w:document>"
    )
    assert texts(read(package({"word/document.xml": text}))) == ["before"]
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "ha" * 50}">' for n in range(9))
    text = f'<!DOCTYPE d [{laughs}]><w:document xmlns:w="{W}">&l8;</w:document>'
    with pytest.raises(IngestError) as caught:
        parse(package({"word/document.xml": text}), "a.docx")
    assert caught.value.code in {IngestCode.CORRUPT, IngestCode.EMPTY}


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ('<w:checkBox><w:sizeAuto/><w:default w:val="0"/><w:checked/></w:checkBox>', "☒"),
        ('<w:checkBox><w:default w:val="1"/><w:checked w:val="0"/></w:checkBox>', "☐"),
        ('<w:checkBox><w:default w:val="1"/></w:checkBox>', "☒"),
        ("<w:checkBox/>", "☐"),
        (
            '<w:ddList><w:result w:val="1"/><w:listEntry w:val="weekly"/><w:listEntry w:val="monthly"/></w:ddList>',
            "monthly",
        ),
        ('<w:ddList><w:listEntry w:val="weekly"/></w:ddList>', "weekly"),
        ('<w:ddList><w:result w:val="7"/><w:listEntry w:val="weekly"/></w:ddList>', ""),
        ('<w:textInput><w:default w:val="…"/></w:textInput>', ""),
    ],
)
def test_a_form_shows_its_boxes_and_choices(field: str, shown: str) -> None:
    body = (
        '<w:p><w:r><w:t>Paid:</w:t></w:r><w:r><w:fldChar w:fldCharType="begin">'
        f"<w:ffData>{field}</w:ffData></w:fldChar></w:r>"
        '<w:r><w:instrText>FORM</w:instrText></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r></w:p>'
    )
    assert texts(read(docx(body))) == [f"Paid:{shown}"]
