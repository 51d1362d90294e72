"""Archives: each file that can be read is a part with its own places, within limits on all of them together."""

import base64
import bz2
import gzip
import io
import lzma
import struct
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from citewire_retriever.ingest.document import BlockKind
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.nesting import MOST_DEEP
from ingest_files import by_part, make_pdf, parse_bytes, prose_page, text_of
from zip_packages import docx, package, paragraph, tar_entry

PDF = make_pdf([prose_page("Travel", [["Here it is thirty euros."]]), prose_page("Meals", [["Not paid."]])])
_MIB = 1024 * 1024
FILES: dict[str, bytes] = {
    "docs/Größen.md": "# Maße\n\nDrei Meter.\n".encode(),
    "docs/prices.csv": b"name,price\ntea,3\n",
    "trip.pdf": PDF,
    "notes.txt": b"first\n\nsecond\n",
    "photo.gif": b"GIF89a and more",
    "empty.txt": b"",
    "__MACOSX/._notes.txt": b"\0\5\26\7",
}


def tar_of(files: dict[str, bytes], how: int = tarfile.PAX_FORMAT) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=how) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
            entry = tarfile.TarInfo(f"special{kind.decode()}")
            entry.type, entry.linkname = kind, "/etc/passwd"
            archive.addfile(entry)
    return data.getvalue()


def code_of(folder: Path, name: str, data: bytes) -> IngestCode:
    with pytest.raises(IngestError) as caught:
        parse_bytes(folder, name, data)
    assert caught.value.message.endswith(".")
    return caught.value.code


@pytest.mark.parametrize(
    ("name", "data", "media_type"),
    [
        ("a.zip", package(FILES), "application/zip"),
        ("a.tar", tar_of(FILES), "application/x-tar"),
        ("old.tar", tar_of(FILES, tarfile.GNU_FORMAT), "application/x-tar"),
        ("a.tar.gz", gzip.compress(tar_of(FILES)), "application/gzip"),
        ("a.tgz", gzip.compress(tar_of(FILES)[:7000]) + gzip.compress(tar_of(FILES)[7000:]), "application/gzip"),
        ("a.tar.bz2", bz2.compress(tar_of(FILES)), "application/x-bzip2"),
        ("a.tar.xz", lzma.compress(tar_of(FILES)), "application/x-xz"),
        ("renamed.md", package(FILES), "application/zip"),
        ("renamed", lzma.compress(tar_of(FILES)[:7000]) + lzma.compress(tar_of(FILES)[7000:]), "application/x-xz"),
    ],
)
def test_each_file_is_a_part_with_its_places(tmp_path: Path, name: str, data: bytes, media_type: str) -> None:
    document = parse_bytes(tmp_path, name, data)
    assert document.media_type == media_type
    parts = by_part(document)
    assert parts["docs/Größen.md"] == ["Drei Meter."]
    assert parts["docs/prices.csv"] == ["name: tea\nprice: 3"]
    assert parts["notes.txt"] == ["first", "second"]
    assert parts[""] == ["Not read: photo.gif"]
    assert sorted(parts) == ["", "docs/Größen.md", "docs/prices.csv", "notes.txt", "trip.pdf"]
    places = {text_of(document, block): block.place for block in document.blocks}
    assert places["Not paid."].page == 2
    assert places["name: tea\nprice: 3"].row == 2
    assert (places["second"].start_line, places["second"].end_line) == (3, 3)
    labels = [block.label for block in document.blocks if block.kind is BlockKind.HEADING]
    assert {"Größen.md", "Maße", "trip.pdf", "Travel"} <= set(labels)


@pytest.mark.parametrize(
    ("name", "compress"), [("log.txt.gz", gzip.compress), ("log.txt.bz2", bz2.compress), ("log.txt.xz", lzma.compress)]
)
def test_a_compressed_file_is_its_only_part(tmp_path: Path, name: str, compress: Callable[[bytes], bytes]) -> None:
    document = parse_bytes(tmp_path, f"C:\\logs\\{name}", compress(b"one\n\ntwo"))
    assert by_part(document) == {"log.txt": ["one", "two"]}


def test_quotes_are_in_their_parts(tmp_path: Path) -> None:
    """Checked with zipfile, which unpacks the original."""
    files = {
        f"folder {number}/{number}.txt": f"Text of {number}.\n\nGrüße, {number}\n".encode() for number in range(30)
    }
    data = package(files)
    archive = zipfile.ZipFile(io.BytesIO(data))
    quotes = 0
    for part, texts in by_part(parse_bytes(tmp_path, "a.zip", data)).items():
        for text in texts:
            assert text in archive.read(part).decode()
            quotes += 1
    assert quotes == 60


