"""Estimates an upload's amount of text before it is parsed."""

import asyncio
import codecs
from contextlib import aclosing
from typing import Final

from citewire_retriever.ingest.detect import HEAD_BYTES, detect
from citewire_retriever.ingest.document import Format
from citewire_retriever.ingest.errors import IngestError
from citewire_retriever.service.spool import Spool

_PART: Final = 1024 * 1024
_PDF: Final = b"%PDF-"
_PDF_WITHIN: Final = 1024
_MARKS: Final = (
    # UTF-32's little-endian mark starts with UTF-16's, so it is checked first.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


async def holds_more_text(spool: Spool, max_chars: int, file_name: str = "", media_type: str = "") -> bool:
    """Whether a file certainly has more than `max_chars` characters, so that its ingest would fail.

    This is known for text in UTF-8, and in UTF-16 or UTF-32 with a byte order mark. It is False for PDFs, other
    encodings and binary data, which only the parser can judge, and for tables, which are read in parts. Carriage
    returns don't count, as the parser drops those of CRLF.
    """
    if spool.size_bytes <= max_chars:  # no encoding has more characters than bytes
        return False
    count, decoder = 0, None
    async with aclosing(spool.parts(_PART)) as parts:
        async for part in parts:
            if decoder is None:
                if _PDF in part[:_PDF_WITHIN] or _is_sheet(part, file_name, media_type):
                    return False
                encoding = next((name for mark, name in _MARKS if part.startswith(mark)), "utf-8-sig")
                decoder = codecs.getincrementaldecoder(encoding)()
            try:
                count += await asyncio.to_thread(_count, decoder, part)
            except UnicodeDecodeError:
                return False
            if count > max_chars:
                return True
    return False


def _is_sheet(head: bytes, file_name: str, media_type: str) -> bool:
    """Whether a file is a table, which is read in parts whatever its length."""
    try:
        return detect(head[:HEAD_BYTES], file_name, media_type).format is Format.SHEET
    except IngestError:
        return False


def _count(decoder: codecs.IncrementalDecoder, part: bytes) -> int:
    text = decoder.decode(part)
    return len(text) - text.count("\r")
