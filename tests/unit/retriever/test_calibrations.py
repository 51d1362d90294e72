"""Calibrations that come with the server, what is stored instead, and how a search takes its threshold from them."""

from citewire_retriever.calibrations import built_in, effective
from citewire_retriever.model import Calibration, Space

LOCAL = Space("all-MiniLM-L6-v2", "r1", 384)


def test_the_local_model_is_known_by_either_name() -> None:
    found = built_in(LOCAL)
    assert found is not None
    assert found.relevance_threshold is not None
    assert 0 < found.relevance_threshold < 0.3
    assert found.measured_at is None
    assert found.report["measured"]
    assert built_in(Space("sentence-transformers/all-MiniLM-L6-v2", "r2", 384)) == found
    assert built_in(Space("all-MiniLM-L6-v2", "r1", 768)) is None
    assert built_in(Space("another", "r1", 384)) is None


def test_what_is_stored_counts_as_a_whole() -> None:
    stored = Calibration(dense_weight=0.4)
    assert effective(LOCAL, stored) == stored
    assert effective(LOCAL, None) == built_in(LOCAL)
    assert effective(Space("another", "r1", 3), None) is None
