"""Files to upload."""

import io
import mimetypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeAlias

from citewire_client.requests import FilePart

FileSource: TypeAlias = str | Path | bytes | IO[bytes]
"""A path, the bytes themselves, or a file that is open for reading and can be rewound."""
Progress: TypeAlias = Callable[[int, int], None]
"""Receives the number of bytes sent and the total; starts over if an upload is retried."""


class _Measured(io.RawIOBase):
    """A file that reports how far it has been read."""

    def __init__(self, file: IO[bytes], size: int, progress: Progress) -> None:
        self._file = file
        self._size = size
        self._progress = progress

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1, /) -> bytes:
        piece = self._file.read(size)
        if piece:
            self._progress(self._file.tell(), self._size)
        return piece


@contextmanager
def opened(source: FileSource, file_name: str | None, progress: Progress | None) -> Generator[FilePart]:
    """Opens a file for upload as part of a form; a file that the caller opened stays open.

    Args:
        source: The file.
        file_name: The name of the file; None: the name in its path.
        progress: Called with the progress.

    Raises:
        ValueError: The file has no name.
        OSError: The file can't be opened.
    """
    if isinstance(source, str | Path):
        with Path(source).open("rb") as file:
            yield _part(file, file_name or Path(source).name, progress)
    elif isinstance(source, bytes):
        yield _part(io.BytesIO(source), file_name or "", progress)
    else:
        yield _part(source, file_name or Path(str(getattr(source, "name", ""))).name, progress)


def _part(file: IO[bytes], name: str, progress: Progress | None) -> FilePart:
    if not name:
        raise ValueError("file_name is required: its extension determines the file's type")
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return name, file if progress is None else _Measured(file, size, progress), media_type  # type: ignore[return-value] # httpx uses only the methods that these have
