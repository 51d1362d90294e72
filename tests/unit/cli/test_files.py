"""Which files the command line takes."""

from __future__ import annotations

import pytest

from citewire_cli.files import why_unreadable
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
