"""`multipart/form-data` with one file, parsed as it arrives: the file goes to disk, never into memory as a whole.

It is spooled before anything is sent on, because fields may come after the file and a message to the retriever begins
with them; because an upload that breaks off or is too large must leave nothing behind; and because a slow client must
not hold a call to the retriever open.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from pathlib import PurePosixPath, PureWindowsPath
from typing import IO
from unicodedata import category

from multipart import MultipartError, MultipartSegment, PushMultipartParser
from starlette.requests import ClientDisconnect

from citewire_http.bodies import too_large, unstorable
from citewire_kit.errors import Aborted, InvalidArgument, Unavailable, invalid_field
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

FILE = "file"
_MAX_FIELD_BYTES = 256 * 1024
_MAX_FIELDS_BYTES = 1024 * 1024
_MAX_PARTS = 200
_MAX_BOUNDARY = 70  # RFC 2046
_MAX_FILE_NAME = 255
_JOINERS = "\u200c\u200d"
_FLUSH_BYTES = 1024 * 1024
_READ_BYTES = 1024 * 1024


@dataclass(slots=True)
class Form:
    """An uploaded form. `digest` covers all fields and the file, independent of their encoding."""

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
    """Receives a form; its spool file is deleted at the end of the block.

    Args:
        stream: The body.
        content_type: The request's header, with the boundary.
        max_file_bytes: Maximum size of the file.
        folder: For the spool file; None is the system's.

    Raises:
        InvalidArgument: The body isn't such a form, has no file or an empty one, or a field is malformed.
        ResourceExhausted: The file is too large (`TOO_LARGE`); received data is deleted.
        Aborted: The client disconnected before the end.
    """
    header = Message()
    header["Content-Type"] = content_type
    boundary = header.get_boundary("")
    if not 0 < len(boundary) <= _MAX_BOUNDARY:
        raise _malformed("Content-Type names no usable boundary")
    # It has no name, so that even a killed process leaves nothing behind. It isn't opened in a thread, where it would
    # leak if the request is cancelled meanwhile.
    spool: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 # closed below
    try:
        reader = _Reader(Form(spool), max_file_bytes)
        try:
            with PushMultipartParser(boundary, max_segment_count=_MAX_PARTS) as parser:
                async for piece in stream:
                    for event in parser.parse(piece) if piece else ():
                        reader.take(event)
                    await reader.flush(_FLUSH_BYTES)
        except MultipartError as exc:
            raise _malformed(str(exc)) from exc
        except ClientDisconnect as exc:
            raise Aborted("the client aborted the upload; nothing was stored", reason="UPLOAD_ABORTED") from exc
        yield await reader.finish()
    finally:
        with suppress(OSError):  # flushing to a full disk, which has already been reported
            await asyncio.shield(asyncio.to_thread(spool.close))  # even if cancelled a second time


class _Reader:
    """Handles the parser's events: the start of a part, pieces of its content, None at its end."""

    def __init__(self, form: Form, max_file_bytes: int) -> None:
        self._form = form
        self._max = max_file_bytes
        self._name = ""
        self._value = bytearray()
        self._field_bytes = 0
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._file_hash = hashlib.sha256()
        self._file_seen = False

    def take(self, event: MultipartSegment | bytes | bytearray | None) -> None:
        """Handles an event."""
        if isinstance(event, MultipartSegment):
            self._begin(event)
        elif event is None:
            if self._name != FILE:
                self._form.fields.setdefault(self._name, []).append(_text(bytes(self._value), self._name[:64]))
        elif self._name == FILE:
            self._form.size += len(event)
            if self._form.size > self._max:
                raise too_large(self._max, "the file")
            self._pending.append(bytes(event))
            self._pending_bytes += len(event)
        else:
            self._field_bytes += len(event)
            self._value += event
            if len(self._value) > _MAX_FIELD_BYTES or self._field_bytes > _MAX_FIELDS_BYTES:
                raise too_large(_MAX_FIELD_BYTES, f"the field {self._name[:64]!r}")

    def _begin(self, part: MultipartSegment) -> None:
        if not part.name:
            raise _malformed("a part has no Content-Disposition with a name")
        self._name, self._value = _storable(part.name, "body"), bytearray()
        if part.name != FILE:
            return
        if self._file_seen:
            raise invalid_field(FILE, "is given twice: send one document per request")
        self._file_seen = True
        self._form.file_name = _file_name(part.filename)
        media_type = next((value for name, value in part.headerlist if name == "Content-Type"), "")
        self._form.media_type = _storable(media_type, FILE).partition(";")[0].strip()[:200]

    async def flush(self, least: int = 1) -> None:
        """Writes the buffered part of the file, if it has reached this size."""
        if self._pending_bytes < least:
            return
        pending, self._pending, self._pending_bytes = b"".join(self._pending), [], 0
        try:
            await asyncio.to_thread(self._write, pending)
        except OSError as exc:  # no room left
            log.error("upload_not_spooled", error=exc.strerror)  # noqa: TRY400 - the folder's fault, not the code's
            raise Unavailable(
                "the server has no room for uploads now", reason="SERVICE_UNAVAILABLE", retry_after=30.0
            ) from exc

    async def finish(self) -> Form:
        """Returns the form, after the body's end."""
        if not self._file_seen:
            raise invalid_field(FILE, "is required: send the document as the part 'file'")
        if self._form.size == 0:
            raise InvalidArgument("the file is empty", reason="EMPTY_UPLOAD")
        await self.flush()
        self._form.digest = self._digest()
        return self._form

    def _write(self, pending: bytes) -> None:
        self._file_hash.update(pending)
        self._form.spool.write(pending)
        self._form.spool.flush()  # otherwise a full disk would only be noticed when reading

    def _digest(self) -> bytes:
        digest = hashlib.sha256(self._file_hash.digest())
        texts = [self._form.file_name, self._form.media_type]
        for name, values in sorted(self._form.fields.items()):
            texts += [text for value in values for text in (name, value)]
        for text in texts:
            digest.update(text.encode() + b"\0")
        return digest.digest()


def is_printable_name(text: str) -> bool:
    """Whether a name has no control or formatting characters but what names of files do have.

    These are spaces of every kind (macOS writes U+202F into the names of screenshots, Office U+00A0), and the joiners
    of Persian, of Indian languages and of emojis.
    """
    return all(sign.isprintable() or sign in _JOINERS or category(sign) == "Zs" for sign in text)


def _file_name(name: str | None) -> str:
    """The file's name without folders, which some clients include."""
    if name is None:
        raise invalid_field(FILE, "must be sent as a file, with a file name")
    name = PureWindowsPath(PurePosixPath(_storable(name, FILE)).name).name.strip()
    if not name or len(name) > _MAX_FILE_NAME or not is_printable_name(name):
        raise invalid_field(FILE, f"must have a file name of 1-{_MAX_FILE_NAME} printable characters")
    return name


def _text(raw: bytes, name: str) -> str:
    try:
        return _storable(raw.decode(), name)
    except UnicodeDecodeError as exc:
        raise invalid_field(name, "must be UTF-8") from exc


def _storable(text: str, name: str) -> str:
    wrong = unstorable(text)
    if wrong is not None:
        raise invalid_field(name, wrong)
    return text


def _malformed(why: str) -> InvalidArgument:
    return invalid_field("body", f"isn't well-formed multipart/form-data: {why}")
