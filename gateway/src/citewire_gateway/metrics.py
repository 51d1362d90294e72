"""Metric series of the gateway's own; what all processes count is in `citewire_kit.metrics`."""

from prometheus_client import Counter, Histogram

from citewire_gateway.clients.verified import Verdict
from citewire_gateway.profiles.builtin import PROFILES

CITATIONS = Counter(
    "citewire_citations_total", "Citations that were verified, by what was found.", ["verdict", "profile"]
)
UNCITED = Counter("citewire_uncited_sentences_total", "Sentences that state facts and cite nothing.", ["profile"])
FIRST_TEXT = Histogram(
    "citewire_chat_first_text_seconds",
    "Seconds from a question's arrival to the first text of its answer, retrieval included.",
    ["profile"],
    buckets=(0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0),
)

_OWN = "own"
"""A tenant's own profiles together: their names are unbounded."""

for _profile in (*PROFILES, _OWN):
    UNCITED.labels(_profile)
    FIRST_TEXT.labels(_profile)
    for _verdict in Verdict:
        CITATIONS.labels(_verdict.value, _profile)


def count_citation(profile: str, verdict: Verdict) -> None:
    """Notes a verified citation."""
    CITATIONS.labels(verdict.value, _label(profile)).inc()


def count_uncited(profile: str) -> None:
    """Notes a sentence without a citation."""
    UNCITED.labels(_label(profile)).inc()


def note_first_text(profile: str, seconds: float) -> None:
    """Notes how long a question waited for the first text of its answer."""
    FIRST_TEXT.labels(_label(profile)).observe(seconds)


def _label(profile: str) -> str:
    return profile if profile in PROFILES else _OWN
