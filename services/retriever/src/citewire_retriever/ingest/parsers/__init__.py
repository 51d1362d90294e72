"""Bytes to text and structure: one pure function over all formats."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from mmap import mmap
from typing import Final

from citewire_retriever.ingest.decode import decode, is_utf8
from citewire_retriever.ingest.detect import HEAD_BYTES, Detected, detect
from citewire_retriever.ingest.document import (
    Format,
    PagesRead,
    ParsedDocument,
    ParseLimits,
    SheetPosition,
    too_much_text,
)
from citewire_retriever.ingest.errors import HOW_TO_HAVE_IT, ONLY_IMAGES, IngestCode, IngestError
from citewire_retriever.ingest.kinds import HAS_XLS, PACKAGES
from citewire_retriever.ingest.parsers.nesting import Inside

_BYTES_PER_CHAR = 4
_LONG_SHEET_BYTES = 4 * 1024 * 1024
_DEFAULT_LIMITS = ParseLimits()


@dataclass(frozen=True, slots=True)
class _File:
    """A file to be read."""

    data: bytes | mmap
    name: str
    detected: Detected
    limits: ParseLimits
    inside: Inside
    """Reads the files in it, if there are any."""
    position: SheetPosition | None
    """The part of a long table to read; None if it is read at once, as always within another file."""
    told: PagesRead | None
    """Told of a PDF's pages while they are read."""

    def text(self) -> str:
        """The file as text. Raises IngestError: TOO_LARGE, EMPTY, UNSUPPORTED_FORMAT."""
        if len(self.data) > self.limits.max_chars * _BYTES_PER_CHAR:
            raise too_much_text(self.limits)
        text = decode(self.data[:])
        if len(text) > self.limits.max_chars:
            raise too_much_text(self.limits)
        if not text.strip():
            raise _nothing_in_it()
        return text


def parse(
    data: bytes | mmap,
    file_name: str,
    media_type: str = "",
    limits: ParseLimits = _DEFAULT_LIMITS,
    position: SheetPosition | None = None,
    told: PagesRead | None = None,
) -> ParsedDocument:
    """Reads a file. The same bytes and name always give the same document.

    On hostile input it may take long and use much memory, and the PDF library can crash: run it in a separate process
    (`citewire_retriever.ingest.sandbox`).

    Args:
        data: The whole file.
        file_name: The file's name, for its suffix; empty for text that wasn't a file.
        media_type: The client's media type, used after content and name.
        limits: Limits of the result.
        position: The part of a long table: `following` of the previous one; None for the first, and for other files.
        told: Told of a PDF's pages while they are read.

    Raises:
        IngestError: With any code except TIMEOUT and INTERNAL.
    """
    return _parse(data, file_name, media_type, limits, Inside(_parse, limits), position or SheetPosition(), told)


def _parse(  # shared by `parse` and the files within a file
    data: bytes | mmap,
    file_name: str,
    media_type: str,
    limits: ParseLimits,
    inside: Inside,
    position: SheetPosition | None = None,
    told: PagesRead | None = None,
) -> ParsedDocument:
    detected = detect(data[:HEAD_BYTES], file_name, media_type)
    document = _READERS[detected.format](_File(data, file_name, detected, limits, inside, position, told))
    if not document.blocks and not (document.following or (position and position.offset)):
        raise _nothing_read(data, document.format)
    return document


def preload() -> None:
    """Imports everything that `parse` may need, by reading a file of each kind, for processes that can't open files."""
    samples = import_module("citewire_retriever.ingest.parsers.samples")
    for name, data in samples.FILES.items():
        if name != samples.XLS or HAS_XLS:
            parse(data, name)


def _nothing_read(data: bytes | mmap, format: Format) -> IngestError:
    """The error for a file of a format that may contain images, without text."""
    if format is Format.RTF:
        has_images = data.find(b"\\pict") >= 0
    elif format in PACKAGES:
        from citewire_retriever.ingest.parsers.package import has_images as package_has_images

        has_images = package_has_images(data)
    else:
        has_images = False
    return IngestError(IngestCode.NO_TEXT, ONLY_IMAGES) if has_images else _nothing_in_it()


def _nothing_in_it() -> IngestError:
    return IngestError(IngestCode.EMPTY, "The file contains only white space.")


# Each parser is imported when it is needed: the worker reads no file itself and needs none.


