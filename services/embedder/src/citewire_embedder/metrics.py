"""The embedder's own metric series; those that all processes share are in kit."""

from prometheus_client import Counter, Gauge, Histogram

from citewire_embedder.providers.base import Purpose

CACHE = Counter("citewire_embedder_cache_total", "Query vectors looked up in the cache, by result.", ["result"])
CACHE_HITS = CACHE.labels("hit")
CACHE_MISSES = CACHE.labels("miss")

QUEUED_TOKENS = Gauge(
    "citewire_embedder_admitted_tokens", "Tokens admitted and not yet answered, by purpose.", ["purpose"]
)
REFUSED = Counter(
    "citewire_embedder_refused_total", "Requests rejected because the queue was full, by purpose.", ["purpose"]
)
WAIT_SECONDS = Histogram(
    "citewire_embedder_wait_seconds",
    "Seconds that a request waited for its turn at the model, by purpose.",
    ["purpose"],
    buckets=(0.001, 0.004, 0.016, 0.064, 0.256, 1.024, 4.096, 16.384, 65.536),
)
for _purpose in Purpose:
    WAIT_SECONDS.labels(_purpose.value)
    QUEUED_TOKENS.labels(_purpose.value)
    REFUSED.labels(_purpose.value)

BATCH_TEXTS = Histogram(
    "citewire_embedder_batch_texts", "Texts computed together.", buckets=(1, 2, 3, 4, 6, 8, 12, 16, 32, 64)
)
BATCH_SECONDS = Histogram(
    "citewire_embedder_batch_seconds",
    "Seconds that the model took for one batch.",
    buckets=(0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096),
)

RERANKED = Counter(
    "citewire_embedder_reranked_total",
    "Documents given to the local reranker: scored from cached token vectors, computed, or left out for lack of time.",
    ["result"],
)
for _result in ("cached", "computed", "left"):
    RERANKED.labels(_result)
RERANK_CACHE_BYTES = Gauge(
    "citewire_embedder_rerank_cache_bytes", "Bytes of token vectors kept for the local reranker."
)
