"""The files of archives, one after another, as streams: nothing is unpacked anywhere, and each byte counts.

ZIP by Python's zipfile. TAR by a reader of its headers here: Python's own takes time that grows with the square of what
a header says, in versions that are still in use.
"""

import bz2
import gzip
import io
import lzma
import re
import stat
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from mmap import mmap
from pathlib import PurePosixPath
from struct import error as StructError  # noqa: N812 - it is a class
from typing import IO, Final, Protocol
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipInfo

from citewire_retriever.ingest.decode import clean
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.mailbox_files import is_mailbox, mailbox_messages
from citewire_retriever.ingest.parsers.nesting import Budget
from citewire_retriever.ingest.parsers.package import ENCRYPTED, bytes_file, inflates_too_much, open_zip
from citewire_retriever.ingest.parsers.pairs import one_line

_NAME_CHARS: Final = 100
_XZ_MEMORY: Final = 128 * 1024 * 1024
"""Memory limit: the strongest setting needs 65 MiB, but a file may ask for 4 GiB."""
_PIECE: Final = 1024 * 1024
_BLOCK: Final = 512
_MOST_HEADER: Final = 64 * 1024
"""Maximum size of an extended header."""
_PATH_IN_HEADER: Final = re.compile(rb"(?:\A|\n)\d{1,6} path=([^\n]*)\n")
_SIZE_IN_HEADER: Final = re.compile(rb"(?:\A|\n)\d{1,6} size=(\d{1,20})\n")
_LOCAL_HEADER: Final = 30
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_UTF8_NAME: Final = 0x800


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive. It can be read until the next one is requested."""

    path: str
    """Path within the archive, with slashes, which never leads out of it."""
    size: int | None
    """Its decompressed size in bytes; None if the archive doesn't contain it."""
    why_not: IngestError | None
    """Why it can't be opened; None if it can."""
    read: Callable[[int], bytes]
    """Reads up to the given number of bytes. Raises IngestError: CORRUPT, TOO_LARGE."""


def members(data: bytes | mmap, name: str, budget: Budget) -> Iterator[Member]:
    """The files of an archive, or the only one of a compressed file. Folders, links and devices are left out.

    Args:
        data: The archive.
        name: Its name, from which that of a compressed file is derived.
        budget: Limit of decompressed data.

    Raises:
        IngestError: CORRUPT, TOO_LARGE.
    """
    if data[:2] == b"PK":
        yield from _zip_members(data, budget)
        return
    if is_mailbox(data):
        yield from _mailbox_members(data, budget)
        return
    stream = _decompressed(data)
    source = _Source(stream or bytes_file(data), budget)
    head = source.read(_BLOCK)
    if len(head) == _BLOCK and _is_header(head):
        yield from _tar_members(source, head)
    elif stream is not None:
        source.put_back(head)
        yield Member(_inner_name(name), None, None, source.read)
    else:
        raise _broken()


def _zip_members(data: bytes | mmap, budget: Budget) -> Iterator[Member]:
    with _explained():
        archive = open_zip(data)
    infos = archive.infolist()
    _check_overlap(infos)
    for info in infos:
        budget.take_file()
        mode = info.external_attr >> 16
        if info.is_dir() or (stat.S_IFMT(mode) and not stat.S_ISREG(mode)):
            continue
        if inflates_too_much(info):
            raise budget.exceed("The archive decompresses to more than can be read, unlike any archive of real files.")
        path = _clean_path(_zip_name(info))
        why_not = _why_not(info)
        if why_not is not None:
            yield Member(path, info.file_size, why_not, lambda _: b"")
            continue
        try:
            with _explained():
                stream = archive.open(info)
        except IngestError as error:
            yield Member(path, info.file_size, error, lambda _: b"")
            continue
        with stream:
            yield Member(path, info.file_size, None, _Source(stream, budget).read)


def _mailbox_members(data: bytes | mmap, budget: Budget) -> Iterator[Member]:
    for name, message in mailbox_messages(data):
        budget.take_file()
        yield Member(name, None, None, _Source(message, budget).read)