def test_parts_of_nested_archives_and_mails_have_the_whole_path(tmp_path: Path) -> None:
    mail = b"Subject: Prices\nFrom: a@b.example\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=m\n\n--m\n"
    mail += b'Content-Type: application/zip; name="old.zip"\nContent-Transfer-Encoding: base64\n\n'
    mail += base64.encodebytes(package({"deep/note.txt": "Deep inside."})) + b"--m--\n"
    data = package(
        {"mails/one.eml": mail, "b.docx": docx(paragraph("Of Word.")), "c.tgz": gzip.compress(tar_of(FILES))}
    )
    parts = by_part(parse_bytes(tmp_path, "a.zip", data))
    assert parts["mails/one.eml/old.zip/deep/note.txt"] == ["Deep inside."]
    assert parts["b.docx"] == ["Of Word."]
    assert parts["c.tgz/notes.txt"] == ["first", "second"]


def test_names_cannot_leave_the_archive_and_are_distinct(tmp_path: Path) -> None:
    data = io.BytesIO()
    names = ["../../etc/passwd.txt", "/etc/passwd.txt", "C:\\a\\..\\b.txt", "a\nb\x07.txt", "..", "x" * 300 + ".txt"]
    with zipfile.ZipFile(data, "w") as archive:
        for number, name in enumerate(names):
            archive.writestr(zipfile.ZipInfo(name), f"Number {number}.")
    # A name from an old Windows, and a name in UTF-8 that isn't marked as such.
    with zipfile.ZipFile(data, "a") as archive:
        for number, raw in enumerate(("Preis für.txt".encode("cp437"), "Größe.txt".encode())):
            archive.writestr("?" * len(raw) + str(number), f"Raw {number}.")
    raw_data = data.getvalue()
    raw_data = raw_data.replace(b"?" * 13 + b"0", "Preis für.txt".encode("cp437") + b"0")
    raw_data = raw_data.replace(b"?" * len("Größe.txt".encode()) + b"1", "Größe.txt".encode() + b"1")
    parts = by_part(parse_bytes(tmp_path, "a.zip", raw_data))
    assert list(parts) == [
        "etc/passwd.txt", "etc/passwd (2).txt", "a/b.txt", "a b.txt", "file", f"{'x' * 100}.txt",
        "Preis für.txt0", "Größe.txt1",
    ]  # fmt: skip


def test_a_deep_path_keeps_its_end(tmp_path: Path) -> None:
    """A place has at most 255 characters: longer ones made the document unreadable."""
    (part,) = by_part(parse_bytes(tmp_path, "a.zip", package({f"{'folder name/' * 60}note.txt": "Deep."})))
    assert (len(part), part[0], part[-8:]) == (255, "…", "note.txt")


