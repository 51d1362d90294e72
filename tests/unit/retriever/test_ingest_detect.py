"""Formats: content decides, then the name, then the media type."""

import io
from zipfile import ZipFile

import pytest

from citewire_retriever.ingest.detect import detect
from citewire_retriever.ingest.document import Format
from citewire_retriever.ingest.errors import IngestCode, IngestError
from zip_packages import odf, package

PDF = b"%PDF-1.7\n"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
MAIL = b"From: a@b.example\r\nMIME-Version: 1.0\r\nContent-Type: text/plain\r\n\r\nHi"
PAGE = b'Subject: Exported\nMIME-Version: 1.0\nContent-Type: multipart/related;\n boundary="b"\n\n--b'
HTML = b"<!DOCTYPE html>\n<html><body>Hi</body></html>"


@pytest.mark.parametrize(
    ("head", "name", "media_type", "expected"),
    [
        (PDF, "a.pdf", "", Format.PDF),
        (b"\r\n\x00" + PDF, "paper", "", Format.PDF),
        (PDF, "notes.md", "text/markdown", Format.PDF),
        (b"{\\rtf1 a}", "letter.doc", "application/msword", Format.RTF),
        (b"# Hi", "a.md", "", Format.MARKDOWN),
        (b"# Hi", "README.MARKDOWN", "", Format.MARKDOWN),
        (b"# Hi", "", "text/markdown; charset=utf-8", Format.MARKDOWN),
        (HTML, "a.md", "", Format.HTML),
        (HTML, "page", "text/plain", Format.HTML),
        (b"\xef\xbb\xbf  <!-- saved --> \n<HTML lang=en>", "page.txt", "", Format.HTML),
        (MAIL, "saved.msg", "", Format.MAIL),
        (MAIL, "saved.txt", "text/plain", Format.MAIL),
        (MAIL.replace(b"MIME-Version: 1.0", b"Received: today"), "saved.txt", "", Format.TEXT),
        (PAGE, "exported.doc", "application/msword", Format.MAIL),
        (PAGE, "about.md", "", Format.MARKDOWN),
        (b"<p>part", "a.html", "", Format.HTML),
        (b"a,b\n1,2", "a.csv", "", Format.SHEET),
        (b"a\tb", "a.TSV", "", Format.SHEET),
        (b"a,b", "export", "text/csv", Format.SHEET),
        (b"def f(): pass", "f.py", "text/plain", Format.CODE),
        (b"#!/usr/bin/env python3\n", "tool", "", Format.CODE),
        (b"FROM scratch", "Dockerfile", "", Format.CODE),
        (b"words", "notes.txt", "", Format.TEXT),
        (b"\x89PNG\r\n\x1a\n", "picture.txt", "", Format.IMAGE),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "picture", "image/png", Format.IMAGE),
        (b"PK\x03\x04....", "report.md", "", Format.ARCHIVE),
        (bytes(257) + b"ustar", "backup", "", Format.ARCHIVE),
        (b"words", "unknown.xyz", "application/octet-stream", Format.TEXT),
        (b"words", "C:\\Users\\me\\notes.md", "", Format.MARKDOWN),
    ],
)
def test_formats(head: bytes, name: str, media_type: str, expected: Format) -> None:
    assert detect(head, name, media_type).format is expected


@pytest.mark.parametrize(
    ("head", "name", "code"),
    [
        (b"", "a.md", IngestCode.EMPTY),
        (b"hello", "a.pdf", IngestCode.CORRUPT),
        (HTML, "download.pdf", IngestCode.CORRUPT),
        (b"hello", "report.docx", IngestCode.CORRUPT),
        (b"7z\xbc\xaf\x27\x1c", "report.md", IngestCode.UNSUPPORTED_FORMAT),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old.doc", IngestCode.UNSUPPORTED_FORMAT),
        (b"GIF89a", "picture.txt", IngestCode.UNSUPPORTED_FORMAT),
        (b"hello", "letter.rtf", IngestCode.CORRUPT),
    ],
)
def test_refusals(head: bytes, name: str, code: IngestCode) -> None:
    with pytest.raises(IngestError) as caught:
        detect(head, name)
    assert caught.value.code is code
    assert caught.value.message.endswith(".")


