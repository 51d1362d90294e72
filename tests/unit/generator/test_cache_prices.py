"""Which earlier questions keep their passages, by prices and by what was found again."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest

from citewire_generator.cache_prices import first_kept
from citewire_generator.model import Message, Role
from citewire_ledger import Price
from generator_calls import make_passage

FREE_WRITES = Price(Decimal("1.25"), Decimal("0.125"), Decimal("1.25"), Decimal(10))
QUARTER = Price(Decimal(2), Decimal("0.5"), Decimal(2), Decimal(8))
PAID_WRITES = Price(Decimal(2), Decimal("0.1"), Decimal("2.5"), Decimal(10))
PASSAGES = [make_passage(number, 1, f"Fact {number} is so. ", token_count=500) for number in range(100)]
SAME, OTHER = (0, 1, 2, 3), (4, 5, 6, 7)


def kept_from(*turns: Sequence[int], price: Price = FREE_WRITES, rules: int = 400) -> int:
    """Which of the questions (the last is asked now) is the first that keeps its passages; the last: none does."""
    history: list[Message] = []
    for turn in turns[:-1]:
        passages = tuple(PASSAGES[number] for number in turn)
        history += [Message(Role.USER, "What is so?", passages=passages), Message(Role.ASSISTANT, "It is so.")]
    first = first_kept(history, "And then?", [PASSAGES[number] for number in turns[-1]], price, rules)
    return first // 2


def changing(turns: int) -> list[tuple[int, ...]]:
    return [tuple(range(4 * turn, 4 * turn + 4)) for turn in range(turns)]


def test_what_is_found_again_stays_and_what_is_not_goes() -> None:
    assert kept_from(SAME, SAME) == 0
    assert kept_from(*[SAME] * 9) == 0
    assert kept_from(SAME, SAME, *changing(5)[1:]) == 3  # there it had become too much
    assert kept_from(SAME, OTHER, price=QUARTER) == 1
    assert kept_from(SAME, (0, 1, 4, 5), price=QUARTER) == 0


def test_what_is_dropped_does_not_come_back() -> None:
    turns = [SAME, OTHER, *[OTHER] * 3]
    assert kept_from(*turns, price=QUARTER) == 1
    assert kept_from(*turns, SAME, price=QUARTER) == 5


def test_short_prompts_are_not_cached() -> None:
    assert kept_from((0,), (1,), rules=100) == 1  # 600 tokens: they would be paid for in full
    assert kept_from((0, 1, 2), (0, 3), rules=100) == 0


def test_where_writing_costs_something_is_begun_for_what_comes_again() -> None:
    assert kept_from(SAME, OTHER, price=PAID_WRITES) == 1
    assert kept_from(SAME, (0, 1, 2, 4), price=PAID_WRITES) == 0
    # One question on something else doesn't undo it; several do, and it isn't begun again before that has paid off.
    assert kept_from(SAME, *[SAME] * 3, OTHER, price=PAID_WRITES) == 0
    lost = [SAME, (0, 1, 2, 4), *changing(9)[2:]]
    assert kept_from(*lost, price=PAID_WRITES) == len(lost) - 1
    assert kept_from(*lost, lost[-1], price=PAID_WRITES) == len(lost)


@pytest.mark.parametrize("price", [FREE_WRITES, QUARTER, PAID_WRITES])
def test_nothing_stays_where_nothing_was_found(price: Price) -> None:
    assert kept_from((), (), (), price=price) == 2
