"""Files that contain only images: why they can't be read, and what to do."""

from __future__ import annotations

import io
from zipfile import ZipFile

import pytest

from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers import parse
from ingest_files import texts
from zip_packages import W, epub, odf, package, pptx, xlsx

_PICTURE = '<sp><pic><blip r:embed="r1" xmlns:r="r"/></pic></sp>'


def with_parts(data: bytes, *names: str) -> bytes:
    with ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    return package({**parts, **dict.fromkeys(names, b"x")}, stored="mimetype")


_DOCX = package({"word/document.xml": f'<w:document xmlns:w="{W}"><w:body><w:p/></w:body></w:document>'})
_SLIDE = '<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p/></draw:text-box></draw:frame>'
_ODP = odf("presentation", f"{_SLIDE}</draw:page>")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.docx", with_parts(_DOCX, "word/media/image1.PNG")),
        ("a.pptx", with_parts(pptx(_PICTURE, _PICTURE), "ppt/media/image1.emf")),
        ("a.xlsx", with_parts(xlsx(""), "xl/media/image1.jpeg")),
        ("a.odt", with_parts(odf("text", "<text:p/>"), "Pictures/1.svg")),
        ("a.odp", with_parts(_ODP, "Pictures/1.png")),
        ("a.epub", with_parts(epub({"1.xhtml": "<html><body><img src='i'/></body></html>"}), "o/cover.jpg")),
        ("a.rtf", rb"{\rtf1 {\pict\pngblip 89504e47}\par}"),
    ],
)
def test_a_file_of_images_says_so_and_what_would_help(name: str, data: bytes) -> None:
    with pytest.raises(IngestError, match=r"no text, only images.*save it as a PDF.*Tesseract") as caught:
        parse(data, name)
    assert caught.value.code is IngestCode.NO_TEXT


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.docx", with_parts(_DOCX, "docProps/thumbnail.jpeg")),
        ("a.odt", with_parts(odf("text", "<text:p/>"), "Thumbnails/thumbnail.png")),
        ("a.pptx", pptx("<sp/>")),
        ("a.odp", _ODP),
        ("a.rtf", rb"{\rtf1 \par}"),
    ],
)
def test_a_file_without_text_and_images_is_empty(name: str, data: bytes) -> None:
    with pytest.raises(IngestError, match="only white space") as caught:
        parse(data, name)
    assert caught.value.code is IngestCode.EMPTY


def test_slides_of_images_are_kept_among_slides_with_text() -> None:
    text = "<sp><txBody><p><r><t>Text</t></r></p></txBody></sp>"
    data = with_parts(pptx(_PICTURE, text), "ppt/media/image1.png")
    assert texts(parse(data, "a.pptx")) == ["Slide 1", "Slide 2", "Text"]
