"""What the OpenAPI document says of usage and budgets."""

from citewire_gateway.api.operation_docs import Docs, body_docs, deleted_docs, json_docs
from citewire_gateway.api.schemas import BudgetBody

_FIGURES: Docs = {
    "calls": 42,
    "open_calls": 0,
    "estimated_calls": 1,
    "unpriced_calls": 0,
    "input_tokens": 58_214,
    "cached_input_tokens": 20_480,
    "output_tokens": 6_120,
    "embedding_tokens": 0,
    "prompt_tokens": 58_214,
    "completion_tokens": 6_120,
    "cost_usd": 0.211146,
    "own_cost_usd": 0.0,
}
USAGE: Docs = {
    "from": "2026-11-01T00:00:00Z",
    "to": "2026-12-01T00:00:00Z",
    "scope": "org",
    "source": "calls",
    "group_by": ["day", "model"],
    "rows": [{"day": "2026-11-21", "provider": "anthropic", "model": "claude-sonnet-5", **_FIGURES}],
    "total": _FIGURES,
}
USAGE_CSV = (
    "day,provider,model,calls,open_calls,estimated_calls,unpriced_calls,input_tokens,cached_input_tokens,output_tokens,"
    "embedding_tokens,prompt_tokens,completion_tokens,cost_usd,own_cost_usd\r\n"
    "2026-11-21,anthropic,claude-sonnet-5,42,0,1,0,58214,20480,6120,0,58214,6120,0.211146000,0.000000000\r\n"
)
BUDGET: Docs = {
    "scope": "org",
    "period": "month",
    "limit_usd": 50.0,
    "spent_usd": 12.4,
    "reserved_usd": 0.03,
    "left_usd": 37.57,
    "period_start": "2026-11-01T00:00:00Z",
    "resets_at": "2026-12-01T00:00:00Z",
    "updated_by": "ada",
    "updated_at": "2026-11-21T08:00:00Z",
}


def usage_docs() -> Docs:
    """`GET /v1/usage`."""
    docs = json_docs("What was spent, by group, and in all.", USAGE, conflicts=True)
    docs["responses"][200]["content"]["text/csv"] = {"schema": {"type": "string"}, "example": USAGE_CSV}
    return docs


def budgets_docs() -> Docs:
    """`GET /v1/budgets`."""
    return json_docs("The budgets, the organisation's first.", {"budgets": [BUDGET]}, conflicts=True, more=(403,))


def budget_body_docs() -> Docs:
    """`PUT /v1/budgets`."""
    return body_docs("The budget, as it is now.", BUDGET, BudgetBody, conflicts=True, more=(403,))


def no_budget_docs() -> Docs:
    """`DELETE /v1/budgets`."""
    return deleted_docs(more=(403,))