def test_links_of_a_zip_are_left_out(tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        link = zipfile.ZipInfo("link.txt")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("a.txt", "text")
    assert by_part(parse_bytes(tmp_path, "a.zip", data.getvalue())) == {"a.txt": ["text"]}


def mark_encrypted(data: bytes) -> bytes:
    """A ZIP archive whose files are marked as encrypted."""
    for signature, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        position = data.find(signature)
        while position >= 0:
            at = position + offset
            data = data[:at] + struct.pack("<H", struct.unpack("<H", data[at : at + 2])[0] | 1) + data[at + 2 :]
            position = data.find(signature, at)
    return data


def overlapping_archive() -> bytes:
    """Many names for one compressed file, as in D. Fifield, A better zip bomb (2019), but not disguised."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", b"words " * 100_000)
        entry = archive.infolist()[0]
        for number in range(200):
            copy = zipfile.ZipInfo(f"{number}.txt")
            copy.file_size, copy.compress_size, copy.CRC = entry.file_size, entry.compress_size, entry.CRC
            copy.compress_type, copy.header_offset = entry.compress_type, entry.header_offset
            archive.filelist.append(copy)
    return data.getvalue()


_BEGINNING = b"x" * 65_536
"""Files that begin with text are inflated."""


def bomb(layers: int, width: int) -> bytes:
    """Nested archives, as in 42.zip: at the bottom text followed by zeros, which compress a thousandfold."""
    data = package({"0.txt": _BEGINNING + bytes(8 * _MIB)})
    for _ in range(layers):
        data = package({f"{number}.zip": data for number in range(width)})
    return data


@pytest.mark.parametrize(
    ("name", "make", "code"),
    [
        ("a.zip", lambda: b"PK\x03\x04 and no more of it", IngestCode.CORRUPT),
        ("a.zip", lambda: package({"a.txt": "text " * 1000})[:-30], IngestCode.CORRUPT),
        ("a.zip", lambda: b"no archive", IngestCode.CORRUPT),
        ("a.tar", lambda: tar_of(FILES)[:1300], IngestCode.CORRUPT),
        ("a.tar", lambda: tar_entry("a.txt", b"text", size=8 * 1024**3 - 1), IngestCode.CORRUPT),
        ("a.tar", lambda: tar_entry("a", b"", b"x", size=8 * 1024**3 - 1), IngestCode.CORRUPT),
        ("a.tar.gz", lambda: gzip.compress(tar_of(FILES))[:400], IngestCode.CORRUPT),
        ("a.tar.xz", lambda: lzma.compress(tar_of(FILES))[:400], IngestCode.CORRUPT),
        ("a.zip", lambda: package({"folder/": ""}), IngestCode.EMPTY),
        ("a.zip", lambda: package({"a.png": b"GIF89a", "b.exe": b"\x7fELF"}), IngestCode.NO_TEXT),
        ("a.zip", lambda: mark_encrypted(package({"a.txt": "text", "b.txt": "text"})), IngestCode.PASSWORD_REQUIRED),
        ("a.zip", overlapping_archive, IngestCode.TOO_LARGE),
        ("a.zip", lambda: package({"a.bin": bytes(40 * _MIB)}), IngestCode.TOO_LARGE),
        ("a.zip", lambda: package({f"{number}.txt": "x" for number in range(10_001)}), IngestCode.TOO_LARGE),
        ("a.zip", lambda: package({f"{number:080}": "" for number in range(40_000)}), IngestCode.TOO_LARGE),
        ("a.tar", lambda: tar_entry("a", b"", b"2") * 10_001, IngestCode.TOO_LARGE),
        ("a.zip", lambda: bomb(5, 3), IngestCode.TOO_LARGE),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_an_unreadable_archive_says_why(tmp_path: Path, name: str, make: Callable[[], bytes], code: IngestCode) -> None:
    data = make()
    start = time.process_time()
    assert code_of(tmp_path, name, data) is code
    assert time.process_time() - start < 10


def streams(compress: Callable[[bytes], bytes], first: bytes = b"") -> bytes:
    """Text followed by more zeros than may be inflated, in consecutive streams."""
    return compress(first + _BEGINNING + bytes(16 * _MIB)) + compress(bytes(64 * _MIB)) * 9


def bomb_by_method() -> bytes:
    """A Word document whose parts Python's zipfile always inflates completely."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_BZIP2) as archive, archive.open("word/document.xml", "w") as file:
        for _ in range(10):
            file.write(bytes(64 * _MIB))
    return data.getvalue()


_TAR_HEAD = tar_entry("a.txt", b"", size=8 * 1024**3 - 1)
BOMBS: dict[str, tuple[Callable[[], bytes], IngestCode]] = {
    "a.tar.gz": (lambda: streams(gzip.compress, _TAR_HEAD), IngestCode.TOO_LARGE),
    "a.tar.bz2": (lambda: streams(bz2.compress, _TAR_HEAD), IngestCode.TOO_LARGE),
    "a.tar.xz": (lambda: streams(lzma.compress, _TAR_HEAD), IngestCode.TOO_LARGE),
    "a.txt.gz": (lambda: streams(gzip.compress), IngestCode.TOO_LARGE),
    "wide.zip": (lambda: bomb(2, 16), IngestCode.TOO_LARGE),
    "deep.zip": (lambda: bomb(6, 2), IngestCode.TOO_LARGE),
    "a.docx": (bomb_by_method, IngestCode.CORRUPT),
}
READ_ONE = """
import sys
from pathlib import Path
from citewire_retriever.ingest.errors import IngestError
from citewire_retriever.ingest.parsers import parse

path = Path(sys.argv[1])
try:
    parse(path.read_bytes(), path.name)
except IngestError as error:
    print(error.code.value)
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's measure of memory")
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_in_little_memory(tmp_path: Path, name: str) -> None:
    make, expected = BOMBS[name]
    (tmp_path / name).write_bytes(make())
    command = [sys.executable, "-c", READ_ONE, str(tmp_path / name)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    code, kib = result.stdout.split()
    assert code == expected
    assert int(kib) < 512 * 1024


def test_a_broken_or_encrypted_file_does_not_spoil_the_others(tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", "Whole.")
        archive.writestr("broken.txt", bytes(range(32, 127)) * 100)
        archive.writestr("c.txt", "Whole too.", zipfile.ZIP_LZMA)
    raw = bytearray(data.getvalue())
    at = raw.index(b"broken.txt") + 15
    raw[at : at + 5] = b"\xff" * 5
    parts = by_part(parse_bytes(tmp_path, "a.zip", bytes(raw)))
    assert parts == {"a.txt": ["Whole."], "": ["Not read: broken.txt, c.txt"]}


def test_the_depth_of_nesting_is_limited(tmp_path: Path) -> None:
    data = package({"a.txt": "At the bottom."})
    for number in range(MOST_DEEP):
        data = package({f"{number}.zip": data, "b.txt": f"Level {number}."})
    (part, *_) = [part for part, texts in by_part(parse_bytes(tmp_path, "a.zip", data)).items() if "At the" in texts[0]]
    assert part == "2.zip/1.zip/0.zip/a.txt"
    deeper = package({"top.zip": data})
    assert "At the bottom." not in parse_bytes(tmp_path, "a.zip", deeper).text


def test_large_archives_with_long_lists_are_read(tmp_path: Path) -> None:
    """ZIP64, by means of a streamed file."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
        with archive.open("a.txt", "w", force_zip64=True) as file:
            file.write(b"Of a large archive.")
    assert by_part(parse_bytes(tmp_path, "a.zip", data.getvalue())) == {"a.txt": ["Of a large archive."]}
