"""Reading of PDF pages compared with two other tools: words and their order, tables and headings, by the gold standard.

30 pages of the reference data's PDF files, annotated by people (`pdf_gold.txt`): one column and two, tables with
rules and without, lists, footnotes, running heads, an index and a table of contents; English, German, and six scripts
on a page. Each tool gets each page as a separate file, as some of them don't distinguish pages. Citewire, which uses
the whole file for running heads and the outline, also gets the whole file.

Usage: python -m benchmarks.pdf_quality [--pages] [--gold]; the data is expected beside the repository. The other tools
are installed into their own environments.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pypdfium2

from benchmarks.fusion_data import DATA
from benchmarks.pdf_gold import GoldPage, read_gold
from benchmarks.pdf_scores import Element, PageScore, f1, mean, read_markdown, score
from benchmarks.tables import describe_machine, format_table
from citewire_retriever.ingest.document import Block, BlockKind, ParsedDocument, ParseLimits
from citewire_retriever.ingest.parsers.pdf import parse_pdf
from scripts.tool_environment import install_tool

_FILES = DATA / "documents" / "pdf"
_REQUIREMENTS = Path(__file__).with_name("pdf-peers-requirements.txt")
_PEERS = ("kreuzberg", "markitdown")
_HEADINGS = [
    "system",
    "recall",
    "precision",
    "order",
    "tables, TEDS",
    "false tables",
    "headings, F1",
    "with level",
    "CPU ms a page",
]


@dataclass(frozen=True, slots=True)
class _Reading:
    """The result of a system on the gold standard's pages."""

    pages: list[list[Element]]
    milliseconds: float
    """CPU time per page of its input."""


def main() -> int:
    """Prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pages", action="store_true", help="also each page's own figures")
    parser.add_argument("--gold", action="store_true", help="only print the gold standard, as Markdown")
    options = parser.parse_args()
    if not _FILES.is_dir():
        print(f"nothing measured: {_FILES} isn't there", file=sys.stderr)
        return 0
    gold = read_gold(_FILES)
    if options.gold:
        for page in gold:
            print(f"<!-- {page.file}, page {page.number} -->\n\n{_markdown(page.elements)}\n")
        return 0
    print(describe_machine(), flush=True)
    rows: list[list[object]] = []
    for name, reading in _readings(gold):
        scores = [score(page.elements, read) for page, read in zip(gold, reading.pages, strict=True)]
        rows.append([name, *_figures(scores), reading.milliseconds])
        if options.pages:
            _print_pages(name, gold, scores)
    print(format_table(_HEADINGS, rows))
    return 0


def _readings(gold: Sequence[GoldPage]) -> Iterator[tuple[str, _Reading]]:
    yield "Citewire, whole files", _read_whole(gold)
    with TemporaryDirectory() as folder:
        files = [_cut_out(page, Path(folder) / f"{number}.pdf") for number, page in enumerate(gold)]
        yield "Citewire", _read_alone(files)
        python = install_tool("python", "the tools that read PDF files", _REQUIREMENTS)
        for peer in _PEERS:
            yield peer, _read_peer(python, peer, files)


def _cut_out(page: GoldPage, target: Path) -> Path:
    """The page as a separate file."""
    with pypdfium2.PdfDocument(_FILES / page.file) as document, pypdfium2.PdfDocument.new() as alone:
        alone.import_pages(document, [page.number - 1])  # pyright: ignore[reportUnknownMemberType] # untyped library
        alone.save(target)  # pyright: ignore[reportUnknownMemberType] # untyped library
    return target


def _read_whole(gold: Sequence[GoldPage]) -> _Reading:
    documents: dict[str, ParsedDocument] = {}
    seconds = 0.0
    for file in dict.fromkeys(page.file for page in gold):
        documents[file], taken = _timed(lambda file=file: _parse(_FILES / file))
        seconds += taken
    count = sum(document.pages or 0 for document in documents.values())
    return _Reading([_elements(documents[page.file], page.number) for page in gold], 1000 * seconds / count)


def _read_alone(files: Sequence[Path]) -> _Reading:
    results = [_timed(lambda file=file: _parse(file)) for file in files]
    milliseconds = 1000 * mean(seconds for _, seconds in results)
    return _Reading([_elements(document, 1) for document, _ in results], milliseconds)


def _read_peer(python: Path, peer: str, files: Sequence[Path]) -> _Reading:
    program = Path(__file__).with_name("pdf_peer.py")
    done = subprocess.run([python, program, peer, *files], capture_output=True, text=True, check=True)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    return _Reading(
        [read_markdown(result["markdown"]) for result in results], 1000 * mean(result["seconds"] for result in results)
    )


def _parse(path: Path) -> ParsedDocument:
    return parse_pdf(path.read_bytes(), ParseLimits())


def _timed(work: Callable[[], ParsedDocument]) -> tuple[ParsedDocument, float]:
    start = time.process_time()
    return work(), time.process_time() - start


def _elements(document: ParsedDocument, page: int) -> list[Element]:
    return [
        element for block in document.blocks if block.place.page == page for element in _of_block(document.text, block)
    ]


def _of_block(text: str, block: Block) -> Iterator[Element]:
    if block.kind is not BlockKind.TABLE:
        yield Element(text[block.start : block.end], level=block.level)
        return
    rows = [row for row in block.children if row.kind is BlockKind.ROW]
    if block.start < rows[0].start:  # the caption, which is in the table's chunks
        yield Element(text[block.start : rows[0].start].strip())
    lines = (text[text.rfind("\n", 0, row.start) + 1 : row.end] for row in rows)  # with the tabs of empty first cells
    yield Element(rows=tuple(tuple(line.split("\t")) for line in lines))


def _figures(scores: Sequence[PageScore]) -> list[object]:
    headings = sum((score.headings for score in scores), Counter[str]())
    return [
        mean(score.recall for score in scores),
        mean(score.precision for score in scores),
        mean(score.order for score in scores),
        mean(value for score in scores for value in score.teds),
        sum(score.false_tables for score in scores),
        f1(headings, "both"),
        f1(headings, "level"),
    ]


def _print_pages(name: str, gold: Sequence[GoldPage], scores: Sequence[PageScore]) -> None:
    print(f"\n{name}:")
    for page, page_score in zip(gold, scores, strict=True):
        tables = " ".join(f"{value:.2f}" for value in page_score.teds) or "-"
        counts = page_score.headings
        print(
            f"{page.file:28} {page.number:3}  recall {page_score.recall:.3f}, precision {page_score.precision:.3f}, "
            f"order {page_score.order:.3f}, tables {tables} and {page_score.false_tables} more, "
            f"headings {counts['both']} of "
            f"{counts['gold']}, {counts['read']} read, {counts['level']} at their level",
            flush=True,
        )


def _markdown(elements: Sequence[Element]) -> str:
    return "\n\n".join(
        "\n".join(_lines(element)) if element.rows else f"{'#' * element.level} {element.text}".lstrip()
        for element in elements
    )


def _lines(table: Element) -> Iterator[str]:
    for number, row in enumerate(table.rows):
        yield f"| {' | '.join(row)} |"
        if not number:
            yield f"|{' --- |' * len(row)}"


if __name__ == "__main__":
    raise SystemExit(main())
