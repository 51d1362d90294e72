"""Metric series of the gateway's own; what all processes count is in `citewire_kit.metrics`."""

from prometheus_client import Counter

from citewire_gateway.profiles import PROFILES
from citewire_gateway.verified import Verdict

CITATIONS = Counter(
    "citewire_citations_total", "Citations that were verified, by what was found.", ["verdict", "profile"]
)
UNCITED = Counter("citewire_uncited_sentences_total", "Sentences that state facts and cite nothing.", ["profile"])

_OWN = "own"
"""A tenant's own profiles together: their names are unbounded."""

for _profile in (*PROFILES, _OWN):
    UNCITED.labels(_profile)
    for _verdict in Verdict:
        CITATIONS.labels(_verdict.value, _profile)


def count_citation(profile: str, verdict: Verdict) -> None:
    """Notes a verified citation."""
    CITATIONS.labels(verdict.value, _label(profile)).inc()


def count_uncited(profile: str) -> None:
    """Notes a sentence without a citation."""
    UNCITED.labels(_label(profile)).inc()


def _label(profile: str) -> str:
    return profile if profile in PROFILES else _OWN
