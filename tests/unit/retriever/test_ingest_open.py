"""OpenDocument texts, spreadsheets and presentations."""

from __future__ import annotations

import pytest

from citewire_retriever.ingest.document import BlockKind, Format, ParsedDocument
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers import parse
from ingest_files import check_document, texts
from zip_packages import odf, package

SPAN = "table:number-rows-spanned"
HIDDEN = (
    '<style:style style:name="ta2" style:family="table"><style:table-properties table:display="false"/></style:style>'
)


def read(kind: str, body: str, *, styles: str = "", title: str = "") -> ParsedDocument:
    document = parse(odf(kind, body, styles=styles, title=title), "a")
    check_document(document)
    return document


def test_a_text_has_headings_lists_notes_and_tables_but_no_hidden_text() -> None:
    body = (
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>deleted</text:p></text:deletion>"
        "</text:changed-region></text:tracked-changes>"
        "<text:table-of-content><text:index-body><text:p>One 1</text:p></text:index-body></text:table-of-content>"
        '<text:h text:outline-level="1">One</text:h>'
        '<text:section><text:h text:outline-level="2">Two</text:h></text:section>'
        '<text:p>Some<text:s text:c="2"/>words\n   and<text:tab/><text:span>more</text:span><text:line-break/>below'
        "<text:note><text:note-citation>1</text:note-citation>"
        "<text:note-body><text:p>The note.</text:p></text:note-body>"
        "</text:note>.</text:p>"
        "<text:p><office:annotation><text:p>comment</text:p></office:annotation><draw:frame><draw:text-box>"
        "<text:p>In a box</text:p></draw:text-box></draw:frame></text:p>"
        "<text:list><text:list-item><text:p>a</text:p><text:list><text:list-item><text:p>b</text:p></text:list-item>"
        "</text:list></text:list-item></text:list>"
        "<table:table><table:table-header-rows><table:table-row><table:table-cell><text:p>Kind</text:p></table:table-cell>"
        '<table:table-cell table:number-columns-spanned="2"><text:p>Price</text:p></table:table-cell>'
        "<table:covered-table-cell/></table:table-row></table:table-header-rows><table:table-row>"
        '<table:table-cell table:number-rows-spanned="2"><text:p>Fruit</text:p></table:table-cell>'
        '<table:table-cell table:number-columns-repeated="2"><text:p>1</text:p></table:table-cell></table:table-row>'
        "<table:table-row><table:covered-table-cell/><table:table-cell><text:p>2</text:p></table:table-cell>"
        "</table:table-row></table:table>"
    )
    document = read("text", body, title="My title")
    assert (document.format, document.title) == (Format.OPEN_TEXT, "My title")
    assert texts(document, BlockKind.HEADING) == ["One", "Two"]
    assert texts(document, BlockKind.PARAGRAPH) == [
        "Some  words and\tmore\nbelow.", "The note.", "In a box", "- a", "- b"
    ]  # fmt: skip
    assert texts(document, BlockKind.ROW) == ["Kind: Fruit\nPrice: 1\nPrice: 1", "Kind: Fruit\nPrice: 2"]


def test_a_spreadsheets_cells_have_the_text_that_is_shown() -> None:
    def row(*cells: str, attributes: str = "") -> str:
        return f"<table:table-row {attributes}>{''.join(cells)}</table:table-row>"

    def cell(text: str, attributes: str = "") -> str:
        return f"<table:table-cell {attributes}><text:p>{text}</text:p></table:table-cell>"

    empty = '<table:table-cell table:number-columns-repeated="16384"/>'
    body = (
        '<table:table table:name="Prices">'
        + row(empty, attributes='table:number-rows-repeated="3"')
        + row("<table:table-cell/>", cell("Fruit"), cell("Price"), cell("Since"), empty)
        + row("<table:table-cell/>", cell("Apple", f'{SPAN}="3"'), cell("1,50 €"), cell("31.01.24"))
        + row(
            "<table:table-cell/>",
            "<table:covered-table-cell/>",
            cell("2,00 €"),
            attributes='table:number-rows-repeated="2"',
        )
        + row(empty, attributes='table:number-rows-repeated="1048569"')
        + '</table:table><table:table table:name="Old" table:style-name="ta2">'
        + row(cell("alone"))
        + "</table:table>"
    )
    document = read("spreadsheet", body, styles=HIDDEN)
    rows = [block for block in document.blocks if block.kind is BlockKind.ROW]
    assert [(block.place.sheet, block.place.row, block.place.cell_range) for block in rows] == [
        ("Prices", 5, "B5:D5"), ("Prices", 6, "B6:C6"), ("Prices", 7, "B7:C7"), ("Old", 1, "A1")
    ]  # fmt: skip
    assert texts(document, BlockKind.ROW) == [
        "Fruit: Apple\nPrice: 1,50 €\nSince: 31.01.24", *["Fruit: Apple\nPrice: 2,00 €"] * 2, "alone"
    ]  # fmt: skip
    assert texts(document, BlockKind.HEADING) == ["Prices", "Old (hidden)"]


def test_a_presentation_has_slides_with_titles_and_notes() -> None:
    slide = (
        "<draw:page><draw:frame><draw:text-box><text:list><text:list-item><text:p>It grew.</text:p></text:list-item>"
        '</text:list></draw:text-box></draw:frame><draw:frame presentation:class="title"><draw:text-box>'
        "<text:p>Revenue</text:p></draw:text-box></draw:frame><presentation:notes><draw:frame><draw:text-box>"
        "<text:p>Say it.</text:p></draw:text-box></draw:frame></presentation:notes></draw:page>"
    )
    second = "<draw:page><draw:custom-shape><text:p>x</text:p></draw:custom-shape></draw:page>"
    document = read("presentation", slide + second)
    assert [(block.place.slide, text) for block, text in zip(document.blocks, texts(document), strict=True)] == [
        (1, "Revenue"), (1, "- It grew."), (1, "Say it."), (2, "Slide 2"), (2, "x")
    ]  # fmt: skip
    assert document.title == "Revenue"


@pytest.mark.parametrize("kind", ["text", "spreadsheet", "presentation"])
def test_empty_and_broken_files_end_in_a_clear_error(kind: str) -> None:
    for data, code in [
        (odf(kind, ""), IngestCode.EMPTY),
        (odf(kind, "<text:p>"), IngestCode.CORRUPT),
        (odf(kind, "<text:p>a</text:p>")[:-50], IngestCode.CORRUPT),
        (package({"mimetype": f"application/vnd.oasis.opendocument.{kind}"}, stored="mimetype"), IngestCode.CORRUPT),
    ]:
        with pytest.raises(IngestError) as caught:
            parse(data, "a")
        assert caught.value.code is code


@pytest.mark.parametrize("kind", ["text", "spreadsheet", "presentation"])
def test_an_encrypted_document_needs_its_password(kind: str) -> None:
    manifest = (
        '<manifest xmlns="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"><file-entry full-path="content.xml">'
        '<encryption-data checksum-type="SHA1/1K"/></file-entry></manifest>'
    )
    media_type = f"application/vnd.oasis.opendocument.{kind}"
    parts = {"mimetype": media_type, "content.xml": b"\x8e\x01" * 40, "META-INF/manifest.xml": manifest}
    with pytest.raises(IngestError, match="protected by a password") as caught:
        parse(package(parts, stored="mimetype"), "a")
    assert caught.value.code is IngestCode.PASSWORD_REQUIRED