def _read_pdf(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.pdf import parse_pdf

    return parse_pdf(file.data, file.limits, file.told)


def _read_markdown(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.markdown import parse_markdown

    return parse_markdown(file.text(), file.limits)


def _read_html(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.html import parse_html_page

    return parse_html_page(file.text(), file.limits, is_file=True)


def _read_sheet(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.sheet import parse_long_sheet, parse_sheet

    media_type = file.detected.media_type
    position = file.position
    if position and (position.offset or (len(file.data) > _LONG_SHEET_BYTES and is_utf8(file.data))):
        return parse_long_sheet(file.data, file.limits, media_type=media_type, position=position)
    return parse_sheet(file.text(), file.limits, media_type=media_type)


def _read_docx(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.docx import parse_docx

    return parse_docx(file.data, file.limits)


def _read_workbook(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.xlsx import parse_xlsx

    return parse_xlsx(file.data, file.limits)


def _read_old_workbook(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.xls import parse_xls

    return parse_xls(file.data, file.limits)


def _read_slides(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.pptx import parse_pptx

    return parse_pptx(file.data, file.limits)


def _read_open_text(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.odf import parse_odt

    return parse_odt(file.data, file.limits)


def _read_open_slides(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.odf import parse_odp

    return parse_odp(file.data, file.limits)


def _read_open_workbook(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.ods import parse_ods

    return parse_ods(file.data, file.limits)


def _read_ebook(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.epub import parse_epub

    return parse_epub(file.data, file.limits)


def _read_rtf(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.rtf import parse_rtf

    return parse_rtf(file.data, file.limits)


def _read_code(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.code import parse_code

    return parse_code(file.text(), file.detected.language, file.limits)


def _read_notebook(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.notebook import parse_notebook

    return parse_notebook(file.data, file.limits)


def _read_mail(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.mail import parse_mail
    from citewire_retriever.ingest.parsers.outlook import MEDIA_TYPE as OUTLOOK
    from citewire_retriever.ingest.parsers.outlook import parse_outlook
    from citewire_retriever.ingest.parsers.web_archive import MEDIA_TYPE as WEB_ARCHIVE
    from citewire_retriever.ingest.parsers.web_archive import parse_web_archive

    file.inside.check_depth()
    if file.detected.media_type == WEB_ARCHIVE:
        return parse_web_archive(file.data, file.inside)
    if file.detected.media_type == OUTLOOK:
        return parse_outlook(file.data, file.inside)
    return parse_mail(file.data, file.inside)


def _read_archive(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.archive import parse_archive

    file.inside.check_depth()
    return parse_archive(file.data, file.name, file.detected.media_type, file.inside)


def _read_image(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.scans import count_frames

    count_frames(file.data)
    raise IngestError(IngestCode.NO_TEXT, HOW_TO_HAVE_IT)


def _read_subtitles(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.subtitles import parse_subtitles

    return parse_subtitles(file.text(), file.limits, media_type=file.detected.media_type)


def _read_markup(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.markup import parse_markup

    return parse_markup(file.text(), file.limits, media_type=file.detected.media_type)


def _read_configuration(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.configuration import parse_configuration

    return parse_configuration(file.text(), file.limits, media_type=file.detected.media_type)


def _read_data(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.data import parse_data

    return parse_data(file.text(), file.limits, media_type=file.detected.media_type)


def _read_cards(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.cards import parse_cards

    return parse_cards(file.text(), file.limits, media_type=file.detected.media_type)


def _read_plain(file: _File) -> ParsedDocument:
    from citewire_retriever.ingest.parsers.plain import parse_plain

    return parse_plain(file.text(), file.limits, media_type=file.detected.media_type)


_READERS: Final[Mapping[Format, Callable[[_File], ParsedDocument]]] = {
    Format.PDF: _read_pdf,
    Format.MARKDOWN: _read_markdown,
    Format.HTML: _read_html,
    Format.SHEET: _read_sheet,
    Format.CODE: _read_code,
    Format.DOCX: _read_docx,
    Format.WORKBOOK: _read_workbook,
    Format.OLD_WORKBOOK: _read_old_workbook,
    Format.SLIDES: _read_slides,
    Format.NOTEBOOK: _read_notebook,
    Format.DATA: _read_data,
    Format.MAIL: _read_mail,
    Format.ARCHIVE: _read_archive,
    Format.IMAGE: _read_image,
    Format.SUBTITLES: _read_subtitles,
    Format.MARKUP: _read_markup,
    Format.CONFIGURATION: _read_configuration,
    Format.OPEN_TEXT: _read_open_text,
    Format.OPEN_SLIDES: _read_open_slides,
    Format.OPEN_WORKBOOK: _read_open_workbook,
    Format.EBOOK: _read_ebook,
    Format.RTF: _read_rtf,
    Format.CARDS: _read_cards,
    Format.TEXT: _read_plain,
}