def test_old_office_documents_say_what_to_do() -> None:
    with pytest.raises(IngestError, match=r"an old Word document: save it as \.docx or PDF") as caught:
        detect(OLE, "letter.doc")
    assert caught.value.code is IngestCode.UNSUPPORTED_FORMAT
    with pytest.raises(IngestError, match=r"an old PowerPoint presentation: save it as \.pptx") as caught:
        detect(OLE + "PowerPoint Document".encode("utf-16-le"), "letter.docx")
    assert caught.value.code is IngestCode.UNSUPPORTED_FORMAT
    assert caught.value.message.endswith("LibreOffice does so with `soffice --headless --convert-to pptx FILE`.")
    with pytest.raises(IngestError, match=r"whatever its name: save it as \.docx, \.xlsx, \.pptx or PDF"):
        detect(OLE, "letter.bin")


@pytest.mark.parametrize("head", [b"\x09\x00\x04\x00", b"\x09\x02\x06\x00", b"\x09\x04\x06\x00"])
def test_a_workbook_older_than_excel_5_says_what_to_do(head: bytes) -> None:
    with pytest.raises(IngestError, match=r"before Excel 5: save it as \.xlsx .*--convert-to xlsx FILE") as caught:
        detect(head + bytes(100), "sums.xls")
    assert caught.value.code is IngestCode.UNSUPPORTED_FORMAT


@pytest.mark.parametrize("name", ["letter.docx", "letter"])
def test_a_protected_document_says_so(name: str) -> None:
    with pytest.raises(IngestError, match="protected by a password") as caught:
        detect(OLE + "EncryptedPackage".encode("utf-16-le"), name)
    assert caught.value.code is IngestCode.PASSWORD_REQUIRED


@pytest.mark.parametrize(("name", "media_type"), [("letter", ""), ("letter.txt", "text/plain"), ("a.zip", "")])
def test_a_package_is_recognised_by_its_parts(name: str, media_type: str) -> None:
    assert detect(package({"[Content_Types].xml": "", "word/document.xml": ""}), name, media_type).format is Format.DOCX


@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_parts_of_an_embedded_package_do_not_count(is_streamed: bool) -> None:
    sheet, binary = package({"xl/workbook.xml": ""}), package({"xl/workbook.bin": ""})
    parts = {"a.xml": "", "ppt/embeddings/a.xlsx": sheet, "ppt/embeddings/b.xlsb": binary, "ppt/slides/s.xml": "s"}
    assert detect(_stored(parts, is_streamed=is_streamed), "a").format is Format.SLIDES
    assert detect(_stored({"reports/a.xlsx": sheet}, is_streamed=is_streamed), "a.zip").format is Format.ARCHIVE
    assert detect(_stored(parts, is_streamed=is_streamed)[:700], "a.pptx").format is Format.SLIDES


class _Pipe(io.BytesIO):
    def tell(self) -> int:
        raise OSError


def _stored(parts: dict[str, str | bytes], *, is_streamed: bool) -> bytes:
    """A package whose parts aren't compressed; `is_streamed`: each part's size is written behind it."""
    data = _Pipe() if is_streamed else io.BytesIO()
    with ZipFile(data, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return data.getvalue()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("text", Format.OPEN_TEXT), ("spreadsheet", Format.OPEN_WORKBOOK), ("presentation", Format.OPEN_SLIDES)],
)
def test_a_package_may_declare_its_media_type(kind: str, expected: Format) -> None:
    result = detect(odf(kind, ""), "renamed.zip")
    assert (result.format, result.media_type) == (expected, f"application/vnd.oasis.opendocument.{kind}")


def test_an_unsupported_format_says_what_is_supported() -> None:
    with pytest.raises(IngestError, match="RAR archive") as caught:
        detect(b"Rar!\x1a\x07", "a.zip")
    assert "Markdown" in caught.value.message


def test_a_page_that_is_saved_with_a_name_of_word_is_a_saved_page() -> None:
    assert detect(PAGE, "exported.doc", "application/msword").media_type == "application/x-mimearchive"
    with pytest.raises(IngestError, match=r"named \.msg but isn't an Outlook message"):
        detect(b"Dear all,\n\nFrom: now", "saved.msg")


def test_the_media_type_comes_from_the_content() -> None:
    assert detect(b"a\tb", "a.tsv", "text/plain").media_type == "text/tab-separated-values"
    assert detect(PDF, "a.md", "text/markdown").media_type == "application/pdf"
