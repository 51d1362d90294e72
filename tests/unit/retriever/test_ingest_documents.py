"""Real documents: every file of the reference data is read or refused as its manifest says."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pypdfium2
import pytest

from citewire_retriever.ingest import chunker
from citewire_retriever.ingest.chunks import ChunkRules
from citewire_retriever.ingest.document import Format, ParseLimits
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers import parse
from citewire_retriever.ingest.recognition import find_recogniser
from citewire_retriever.ingest.sandbox import Sandbox, SandboxRules
from ingest_files import check_document, words
from proof_scale import ProofScale

RULES = ChunkRules(max_tokens=254)


async def count(texts: Sequence[str]) -> list[int]:
    """Counts a token for every four characters of a word, about as many as a real tokeniser."""
    return [sum(1 + len(word) // 5 for word in text.split()) for text in texts]


def manifest(shared_data: Path) -> list[dict[str, Any]]:
    lines = (shared_data / "documents" / "manifest.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def outcome(path: Path) -> str:
    try:
        document = parse(path.read_bytes(), path.name)
    except IngestError as error:
        return error.code.value if error.message.endswith(".") else f"{error.code} without a sentence"
    check_document(document)
    chunks = asyncio.run(chunker.chunk(document, document.title or path.name, RULES, count))
    assert chunks
    cut_words = words("\n".join(f"{chunk.section}\n{chunk.text}" for chunk in chunks))
    if document.format not in {Format.MARKDOWN}:  # its tables are rendered; they have their own tests
        lost = {word for word in words(document.text) if len(word) < 60} - cut_words
        assert not lost, (path, sorted(lost)[:20])
    return "ok"


def test_every_file_behaves_as_the_manifest_says(shared_data: Path) -> None:
    wrong: list[tuple[str, str, str]] = []
    for entry in manifest(shared_data):
        path = shared_data / "documents" / entry["file"]
        result = outcome(path)
        expect: str = entry["expect"]
        if expect.startswith("password"):
            allowed = {"PASSWORD_REQUIRED"}
        else:
            allowed = {
                "ok": {"ok"},
                "ok-decoded": {"ok"},
                "no-text": {"NO_TEXT"},
                "clean-error": {code.value for code in IngestCode} - {"INTERNAL"},
                "ok-or-clean-error": {"ok", "CORRUPT"},
                "reject-bounded-memory": {"UNSUPPORTED_FORMAT", "TOO_LARGE"},
            }[expect]
        if result not in allowed:
            wrong.append((entry["file"], expect, result))
    assert not wrong


@pytest.mark.system(program="tesseract", package="tesseract-ocr")
async def test_documents_without_text_are_recognised(shared_data: Path) -> None:
    recogniser = await find_recogniser("tesseract", "eng", cpu_seconds=60, most_pages=10)
    rules = SandboxRules(
        seconds=30,
        cpu_seconds=30,
        cpu_seconds_per_mib=10,
        memory_mib=2048,
        files=1000,
        limits=ParseLimits(),
        recogniser=recogniser,
        confinement="available",
    )
    scans = [entry["file"] for entry in manifest(shared_data) if entry["expect"] == "no-text"]
    assert scans
    async with Sandbox.open(rules, processes=1) as sandbox:
        for file in scans:
            document = await sandbox.parse(shared_data / "documents" / file, "scan.pdf", "")
            assert "Docling bundles PDF document conversion to JSON and Markdown" in document.text


def test_encrypted_filings_are_read_by_page(shared_data: Path, proof: ProofScale) -> None:
    folder = shared_data / "qa-financebench"
    filings = [json.loads(line) for line in (folder / "documents.jsonl").read_text().splitlines()]
    filings.sort(key=lambda filing: filing["n_pages"])
    for about in filings[: proof.pick(scaled_down=4, full=len(filings))]:
        path = folder / "pdfs" / f"{about['doc_name']}.pdf"
        document = parse(path.read_bytes(), "filing.pdf")
        assert document.pages == about["n_pages"]
        with closing(pypdfium2.PdfDocument(path)) as pdf:  # a page may be empty or have only a picture
            written = {number for number, page in enumerate(pdf, 1) if page.get_textpage().count_chars() > 0}
        assert {block.place.page for block in document.blocks} == written
        assert len(written) >= about["n_pages"] - 1


def test_a_single_byte_encoding_is_decoded(shared_data: Path) -> None:
    document = parse((shared_data / "documents" / "constructed" / "latin1.txt").read_bytes(), "latin1.txt")
    assert document.text == "Grüße aus Köln – naïve façade"


def test_columns_are_read_one_after_the_other(shared_data: Path) -> None:
    text = parse((shared_data / "documents" / "pdf" / "multi-column-2p.pdf").read_bytes(), "a.pdf").text
    # The abstract is above the introduction in the left column, which is read before the right one.
    places = [text.index(words) for words in ("Abstract", "1 Introduction", "is usually implemented using TF-IDF")]
    assert places == sorted(places)
    assert "Questions" not in text[: places[0]]
    assert "effi-" not in text


def test_the_same_bytes_give_the_same_chunks(shared_data: Path) -> None:
    path = shared_data / "qa-financebench" / "pdfs" / "ULTABEAUTY_2023Q4_EARNINGS.pdf"
    first, second = (
        asyncio.run(chunker.chunk(parse(path.read_bytes(), path.name), "T", RULES, count)) for _ in range(2)
    )
    assert first == second
