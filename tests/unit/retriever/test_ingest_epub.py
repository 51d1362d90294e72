"""E-books: chapters in reading order, each under its heading."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from citewire_retriever.ingest.document import BlockKind, Format, ParsedDocument
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers import parse
from citewire_retriever.ingest.parsers.lxml_facade import parse_xml
from ingest_files import check_document, texts
from zip_packages import epub, package

CHAPTERS = {
    "z.xhtml": "<html><head><title/></head><body><p>No heading<br/>here.</p><div/><p>More.</p></body></html>",
    "a b.xhtml": "<html><body><h1>Own</h1><p>Some words.</p><h2>Below</h2><p>Others.</p></body></html>",
    "picture.xhtml": '<html><body><img src="x.png"/></body></html>',
}
CONTENTS = (
    '<ol><li><a href="text/z.xhtml#start">The <i>first</i> one</a></li><li><a href="text/a%20b.xhtml">Own</a></li>'
    '<li><a href="text/a%20b.xhtml#below">Below</a></li></ol>'
)


def read(data: bytes) -> ParsedDocument:
    document = parse(data, "a.epub")
    assert (document.format, document.media_type) == (Format.EBOOK, "application/epub+zip")
    check_document(document)
    return document


def test_chapters_come_in_reading_order_under_their_headings() -> None:
    document = read(epub({name: text for name, text in CHAPTERS.items() if " " not in name}, contents=CONTENTS))
    assert texts(document) == ["The first one", "No heading\nhere.", "More."]
    document = read(epub({name.replace(" ", "%20"): text for name, text in CHAPTERS.items()}, contents=CONTENTS))
    assert texts(document, BlockKind.HEADING) == ["The first one"]  # the other chapter has another file name
    assert document.title == "A book"


def test_a_chapters_own_heading_takes_precedence_over_the_contents() -> None:
    document = read(epub({"a.xhtml": CHAPTERS["a b.xhtml"]}, contents='<a href="text/a.xhtml">Another</a>'))
    assert texts(document) == ["Own", "Some words.", "Below", "Others."]


def test_the_table_of_contents_of_version_2_is_read() -> None:
    data = package(
        {
            "META-INF/container.xml": '<container><rootfile full-path="c.opf"/></container>',
            "c.opf": '<package><item id="a" href="t/a.html" media-type="application/xhtml+xml"/>'
            '<item id="n" href="t/toc.ncx" media-type="application/x-dtbncx+xml"/><itemref idref="a"/></package>',
            "t/a.html": "<p>Words.</p>",
            "t/toc.ncx": "<ncx><navPoint><navLabel><text>One</text></navLabel>"
            "<content src='a.html#x'/></navPoint></ncx>",
        }
    )
    assert texts(read(data)) == ["One", "Words."]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (package({"mimetype": "application/epub+zip"}, stored="mimetype"), IngestCode.CORRUPT),
        (epub(CHAPTERS)[:-60], IngestCode.CORRUPT),
        (epub({}), IngestCode.EMPTY),
        (
            epub(CHAPTERS, more={"META-INF/encryption.xml": '<e><CipherReference URI="o/text/z.xhtml"/></e>'}),
            IngestCode.PASSWORD_REQUIRED,
        ),
    ],
    ids=["no container", "cut off", "no chapter", "copy-protected"],
)
def test_broken_and_protected_books_end_in_a_clear_error(data: bytes, code: IngestCode) -> None:
    with pytest.raises(IngestError) as caught:
        parse(data, "a.epub")
    assert caught.value.code is code


def test_encrypted_fonts_do_not_make_a_book_protected() -> None:
    fonts = {"META-INF/encryption.xml": '<e><CipherReference URI="o/fonts/a.otf"/></e>'}
    assert texts(read(epub({"z.xhtml": CHAPTERS["z.xhtml"]}, more=fonts)))[0] == "No heading\nhere."


def test_every_line_of_a_real_books_poems_is_read(shared_data: Path) -> None:
    path = shared_data / "documents" / "epub" / "epub_purvis_poetry.epub"
    document = read(path.read_bytes())
    page = parse_xml(zipfile.ZipFile(path).read("epub/text/poetry.xhtml"))
    lines = ["".join(span.itertext()).strip() for span in page.iter("{*}span")]
    text = " ".join(document.text.split())
    assert len(lines) > 100
    assert all(" ".join(line.split()) in text for line in lines)