def _why_not(info: ZipInfo) -> IngestError | None:
    if info.flag_bits & ENCRYPTED:
        return IngestError(
            IngestCode.PASSWORD_REQUIRED,
            "The archive's files are protected by a password: pack them without one and upload it again.",
        )
    if info.compress_type not in {ZIP_STORED, ZIP_DEFLATED}:
        return IngestError(IngestCode.UNSUPPORTED_FORMAT, "The file's compression method isn't supported.")
    return None


def _check_overlap(infos: list[ZipInfo]) -> None:
    """Rejects files that share bytes, by which a small archive claims to contain a thousand times as much."""
    ordered = sorted(infos, key=lambda info: info.header_offset)
    for info, following in pairwise(ordered):
        if info.header_offset + _LOCAL_HEADER + info.compress_size > following.header_offset:
            raise IngestError(IngestCode.TOO_LARGE, "The archive's files overlap: pack it again.")


def _zip_name(info: ZipInfo) -> str:
    """A name. Python reads names that aren't marked as UTF-8 in the format's old code page, which few programs use."""
    if info.flag_bits & _UTF8_NAME:
        return info.filename
    try:
        return info.filename.encode("cp437").decode("utf-8")
    except ValueError:
        return info.filename


def _tar_members(source: "_Source", header: bytes) -> Iterator[Member]:
    """The files of a TAR archive after its first header: POSIX format, with its and GNU's headers for long names."""
    path = b""
    long_size: int | None = None
    while any(header):
        if not _is_header(header):
            raise _broken()
        source.budget.take_file()
        kind = header[156:157]
        size = _number(header[124:136])
        if kind in {b"x", b"L"}:
            if size > _MOST_HEADER:
                raise _broken()
            extension = source.exactly(size)
            source.skip(-size % _BLOCK)
            if kind == b"L":
                path = extension.rstrip(b"\0")
            else:
                path, long_size = _extended(extension, path, long_size)
        elif kind in {b"K", b"g"}:  # for links, or for all files: nothing that is shown
            source.skip(size + -size % _BLOCK)
        else:
            size = size if long_size is None else long_size
            start = source.position
            if kind in {b"0", b"\0", b"7"}:
                shown = _clean_path(_text(path or _ustar_path(header)))
                yield Member(shown, size, None, source.within(size))
            path, long_size = b"", None
            # Links, folders and devices have no content, whatever their size; other headers do.
            content = 0 if kind in {b"1", b"2", b"3", b"4", b"5", b"6"} else size
            source.skip(start + content + -content % _BLOCK - source.position)
        header = source.read(_BLOCK)
        if len(header) < _BLOCK:
            if header:
                raise _broken()
            return  # without final blocks, which some programs leave out


def _is_header(block: bytes) -> bool:
    """Whether a block's checksum is correct: the sum of its bytes, with the checksum itself as spaces."""
    try:
        return int(block[148:156].strip(b" \0") or b"-", 8) == sum(block[:148]) + 256 + sum(block[156:])
    except ValueError:
        return False


def _number(digits: bytes) -> int:
    """A size in octal digits, or in binary if these don't suffice."""
    if digits[0] == 0x80:
        return int.from_bytes(digits[1:], "big")
    try:
        return int(digits.strip(b" \0") or b"0", 8)
    except ValueError:
        raise _broken() from None


def _extended(header: bytes, path: bytes, size: int | None) -> tuple[bytes, int | None]:
    """Path and size in a POSIX header for the next file."""
    paths, sizes = _PATH_IN_HEADER.findall(header), _SIZE_IN_HEADER.findall(header)
    return paths[-1] if paths else path, int(sizes[-1]) if sizes else size


def _ustar_path(header: bytes) -> bytes:
    name, prefix = (header[start:end].partition(b"\0")[0] for start, end in ((0, 100), (345, 500)))
    return prefix + b"/" + name if prefix and header[257:263] == b"ustar\0" else name


