"""The spool of uploads: sizes, hashes, limits, and that nothing is left behind."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import IO

import pytest

from citewire_kit.errors import ResourceExhausted, Unavailable
from citewire_retriever.service.spool import Memory, Spool

MIB = 1024 * 1024


@pytest.mark.parametrize("size", [1, MIB - 1, MIB, MIB + 1, 3 * MIB])
async def test_written_data_is_read_back_in_parts(tmp_path: Path, size: int) -> None:
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    async with Spool(limit_bytes=size, folder=tmp_path) as spool:
        for start in range(0, size, 300_000):
            await spool.write(data[start : start + 300_000])
        for _ in range(2):
            parts = [part async for part in spool.parts(MIB)]
            assert b"".join(parts) == data
            assert [len(part) for part in parts[:-1]] == [MIB] * (len(parts) - 1)
        assert (spool.size_bytes, spool.sha256) == (size, hashlib.sha256(data).digest())
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - a path's own method would be called blocking here


async def test_exceeding_the_limit_is_reported(tmp_path: Path) -> None:
    async with Spool(limit_bytes=10, folder=tmp_path) as spool:
        await spool.write(b"x" * 10)
        with pytest.raises(ResourceExhausted) as refused:
            await spool.write(b"x")
        assert (refused.value.reason, refused.value.metadata) == ("TOO_LARGE", {"limit_bytes": "10"})


async def test_a_full_disk_is_not_the_callers_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full").open("r+b")  # noqa: SIM115, ASYNC230 # closed by the code under test

    def open_full(**_: object) -> IO[bytes]:
        return full

    monkeypatch.setattr("tempfile.SpooledTemporaryFile", open_full)
    async with Spool(limit_bytes=10, folder=tmp_path) as spool:
        with pytest.raises(Unavailable) as refused:
            await spool.write(b"x")
        assert refused.value.retry_after == 30


async def test_bytes_in_memory_are_a_source_too() -> None:
    source = Memory(b"abcde")
    assert [part async for part in source.parts(2)] == [b"ab", b"cd", b"e"]
    assert (source.size_bytes, source.sha256) == (5, hashlib.sha256(b"abcde").digest())
