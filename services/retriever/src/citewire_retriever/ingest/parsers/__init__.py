"""Bytes to text and structure: one pure function over all formats."""

from importlib import import_module
from mmap import mmap

from citewire_retriever.ingest.decode import decode
from citewire_retriever.ingest.detect import detect
from citewire_retriever.ingest.document import Format, ParsedDocument, ParseLimits
from citewire_retriever.ingest.errors import IngestCode, IngestError

HEAD_BYTES = 65_536
"""How much of a file is looked at to find its format."""
_BYTES_PER_CHAR = 4
_DEFAULT_LIMITS = ParseLimits()


def parse(
    data: bytes | mmap, file_name: str, media_type: str = "", limits: ParseLimits = _DEFAULT_LIMITS
) -> ParsedDocument:
    """Reads a file. The same bytes and name always give the same document.

    It may take long, and much memory, on hostile input, and the PDF library can crash: run it in a process of its own
    (`citewire_retriever.ingest.sandbox`).

    Args:
        data: The whole file.
        file_name: The file's name, for its suffix; empty for text that wasn't a file.
        media_type: What the client believes it is; content and name decide before it.
        limits: Bounds on the result.

    Raises:
        IngestError: With every code but TIMEOUT and INTERNAL.
    """
    result = detect(data[:HEAD_BYTES], file_name, media_type)
    if result.format is Format.PDF:
        # Each parser is imported when it is needed: the worker, which reads no file itself, needs none.
        from citewire_retriever.ingest.parsers.pdf import parse_pdf

        return parse_pdf(data, limits)
    text = _read_text(data, limits)
    document = _parse_text(text, result.format, result.media_type, result.language, limits)
    if not document.blocks:
        raise IngestError(IngestCode.EMPTY, "The file holds nothing but white space.")
    return document


def preload() -> None:
    """Imports all that `parse` may need, for processes that can't open files any more: it reads a file of each kind."""
    samples = import_module("citewire_retriever.ingest.parsers.samples")
    for name, data in samples.FILES.items():
        parse(data, name)


def _read_text(data: bytes | mmap, limits: ParseLimits) -> str:
    most = limits.max_chars * _BYTES_PER_CHAR
    too_large = IngestError(
        IngestCode.TOO_LARGE, f"The file holds more than {limits.max_chars:,} characters of text: split it."
    )
    if len(data) > most:
        raise too_large
    text = decode(data[:])
    if len(text) > limits.max_chars:
        raise too_large
    if not text.strip():
        raise IngestError(IngestCode.EMPTY, "The file holds nothing but white space.")
    return text


def _parse_text(text: str, text_format: Format, media_type: str, language: str, limits: ParseLimits) -> ParsedDocument:
    match text_format:
        case Format.MARKDOWN:
            from citewire_retriever.ingest.parsers.markdown import parse_markdown

            return parse_markdown(text, limits)
        case Format.HTML:
            from citewire_retriever.ingest.parsers.html import parse_html_page

            return parse_html_page(text, limits)
        case Format.SHEET:
            from citewire_retriever.ingest.parsers.sheet import parse_sheet

            return parse_sheet(text, limits, media_type=media_type)
        case Format.CODE:
            from citewire_retriever.ingest.parsers.code import parse_code

            return parse_code(text, language, limits)
        case _:
            from citewire_retriever.ingest.parsers.plain import parse_plain

            return parse_plain(text, limits, media_type=media_type)
