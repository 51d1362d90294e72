"""`multipart/form-data` with one file, parsed as it arrives: the file goes to disk, never into memory as a whole.

It is spooled before anything is sent on, because fields may come after the file and a message to the retriever begins
with them; because an upload that breaks off or is too large must leave nothing behind; and because a slow client must
not hold a call to the retriever open.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncGenerator, AsyncIterable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath, PureWindowsPath
from typing import IO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect

from citewire_gateway.http.bodies import too_large, unstorable
from citewire_kit.errors import Aborted, InvalidArgument, ResourceExhausted, Unavailable, invalid_field
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

FILE = "file"
_MAX_FIELD_BYTES = 256 * 1024
_MAX_FIELDS_BYTES = 1024 * 1024
_MAX_PARTS = 200
_MAX_FILE_NAME = 255
_FLUSH_BYTES = 1024 * 1024
_READ_BYTES = 1024 * 1024


class UploadSlots:
    """Admission by permit: each upload has a spool file, and disks are finite.

    One too many is refused at once, instead of waiting with its body half-sent.
    """

    def __init__(self, most: int) -> None:
        self._free = most

    @contextmanager
    def take(self) -> Generator[None]:
        """Holds a slot during the block.

        Raises:
            ResourceExhausted: All are taken (`OVERLOADED`).
        """
        if self._free <= 0:
            raise ResourceExhausted("too many uploads at once", reason="OVERLOADED", retry_after=2.0)
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


@dataclass(slots=True)
class Form:
    """What was uploaded. `digest` covers every field and the file, however they were wrapped."""

    spool: IO[bytes]
    file_name: str = ""
    media_type: str = ""
    size: int = 0
    fields: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    digest: bytes = b""

    async def data(self) -> AsyncGenerator[bytes, None]:
        """The file, piece by piece."""
        await asyncio.to_thread(self.spool.seek, 0)
        while piece := await asyncio.to_thread(self.spool.read, _READ_BYTES):
            yield piece


@asynccontextmanager
async def receive_form(
    stream: AsyncIterable[bytes], content_type: str, *, max_file_bytes: int, folder: str | None
) -> AsyncGenerator[Form, None]:
    """Receives a form; its spool file is gone when the block ends.

    Args:
        stream: The body.
        content_type: The request's header, with the boundary.
        max_file_bytes: Largest file.
        folder: For the spool file; None is the system's.

    Raises:
        InvalidArgument: The body isn't such a form, has no file or an empty one, or a field is malformed.
        ResourceExhausted: The file is too large (`TOO_LARGE`); what was received is gone.
        Aborted: The client left in the middle.
    """
    _, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if not boundary:
        raise _malformed("Content-Type names no boundary")
    # SIM115: closed below; the file has no name, so that even a killed process leaves nothing behind.
    spool: IO[bytes] = await asyncio.to_thread(tempfile.TemporaryFile, dir=folder)
    try:
        try:
            reader = _Reader(boundary, spool, max_file_bytes)
            async for piece in stream:
                await reader.feed(piece)
        except FormParserError as exc:
            raise _malformed("it can't be parsed") from exc
        except ClientDisconnect as exc:
            raise Aborted("the client broke the upload off; nothing was stored", reason="UPLOAD_ABORTED") from exc
        yield await reader.finish()
    finally:
        await asyncio.to_thread(spool.close)


class _Reader:
    """Takes the parser's callbacks."""

    def __init__(self, boundary: bytes, spool: IO[bytes], max_file_bytes: int) -> None:
        self._form = Form(spool)
        self._max = max_file_bytes
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._part_begin,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._part_data,
                "on_part_end": self._part_end,
                "on_end": self._end,
            },
        )
        self._parts = 0
        self._header: tuple[bytearray, bytearray] = (bytearray(), bytearray())
        self._headers: dict[str, bytes] = {}
        self._name = ""
        self._is_file = False
        self._value = bytearray()
        self._field_bytes = 0
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._file_hash = hashlib.sha256()
        self._file_seen = False
        self._ended = False

    async def feed(self, piece: bytes) -> None:
        """Parses a piece of the body, and writes what of the file has gathered."""
        self._parser.write(piece)
        if self._pending_bytes >= _FLUSH_BYTES:
            await self._flush()

    async def finish(self) -> Form:
        """Returns the form, after the body's end."""
        if not self._ended:
            raise _malformed("it ends before its closing boundary")
        if not self._file_seen:
            raise invalid_field(FILE, "is required: send the document as the part 'file'")
        if self._form.size == 0:
            raise InvalidArgument("the file is empty", reason="EMPTY_UPLOAD")
        await self._flush()
        self._form.digest = self._digest()
        return self._form

    async def _flush(self) -> None:
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        try:
            await asyncio.to_thread(self._write, pending)
        except OSError as exc:  # no room left
            log.error("upload_not_spooled", error=exc.strerror)  # noqa: TRY400 - the folder's fault, not the code's
            raise Unavailable(
                "the server has no room for uploads now", reason="SERVICE_UNAVAILABLE", retry_after=30.0
            ) from exc

    def _write(self, pending: list[bytes]) -> None:
        for piece in pending:
            self._file_hash.update(piece)
            self._form.spool.write(piece)

    def _digest(self) -> bytes:
        digest = hashlib.sha256(self._file_hash.digest())
        for text in (self._form.file_name, self._form.media_type):
            digest.update(text.encode() + b"\0")
        for name, values in sorted(self._form.fields.items()):
            for value in values:
                digest.update(name.encode() + b"\0" + value.encode() + b"\0")
        return digest.digest()

    def _part_begin(self) -> None:
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise _malformed(f"it has more than {_MAX_PARTS} parts")
        self._headers = {}
        self._value = bytearray()

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header[0].extend(data[start:end])

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._header[1].extend(data[start:end])

    def _header_end(self) -> None:
        name, value = self._header
        self._headers[name.decode("latin-1").lower()] = bytes(value)
        self._header = (bytearray(), bytearray())

    def _headers_finished(self) -> None:
        disposition, options = parse_options_header(self._headers.get("content-disposition", b""))
        if disposition != b"form-data" or b"name" not in options:
            raise _malformed("a part has no Content-Disposition with a name")
        self._name = _text(options[b"name"], "body")
        self._is_file = self._name == FILE
        if not self._is_file:
            return
        if self._file_seen:
            raise invalid_field(FILE, "is there twice: one document a request")
        self._file_seen = True
        self._form.file_name = _file_name(options.get(b"filename"))
        self._form.media_type = _text(self._headers.get("content-type", b""), FILE).partition(";")[0].strip()[:200]

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self._form.size += end - start
            if self._form.size > self._max:
                raise too_large(self._max, "the file")
            self._pending.append(data[start:end])
            self._pending_bytes += end - start
            return
        self._field_bytes += end - start
        self._value.extend(data[start:end])
        if len(self._value) > _MAX_FIELD_BYTES or self._field_bytes > _MAX_FIELDS_BYTES:
            raise too_large(_MAX_FIELD_BYTES, f"the field {self._name[:64]!r}")

    def _part_end(self) -> None:
        if not self._is_file:
            self._form.fields.setdefault(self._name, []).append(_text(bytes(self._value), self._name[:64]))

    def _end(self) -> None:
        self._ended = True


def _file_name(raw: bytes | None) -> str:
    """The file's name without the folders that some clients send along."""
    if raw is None:
        raise invalid_field(FILE, "must be sent as a file, with a file name")
    name = _text(raw, FILE)
    name = PureWindowsPath(PurePosixPath(name).name).name.strip()
    if not name or len(name) > _MAX_FILE_NAME or not name.isprintable():
        raise invalid_field(FILE, f"must have a file name of 1-{_MAX_FILE_NAME} printable characters")
    return name


def _text(raw: bytes, name: str) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError as exc:
        raise invalid_field(name, "must be UTF-8") from exc
    wrong = unstorable(text)
    if wrong is not None:
        raise invalid_field(name, wrong)
    return text


def _malformed(why: str) -> InvalidArgument:
    return invalid_field("body", f"isn't well-formed multipart/form-data: {why}")
