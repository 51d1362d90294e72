"""The gateway's own metrics; those that all processes have are in `citewire_kit.metrics`."""

from citewire.generator.v1 import generator_pb2
from prometheus_client import Counter, Histogram

from citewire_gateway.profiles.builtin import PROFILES
from citewire_kit.enums import enum_text

CITATIONS = Counter("citewire_citations_total", "Verified citations, by verdict.", ["verdict", "profile"])
UNCITED_SENTENCES = Counter(
    "citewire_uncited_sentences_total", "Sentences that state facts and cite nothing.", ["profile"]
)
FIRST_TEXT = Histogram(
    "citewire_chat_first_text_seconds",
    "Seconds from a question's arrival to the first text of its answer, retrieval included.",
    ["profile"],
    buckets=(0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0),
)

CALL_WAIT_SECONDS = Histogram(
    "citewire_gateway_call_wait_seconds",
    "Seconds that calls to embedder or retriever waited for their organisation's turn, if they had to.",
    buckets=(0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 30),
)

_OWN = "own"
"""Common label of tenants' own profiles, because their names are unbounded."""

for _profile in (*PROFILES, _OWN):
    UNCITED_SENTENCES.labels(_profile)
    FIRST_TEXT.labels(_profile)
    for _verdict in generator_pb2.Verdict.values():
        if _verdict != generator_pb2.VERDICT_UNSPECIFIED:
            CITATIONS.labels(enum_text(generator_pb2.Verdict, _verdict), _profile)


def profile_label(profile: str) -> str:
    """Returns the label of a profile."""
    return profile if profile in PROFILES else _OWN
