"""Metrics of tokens and their cost. `Ledger.call` counts them once, wherever its row is kept."""

from typing import Final

from prometheus_client import Counter, Gauge

from citewire_kit.metrics import OWN, LabelGuard, TokenType, record_tokens
from citewire_ledger.model import NANO, NewCall, Purpose, Settlement

_LABELS: Final = ["provider", "model", "purpose"]
_providers, _models = LabelGuard(16), LabelGuard(64)

TOKENS = Counter(
    "citewire_provider_tokens_total",
    "Tokens of calls to providers; cached_input and cache_write are parts of input.",
    [*_LABELS, "type"],
)
COST = Counter(
    "citewire_provider_cost_usd_total",
    "Cost of calls to providers by the catalogue's prices, in USD; payer tenant: with the tenant's own key.",
    [*_LABELS, "payer"],
)
REFUSED = Counter("citewire_budget_refusals_total", "Calls refused because a budget had too little left.", ["scope"])
ORPHANS = Counter("citewire_ledger_orphans_total", "Calls of dead processes that this one settled by estimate.")
UNSETTLED = Gauge("citewire_ledger_unsettled", "Calls that have ended but whose settlement isn't written yet.")

_OPERATIONS = {
    Purpose.QUESTION_EMBEDDING: "embeddings",
    Purpose.INGEST: "embeddings",
    Purpose.RERANK: "rerank",
}

for _scope in ("org", "user", "key"):
    REFUSED.labels(_scope)


def count(new: NewCall, settlement: Settlement) -> None:
    """Counts the tokens and the cost of a call."""
    usage = settlement.usage
    labels = (_providers(new.provider), OWN if new.own else _models(new.model), new.purpose.value)
    operation = _OPERATIONS.get(new.purpose, "chat")
    counts: tuple[tuple[TokenType, int], ...] = (("input", usage.input_tokens), ("output", usage.output_tokens))
    for token_type, tokens in counts:
        if tokens:
            record_tokens(
                provider=new.provider, model=new.model, operation=operation, token_type=token_type, count=tokens
            )
    by_type = {
        "input": usage.input_tokens,
        "cached_input": usage.cached_input_tokens,
        "cache_write": usage.cache_write_input_tokens,
        "output": usage.output_tokens,
    }
    for kind, tokens in by_type.items():
        TOKENS.labels(*labels, kind).inc(tokens)
    if new.price is not None:
        COST.labels(*labels, "tenant" if new.own else "operator").inc(new.price.cost(usage) / NANO)
