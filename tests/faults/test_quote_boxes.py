"""Places of quotes on the pages of real PDFs, checked by another library."""

from __future__ import annotations

import random
import re
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from citewire_retriever.ingest.boxes import SoughtText
from citewire_retriever.ingest.document import ParsedDocument, ParseLimits
from citewire_retriever.ingest.errors import IngestError
from citewire_retriever.ingest.parsers.pdf import parse_pdf
from citewire_retriever.ingest.parsers.pdf_boxes import find_boxes
from pdf_words import alphanumerics, text_inside

if TYPE_CHECKING:
    from proof_scale import PrintTable, ProofScale

AROUND = 200


def sentences(document: ParsedDocument, choices: random.Random) -> list[tuple[int, int, int]]:
    """Returns page, start and end of sentences that an answer may quote, in random order."""
    quotes = [
        (block.place.page, block.start + match.start(), block.start + match.end())
        for block in document.blocks
        for match in re.finditer(r"[^.!?\s][^.!?]{24,240}[.!?]?", document.text[block.start : block.end])
    ]
    choices.shuffle(quotes)
    return quotes


def test_boxes_contain_the_words_that_another_library_reads(
    shared_data: Path, proof: ProofScale, print_table: PrintTable
) -> None:
    choices = proof.random()
    by_file: list[list[tuple[Path, bytes, ParsedDocument, tuple[int, int, int]]]] = []
    for path in sorted((shared_data / "documents" / "pdf").glob("*.pdf")):
        data = path.read_bytes()
        try:
            document = parse_pdf(data, ParseLimits())
        except IngestError:
            continue  # a scan, and a file with a password
        by_file.append([(path, data, document, quote) for quote in sentences(document, choices)])
    cases = (case for turn in zip_longest(*by_file) for case in turn if case is not None)
    words = missing = extra = inside = quotes = 0
    for path, data, document, (page, start, end) in islice(cases, proof.pick(scaled_down=30, full=200)):
        text = document.text
        around = text[max(0, start - AROUND) : start], text[end : end + AROUND]
        (shown,) = find_boxes(data, [SoughtText(page, text[start:end], *around)])
        held = alphanumerics(text_inside(path, page, shown.boxes))
        sought_words = [alphanumerics(word) for word in re.findall(r"\w+", text[start:end])]
        quotes += 1
        words += len(sought_words)
        missing += sum(word not in held for word in sought_words)
        extra += max(0, len(held) - sum(map(len, sought_words)))
        inside += len(held)
    print_table(
        "Quotes on pages of PDFs",
        ("quotes", "words", "in the boxes", "characters of others"),
        [(quotes, words, f"{1 - missing / words:.2%}", f"{extra / inside:.2%}")],
    )
    assert missing <= 0.01 * words
    assert extra <= 0.05 * inside
