"""Outlook messages (MSG), read as e-mails with their attachments and nested messages.

The container is read by olefile (python-oxmsg, built on it, reads all streams at once, however large they claim to be);
the streams' meaning follows Microsoft's MS-OXMSG and MS-OXPROPS.
"""

from datetime import UTC, datetime, timedelta
from email.errors import HeaderParseError
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import format_datetime, formataddr
from mmap import mmap
from struct import error as StructError  # noqa: N812 - it is a class
from struct import iter_unpack
from typing import Any, Final, cast

import olefile

from citewire_retriever.ingest.decode import clean, decode, decode_as
from citewire_retriever.ingest.document import ParsedDocument
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.mail import HEADER_CHARS, render_mail
from citewire_retriever.ingest.parsers.nesting import Inside
from citewire_retriever.ingest.parsers.outlook_rtf import rtf_text
from citewire_retriever.ingest.parsers.package import bytes_file
from citewire_retriever.ingest.parsers.pairs import one_line

MEDIA_TYPE: Final = "application/vnd.ms-outlook"
_PROPERTIES: Final = "__properties_version1.0"
_MESSAGE_HEADER, _EMBEDDED_HEADER, _PART_HEADER = 32, 24, 8
"""Bytes before the fixed-length properties of a message, a nested message, and an attachment or recipient."""
_MOST_RECEIVERS: Final = 200
_MOST_ATTACHMENTS: Final = 200
_MOST_NESTED: Final = 3
_NAME_CHARS: Final = 100
_INTEGER, _ANSI, _UNICODE, _TIME, _BYTES = 0x0003, 0x001E, 0x001F, 0x0040, 0x0102
"""Types of properties."""
_SUBJECT, _BODY, _RTF, _HTML, _SENT, _DELIVERED = 0x0037, 0x1000, 0x1009, 0x1013, 0x0039, 0x0E06
_SENDER: Final = (0x0C1A, 0x5D01, 0x0C1F)
"""Name, Internet address, other address."""
_RECEIVER: Final = (0x3001, 0x39FE, 0x3003)
_RECEIVER_KIND, _FILE, _LONG_NAME, _SHORT_NAME = 0x0C15, 0x3701, 0x3707, 0x3704
_CODE_PAGE, _INTERNET_CODE_PAGE = 0x3FFD, 0x3FDE
_EPOCH: Final = datetime(1601, 1, 1, tzinfo=UTC)
_POLICY: Final = EmailPolicy(utf8=True)


def parse_outlook(data: bytes | mmap, inside: Inside) -> ParsedDocument:
    """Parses a message and renders it like an e-mail: see `parse_mail`.

    Headings aren't recognised in a text that exists only as RTF.

    Raises:
        IngestError: CORRUPT if it isn't a message; EMPTY; TOO_LARGE.
    """
    try:
        with cast("Any", olefile).OleFileIO(bytes_file(data)) as file:
            message = _Reader(file, inside).message([], 0)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, StructError, RecursionError) as error:
        # olefile raises these for truncated or forged files.
        raise IngestError(IngestCode.CORRUPT, "The message is damaged or cut off: save it again.") from error
    return render_mail(message, inside, MEDIA_TYPE)


