"""Which files the command line takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from citewire_cli.files import find_sources, why_unreadable
from citewire_retriever.ingest.detect import BINARY_MAGIC, detect
from citewire_retriever.ingest.errors import IngestError
from zip_packages import docx, package, tar_entry


@pytest.mark.parametrize("data", [docx("<w:p/>"), package({"a.txt": "word"}), tar_entry("a.txt", b"word")])
def test_office_documents_and_archives_are_uploaded(data: bytes) -> None:
    assert why_unreadable(data) == ""


@pytest.mark.parametrize("magic", [magic for magic, _ in BINARY_MAGIC], ids=repr)
def test_what_the_worker_would_refuse_by_its_first_bytes_isnt_uploaded(magic: bytes) -> None:
    head = magic + b" and more, which is text" * 20
    with pytest.raises(IngestError, match="The file is"):
        detect(head, "notes.txt")
    assert why_unreadable(head).startswith("it is a")


def test_messages_of_outlook_are_taken_and_old_office_documents_are_not(tmp_path: Path) -> None:
    for name in ("mail.msg", "letter.doc"):
        (tmp_path / name).write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    sources, left_out = find_sources([tmp_path])
    assert [source.path.name for source in sources] == ["mail.msg"]
    assert [(each.path.name, each.reason) for each in left_out] == [("letter.doc", "it is an old Office document")]
