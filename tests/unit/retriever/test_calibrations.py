"""Built-in calibrations, stored ones in their place, and the thresholds that searches take from them."""

from citewire.retriever.v1.calibration_pb2 import Calibration

from citewire_retriever.calibrations import built_in, built_in_scale, effective
from citewire_retriever.model import Space
from citewire_retriever.service.topics import LEAST_RELATED

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


def test_a_stored_calibration_replaces_the_whole() -> None:
    stored = Calibration(dense_weight=0.4)
    assert effective(LOCAL, stored) == stored
    assert effective(LOCAL, None, report=True) == built_in(LOCAL)
    assert effective(Space("another", "r1", 3), None) is None
    searched = effective(LOCAL, None)
    assert searched is not None
    assert not searched.HasField("report")


def test_the_local_models_scale_is_known_before_it_is_measured() -> None:
    scale = built_in_scale(LOCAL)
    assert scale is not None
    assert built_in_scale(Space("sentence-transformers/all-MiniLM-L6-v2", "r2", 384)) == scale
    assert scale.related > LEAST_RELATED
    assert built_in_scale(Space("another", "r1", 384)) is None
