"""Calibrations that come with the server, what is stored instead, and how a search takes its threshold from them."""

from citewire.retriever.v1.calibration_pb2 import Calibration

from citewire_retriever.calibrations import built_in, effective, off_topic_threshold
from citewire_retriever.model import Space

LOCAL = Space("all-MiniLM-L6-v2", "r1", 384)


def test_the_local_model_is_known_by_either_name() -> None:
    result = built_in(LOCAL)
    assert result is not None
    assert result.HasField("relevance_threshold")
    assert 0 < result.relevance_threshold < 0.3
    assert not result.HasField("measured_at")
    assert result.report["measured"]
    assert built_in(Space("sentence-transformers/all-MiniLM-L6-v2", "r2", 384)) == result
    assert built_in(Space("all-MiniLM-L6-v2", "r1", 768)) is None
    assert built_in(Space("another", "r1", 384)) is None


def test_what_is_stored_counts_as_a_whole() -> None:
    stored = Calibration(dense_weight=0.4)
    assert effective(LOCAL, stored) == stored
    assert effective(LOCAL, None, report=True) == built_in(LOCAL)
    assert effective(Space("another", "r1", 3), None) is None
    searched = effective(LOCAL, None)
    assert searched is not None
    assert not searched.HasField("report")


def test_what_is_off_topic_was_measured_of_the_local_model_alone() -> None:
    assert 0 < off_topic_threshold(LOCAL) < 0.1
    assert off_topic_threshold(Space("another", "r1", 3)) == 0
