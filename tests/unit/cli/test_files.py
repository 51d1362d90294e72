"""Which files the command line uploads."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from citewire_cli.files import find_sources, inspect, why_unreadable
from citewire_retriever.ingest.detect import detect
from citewire_retriever.ingest.errors import IngestError
from citewire_retriever.ingest.unread import BINARY_MAGIC
from cli_types import Run
from fake_gateway import FakeGateway
from fake_library import FakeLibrary
from zip_packages import docx, package, tar_entry


@pytest.mark.parametrize("data", [docx("<w:p/>"), package({"a.txt": "word"}), tar_entry("a.txt", b"word")])
def test_office_documents_and_archives_are_uploaded(data: bytes) -> None:
    assert why_unreadable(data) == ""


@pytest.mark.parametrize("magic", [magic for magic, _ in BINARY_MAGIC], ids=repr)
def test_files_that_the_worker_would_refuse_by_their_first_bytes_are_left_out(magic: bytes) -> None:
    head = magic + b" and more, which is text" * 20
    with pytest.raises(IngestError, match="The file is"):
        detect(head, "notes.txt")
    assert why_unreadable(head).startswith("it is a")


def test_outlook_messages_and_old_workbooks_are_uploaded_and_old_documents_left_out(tmp_path: Path) -> None:
    for name in ("mail.msg", "letter.doc", "sums.xls"):
        (tmp_path / name).write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    sources, left_out = find_sources([tmp_path])
    assert [source.path.name for source in sources] == ["mail.msg", "sums.xls"]
    assert [(entry.path.name, entry.reason) for entry in left_out] == [("letter.doc", "it is an old Office document")]


IMAGES = {
    "scan.png": b"\x89PNG\r\n\x1a\n",
    "scan.jpg": b"\xff\xd8\xff\xe0",
    "scan.tiff": b"II*\x00",
    "fax.tif": b"MM\x00*",
    "scan.webp": b"RIFF\x10\0\0\0WEBPVP8 ",
}


def test_images_are_uploaded_on_request(tmp_path: Path) -> None:
    for name, head in {**IMAGES, "logo.gif": b"GIF89a", "a.md": b"text"}.items():
        (tmp_path / name).write_bytes(head + bytes(600) if name != "a.md" else head)
    sources, left_out = find_sources([tmp_path])
    assert [source.path.name for source in sources] == ["a.md"]
    assert "it is a WebP image" in [entry.reason for entry in left_out]
    sources, left_out = find_sources([tmp_path], why_not_taken=partial(inspect, images=True))
    assert {source.path.name for source in sources} == {"a.md", *IMAGES}
    assert [(entry.path.name, entry.reason) for entry in left_out] == [("logo.gif", "it is a GIF image")]
    for name, head in IMAGES.items():  # the worker accepts the same formats
        assert detect(head + bytes(600), name).media_type.startswith("image/")


def test_a_folder_is_followed_with_its_images(run: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    library = FakeLibrary(gateway)
    folder = tmp_path / "scans"
    folder.mkdir()
    (folder / "scan.png").write_bytes(IMAGES["scan.png"] + bytes(600))
    (folder / "a.md").write_text("text")
    assert run("sync", str(folder), "-c", "scans").exit_code == 0
    assert library.names() == ["a.md"]
    assert run("sync", str(folder), "-c", "scans", "--images").exit_code == 0
    assert library.names() == ["a.md", "scan.png"]
    assert run("ingest", str(folder), "--images").exit_code == 0
    assert "scans/scan.png" in library.names()
