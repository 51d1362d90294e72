"""Which earlier questions keep their passages, by prices and by the passages found again."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest

from citewire_generator.cache_prices import kept_questions
from citewire_generator.model import Message, Role
from citewire_ledger import Price
from generator_calls import make_passage

FREE_WRITES = Price(Decimal("1.25"), Decimal("0.125"), Decimal("1.25"), Decimal(10))
QUARTER = Price(Decimal(2), Decimal("0.5"), Decimal(2), Decimal(8))
PAID_WRITES = Price(Decimal(2), Decimal("0.1"), Decimal("2.5"), Decimal(10))
PASSAGES = [make_passage(number, 1, f"Fact {number} is so. ", token_count=500) for number in range(100)]
SAME, OTHER = (0, 1, 2, 3), (4, 5, 6, 7)


def ask(*turns: Sequence[int], price: Price = FREE_WRITES, rules: int = 400) -> tuple[list[int], bool]:
    """Which earlier questions keep their passages when the last is asked, and whether the last will keep its own."""
    history: list[Message] = []
    for turn in turns[:-1]:
        passages = tuple(PASSAGES[number] for number in turn)
        history += [Message(Role.USER, "What is so?", passages=passages), Message(Role.ASSISTANT, "It is so.")]
    retained = kept_questions(history, "And then?", [PASSAGES[number] for number in turns[-1]], price, rules)
    return sorted(index // 2 for index in retained.indexes), retained.current


def unrelated_turns(turns: int) -> list[tuple[int, ...]]:
    return [tuple(range(4 * turn + 8, 4 * turn + 12)) for turn in range(turns)]


def test_a_prefix_grows_while_its_passages_are_found_again() -> None:
    assert ask(SAME) == ([], True)
    assert ask(SAME, SAME) == ([0], True)
    assert ask(*[SAME] * 5) == ([0, 1, 2, 3], True)
    assert ask(SAME, (0, 1, 4, 5), price=QUARTER) == ([0], True)
    assert ask(SAME, (0, 4, 5, 6), price=QUARTER) == ([0], True)  # a quarter was found again: just enough to pay
    assert ask(SAME, (4, 5, 6), price=QUARTER, rules=900) == ([0], False)


def test_one_unrelated_question_is_added_and_further_ones_are_sent_once() -> None:
    for questions in range(2, 8):
        turns = [SAME, SAME, *unrelated_turns(questions)]
        assert ask(*turns, rules=700) == ([0, 1, 2], False)


def test_a_prefix_that_costs_more_is_dropped_and_a_new_one_begins() -> None:
    assert ask(SAME, OTHER, rules=100) == ([], True)
    assert ask(SAME, OTHER, OTHER, rules=100) == ([1], True)
    assert ask(SAME, OTHER, price=QUARTER) == ([], True)
    assert ask(SAME, OTHER, SAME, price=QUARTER) == ([], True)  # dropped passages don't come back


def test_short_prompts_are_not_cached() -> None:
    assert ask((0,), (1,), rules=100) == ([], True)  # 600 tokens: they would be paid for in full
    assert ask((0, 1, 2), (0, 3), rules=100) == ([0], True)


def test_if_writing_is_billed_earlier_prompts_must_have_lacked_the_prefix() -> None:
    assert ask(SAME, price=PAID_WRITES) == ([], False)
    assert ask(SAME, SAME, price=PAID_WRITES) == ([], True)
    assert ask(SAME, SAME, SAME, price=PAID_WRITES) == ([1], True)
    # The rules and messages are cached too, but it takes longer to pay.
    assert ask(SAME, OTHER, price=PAID_WRITES) == ([], False)
    assert ask(SAME, OTHER, *unrelated_turns(1), price=PAID_WRITES) == ([], True)
    assert ask(SAME, OTHER, *unrelated_turns(3), price=PAID_WRITES) == ([2], False)


def test_a_prefix_that_was_paid_for_survives_one_unrelated_question() -> None:
    six = tuple(range(60, 66))
    retained = [ask(six, six, six, *unrelated_turns(turns), price=PAID_WRITES, rules=100)[0] for turns in range(1, 6)]
    assert retained == [[1, 2], [1, 2, 3], [1, 2, 3], [], []]  # after several that found none of it
    # With few passages, caching the rules and messages saves more than the passages cost, whatever is found.
    assert ask(SAME, SAME, SAME, *unrelated_turns(20), price=PAID_WRITES, rules=100) == ([1, 2, 3], False)


@pytest.mark.parametrize("price", [FREE_WRITES, QUARTER, PAID_WRITES])
def test_nothing_is_retained_if_nothing_was_found(price: Price) -> None:
    assert ask((), (), (), price=price) == ([], False)
