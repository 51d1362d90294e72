"""Outlook messages: read like e-mails, with attachments and messages in them as parts; forged ones do no harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from citewire_retriever.ingest.document import BlockKind
from citewire_retriever.ingest.errors import IngestCode, IngestError
from ingest_files import by_part, check_document, parse_bytes
from outlook_files import Storage, compound_file, message, properties, text
from proof_scale import ProofScale


def made_message() -> bytes:
    inner = message("The older one", "It was cheaper.", {"note.txt": b"deep inside"}, header=24)
    files = {"Preise (März).csv": b"name,price\ntea,3\n", "long.txt": "Größe ".encode() * 2000, "x": inner}
    return compound_file(message("Größen und 年度", "Guten Tag.\r\n\r\nIch komme.", files))


def test_a_message_with_attachments(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.msg", made_message())
    check_document(document)
    assert (document.title, document.media_type) == ("Größen und 年度", "application/vnd.ms-outlook")
    parts = by_part(document)
    assert parts[""][0].split("\n") == [
        "From: Jürgen <j@a.example>",
        "To: Ann <ann@b.example>",
        "Cc: Bob Groß <bob@b.example>",
        "Date: Tue, 04 Nov 2025 00:00:00 +0000",
        "Subject: Größen und 年度",
        "Attachments: Preise (März).csv, long.txt, The older one.eml",
    ]
    assert parts[""][1:] == ["Guten Tag.", "Ich komme."]
    assert parts["Preise (März).csv"] == ["name: tea\nprice: 3"]
    assert parts["long.txt"][0].count("Größe") == 2000
    assert "It was cheaper." in parts["The older one.eml"]
    assert parts["The older one.eml/note.txt"] == ["deep inside"]
    assert [block.place.row for block in document.blocks if block.kind is BlockKind.ROW] == [2]


def test_a_message_is_recognised_by_its_content(tmp_path: Path) -> None:
    assert parse_bytes(tmp_path, "a", made_message()).media_type == "application/vnd.ms-outlook"


def test_html_and_old_code_pages(tmp_path: Path) -> None:
    html = "<h1>Laut</h1><p>Größe</p>".encode("cp1252")
    storage = dict(message("", "", {}))
    del storage["__substg1.0_0037001F"], storage["__substg1.0_1000001F"]
    storage |= {"__substg1.0_10130102": html, "__substg1.0_0037001E": "цена".encode("cp1251")}
    storage["__properties_version1.0"] = properties(32, {(0x3FFD, 3): 1251, (0x3FDE, 3): 1252})
    document = parse_bytes(tmp_path, "a.msg", compound_file(storage))
    assert document.title == "цена"
    assert by_part(document)[""][1:] == ["Größe"]


def test_a_receiver_without_properties_is_left_out(tmp_path: Path) -> None:
    storage: Storage = {**message("S", "T", {}), "__recip_version1.0_#0000000A": dict[str, bytes]()}
    document = parse_bytes(tmp_path, "a.msg", compound_file(storage))
    assert "To: Ann <ann@b.example>\nCc: Bob Groß <bob@b.example>" in document.text


def test_exchange_addresses_are_left_out(tmp_path: Path) -> None:
    storage = dict(message("S", "T", {})) | text(0x5D01, "") | text(0x0C1F, "/O=A/OU=B/CN=J")
    assert parse_bytes(tmp_path, "a.msg", compound_file(storage)).text.startswith("From: Jürgen\n")


@pytest.mark.parametrize("name", ["a.doc", "a.xls", "a"])
def test_old_office_documents_stay_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(IngestError) as caught:
        parse_bytes(tmp_path, name, compound_file({"WordDocument": b"x"}))
    assert caught.value.code is IngestCode.UNSUPPORTED_FORMAT


@pytest.mark.parametrize("data", [b"just words", compound_file({"WordDocument": b"x"})], ids=["text", "Word"])
def test_an_invalid_message_is_an_error(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(IngestError) as caught:
        parse_bytes(tmp_path, "a.msg", data)
    assert caught.value.code is IngestCode.CORRUPT


def test_the_nesting_of_messages_is_limited(tmp_path: Path) -> None:
    inner = message("0", "deep", {}, header=24)
    for number in range(1, 30):
        inner = message(str(number), "less deep", {"x": inner}, header=24)
    document = parse_bytes(tmp_path, "a.msg", compound_file({**inner, **message("all", "top", {"x": inner})}))
    assert len(by_part(document)) == 4


def test_truncated_and_changed_messages_are_read_or_an_error(tmp_path: Path, proof: ProofScale) -> None:
    data, choices = made_message(), proof.random()
    codes: set[IngestCode] = set()
    for _ in range(proof.pick(scaled_down=150, full=3000)):
        broken = bytearray(data[: choices.choice((len(data), choices.randrange(9, len(data))))])
        for _ in range(choices.randint(0, 8)):
            at = choices.randrange(8, len(broken))
            broken[at : at + 4] = choices.choice((b"\0\0\0\0", b"\xff\xff\xff\xff", choices.randbytes(4)))
        try:
            check_document(parse_bytes(tmp_path, "a.msg", bytes(broken)))
        except IngestError as error:
            codes.add(error.code)
    assert codes <= {IngestCode.CORRUPT, IngestCode.TOO_LARGE, IngestCode.EMPTY}
