"""Metrics of the HTTP server."""

from prometheus_client import Counter

REFUSED_CONNECTIONS = Counter(
    "citewire_refused_connections_total",
    "Connections that were ended before their request ran: by status, or `full`, `replaced`, `body` without one.",
    ["cause"],
)

for _cause in ("400", "408", "414", "429", "431", "503", "full", "replaced", "body"):
    REFUSED_CONNECTIONS.labels(_cause)
