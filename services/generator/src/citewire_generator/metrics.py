"""The generator's own metric series; those that all processes share are in kit."""

from functools import cache

from prometheus_client import Counter, Histogram

from citewire_kit.metrics import LabelGuard

MARKERS = Counter(
    "citewire_generator_markers_total",
    "Citation markers in answers: cited (valid numbers, each once per answer), invalid (numbers that aren't in the "
    "context), removed.",
    ["outcome"],
)
CITED = MARKERS.labels("cited")
INVALID = MARKERS.labels("invalid")
REMOVED = MARKERS.labels("removed")

NOT_FOUND = Counter(
    "citewire_generator_answers_total", "Completed answers, by whether the passages answered.", ["outcome"]
)
ANSWERS_FOUND = NOT_FOUND.labels("answered")
ANSWERS_NOT_FOUND = NOT_FOUND.labels("not_found")

VERIFICATION_FAILURES = Counter(
    "citewire_generator_verification_failures_total",
    "Answers or sentences whose citations were not verified, by cause: an internal error, a timeout, or a limit; "
    "the answer continued.",
    ["cause"],
)
for _cause in ("fault", "time", "limit"):
    VERIFICATION_FAILURES.labels(_cause)

JUDGEMENTS = Counter(
    "citewire_generator_judgements_total",
    "Decisions, assessments, judgements of relevance, rewritings, table queries and enrichments by a model: whether "
    "its result was readable (judged) or the documented default was used (fallback).",
    ["purpose", "outcome"],
)
for _purpose in ("decision", "assessment", "relevance", "rewriting", "table_query", "enrichment"):
    for _outcome in ("judged", "fallback"):
        JUDGEMENTS.labels(_purpose, _outcome)

FAILOVERS = Counter(
    "citewire_generator_failovers_total",
    "Answers that another provider took over before the first token, by who failed, who took over, and why.",
    ["provider", "next_provider", "reason"],
)
RETRIES = Counter("citewire_generator_retries_total", "Retries of calls to the same provider.", ["provider", "reason"])
TOKEN_GAP = Histogram(
    "citewire_generator_token_gap_seconds",
    "Seconds between consecutive arrivals of text from a provider; an arrival may have several tokens.",
    ["provider", "model"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48),
)
_models = LabelGuard(64)


@cache
def _token_gaps(provider: str, model: str) -> Histogram:
    return TOKEN_GAP.labels(provider, model)


def token_gaps(provider: str, model: str) -> Histogram:
    """The series of a model, looked up once because it is updated for every token."""
    return _token_gaps(provider, _models(model))
