"""The effect of rows that share a chunk: whether a row is found by its values, and how much is embedded.

Generated tables of four kinds, each a separate document in one library. A question gives two values of a row and
asks for a third, as people do. The dense leg is compared with BM25, with the stored weights of chunks. "Each row
alone" is the way rows were split before they shared chunks.

`--long N` instead reads and splits a table of N rows part by part, as the worker and its confined process do in turns,
and prints the time and the peak memory of the single process that does both here.

Usage: python -m benchmarks.rows [--rows N] [--questions N] [--targets TOKENS …] [--long N]
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import io
import mmap
import random
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.extractive_data import embed
from benchmarks.fusion_data import LexicalIndex
from benchmarks.tables import describe_machine, format_table
from citewire_embedder.models import open_model
from citewire_embedder.settings import EmbedderSettings
from citewire_retriever.headings import headings_of
from citewire_retriever.ingest.chunker import chunk
from citewire_retriever.ingest.chunks import Chunk, ChunkRules, embedding_input
from citewire_retriever.ingest.parsers import parse

_ALONE = 1
"""The smallest target, at which no two rows share a chunk."""
_TOPS = (1, 5, 10)

_FIRST = "Ada Ben Carla Deniz Elif Farid Grete Hugo Inés Jonas Kaja Lars Mira Nils Olga Pablo Rosa Sven Tilda"
_LAST = "Adler Brandt Costa Dietz Ekström Fuchs Grün Haas Ivanov Jung Kraus Lenz Meyer Novak Otto Petit Ruiz Sato"
_CITIES = "Bremen Lyon Porto Gdańsk Turin Malmö Graz Basel Ghent Leeds Bergen Tartu Cork Brno Split Vigo"
_GOODS = "pump valve gasket bearing sensor relay filter hose clamp motor switch fuse bracket lens spindle rotor"
_KINDS = "steel brass ceramic rubber copper plastic titanium glass"
_CAUSES = "overheating wiring seals delivery payment corrosion noise vibration"


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a row."""

    text: str
    table: str
    row: int
    """Line of the sheet, from 1."""


Table = list[list[str]]


