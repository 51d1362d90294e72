"""The decision table of the library, its budgets, and the reasons that it gives."""

from __future__ import annotations

import pytest
from citewire.retriever.v1.retriever_pb2 import ScopeCounts

from citewire_kit.tenant import Plan
from citewire_retriever.model import ContextPath, Strategy
from citewire_retriever.service.planning import context_budget, decide


def counts(items: int, *, fitting: int | None = None, without: int = 0, cut: bool = False) -> tuple[ScopeCounts, bool]:
    """The counts of a scope, and whether the most recent item alone exceeds the budget."""
    fitting = items if fitting is None else fitting
    return ScopeCounts(items=items, kept=fitting, trimmed=items - fitting, without_embedding=without, chunks=items), cut


@pytest.mark.parametrize(
    ("plan", "attached", "scope", "path"),
    [
        # D1: exactly the attached items are read, whatever else applies
        ("free", True, counts(1), "focused"),
        ("pro", True, counts(500, without=500), "focused"),
        ("free", True, counts(500, fitting=20), "focused"),
        # D2: up to 200 items, all of them if they fit
        ("pro", False, counts(0), "long_context"),
        ("pro", False, counts(200), "long_context"),
        ("free", False, counts(200), "long_context"),
        ("pro", False, counts(200, fitting=199), "long_context_trim"),
        ("pro", False, counts(1, cut=True), "long_context_trim"),
        ("pro", False, counts(200, without=200), "long_context"),
        # D3: more, and no semantic search in the plan
        ("free", False, counts(201), "long_context_trim"),
        ("basic", False, counts(201, fitting=10), "long_context_trim"),
        # D4: more than 20 % without vectors; exactly 20 % is not more
        ("pro", False, counts(205, without=42), "long_context_fallback"),
        ("pro", False, counts(205, without=41), "semantic"),
        ("pro", False, counts(5000, without=1000), "semantic"),
        ("pro", False, counts(5000, without=1001), "long_context_fallback"),
        ("pro", False, counts(1000, without=201, fitting=3), "long_context_fallback"),
        # D5
        ("pro", False, counts(201), "semantic"),
    ],
)
def test_the_library_table(plan: Plan, attached: bool, scope: tuple[ScopeCounts, bool], path: ContextPath) -> None:
    assert decide(Strategy.LIBRARY, plan, attached=attached, counts=scope[0], cut=scope[1])[0] == path


def test_the_semantic_strategy_always_searches() -> None:
    for attached in (True, False):
        for result in (counts(0), counts(1), counts(1000, without=1000)):
            assert decide(Strategy.SEMANTIC, "free", attached=attached, counts=result[0], cut=False)[0] == "semantic"


def test_budgets_are_the_plans_unless_one_is_given() -> None:
    assert [context_budget(plan, None) for plan in ("free", "basic", "pro")] == [28_500, 28_500, 148_500]
    assert context_budget("pro", 5000) == 5000
    assert context_budget("free", 148_500) == 148_500


@pytest.mark.parametrize(
    ("plan", "attached", "scope", "reason"),
    [
        ("pro", True, counts(1), "The attached items are read, without a search."),
        (
            "free",
            True,
            counts(9, fitting=4),
            "The attached items are read, without a search, the most recent ones, as many as fit the budget.",
        ),
        ("pro", False, counts(3), "The library is small enough to be read, without a search."),
        (
            "pro",
            False,
            counts(2, fitting=1, cut=True),
            "The library is small enough to be read, without a search, but the most recent one alone is over the "
            "budget: only its beginning fits.",
        ),
        (
            "free",
            False,
            counts(300, fitting=20),
            "The free plan has no semantic search: the items are read, the most recent ones, as many as fit the "
            "budget.",
        ),
        ("basic", False, counts(300), "The basic plan has no semantic search: the items are read."),
        (
            "pro",
            False,
            counts(300, fitting=20, without=90),
            "30% of the items can't be searched yet: they are read, the most recent ones, as many as fit the budget.",
        ),
        ("pro", False, counts(300), "The items are too many to read: they are searched."),
    ],
)
def test_the_reason_is_readable_for_users(
    plan: Plan,
    attached: bool,
    scope: tuple[ScopeCounts, bool],
    reason: str,
) -> None:
    assert decide(Strategy.LIBRARY, plan, attached=attached, counts=scope[0], cut=scope[1])[1] == reason


def test_pending_documents_are_not_counted_as_attached() -> None:
    for waiting, text in (
        (1, "1 item is attached, and it isn't ready: there is nothing to read yet."),
        (3, "3 items are attached, and none is ready: there is nothing to read yet."),
    ):
        counts = ScopeCounts(not_ready=waiting)
        assert decide(Strategy.LIBRARY, "pro", attached=True, counts=counts, cut=False) == ("focused", text)
