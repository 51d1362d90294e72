"""Metrics of the HTTP server, and of what its process does by the clock."""

from prometheus_client import Counter

REFUSED_CONNECTIONS = Counter(
    "citewire_refused_connections_total",
    "Connections that were ended before their request ran: by status, or `full`, `replaced`, `body` without one.",
    ["cause"],
)

SWEEPER_FAILURES = Counter(
    "citewire_sweeper_failures_total", "Rounds by the clock that failed, by what they were to do.", ["round"]
)

for _cause in ("400", "408", "414", "429", "431", "503", "full", "replaced", "body"):
    REFUSED_CONNECTIONS.labels(_cause)
