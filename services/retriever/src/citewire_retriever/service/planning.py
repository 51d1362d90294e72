"""Chooses the context path of a question: a decision table over counts."""

from typing import Final

from citewire.retriever.v1.retriever_pb2 import ScopeCounts

from citewire_kit.tenant import INPUT_TOKENS, RESERVED_TOKENS
from citewire_kit.tenant import Plan as TenantPlan
from citewire_retriever.model import ContextPath, Strategy

_MANY_ITEMS: Final = 200
"""More items than this are searched rather than read."""
_TOLERATED_SHARE: Final = 0.2
"""Exactly this share of items without vectors is still searched."""


def context_budget(plan: TenantPlan, max_tokens: int | None) -> int:
    """Returns the token budget for items: the given one, or the plan's budget minus the reserve."""
    return INPUT_TOKENS[plan] - RESERVED_TOKENS if max_tokens is None else max_tokens


def decide(
    strategy: Strategy, plan: TenantPlan, *, attached: bool, counts: ScopeCounts, cut: bool
) -> tuple[ContextPath, str]:
    """Decides on the path.

    Args:
        strategy: `semantic` always searches; `library` follows the table.
        plan: The tenant's plan; free and basic have no semantic search in a library.
        attached: Whether documents were selected, at least one.
        counts: Counts of the scope's content.
        cut: Whether the most recent item alone exceeds the budget, so that only its beginning is read.

    Returns:
        The path and the reason, one sentence for a user. It doesn't say how many items are read, which is only known
        when the prompt is complete.
    """
    over = cut or counts.trimmed > 0
    if strategy == "semantic":
        return "semantic", "The items are searched."
    if attached:
        if not counts.items and counts.not_ready:
            return "focused", _none_ready(counts.not_ready)
        return "focused", "The attached items are read, without a search" + _as_far(over, cut)
    if counts.items <= _MANY_ITEMS:
        reason = "The library is small enough to be read, without a search" + _as_far(over, cut)
        return ("long_context_trim" if over else "long_context"), reason
    if plan != "pro":
        return "long_context_trim", f"The {plan} plan has no semantic search: the items are read" + _as_far(over, cut)
    share = counts.without_embedding / counts.items
    if share > _TOLERATED_SHARE:
        waiting = f"{share:.0%} of the items can't be searched yet"
        return "long_context_fallback", f"{waiting}: they are read" + _as_far(over, cut)
    return "semantic", "The items are too many to read: they are searched."


def _as_far(over: bool, cut: bool) -> str:
    if cut:
        return ", but the most recent one alone is over the budget: only its beginning fits."
    return ", the most recent ones, as many as fit the budget." if over else "."


def _none_ready(attached: int) -> str:
    state = "1 item is attached, and it isn't" if attached == 1 else f"{attached} items are attached, and none is"
    return f"{state} ready: there is nothing to read yet."
