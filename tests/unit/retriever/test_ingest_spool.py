"""The folder for files being read: private, checked, and removed afterwards."""

import fcntl
import hashlib
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from citewire_kit.errors import Unavailable
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.spool import spool_folder, spooled


async def parts(*data: bytes) -> AsyncIterator[bytes]:
    for part in data:
        yield part


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


async def test_a_file_exists_while_it_is_needed(tmp_path: Path) -> None:
    with spool_folder(tmp_path) as folder:
        async with spooled(folder, parts(b"ab", b"c"), hashlib.sha256(b"abc").digest()) as path:
            assert path.read_bytes() == b"abc"
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert not path.exists()
    assert names(tmp_path) == []


async def test_damaged_bytes_are_detected(tmp_path: Path) -> None:
    with spool_folder(tmp_path) as folder:
        with pytest.raises(IngestError) as caught:
            async with spooled(folder, parts(b"abd"), hashlib.sha256(b"abc").digest()):
                pytest.fail("damaged bytes were handed out")
        assert caught.value.code is IngestCode.INTERNAL
        assert names(folder) == ["lock"]


async def test_a_full_disk_is_not_blamed_on_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> tuple[int, str]:
        return os.open("/dev/full", os.O_WRONLY), str(tmp_path / "spooled")

    monkeypatch.setattr("tempfile.mkstemp", full)
    with pytest.raises(Unavailable):
        async with spooled(tmp_path, parts(b"abc"), hashlib.sha256(b"abc").digest()):
            pytest.fail("a file without its bytes was handed out")


def test_files_of_a_killed_worker_are_removed_and_those_of_a_live_one_are_not(tmp_path: Path) -> None:
    dead, live, other = (tmp_path / name for name in ("citewire-ingest-dead", "citewire-ingest-live", "other"))
    for folder in (dead, live, other):
        folder.mkdir()
        (folder / "lock").touch()
    with (live / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with spool_folder(tmp_path) as own:
            assert own.is_dir()
    assert names(tmp_path) == ["citewire-ingest-live", "other"]
