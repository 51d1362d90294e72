"""Results that are near duplicates of better ones."""

from __future__ import annotations

import hashlib

import pytest
from citewire.retriever.v1.retriever_pb2 import Chunk

from citewire_retriever.model import Candidate
from citewire_retriever.service.duplicates import MAX_NAMED, collapse

TEXT = (
    "The reactor was commissioned in 1974 and supplied the northern grid until it was taken off line for a refit. "
    "Its operators replaced the steam generators, renewed the control room, and trained a second crew before the "
    "regulator allowed it to return to full power. The refit took longer than planned, because parts were late."
)


def candidate(chunk_id: int, text: str, *, row: int | None = None) -> Candidate:
    chunk = Chunk(chunk_id=chunk_id, text=text, place=None if row is None else {"row": row})
    return Candidate(chunk_id, chunk_id, hashlib.sha256(text.encode()).digest(), 0.5, chunk=chunk)


def duplicates_of(*candidates: Candidate, most: int = 10) -> dict[int, tuple[int, ...]]:
    return {result.chunk_id: result.duplicate_ids for result in collapse(candidates, most)}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(TEXT, id="same"),
        pytest.param(TEXT.upper().replace(" ", "\n "), id="case and white space"),
        pytest.param(TEXT.replace("the northern grid", "a northern grid"), id="a word"),
        pytest.param(TEXT + " (ed.)", id="a little more"),
    ],
)
def test_nearly_the_same_text_is_left_out_and_named(other: str) -> None:
    assert duplicates_of(candidate(1, TEXT), candidate(2, "Something else."), candidate(3, other)) == {1: (3,), 2: ()}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(TEXT.replace("1974", "1976"), id="a number"),
        pytest.param(TEXT[:200] + " An entirely different ending follows here, about a bridge.", id="another ending"),
        pytest.param(TEXT[: len(TEXT) // 2], id="a part"),
    ],
)
def test_different_texts_stay(other: str) -> None:
    assert duplicates_of(candidate(1, TEXT), candidate(2, other)) == {1: (), 2: ()}


def test_short_texts_and_rows_must_be_the_same() -> None:
    assert len(duplicates_of(candidate(1, "Total: 12 pieces"), candidate(2, "Total: 13 pieces"))) == 2
    assert len(duplicates_of(candidate(1, "Anna Smith, sales"), candidate(2, "Anne Smith, sales"))) == 2
    row = "; ".join(f"column {letter}: value of {letter}" for letter in "abcdefghijklmnop")
    assert len(duplicates_of(candidate(1, row + "; name: Anna", row=2), candidate(2, row + "; name: Anne", row=3))) == 2
    assert duplicates_of(candidate(1, row, row=2), candidate(2, row, row=9)) == {1: (2,)}


def test_text_without_spaces_is_compared_too() -> None:
    text = "反應爐於一九七四年啟用並向北部電網供電直到停機進行大修" * 10
    assert duplicates_of(candidate(1, text), candidate(2, text + "。")) == {1: (2,)}
    assert len(duplicates_of(candidate(1, text), candidate(2, text[::-1]))) == 2


def test_free_places_are_filled_and_later_copies_are_still_named() -> None:
    others = [candidate(10 + number, f"Another text, about subject {'abcdef'[number]}.") for number in range(4)]
    result = duplicates_of(candidate(1, TEXT), candidate(2, TEXT), *others, candidate(3, TEXT), most=3)
    assert result == {1: (2, 3), 10: (), 11: ()}


def test_the_named_duplicates_are_limited() -> None:
    copies = [candidate(number, TEXT) for number in range(40)]
    assert duplicates_of(*copies) == {0: tuple(range(1, MAX_NAMED + 1))}
