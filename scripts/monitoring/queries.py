"""Expressions and panels shared by several dashboards."""

from typing import Final

from scripts.monitoring.panels import Panel, Query
from scripts.monitoring.slo import CHAT_ROUTES

_RANGE: Final = "$__rate_interval"
CHATS: Final = f'citewire_http_requests_total{{method="POST", route=~"{CHAT_ROUTES}"}}'
_PERCENTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


def rate(series: str, *by: str) -> str:
    """Returns the summed rate per second."""
    return f"sum by ({', '.join(by)}) (rate({series}[{_RANGE}]))" if by else f"sum(rate({series}[{_RANGE}]))"


def quantile(level: float, series: str, *by: str) -> str:
    """Returns a quantile of a histogram. `series` is the histogram's name and its labels, such as `x{job="y"}`."""
    name, brace, labels = series.partition("{")
    return f"histogram_quantile({level}, {rate(f'{name}_bucket{brace}{labels}', 'le', *by)})"


def percentiles(series: str) -> tuple[Query, ...]:
    """Returns a line for each of three percentiles of a histogram."""
    return tuple(Query(quantile(level, series), name) for name, level in _PERCENTILES)


def share(part: str, whole: str, over: str, *by: str) -> str:
    """Returns the share of a part in the whole during `over`."""
    group = f" by ({', '.join(by)})" if by else ""
    return f"sum{group} (increase({part}[{over}])) / sum{group} (increase({whole}[{over}]))"


FIRST_TEXT: Final = Panel(
    "First text, retrieval included",
    percentiles("citewire_chat_first_text_seconds"),
    unit="s",
    says="Seconds from a question's arrival to the first text of its answer.",
    alarm=2.5,
)
COST: Final = Panel(
    "Cost per hour",
    (Query(f"3600 * {rate('citewire_provider_cost_usd_total', 'model', 'payer')}", "{{model}} ({{payer}})"),),
    unit="currencyUSD",
    says="At the catalogue's prices. Payer tenant: with the tenants' own keys.",
    stack=True,
)
TOKENS: Final = Panel(
    "Tokens per second",
    (
        Query(
            rate("gen_ai_client_token_usage_sum", "gen_ai_request_model", "gen_ai_token_type"),
            "{{gen_ai_request_model}} {{gen_ai_token_type}}",
        ),
    ),
    says="Input and output of models, for questions and for ingest.",
    stack=True,
)
BACKLOG: Final = Panel(
    "Waiting documents",
    (
        Query("max(citewire_ingest_queue_depth)", "wait"),
        Query("sum(citewire_ingest_jobs_running)", "being read"),
    ),
)
OLDEST: Final = Panel(
    "Oldest waiting document", (Query("max(citewire_ingest_queue_oldest_seconds)", "age"),), unit="s", alarm=900
)
RECALL: Final = Panel(
    "Recall of sampled searches",
    (
        Query(
            "sum by (scope) (rate(citewire_search_sampled_recall_sum[1h]))"
            " / sum by (scope) (rate(citewire_search_sampled_recall_count[1h]))",
            "{{scope}}",
        ),
    ),
    unit="percentunit",
    says="Share of the ten nearest chunks that the graph finds, by an exact scan. narrowed: with filters.",
    alarm=0.95,
    low_is_bad=True,
    most=1,
)
CITATIONS: Final = Panel(
    "Citations by verdict",
    (Query(rate("citewire_citations_total", "verdict"), "{{verdict}}"),),
    unit="ops",
    says="Result of the verification of the passages that answers cite.",
    stack=True,
)
