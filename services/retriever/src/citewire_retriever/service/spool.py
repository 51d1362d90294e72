"""Temporary storage for incoming uploads, so that slow clients hold no database connection."""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, Self

from citewire_kit.errors import ResourceExhausted
from citewire_retriever.room import room_needed

_IN_MEMORY: Final = 1024 * 1024
"""Uploads up to this size stay in memory."""


def too_large(limit_bytes: int) -> ResourceExhausted:
    """Returns the error for content beyond a limit."""
    return ResourceExhausted(
        f"the content is larger than {limit_bytes} bytes",
        reason="TOO_LARGE",
        metadata={"limit_bytes": str(limit_bytes)},
    )


def too_much_text(limit_chars: int) -> ResourceExhausted:
    """Returns the error for a file with more text than a document may have."""
    return ResourceExhausted(
        f"the file has more than {limit_chars:,} characters of text: split it",
        reason="TOO_LARGE",
        metadata={"limit_chars": str(limit_chars)},
    )


class Spool:
    """An unnamed temporary file, removed at the end of the block or the process. Implements `Source`."""

    def __init__(self, *, limit_bytes: int, folder: Path | None) -> None:
        """Takes the largest size and the folder (None: the system's)."""
        self._limit = limit_bytes
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, dir=str(folder) if folder else None)  # noqa: SIM115 # closed by close()
        self._digest = hashlib.sha256()
        self._size = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(OSError):  # a full disk would be reported again for unwritten data
            self._file.close()

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._size

    @property
    def sha256(self) -> bytes:
        """SHA-256 of the bytes written so far."""
        return self._digest.digest()

    async def write(self, data: bytes) -> None:
        """Appends bytes.

        Raises:
            ResourceExhausted: The limit would be exceeded (reason `TOO_LARGE`).
            Unavailable: The disk is full.
        """
        if self._size + len(data) > self._limit:
            raise too_large(self._limit)
        self._size += len(data)
        await asyncio.to_thread(self._append, data)

    async def parts(self, size: int) -> AsyncGenerator[bytes, None]:
        """Yields the bytes in parts of `size`; the last one may be shorter."""
        await asyncio.to_thread(self._file.seek, 0)
        while part := await asyncio.to_thread(self._file.read, size):
            yield part

    def _append(self, data: bytes) -> None:
        self._digest.update(data)
        with room_needed(retry_after=30):
            self._file.write(data)
            self._file.flush()  # otherwise a full disk would only be noticed on reading


class Memory:
    """Bytes in memory. Implements `Source`."""

    def __init__(self, data: bytes) -> None:
        """Takes the bytes."""
        self._data = data
        self.size_bytes = len(data)
        self.sha256 = hashlib.sha256(data).digest()

    async def parts(self, size: int) -> AsyncGenerator[bytes, None]:
        """Yields the bytes in parts of `size`; the last one may be shorter."""
        for start in range(0, len(self._data), size):
            yield self._data[start : start + size]
