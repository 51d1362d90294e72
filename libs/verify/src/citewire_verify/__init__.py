"""Verifies citations: how far the passages that an answer cites support each of its sentences. No model, no service.

    from citewire_verify import Passage, verify

    verification = verify("Refunds take 20 days [1].", [Passage("Refunds take 14 days.")])
    verification.citations[0].verdict  # Verdict.UNSUPPORTED
    verification.citations[0].mismatches  # ("20",)

`verify` takes a whole answer. `Verifier` takes one that is being written, piece by piece, with the same results;
`MarkerFilter` reads the markers of a stream for it.
"""

from citewire_verify.markers import Marker, MarkerFilter, MarkerStyle, find_markers
from citewire_verify.passages import Passage
from citewire_verify.score import Verdict
from citewire_verify.segment import Sentence, SentenceKind
from citewire_verify.verifier import MAX_CITED, UncitedSentence, Verification, VerifiedCitation, Verifier, verify

__all__ = [
    "MAX_CITED",
    "Marker",
    "MarkerFilter",
    "MarkerStyle",
    "Passage",
    "Sentence",
    "SentenceKind",
    "UncitedSentence",
    "Verdict",
    "Verification",
    "VerifiedCitation",
    "Verifier",
    "find_markers",
    "verify",
]
