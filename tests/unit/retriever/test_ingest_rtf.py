r"""RTF documents: text in any encoding, headings and tables, but no hidden text."""

from __future__ import annotations

import pytest

from citewire_retriever.ingest.document import BlockKind, Format, ParsedDocument
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers import parse
from ingest_files import check_document, texts


def read(data: bytes) -> ParsedDocument:
    document = parse(data, "a.doc")  # Word opens RTF under that name, so it is often sent like this
    assert (document.format, document.media_type) == (Format.RTF, "application/rtf")
    check_document(document)
    return document


def test_headings_text_notes_and_tables_are_read_but_no_hidden_text() -> None:
    document = read(
        rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\stylesheet{\s1\outlinelevel0 heading 1;}{\s2 Body;}}"
        rb"{\info{\title T}}{\*\generator X;}\pard\s1 One\par\pard\outlinelevel1 Two\par\pard\s2 Some {\v hidden}"
        rb"{\deleted gone}words\line and\tab more{\footnote\pard The note.}.\par{\header Head\par}"
        rb'{\field{\*\fldinst HYPERLINK "x"}{\fldrslt a link}}{\pict 0123abcd}{\*\unknown {\b x}}\bin4 }}}} here\par'
        rb"\trowd\pard\intbl Kind\cell Price\cell\row\trowd\intbl Fruit\par in two lines\cell 1\cell\row"
        rb"\pard After \{braces\} and \\\~x\par}"
    )
    assert texts(document, BlockKind.HEADING) == ["One", "Two"]
    assert [block.level for block in document.blocks if block.kind is BlockKind.HEADING] == [1, 2]
    assert texts(document, BlockKind.ROW) == ["Kind: Fruit in two lines\nPrice: 1"]
    assert texts(document, BlockKind.PARAGRAPH) == [
        "Some words\nand\tmore.", "The note.", "a link here", "After {braces} and \\\u00a0x"
    ]  # fmt: skip
    assert document.title == "One"


@pytest.mark.parametrize(
    "paragraph",
    [
        rb"\pard\outlinelevel0 {\listtext\pard\plain 1.\tab}One\par",
        rb"\pard\outlinelevel0 1.\tab One{\footnote\pard\plain Note.}\par",
        rb"\pard\outlinelevel0 1.\tab One",
    ],
    ids=["number", "note", "last"],
)
def test_a_group_does_not_change_the_paragraph_around_it(paragraph: bytes) -> None:
    assert texts(read(rb"{\rtf1 " + paragraph + b"}"), BlockKind.HEADING) == ["1. One"]


def test_rows_of_fragments_and_nested_tables_are_read_once() -> None:
    fragment = rb"{\rtf1 \trowd\pard\intbl Fax\cell 123\cell}"
    assert texts(read(fragment)) == ["Fax | 123"]
    nested = (
        rb"{\rtf1 \trowd\pard\intbl A {\itap2 B\nestcell{\nonesttables for older readers\par}"
        rb"{\*\nesttableprops\trowd\nestrow}}\cell C\cell\row}"
    )
    assert texts(read(nested)) == ["A B | C"]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (rb"{\rtf1\ansi Gr\'fc\'dfe}", "Grüße"),
        (rb"{\rtf1\ansi\ansicpg1251 \'cf\'f0\'e8}", "При"),
        (rb"{\rtf1\ansi{\fonttbl{\f1\fcharset204 C;}}{\f1 \'cf\'f0\'e8}\'e8}", "Приè"),
        (rb"{\rtf1\ansi{\fonttbl{\f1\fcharset128 J;}}{\f1 \'93\'fa\'96\'7b}}", "日本"),
        (rb"{\rtf1\ansi\uc1 \u8364?\u-10179?\u-8704?\uc2\u252\'81\'82x}", "€😀üx"),
        (rb"{\rtf1\ansi\uc0\u8364x\u-10179y}", "€x\ufffdy"),
        (rb"{\rtf1\ansi\ansicpg99999 a\ldblquote b\rdblquote\emdash c}", "a\u201cb\u201d\u2014c"),
        (rb"{\rtf1\mac \'9f}", "ü"),
    ],
)
def test_every_encoding(data: bytes, text: str) -> None:
    assert texts(read(data)) == [text]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (rb"{\rtf1\ansi cut off", IngestCode.CORRUPT),
        (rb"{\rtf1" + b"{" * 20_000 + b"}" * 20_001, IngestCode.CORRUPT),
        (rb"{\rtf1 }", IngestCode.EMPTY),
        (rb"{\rtf1\bin999999999 x}", IngestCode.CORRUPT),
        (rb"{\rtf1 a\bin-5 }" + b"\\", None),
    ],
)
def test_broken_documents_end_in_a_clear_error(data: bytes, code: IngestCode | None) -> None:
    if code is None:
        assert texts(read(data)) == ["a"]
        return
    with pytest.raises(IngestError) as caught:
        parse(data, "a.rtf")
    assert caught.value.code is code
