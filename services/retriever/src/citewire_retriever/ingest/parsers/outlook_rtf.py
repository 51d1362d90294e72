"""Outlook's compressed RTF (MS-OXRTFCP)."""

from struct import error as StructError  # noqa: N812 - it is a class
from struct import unpack_from
from typing import Final

from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.errors import IngestError
from citewire_retriever.ingest.parsers.nesting import Budget
from citewire_retriever.ingest.parsers.rtf import parse_rtf

_HEADER: Final = 16
_COMPRESSED: Final = b"LZFu"
_PLAIN: Final = b"MELA"
_WINDOW: Final = 4096
_KNOWN: Final = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans "
    rb"SerifSymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    + b"\r\n"
    + rb"\par \pard\plain\f0\fs20\b\i\u"
    rb"\tab\tx"
)
"""The window's initial content."""


def rtf_text(data: bytes, budget: Budget, limits: ParseLimits) -> str:
    """The text of compressed RTF; empty if it can't be read.

    Args:
        data: The property's value.
        budget: Limits what may be extracted.
        limits: Bounds on the text.

    Raises:
        IngestError: TOO_LARGE if the budget is exceeded.
    """
    try:
        return parse_rtf(_decompressed(data, budget), limits).text
    except (StructError, IndexError):
        return ""
    except IngestError:
        if budget.exceeded:
            raise
        return ""


def _decompressed(data: bytes, budget: Budget) -> bytes:
    size, kind = unpack_from("<I4s", data, 4)
    if kind == _PLAIN:
        return data[_HEADER : _HEADER + size]
    if kind != _COMPRESSED:
        return b""
    budget.inflate(min(size, len(data) * 9))  # a flag byte and sixteen bytes of references give eight runs of 17 bytes
    window = bytearray(_KNOWN.ljust(_WINDOW, b"\0"))
    result = bytearray()
    at, place = _HEADER, len(_KNOWN)
    while at < len(data):
        flags = data[at]
        at += 1
        for bit in range(8):
            if not flags >> bit & 1:
                piece = data[at : at + 1]
                at += 1
            else:
                reference = int.from_bytes(data[at : at + 2], "big")
                at += 2
                start = reference >> 4
                if start == place % _WINDOW or at > len(data):
                    return bytes(result)
                piece = _copied(window, start, place, (reference & 0xF) + 2)
            for byte in piece:
                window[place % _WINDOW] = byte
                place += 1
            result += piece
            if len(result) >= size:
                return bytes(result[:size])
    return bytes(result)


def _copied(window: bytearray, start: int, place: int, count: int) -> bytes:
    """Bytes of the window; the range may overlap the bytes being written."""
    distance = (place - start) % _WINDOW
    return bytes(window[(start + index % distance) % _WINDOW] for index in range(count))
