"""Files on their way from the database to the parser, in a folder that is removed when the worker ends."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.room import room_needed

_PREFIX = "citewire-ingest-"
_LOCK = "lock"


@contextmanager
def spool_folder(parent: Path | None) -> Generator[Path]:
    """A new folder, readable by this user only; removed at the end.

    Folders left by killed workers, whose lock nobody holds, are removed first.
    """
    base = Path(parent or tempfile.gettempdir())
    _remove_left_over(base)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    with (folder / _LOCK).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def spooled(folder: Path, parts: AsyncIterator[bytes], sha256: bytes) -> AsyncGenerator[Path]:
    """Writes parts to a file in the folder, which is removed at the end of the block.

    Raises:
        IngestError: INTERNAL if the bytes differ from the upload.
        Unavailable: The disk is full.
    """
    with room_needed():
        descriptor, name = tempfile.mkstemp(dir=folder)
    path = Path(name)
    digest = hashlib.sha256()
    try:
        with room_needed(), os.fdopen(descriptor, "wb") as file:
            async for part in parts:
                digest.update(part)
                file.write(part)
        if digest.digest() != sha256:
            raise IngestError(IngestCode.INTERNAL, "The stored file is damaged: upload it again.")
        yield path
    finally:
        _remove(path)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _remove_left_over(base: Path) -> None:
    for folder in base.glob(f"{_PREFIX}*"):
        # Another user's folder, or one that another worker is removing: not ours to handle.
        with contextlib.suppress(OSError), (folder / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