def main() -> int:
    """Prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=600, help="rows of each table (default: %(default)s)")
    parser.add_argument("--questions", type=int, default=100, help="questions to each table (default: %(default)s)")
    parser.add_argument("--targets", type=int, nargs="+", default=[_ALONE, 24, 48, 160], help="tokens of a chunk")
    parser.add_argument("--long", type=int, default=0, help="rows of one long table, instead of all else")
    options = parser.parse_args()
    print(describe_machine(), flush=True)
    if options.long:
        print(format_table(*asyncio.run(_read_long(options.long))))
        return 0
    rng = random.Random(7)
    tables = {
        name: [header, *(make(rng, row) for row in range(options.rows))] for name, (header, make) in _TABLES.items()
    }
    asked = [_ask(rng, name, table) for name, table in tables.items() for _ in range(options.questions)]
    questions_embedded = embed([question.text for question in asked])
    results: list[list[object]] = []
    for target in options.targets:
        cut = asyncio.run(_cut(tables, target))
        texts = [embedding_input(piece.header, piece.text) for _, piece in cut]
        lexical = LexicalIndex(texts, (headings_of(piece.header) for _, piece in cut))
        legs = (questions_embedded @ embed(texts).T, np.array([lexical.scores(question.text)[0] for question in asked]))
        ranks = [_ranks(scores, asked, cut) for scores in legs]
        held = sum(len(piece.places) or 1 for _, piece in cut) / len(cut)
        shares = [f"{np.mean(leg < top):.3f}" for leg in ranks for top in _TOPS]
        name = "each row alone" if target == _ALONE else f"up to {target} tokens"
        results.append([name, len(cut), held, sum(piece.token_count for _, piece in cut), *shares])
    columns = [
        "chunks",
        "how many",
        "rows each",
        "tokens",
        *(f"{leg} @{top}" for leg in ("dense", "BM25") for top in _TOPS),
    ]
    print(format_table(columns, results))
    return 0


async def _cut(tables: dict[str, Table], target: int) -> list[tuple[str, Chunk]]:
    model = open_model(EmbedderSettings(port=0, metrics_port=0, auth="off"))
    await model.load()
    try:
        window = model.info.max_input_tokens - model.info.extra_tokens
        rules = ChunkRules(max_tokens=window, row_tokens=target)
        results: list[tuple[str, Chunk]] = []
        for name, table in tables.items():
            document = parse(_csv(table), f"{name}.csv")
            results += [(name, piece) for piece in await chunk(document, name, rules, model.count_tokens)]
        return results
    finally:
        await model.close()


async def _read_long(rows: int) -> tuple[list[str], list[list[object]]]:
    rng = random.Random(7)
    model = open_model(EmbedderSettings(port=0, metrics_port=0, auth="off"))
    await model.load()
    rules = ChunkRules(max_tokens=model.info.max_input_tokens - model.info.extra_tokens)
    with tempfile.TemporaryFile() as file:
        file.write(_csv([["Number", "Name", "City", "Ordered", "Amount"]]))
        for first in range(0, rows, 10_000):
            file.write(_csv([_customer(rng, row) for row in range(first, min(first + 10_000, rows))]))
        file.flush()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as data:
            size, position = len(data), None
            chunks = tokens = 0
            reading = cutting = 0.0
            while True:
                start = time.process_time()
                document = parse(data, "long.csv", position=position)
                read = time.process_time()
                cut = await chunk(document, "long", rules, model.count_tokens)
                reading, cutting = reading + read - start, cutting + time.process_time() - read
                chunks, tokens = chunks + len(cut), tokens + sum(piece.token_count for piece in cut)
                position = document.following
                if position is None:
                    break
    await model.close()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    headings = ["rows", "MB", "chunks", "tokens", "reading, CPU s", "cutting, CPU s", "MiB before", "MiB most"]
    return headings, [[rows, size / 1e6, chunks, tokens, reading, cutting, before // 1024, after // 1024]]


def _csv(table: Table) -> bytes:
    file = io.StringIO()
    csv.writer(file).writerows(table)
    return file.getvalue().encode()


def _ask(rng: random.Random, name: str, table: Table) -> Question:
    """A question for one value of a row, by two of its other values."""
    row = rng.randrange(1, len(table))
    given, other, sought = rng.sample(range(len(table[0])), 3)
    header, cells = table[0], table[row]
    text = (
        f"What is the {header[sought]} where {header[given]} is {cells[given]} and {header[other]} is {cells[other]}?"
    )
    return Question(text, name, row + 1)


def _ranks(
    scores: NDArray[np.floating[Any]], asked: Sequence[Question], cut: Sequence[tuple[str, Chunk]]
) -> NDArray[np.int64]:
    """For each question, the index, from 0, of the first chunk with a matching row."""
    holders: dict[tuple[str, int], list[int]] = {}
    for number, (name, piece) in enumerate(cut):
        for row in range(piece.place.row, (piece.place.end_row or piece.place.row) + 1):
            holders.setdefault((name, row), []).append(number)
    places = [
        int((line > max(line[number] for number in holders[question.table, question.row])).sum())
        for line, question in zip(scores, asked, strict=True)
    ]
    return np.array(places)


def _word(rng: random.Random, words: str) -> str:
    return rng.choice(words.split())


def _name(rng: random.Random) -> str:
    return f"{_word(rng, _FIRST)} {_word(rng, _LAST)}"


def _part(rng: random.Random) -> str:
    return f"{_word(rng, _KINDS)} {_word(rng, _GOODS)} {rng.randrange(2, 90)} mm"


def _customer(rng: random.Random, row: int) -> list[str]:
    ordered = f"2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"
    return [f"K-{10_000 + 7 * row}", _name(rng), _word(rng, _CITIES), ordered, f"{rng.randrange(10_000, 10**7) / 100}"]


def _stock(rng: random.Random, row: int) -> list[str]:
    return [f"{_word(rng, 'A B C')}{row:04}", _part(rng), str(rng.randrange(900)), _word(rng, _CITIES)]


def _ticket(rng: random.Random, row: int) -> list[str]:
    text = f"{_name(rng)} reports {_word(rng, _CAUSES)} at the {_part(rng)} in {_word(rng, _CITIES)}"
    return [str(50_000 + row), text, _word(rng, "open closed waiting"), _word(rng, _LAST)]


def _phone(rng: random.Random, row: int) -> list[str]:
    return [_name(rng), _word(rng, _CITIES), str(100 + row)]


_TABLES: dict[str, tuple[list[str], Callable[[random.Random, int], list[str]]]] = {
    "customers": (["Number", "Name", "City", "Ordered", "Amount"], _customer),
    "stock": (["Part", "Description", "In stock", "Warehouse"], _stock),
    "tickets": (["Ticket", "Complaint", "State", "Agent"], _ticket),
    "phones": (["Name", "Office", "Extension"], _phone),
}

if __name__ == "__main__":
    raise SystemExit(main())
