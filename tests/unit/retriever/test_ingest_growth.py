"""Reading and cutting takes time in proportion to a file's size, whatever its structure."""

import asyncio
import gc
import time
from collections.abc import Sequence
from contextlib import suppress

import pytest

from citewire_retriever.ingest.chunker import chunk
from citewire_retriever.ingest.chunks import ChunkRules
from citewire_retriever.ingest.document import ParsedDocument
from citewire_retriever.ingest.errors import IngestError
from citewire_retriever.ingest.parsers import parse, preload
from citewire_retriever.ingest.settings import WorkerSettings
from hostile_files import HOSTILE
from machine_speed import speed_ratio
from proof_scale import PrintTable, ProofScale

RULES = ChunkRules(max_tokens=254)
GROWTH = 8
MOST = 1.8
"""The allowed excess over proportional time: allocation and caches aren't quite linear."""
SHORT = 0.1
"""Seconds: too short a time to judge by."""
TRIES = 10
"""A busy machine slows some tries down; code that is really slow is slow in every try."""

ATTACKS = {
    "HTML: towers of tables": 212_000,
    "Markdown: rows of a table": 2_000_000,
    "Markdown: headings": 2_000_000,
    "Markdown: rules": 2_000_000,
    "text: lines": 29_000_000,
    "text: one long line": 12_000_000,
    "CSV: columns": 12_000_000,
}
"""Files that once blocked a worker, and their sizes in bytes."""


@pytest.fixture(scope="module", autouse=True)
def load_code() -> None:
    """Loads the measured code, and freezes existing objects so that measurements don't collect them again."""
    preload()
    gc.collect()
    gc.freeze()


async def count(texts: Sequence[str]) -> list[int]:
    return [len(text) // 4 for text in texts]


def seconds(name: str, size: int) -> tuple[float, float]:
    """The seconds that parsing and chunking would take on the reference machine, by the speed measured around them."""
    file_name, data = HOSTILE[name](size)
    document: ParsedDocument | None = None
    gc.collect()
    gc.disable()  # as in the process that reads files; otherwise it takes most of the time, unrelated to the parser
    try:
        speeds = [speed_ratio()]
        start = time.process_time()
        with suppress(IngestError, RecursionError):
            document = parse(data, file_name)
        parsed = time.process_time()
        speeds.append(speed_ratio())
        cutting = time.process_time()
        if document is not None:
            with suppress(IngestError):
                asyncio.run(chunk(document, "A title", RULES, count))
        cut = time.process_time()
        speeds.append(speed_ratio())
        return 2 * (parsed - start) / (speeds[0] + speeds[1]), 2 * (cut - cutting) / (speeds[1] + speeds[2])
    finally:
        gc.enable()


@pytest.mark.parametrize("name", HOSTILE)
def test_time_grows_in_proportion(name: str) -> None:
    # Formats that are read fast get larger files, where defects show.
    size = {"text": 128_000, "JSON": 128_000, "PDF": 320_000}.get(name.partition(":")[0], 32_000)
    small = large = (1e9, 1e9)
    for _ in range(TRIES):
        small = min(small[0], (now := seconds(name, size))[0]), min(small[1], now[1])
        large = min(large[0], (now := seconds(name, GROWTH * size))[0]), min(large[1], now[1])
        if all(after <= max(SHORT, MOST * GROWTH * before) for before, after in zip(small, large, strict=True)):
            return
    pytest.fail(f"{name}: parsing and cutting {GROWTH} times as much took {large} seconds instead of {small}")


def test_files_that_once_blocked_a_worker_stay_within_their_budget(proof: ProofScale, print_table: PrintTable) -> None:
    budget = WorkerSettings.model_fields["parse_cpu_seconds"].default
    share = proof.pick(scaled_down=10, full=1)
    rows: list[list[str]] = []
    for name, size in ATTACKS.items():
        parsing, cutting = seconds(name, size // share)
        rows.append([name, f"{size // share:,}", f"{parsing:.2f}", f"{cutting:.2f}"])
        assert parsing < budget / share, name
    print_table("computing for files that held a worker up", ["file", "bytes", "parsing, s", "cutting, s"], rows)
