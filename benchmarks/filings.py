"""Finding the right page of company filings: FinanceBench's questions over its 21 filings, as PDF files.

Among the first five different pages in the results of a search: the share of questions with a gold page
among them, over all filings in one library and within the right one. Chunks, terms and vectors come from the current
ingest; the legs are computed in memory, as the store would, and ordered by the service's own fusion.

Every second question belongs to a separate half, because choices made on all questions are fitted to them.

Usage: python -m benchmarks.filings [--misses] [--precision bf16]; the data is expected beside the repository, and texts
without cached vectors are embedded (a quarter of an hour).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from benchmarks.fusion_data import DATA, Question, QuestionSet, load, read_set
from benchmarks.fusion_ways import MODES, Legs, Library
from benchmarks.tables import describe_machine, format_table
from citewire_embedder.providers.base import Precision

FIRST = 5
"""Number of pages considered."""
_SCOPES = ("all filings", "in the filing")


def main() -> int:
    """Prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--misses", action="store_true", help="also what hybrid search finds instead, by question")
    parser.add_argument("--precision", choices=list(Precision), default=Precision.FP32, help="of the embedding model")
    options = parser.parse_args()
    if not DATA.is_dir():
        print(f"nothing measured: {DATA} isn't there", file=sys.stderr)
        return 0
    print(describe_machine(), flush=True)
    filings = load("FinanceBench", Precision(options.precision))
    library = Library(filings, by_document=False)
    rows: list[list[object]] = []
    for scope in _SCOPES:
        legs = _search(library, filings, within=scope == _SCOPES[1])
        for mode in MODES:
            ranks = [
                _rank(library, question_legs, mode, question)
                for question_legs, question in zip(legs, filings.questions, strict=True)
            ]
            shown = [rank is not None and rank < FIRST for rank in ranks]
            rows.append([scope, mode, *(_share(part) for part in (shown, shown[::2], shown[1::2]))])
            if options.misses and mode == "hybrid":
                _print_misses(scope, library, legs, filings.questions)
    print(format_table(["scope", "mode", f"gold page among the first {FIRST}", "one half", "other half"], rows))
    return 0


def _search(library: Library, filings: QuestionSet, *, within: bool) -> list[Legs]:
    return [
        library.find_legs(question.text, vector, sorted({number for number, _ in question.grades}) if within else None)
        for question, vector in zip(filings.questions, filings.asked, strict=True)
    ]


def _pages(library: Library, legs: Legs, mode: str) -> list[tuple[int, int]]:
    """Different pages, each as document and number, in the order of their best chunks."""
    passages = (library.passages[place] for place in legs.rank(mode))
    return list(dict.fromkeys((passage.document, passage.page) for passage in passages))


def _rank(library: Library, legs: Legs, mode: str, question: Question) -> int | None:
    """The index of the first gold page among the pages, from 0; None if there is none."""
    pages = enumerate(_pages(library, legs, mode))
    return next((rank for rank, page in pages if question.grades.get(page, 0) > 0), None)


def _share(shown: Sequence[bool]) -> str:
    return f"{sum(shown) / len(shown):.0%}"


def _print_misses(scope: str, library: Library, legs: Iterable[Legs], questions: Iterable[Question]) -> None:
    names = [name.removesuffix(".pdf") for name, _, _ in read_set("FinanceBench")[0]]
    print(f"\nmissed, {scope}:")
    for question_legs, question in zip(legs, questions, strict=True):
        rank = _rank(library, question_legs, "hybrid", question)
        if rank is not None and rank < FIRST:
            continue
        print(f"- {question.text}")
        print("  gold: ", ", ".join(f"{names[number]} {page}" for number, page in question.grades), f"at {rank}")
        pages = _pages(library, question_legs, "hybrid")[:FIRST]
        print("  found:", ", ".join(f"{names[number]} {page}" for number, page in pages), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