def _text(name: bytes) -> str:
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return name.decode("cp1252", "replace")


def _clean_path(path: str) -> str:
    """A path as a label, never used to open anything. Drives, `.` and `..` are left out."""
    steps = [one_line(clean(step)) for step in path.replace("\\", "/").split("/")]
    steps = [step for step in steps if step not in {"", ".", ".."} and not _DRIVE.fullmatch(step)]
    if not steps:
        return "file"
    name, dot, suffix = steps[-1].rpartition(".")
    short = f"{name[-_NAME_CHARS:]}.{suffix[:_NAME_CHARS]}" if dot else suffix[:_NAME_CHARS]
    return "/".join([*(step[:_NAME_CHARS] for step in steps[:-1]), short])


def _inner_name(name: str) -> str:
    """A compressed file's name without its suffix."""
    path = PurePosixPath(_clean_path(name))
    return path.stem if path.suffix.lower() in {".gz", ".bz2", ".xz"} else f"{path.name}.txt"


class _Source:
    """A stream that is read in order and counts its output."""

    def __init__(self, stream: _Readable, budget: Budget) -> None:
        self.stream = stream
        self.budget = budget
        self.position = 0
        self._first = b""

    def put_back(self, data: bytes) -> None:
        """Returns to the beginning, as long as all read data is still buffered."""
        self._first, self.position = data, 0

    def read(self, count: int) -> bytes:
        """The next bytes; fewer at the end. Raises IngestError: CORRUPT, TOO_LARGE."""
        parts, self._first = [self._first[:count]], self._first[count:]
        count -= len(parts[0])
        with _explained():
            while count > 0 and (data := self.stream.read(min(count, _PIECE))):
                parts.append(data)
                count -= len(data)
                self.budget.inflate(len(data))
        whole = b"".join(parts)
        self.position += len(whole)
        return whole

    def exactly(self, count: int) -> bytes:
        """Reads exactly the given number of bytes. Raises as `read`; CORRUPT if there are fewer."""
        data = self.read(count)
        if len(data) < count:
            raise _broken()
        return data

    def skip(self, count: int) -> None:
        """Skips bytes. Raises as `exactly`."""
        while count > 0:
            count -= len(self.exactly(min(count, _PIECE)))

    def within(self, size: int) -> Callable[[int], bytes]:
        """Buffers the stream's beginning, up to a size."""
        end = self.position + size
        return lambda count: self.exactly(max(0, min(count, end - self.position)))


def _decompressed(data: bytes | mmap) -> _Readable | None:
    """The decompressed content as a stream; None if the file isn't compressed."""
    file = bytes_file(data)
    if data[:2] == b"\x1f\x8b":
        return gzip.GzipFile(fileobj=file)
    if data[:3] == b"BZh":
        return bz2.BZ2File(file)
    if data[:6] == b"\xfd7zXZ\x00":
        return io.BufferedReader(_Xz(file))
    return None


class _Xz(io.RawIOBase):
    """An .xz file. Python's own reader has no limit on the memory that a file may ask for."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # pyright: ignore[reportIncompatibleMethodOverride] # narrower than the buffer protocol
        while True:
            data = b""
            if self._decompressor.eof:
                data = self._decompressor.unused_data.lstrip(b"\0") or self._file.read(_BLOCK).lstrip(b"\0")
                if not data:
                    return 0
                self._decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
            elif self._decompressor.needs_input:
                data = self._file.read(_PIECE)
                if not data:
                    raise EOFError
            result = self._decompressor.decompress(data, len(buffer))
            if result:
                buffer[: len(result)] = result
                return len(result)


def _broken() -> IngestError:
    return IngestError(IngestCode.CORRUPT, "The archive is damaged or cut off: pack it again.")


@contextmanager
def _explained() -> Generator[None]:
    try:
        yield
    except (
        BadZipFile,
        lzma.LZMAError,
        zlib.error,
        StructError,
        EOFError,
        NotImplementedError,
        ValueError,
        OSError,
    ) as error:
        raise _broken() from error
