"""What the retriever counts, besides what every process does."""

from typing import Final, Literal

from prometheus_client import Counter

Way = Literal["graph", "scan", "fallback", "words"]

SEARCHES: Final = Counter(
    "citewire_searches_total",
    "Searches by the way they took: graph, exact scan, a scan because the graph had found too little, or words alone.",
    ["way"],
)
for _way in ("graph", "scan", "fallback", "words"):
    SEARCHES.labels(_way)


def count_search(way: Way) -> None:
    """Counts a search."""
    SEARCHES.labels(way).inc()
