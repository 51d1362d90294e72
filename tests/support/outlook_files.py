"""Outlook messages, built part by part: streams and storages in a compound file (MS-CFB, version 3)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import TypeAlias, Union

Storage: TypeAlias = Mapping[str, Union[bytes, "Storage"]]

_SECTOR, _SMALL, _CUTOFF = 512, 64, 4096
_END, _FREE, _FAT, _NONE = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFF


def compound_file(root: Storage) -> bytes:
    """A compound file of streams and storages by name."""
    entries: list[tuple[str, int, bytes, list[int]]] = []  # name, kind, content, children

    def add(name: str, kind: int, content: bytes | Storage) -> int:
        number = len(entries)
        entries.append((name, kind, content if isinstance(content, bytes) else b"", []))
        if not isinstance(content, bytes):
            entries[number][3].extend(
                add(each, 2 if isinstance(inner, bytes) else 1, inner) for each, inner in content.items()
            )
        return number

    add("Root Entry", 5, root)
    fat: list[int] = []
    sectors: list[bytes] = []
    small_fat: list[int] = []
    small = bytearray()

    def chain(table: list[int], count: int) -> int:
        start = len(table)
        table.extend([*range(start + 1, start + count), _END])
        return start

    def store(data: bytes) -> int:
        padded = data + bytes(-len(data) % _SECTOR)
        start = chain(fat, len(padded) // _SECTOR)
        sectors.extend(padded[at : at + _SECTOR] for at in range(0, len(padded), _SECTOR))
        return start

    starts: list[int] = []
    for _, kind, content, _ in entries:
        if kind != 2 or not content:
            starts.append(_END)
        elif len(content) < _CUTOFF:
            starts.append(chain(small_fat, -(-len(content) // _SMALL)))
            small += content + bytes(-len(content) % _SMALL)
        else:
            starts.append(store(content))
    starts[0] = store(bytes(small)) if small else _END
    small_start = store(_longs(small_fat)) if small_fat else _END
    siblings = {child: right for *_, kids in entries for child, right in zip(kids, [*kids[1:], _NONE], strict=False)}
    directory = b"".join(
        _entry(name, kind, siblings.get(number, _NONE), kids[0] if kids else _NONE, starts[number], size)
        for number, (name, kind, content, kids) in enumerate(entries)
        for size in [len(small) if number == 0 else len(content)]
    )
    directory_start = store(directory + _entry("", 0, _NONE, _NONE, 0, 0) * (-len(entries) % 4))
    fat_sectors = 1
    while fat_sectors * 128 < len(fat) + fat_sectors:
        fat_sectors += 1
    fat_start = len(fat)
    table = _longs([*fat, *[_FAT] * fat_sectors])
    table += b"\xff" * (fat_sectors * _SECTOR - len(table))
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
    header += struct.pack("<HHHHH6xIIIII", 0x3E, 3, 0xFFFE, 9, 6, 0, fat_sectors, directory_start, 0, _CUTOFF)
    header += struct.pack("<IIII", small_start, -(-len(small_fat) * 4 // _SECTOR), _END, 0)
    header += _longs([*range(fat_start, fat_start + fat_sectors), *[_FREE] * (109 - fat_sectors)])
    return header + b"".join(sectors) + table


def _longs(values: Iterable[int]) -> bytes:
    return b"".join(struct.pack("<I", value) for value in values)


def _entry(name: str, kind: int, right: int, child: int, start: int, size: int) -> bytes:
    coded = name.encode("utf-16-le")
    head = coded.ljust(64, b"\0") + struct.pack("<HBB", len(coded) + 2 if name else 0, kind, 1)
    return head + struct.pack("<III", _NONE, right, child) + bytes(36) + struct.pack("<IQ", start, size)


def properties(header: int, values: Mapping[tuple[int, int], int]) -> bytes:
    """The stream of properties of fixed length, by number and type."""
    return bytes(header) + b"".join(
        struct.pack("<HHIQ", kind, number, 6, value) for (number, kind), value in values.items()
    )


def text(number: int, value: str) -> dict[str, bytes]:
    """A property that is a text."""
    return {f"__substg1.0_{number:04X}001F": value.encode("utf-16-le")}


def message(
    subject: str, body: str, attachments: Mapping[str, bytes | Storage], *, header: int = 32
) -> dict[str, bytes | Storage]:
    """A message from Jürgen to Ann, with copies to Bob; attachments are files or messages."""
    people = [(1, "Ann", "ann@b.example"), (2, "Bob Groß", "bob@b.example")]
    sent = 134_066_880_000_000_000
    storage: dict[str, bytes | Storage] = {
        "__properties_version1.0": properties(header, {(0x0039, 0x40): sent, (0x3FFD, 0x3): 1252}),
        **text(0x0037, subject),
        **text(0x1000, body),
        **text(0x0C1A, "Jürgen"),
        **text(0x5D01, "j@a.example"),
    }
    for number, (kind, name, address) in enumerate(people):
        storage[f"__recip_version1.0_#{number:08X}"] = {
            "__properties_version1.0": properties(8, {(0x0C15, 0x3): kind}),
            **text(0x3001, name),
            **text(0x39FE, address),
        }
    for number, (name, content) in enumerate(attachments.items()):
        file = "__substg1.0_37010102" if isinstance(content, bytes) else "__substg1.0_3701000D"
        storage[f"__attach_version1.0_#{number:08X}"] = {
            "__properties_version1.0": properties(8, {}),
            **text(0x3707, name),
            file: content,
        }
    return storage
