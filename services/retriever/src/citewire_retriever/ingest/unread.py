"""Unsupported formats: how they are recognised by their first bytes, and what to do instead."""

import re
from collections.abc import Sequence
from typing import Final

from citewire_retriever.ingest.decode import decode
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.kinds import SUPPORTED

OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
BINARY_MAGIC: Final[tuple[tuple[bytes, str], ...]] = (
    (b"PK\x05\x06", "an empty ZIP archive"),
    (OLE, "an old Office document"),
    (b"GIF8", "a GIF image"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"OggS", "an audio or video file"),
    (b"ID3", "an audio file"),
)
_MEDIA: Final = "an audio or video file", "upload its transcript or its subtitles (SRT, WebVTT)"
_AS_PDF: Final = "save it as PDF and upload that"
_BINARY: Final[tuple[tuple[re.Pattern[bytes], str, str], ...]] = tuple(
    (re.compile(pattern, re.S), kind, advice)
    for pattern, kind, advice in (
        (rb"\0\0.{2}ftyp(?:hei|hev|mif1|msf1|avif|avis)", "an HEIC or AVIF image", "save it as PNG or JPEG"),
        (rb"\0\0.{2}ftyp|RIFF.{4}(?:WAVE|AVI )|\x1aE\xdf\xa3|fLaC\0|\xff[\xfb\xf3\xf2\xfa][^\0]?", *_MEDIA),
        (rb"BM.{4}\0\0\0\0", "a BMP image", "save it as PNG or JPEG"),
        (rb"\x00{3}\x0c(?:jP  |JXL )\r\n\x87\n", "a JPEG 2000 or JPEG XL image", "save it as PNG or JPEG"),
        (rb"%!PS|\xc5\xd0\xd3\xc6", "a PostScript file", "convert it to PDF (`ps2pdf FILE`) and upload that"),
        (rb"AT&TFORM", "a DjVu document", _AS_PDF),
        (rb".{60}(?:BOOKMOBI|TEXtREAd)", "a Kindle e-book", "save it as EPUB or PDF and upload that"),
        (rb"ITSF\x03", "a compiled help file", _AS_PDF),
        (rb"\xffWPC", "a WordPerfect document", "save it as .docx or PDF and upload that"),
        (rb"\xe4\x52\x5c\x7b\x8c\xd8\xa7\x4d", "a OneNote section", _AS_PDF),
        (rb"AC10\d\d\0|8BPS\0|\xd7\xcd\xc6\x9a", "a drawing", _AS_PDF),
        (rb"\x78\x9f\x3e\x22", "a message as Outlook wraps it", "upload the e-mail that it came with"),
        (rb"!BDN", "an Outlook data file", "export its messages as .msg or .eml"),
        (rb"\x00\x01\x00\x00Standard (?:Jet|ACE) DB", "an Access database", "export its tables as CSV or Excel"),
        (rb"PAR1\x15|\x89HDF|ARROW1\0|\x93NUMPY", "a data file", "export it as CSV and upload that"),
        (rb"MSCF\0\0\0\0|\x1f\x9d|\x04\x22\x4d\x18", "an archive", "pack it as ZIP"),
        (rb"MZ.{4}\0\0|\xca\xfe\xba\xbe\0|\0asm", "a program", "upload its source code or documentation"),
    )
)
"""First bytes of files, what they are, and what to do."""
_PARTS: Final[tuple[tuple[re.Pattern[bytes], str, str], ...]] = tuple(
    (re.compile(pattern), kind, advice)
    for pattern, kind, advice in (
        (rb"xl/workbook\.bin", "a binary Excel workbook", "save it as .xlsx and upload that"),
        (rb"visio/", "a Visio drawing", _AS_PDF),
        (rb"FixedDocSeq(?:uence)?\.fdseq|FixedDocumentSequence\.fdseq", "an XPS document", _AS_PDF),
    )
)
"""Names of members in Office's packages."""
_IS_OFFICE: Final = b"[Content_Types].xml"
_STATED: Final = {
    "graphics": "drawing",
    "chart": "chart",
    "formula": "formula",
    "database": "database",
    "base": "database",
    "image": "image",
}
"""Kinds of OpenDocument packages."""
_NOISE: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_MOST_NOISE: Final = 0.01


def refuse_binary(head: bytes) -> None:
    """Recognises known files that can't be text. Raises IngestError: UNSUPPORTED_FORMAT."""
    for magic, kind in BINARY_MAGIC:
        if head.startswith(magic):
            raise _unsupported(kind, "" if magic != OLE else "save it as .docx, .xlsx, .pptx or PDF and upload that")
    for pattern, kind, advice in _BINARY:
        if pattern.match(head):
            raise _unsupported(kind, advice)


def refuse_package(members: Sequence[bytes], stated: str) -> None:
    """Recognises unsupported ZIP packages, so that they aren't read as archives of their parts.

    Args:
        members: Names of its first members.
        stated: The media type that it states; empty if none.

    Raises:
        IngestError: UNSUPPORTED_FORMAT.
    """
    if any(member.endswith(b".iwa") for member in members):
        raise _unsupported("a document of Pages, Numbers or Keynote", "export it as Word, Excel, PowerPoint or PDF")
    _, is_open_document, kind = stated.partition("vnd.oasis.opendocument.")
    if is_open_document and (known := _STATED.get(kind.partition("-")[0])) is not None:
        raise _unsupported(f"an OpenDocument {known}", _AS_PDF)
    for member in members if _IS_OFFICE in members else ():
        for pattern, what, advice in _PARTS:
            if pattern.match(member):
                raise _unsupported(what, advice)


def refuse_noise(head: bytes, *, is_named: bool) -> None:
    """Refuses files that aren't text by their first bytes.

    Args:
        head: The file's first bytes.
        is_named: Whether its name suggests text.

    Raises:
        IngestError: UNSUPPORTED_FORMAT.
    """
    if len(_NOISE.findall(head)) <= _MOST_NOISE * max(len(head), 100):
        return
    try:
        decode(head)
    except IngestError as error:
        if is_named:
            raise
        message = f"The file is neither text nor of a known format. Supported: {SUPPORTED}."
        raise IngestError(IngestCode.UNSUPPORTED_FORMAT, message) from error


def _unsupported(kind: str, advice: str) -> IngestError:
    then = f": {advice}." if advice else f". Supported: {SUPPORTED}."
    return IngestError(IngestCode.UNSUPPORTED_FORMAT, f"The file is {kind}, whatever its name{then}")
