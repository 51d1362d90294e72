"""The retriever's own metrics, besides those of every process."""

from typing import Final, Literal

from prometheus_client import Counter, Histogram

Way = Literal["graph", "scan", "fallback", "words"]
SampleOutcome = Literal["taken", "dropped", "changed", "failed"]

SEARCHES: Final = Counter(
    "citewire_searches_total",
    "Searches by way: graph, exact scan, fallback (a scan because the graph's result was doubtful), or words only.",
    ["way"],
)
for _way in ("graph", "scan", "fallback", "words"):
    SEARCHES.labels(_way)


def count_search(way: Way) -> None:
    """Counts a search."""
    SEARCHES.labels(way).inc()


RECALL: Final = Histogram(
    "citewire_search_sampled_recall",
    "Share of the ten nearest that a sampled search through the graph found, by whether filters narrowed it.",
    ["scope"],
    buckets=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0),
)
for _scope in ("narrowed", "whole"):
    RECALL.labels(_scope)

RECALL_SAMPLES: Final = Counter(
    "citewire_search_recall_samples_total",
    "Searches sampled to measure recall: taken; dropped, because there was no room or the process ended; changed, "
    "because they no longer use the graph; failed.",
    ["outcome"],
)
for _outcome in ("taken", "dropped", "changed", "failed"):
    RECALL_SAMPLES.labels(_outcome)


def count_recall_sample(outcome: SampleOutcome) -> None:
    """Counts a sampled search."""
    RECALL_SAMPLES.labels(outcome).inc()
