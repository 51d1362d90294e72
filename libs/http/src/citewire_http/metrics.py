"""Metrics of the HTTP server, and of what its process does by the clock."""

from prometheus_client import Counter

REFUSED_CONNECTIONS = Counter(
    "citewire_refused_connections_total",
    "Connections ended before their request ran, by status, or if they got none by cause: `full`, `replaced`, `body`.",
    ["cause"],
)

SWEEPER_FAILURES = Counter("citewire_sweeper_failures_total", "Failed sweeper rounds, by their purpose.", ["round"])

RUNS = Counter(
    "citewire_runs_total",
    "Chat runs by outcome, counted by the gateway that closed them; `lost` runs had lost their gateway.",
    ["outcome"],
)

for _outcome in ("done", "cancelled", "failed", "lost"):
    RUNS.labels(_outcome)
for _cause in ("400", "408", "414", "429", "431", "503", "full", "replaced", "body"):
    REFUSED_CONNECTIONS.labels(_cause)
