"""The size of an upload's text, if it is known before parsing; otherwise the parser checks it."""

from __future__ import annotations

import codecs

import pytest

from citewire_retriever.ingest.decode import decode
from citewire_retriever.service.spool import Spool
from citewire_retriever.service.text_size import holds_more_text

MIB = 1024 * 1024


async def has_more_text(data: bytes, max_chars: int) -> bool:
    async with Spool(limit_bytes=8 * MIB, folder=None) as spool:
        for start in range(0, len(data), 300_001):  # splits characters
            await spool.write(data[start : start + 300_001])
        return await holds_more_text(spool, max_chars)


@pytest.mark.parametrize(
    "data",
    [
        b"a" * (2 * MIB + 7),
        "naïve ☃ 文字 𝄞\n".encode() * 150_001,
        codecs.BOM_UTF8 + b"row;value\r\n" * 200_000,
        "größer\r\n".encode("utf-16") * 1,
        ("größer\r\n" * 200_000).encode("utf-16"),
        ("größer " * 100_000).encode("utf-32"),
    ],
    ids=["ascii", "utf-8", "crlf", "short", "utf-16", "utf-32"],
)
async def test_the_limit_counts_the_same_characters_as_the_parser(data: bytes) -> None:
    characters = len(decode(data))
    assert not await has_more_text(data, characters)
    assert await has_more_text(data, characters - 1)


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.7\n" + b"x" * MIB,
        ("größer " * 100_000).encode("latin-1"),
        ("文字文字 " * 100_000).encode("gb18030"),
        bytes(range(256)) * 4096,
    ],
    ids=["pdf", "latin-1", "gb18030", "binary"],
)
async def test_text_of_unknown_size_is_accepted(data: bytes) -> None:
    assert not await has_more_text(data, 1000)