class _Reader:
    """Reads storages, given by path."""

    def __init__(self, file: Any, inside: Inside) -> None:  # noqa: ANN401 # olefile has no types
        self.file = file
        self.budget = inside.budget
        self.limits = inside.limits

    def message(self, path: list[str], depth: int) -> EmailMessage:
        """The message in a storage, as an e-mail message."""
        values = self._values(path, _EMBEDDED_HEADER if depth else _MESSAGE_HEADER)
        page = values.get(_CODE_PAGE, 0)
        sender = self._person(path, page, _SENDER)
        to, cc = self._receivers(path, page)
        message = EmailMessage(_POLICY)
        _set_header(message, "From", sender)
        _set_header(message, "To", to)
        _set_header(message, "Cc", cc)
        _set_header(message, "Date", _date(values.get(_SENT) or values.get(_DELIVERED) or 0))
        _set_header(message, "Subject", self._text(path, _SUBJECT, page))
        if body := self._text(path, _BODY, page):
            message.set_content(body)
        elif html := self._stream(path, _HTML, _BYTES):
            message.set_content(_decoded(html, values.get(_INTERNET_CODE_PAGE, page)), subtype="html")
        elif rtf := self._stream(path, _RTF, _BYTES):
            message.set_content(rtf_text(rtf, self.budget, self.limits))
        for storage in self._storages(path, "__attach_version1.0_#")[:_MOST_ATTACHMENTS]:
            self._attach(message, [*path, storage], page, depth)
        return message

    def _attach(self, message: EmailMessage, path: list[str], page: int, depth: int) -> None:
        inner = [*path, f"__substg1.0_{_FILE:04X}000D"]
        if self.file.exists([*inner, _PROPERTIES]):
            if depth < _MOST_NESTED:
                message.add_attachment(self.message(inner, depth + 1))
            return
        name = one_line(self._text(path, _LONG_NAME, page) or self._text(path, _SHORT_NAME, page))
        data = self._stream(path, _FILE, _BYTES)
        if data and name:
            message.add_attachment(
                data, maintype="application", subtype="octet-stream", filename=name[-_NAME_CHARS:], cte="base64"
            )

    def _receivers(self, path: list[str], page: int) -> tuple[str, str]:
        """To and Cc."""
        people: dict[int, list[str]] = {1: [], 2: []}
        for storage in self._storages(path, "__recip_version1.0_#")[:_MOST_RECEIVERS]:
            receiver = [*path, storage]
            kind = self._values(receiver, _PART_HEADER).get(_RECEIVER_KIND, 0) & 0xF
            if kind in people:
                people[kind].append(self._person(receiver, page, _RECEIVER))
        return ", ".join(people[1]), ", ".join(people[2])

    def _person(self, path: list[str], page: int, numbers: tuple[int, int, int]) -> str:
        """A name with an address; Exchange's internal addresses are left out, as they mean nothing to readers."""
        name, smtp, other = (one_line(self._text(path, number, page)) for number in numbers)
        address = smtp or (other if "@" in other else "")
        return formataddr((name, address), "utf-8") if address.isascii() and address else name

    def _storages(self, path: list[str], start: str) -> list[str]:
        node = self.file.root
        for step in path:
            node = node.kids_dict[step.lower()]
        return sorted(str(kid.name) for kid in node.kids if str(kid.name).startswith(start))

    def _values(self, path: list[str], header: int) -> dict[int, int]:
        """The properties of fixed length, by number, as unsigned integers; a receiver may have none."""
        stream = [*path, _PROPERTIES]
        data = self._open(stream)[header:] if not path or self.file.exists(stream) else b""
        rows = iter_unpack("<HHIQ", data[: len(data) // 16 * 16])
        lengths = {_INTEGER: 0xFFFF_FFFF, _TIME: 2**64 - 1}
        return {number: value & lengths[kind] for kind, number, _, value in rows if kind in lengths}

    def _text(self, path: list[str], number: int, page: int) -> str:
        wide = self._stream(path, number, _UNICODE)
        if wide:
            return clean(wide.decode("utf-16-le", "replace"))
        return _decoded(self._stream(path, number, _ANSI), page)

    def _stream(self, path: list[str], number: int, kind: int) -> bytes:
        """A property with its own stream; empty if there is none."""
        name = [*path, f"__substg1.0_{number:04X}{kind:04X}"]
        return self._open(name) if self.file.exists(name) else b""

    def _open(self, path: list[str]) -> bytes:
        # Streams may share bytes, so their total can exceed the file's size.
        self.budget.inflate(self.file.get_size(path))
        return self.file.openstream(path).read()


def _decoded(data: bytes, page: int) -> str:
    """Decodes a text from its code page or, failing that, from the one that it appears to be in."""
    names = {0: "", 65001: "utf-8", 20127: "ascii", 28591: "cp1252"}
    try:
        return decode_as(data, names.get(page, f"cp{page}")) or decode(data, what="message") if data else ""
    except IngestError:
        return ""


def _date(ticks: int) -> str:
    """A time in tenths of a microsecond since 1601, in the e-mail date format."""
    try:
        return format_datetime(_EPOCH + timedelta(microseconds=ticks // 10)) if ticks else ""
    except OverflowError:
        return ""


def _set_header(message: EmailMessage, name: str, value: str) -> None:
    if value := one_line(value)[:HEADER_CHARS]:
        try:
            message[name] = value
        except (HeaderParseError, ValueError, LookupError, AttributeError, RecursionError):
            return  # raised for invalid values
