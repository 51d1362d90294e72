"""Bodies that are small on the wire and large once decoded."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator

MIB = 1024 * 1024


def gzip_bomb(mebibytes: int) -> bytes:
    """A gzip member of the given MiB of spaces; about a kilobyte per MiB on the wire."""
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + _blocks(mebibytes) + struct.pack("<II", 0, (mebibytes * MIB) % 2**32)


def deflate_bomb(mebibytes: int) -> bytes:
    """The same as a raw deflate stream, which servers send in place of zlib's."""
    return _blocks(mebibytes)


def endless_members() -> Iterator[bytes]:
    """Endless empty gzip members."""
    piece = gzip.compress(b"") * 3000
    while True:
        yield piece


def _blocks(mebibytes: int) -> bytes:
    # A block after a full flush refers to nothing before it, so that it can be repeated.
    compressor = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    block = compressor.compress(b" " * MIB) + compressor.flush(zlib.Z_FULL_FLUSH)
    return block * mebibytes + b"\x03\x00"
