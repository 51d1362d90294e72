"""Outlook's wrapper for messages (winmail.dat): text and attachments (MS-OXTNEF)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import error as StructError  # noqa: N812 - it is a class
from struct import unpack_from
from typing import Final

from citewire_retriever.ingest.decode import clean, decode
from citewire_retriever.ingest.errors import IngestError
from citewire_retriever.ingest.parsers.pairs import one_line

MEDIA_TYPES: Final = frozenset({"application/ms-tnef", "application/vnd.ms-tnef"})
_SIGNATURE: Final = b"\x78\x9f\x3e\x22"
_HEADER: Final = 6
_BODY, _TITLE, _DATA, _BEGINS, _PROPERTIES, _OF_ATTACHMENT = 0x800C, 0x8010, 0x800F, 0x9002, 0x9003, 0x9005
_LONG_NAME, _PLAIN, _RTF, _HTML, _CONTENT = 0x3707, 0x1000, 0x1009, 0x1013, 0x3701
_NAMED: Final = 0x8000
_SEVERAL: Final = 0x1000
_ANSI, _UNICODE = 0x001E, 0x001F
_VARIABLE: Final = frozenset({_ANSI, _UNICODE, 0x000D, 0x0102})
_FIXED: Final = {2: 4, 3: 4, 4: 4, 5: 8, 6: 8, 7: 8, 10: 4, 11: 4, 20: 8, 64: 8, 72: 16}
"""Size of a value in bytes, by type."""
_MOST_ATTACHMENTS: Final = 200
_MOST_PROPERTIES: Final = 2000
_NAME_CHARS: Final = 100


@dataclass(slots=True)
class Wrapped:
    """The wrapped content."""

    plain: str = ""
    html: str = ""
    rtf: bytes = b""
    """Compressed RTF, as Outlook stores it."""
    attachments: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])
    """Name and content, in order."""


def is_wrapped(data: bytes) -> bool:
    """Whether this is such a file."""
    return data.startswith(_SIGNATURE)


def unwrap(data: bytes) -> Wrapped:
    """Reads up to the first damaged part."""
    result = Wrapped()
    name, content = "", b""
    try:
        for number, value in _attributes(data):
            if number == _BEGINS:
                _add(result, name, content)
                name, content = "", b""
            elif number == _TITLE:
                name = name or _text(value, wide=False)
            elif number == _DATA:
                content = value
            elif number == _OF_ATTACHMENT:
                for what, wide, each in _properties(value):
                    if what == _LONG_NAME:
                        name = _text(each, wide=wide) or name
                    elif what == _CONTENT and not content:
                        content = each
            elif number == _BODY:
                result.plain = _text(value, wide=False, lines=True)
            elif number == _PROPERTIES:
                _read_message(result, value)
    except (StructError, IndexError):
        pass  # truncated
    _add(result, name, content)
    return result


def _read_message(result: Wrapped, data: bytes) -> None:
    for what, wide, value in _properties(data):
        if what == _PLAIN and not result.plain:
            result.plain = _text(value, wide=wide, lines=True)
        elif what == _HTML:
            result.html = _text(value, wide=wide, lines=True)
        elif what == _RTF:
            result.rtf = value


def _add(result: Wrapped, name: str, content: bytes) -> None:
    name = one_line(name).replace("\\", "/").rpartition("/")[2][-_NAME_CHARS:]
    if name and content and len(result.attachments) < _MOST_ATTACHMENTS:
        result.attachments.append((name, content))


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The attributes, by their number without the type."""
    at = _HEADER
    while at + 11 <= len(data):
        number, _, length = unpack_from("<HHI", data, at + 1)
        yield number, data[at + 9 : at + 9 + length]
        at += 11 + length


def _properties(data: bytes) -> Iterator[tuple[int, bool, bytes]]:
    """Variable-length properties by number: whether they are UTF-16, and their first value."""
    (count,) = unpack_from("<I", data, 0)
    at = 4
    for _ in range(min(count, _MOST_PROPERTIES)):
        kind, number = unpack_from("<HH", data, at)
        at += 4
        if number >= _NAMED:
            at += 20
            if unpack_from("<I", data, at - 4)[0]:
                at += 4 + _padded(*unpack_from("<I", data, at))
            else:
                at += 4
        values = 1
        plain_kind = kind & ~_SEVERAL
        if plain_kind in _VARIABLE or kind & _SEVERAL:
            (values,) = unpack_from("<I", data, at)
            at += 4
        for index in range(values):
            if plain_kind not in _VARIABLE:
                at += _FIXED[plain_kind] if plain_kind in _FIXED else len(data)
                continue
            (length,) = unpack_from("<I", data, at)
            if not index:
                yield number, plain_kind == _UNICODE, data[at + 4 : at + 4 + length]
            at += 4 + _padded(length)
            if at > len(data):
                return


def _padded(length: int) -> int:
    return length + -length % 4


def _text(value: bytes, *, wide: bool, lines: bool = False) -> str:
    try:
        text = value.decode("utf-16-le", "replace") if wide else decode(value.rstrip(b"\0"), what="message")
    except IngestError:
        return ""
    text = clean(text.rstrip("\0"))
    return text if lines else one_line(text)
