"""Which context path a question takes: a decision table over counts."""

from typing import Final

from citewire.retriever.v1.retriever_pb2 import ScopeCounts

from citewire_kit.tenant import INPUT_TOKENS, RESERVED_TOKENS
from citewire_kit.tenant import Plan as TenantPlan
from citewire_retriever.model import ContextPath, Strategy

_MANY_ITEMS: Final = 200
"""More items than this are searched, not read."""
_TOLERATED_SHARE: Final = 0.2
"""Exactly this share of items without vectors is still searched."""


def context_budget(plan: TenantPlan, max_tokens: int | None) -> int:
    """Returns how many tokens of items fit: as many as given, or else the plan's budget less what is reserved."""
    return INPUT_TOKENS[plan] - RESERVED_TOKENS if max_tokens is None else max_tokens


def decide(
    strategy: Strategy, plan: TenantPlan, *, attached: bool, counts: ScopeCounts, cut: bool
) -> tuple[ContextPath, str]:
    """Decides on the path.

    Args:
        strategy: `semantic` always searches; `library` follows the table.
        plan: The tenant's; free and basic have no semantic search in a library.
        attached: Whether documents were selected, at least one.
        counts: What the scope holds.
        cut: Whether the most recent item alone is over the budget: only its beginning is read.

    Returns:
        The path and the reason, one sentence for a user.
    """
    if strategy == "semantic":
        return "semantic", _items(counts, "are searched")
    if attached:
        if not counts.items and counts.not_ready:
            return "focused", _none_ready(counts.not_ready)
        if _over(counts, cut):
            return "focused", _trimmed(counts, cut, "the budget holds no more", what="attached items")
        return "focused", _items(counts, "are attached: exactly these are read, without a search")
    if counts.items <= _MANY_ITEMS:
        if not _over(counts, cut):
            return "long_context", _items(counts, "fit the budget: all are read")
        return "long_context_trim", _trimmed(counts, cut, "the budget holds no more")
    if plan != "pro":
        return "long_context_trim", _trimmed(counts, cut, f"the {plan} plan has no semantic search")
    share = counts.without_embedding / counts.items
    if share > _TOLERATED_SHARE:
        return "long_context_fallback", _trimmed(
            counts, cut, f"{counts.without_embedding} of them ({share:.0%}) can't be searched yet"
        )
    return "semantic", _items(counts, "are too many to read: they are searched")


def _items(counts: ScopeCounts, what: str) -> str:
    noun = "item" if counts.items == 1 else "items"
    verb = what.replace("are ", "is ", 1).replace("fit ", "fits ", 1) if counts.items == 1 else what
    return f"{counts.items} {noun} {verb}."


def _none_ready(attached: int) -> str:
    state = "1 item is attached, and it isn't" if attached == 1 else f"{attached} items are attached, and none is"
    return f"{state} ready: there is nothing to read yet."


def _over(counts: ScopeCounts, cut: bool) -> bool:
    return cut or counts.trimmed > 0


def _trimmed(counts: ScopeCounts, cut: bool, why: str, *, what: str = "items") -> str:
    if not cut and not counts.trimmed:
        return f"All {counts.items} {what} are read: {why}."
    left_out = "1 is" if counts.trimmed == 1 else f"{counts.trimmed} are"
    if cut:
        return f"Of {counts.items} {what} only the beginning of the most recent is read, {left_out} left out: {why}."
    return f"The {counts.kept} most recent of {counts.items} {what} are read, {left_out} left out: {why}."
