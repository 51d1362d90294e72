"""Models and answers."""

from typing import Final

from scripts.monitoring.panels import Dashboard, Panel, Query, Row
from scripts.monitoring.queries import CITATIONS, COST, FIRST_TEXT, RECALL, TOKENS, quantile, rate, share

ANSWERS: Final = Dashboard(
    uid="citewire-answers",
    title="Citewire answers",
    says="Models: their time, tokens, cost and failures. Answers: their citations and verdicts.",
    rows=(
        Row(
            "Time",
            (
                FIRST_TEXT,
                Panel(
                    "A model's first token, p95",
                    (
                        Query(
                            quantile(0.95, "gen_ai_server_time_to_first_token_seconds", "gen_ai_request_model"),
                            "{{gen_ai_request_model}}",
                        ),
                    ),
                    unit="s",
                    says="Measured from the provider call.",
                ),
                Panel(
                    "Between two arrivals of text, p95",
                    (Query(quantile(0.95, "citewire_generator_token_gap_seconds", "model"), "{{model}}"),),
                    unit="s",
                ),
                Panel(
                    "First text by profile, p95",
                    (Query(quantile(0.95, "citewire_chat_first_text_seconds", "profile"), "{{profile}}"),),
                    unit="s",
                ),
                Panel(
                    "Model calls, p95",
                    (
                        Query(
                            quantile(
                                0.95,
                                "gen_ai_client_operation_duration_seconds",
                                "gen_ai_operation_name",
                                "gen_ai_request_model",
                            ),
                            "{{gen_ai_operation_name}} {{gen_ai_request_model}}",
                        ),
                    ),
                    unit="s",
                ),
            ),
        ),
        Row(
            "Tokens and cost",
            (
                TOKENS,
                COST,
                Panel(
                    "Cost in 24 hours, by purpose",
                    (
                        Query(
                            "sum by (purpose) (increase(citewire_provider_cost_usd_total[24h]))",
                            "{{purpose}}",
                        ),
                    ),
                    unit="currencyUSD",
                    stack=True,
                ),
                Panel(
                    "Input from the provider's cache",
                    (
                        Query(
                            share(
                                'citewire_provider_tokens_total{type="cached_input"}',
                                'citewire_provider_tokens_total{type="input"}',
                                "1h",
                                "model",
                            ),
                            "{{model}}",
                        ),
                    ),
                    unit="percentunit",
                    most=1,
                ),
                Panel(
                    "Rejected by budgets",
                    (Query(rate("citewire_budget_refusals_total", "scope"), "{{scope}}"),),
                    unit="ops",
                ),
            ),
        ),
        Row(
            "Providers",
            (
                Panel(
                    "Failed calls, by error",
                    (
                        Query(
                            rate(
                                'gen_ai_client_operation_duration_seconds_count{error_type!=""}',
                                "gen_ai_provider_name",
                                "error_type",
                            ),
                            "{{gen_ai_provider_name}} {{error_type}}",
                        ),
                    ),
                    unit="ops",
                ),
                Panel(
                    "Retries and fallbacks",
                    (
                        Query(
                            rate("citewire_generator_retries_total", "provider", "reason"),
                            "again: {{provider}} {{reason}}",
                        ),
                        Query(
                            rate("citewire_generator_failovers_total", "provider", "next_provider"),
                            "{{provider}} → {{next_provider}}",
                        ),
                    ),
                    unit="ops",
                ),
                Panel(
                    "Circuit breakers that aren't closed",
                    (
                        Query(
                            'sum by (provider, state) (citewire_provider_breakers{state!="closed"})',
                            "{{provider}} {{state}}",
                        ),
                    ),
                    alarm=1,
                ),
            ),
        ),
        Row(
            "Quality",
            (
                CITATIONS,
                Panel(
                    "Unsupported citations, by profile",
                    (
                        Query(
                            share(
                                'citewire_citations_total{verdict="unsupported"}',
                                "citewire_citations_total",
                                "6h",
                                "profile",
                            ),
                            "{{profile}}",
                        ),
                    ),
                    unit="percentunit",
                    alarm=0.2,
                    most=1,
                ),
                Panel(
                    "Sentences that state facts without a citation",
                    (Query(rate("citewire_uncited_sentences_total", "profile"), "{{profile}}"),),
                    unit="ops",
                ),
                Panel(
                    "Not-found answers",
                    (
                        Query(
                            share(
                                'citewire_generator_answers_total{outcome="not_found"}',
                                "citewire_generator_answers_total",
                                "6h",
                            ),
                            "of all answers",
                        ),
                    ),
                    unit="percentunit",
                    alarm=0.6,
                    most=1,
                ),
                Panel(
                    "Failed verifications",
                    (Query(rate("citewire_generator_verification_failures_total", "cause"), "{{cause}}"),),
                    unit="ops",
                    says="Because of an internal error, lack of time, or a limit; clients see `unverified`.",
                ),
                Panel(
                    "Markers in answers",
                    (Query(rate("citewire_generator_markers_total", "outcome"), "{{outcome}}"),),
                    unit="ops",
                    says="invalid: numbers without a passage. They stay in the text and don't count as citations.",
                ),
                Panel(
                    "Judgements that fell back to a default",
                    (
                        Query(
                            share(
                                'citewire_generator_judgements_total{outcome="fallback"}',
                                "citewire_generator_judgements_total",
                                "1h",
                                "purpose",
                            ),
                            "{{purpose}}",
                        ),
                    ),
                    unit="percentunit",
                    alarm=0.2,
                    most=1,
                ),
            ),
        ),
        Row(
            "Retrieval",
            (
                RECALL,
                Panel(
                    "Searches by method",
                    (Query(rate("citewire_searches_total", "way"), "{{way}}"),),
                    unit="ops",
                    says="fallback: a scan, because the graph's result was uncertain or too small.",
                    stack=True,
                ),
                Panel(
                    "Recall samples",
                    (Query(rate("citewire_search_recall_samples_total", "outcome"), "{{outcome}}"),),
                    unit="ops",
                ),
                Panel(
                    "Question vectors from the cache",
                    (
                        Query(
                            share('citewire_embedder_cache_total{result="hit"}', "citewire_embedder_cache_total", "1h"),
                            "of all",
                        ),
                    ),
                    unit="percentunit",
                    most=1,
                ),
            ),
            across=4,
        ),
    ),
)
