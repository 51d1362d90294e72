"""Messages about embedding spaces: proto ↔ domain."""

from datetime import UTC, datetime
from typing import Final, Literal

from citewire.common.v1 import common_pb2
from citewire.retriever.v1 import calibration_pb2
from citewire.retriever.v1 import corpus_pb2 as pb

from citewire_kit.errors import Violations
from citewire_retriever.converters.checks import check_metadata, check_space
from citewire_retriever.converters.search import from_calibration, from_space
from citewire_retriever.model import Calibration, Space, SpaceFill, SpaceRole

_Share = Literal["relevance_threshold", "answerable_threshold", "dense_weight"]
_ROLES: Final[dict[SpaceRole, pb.SpaceRole]] = {
    "live": pb.SPACE_ROLE_LIVE,
    "next": pb.SPACE_ROLE_NEXT,
    "previous": pb.SPACE_ROLE_PREVIOUS,
    "further": pb.SPACE_ROLE_FURTHER,
}


def to_space(message: common_pb2.EmbeddingSpace) -> Space:
    """Reads a space. Raises `InvalidArgument` that names each wrong field."""
    violations = Violations()
    space = check_space(violations, "space", Space(message.model, message.revision, message.dimensions))
    violations.raise_if_any()
    return space


def to_calibration(message: pb.SetCalibrationRequest) -> tuple[Space, Calibration | None]:
    """Reads a space and what its scores mean. Raises `InvalidArgument` that names each wrong field."""
    violations = Violations()
    given = message.space
    space = check_space(violations, "space", Space(given.model, given.revision, given.dimensions))
    calibration: Calibration | None = None
    if message.HasField("calibration"):
        calibration = _calibration(violations, message.calibration)
    violations.raise_if_any()
    return space, calibration


def _calibration(violations: Violations, message: calibration_pb2.Calibration) -> Calibration:
    moment: datetime | None = None
    if message.HasField("measured_at"):
        try:
            moment = message.measured_at.ToDatetime(UTC)
        except (ValueError, OverflowError):
            violations.add("calibration.measured_at", "must be a moment from the year 1 to 9999")
    return Calibration(
        relevance_threshold=_share(violations, message, "relevance_threshold"),
        answerable_threshold=_share(violations, message, "answerable_threshold"),
        dense_weight=_share(violations, message, "dense_weight"),
        measured_at=moment,
        report=check_metadata(violations, "calibration.report", message.report),
    )


def _share(violations: Violations, message: calibration_pb2.Calibration, name: _Share) -> float | None:
    if not message.HasField(name):
        return None
    value: float = getattr(message, name)
    violations.require(0 <= value <= 1, f"calibration.{name}", "must be between 0 and 1")
    return value


def from_fill(fill: SpaceFill) -> pb.SpaceInfo:
    """Writes a space and how far it is filled."""
    return pb.SpaceInfo(
        space=from_space(fill.space),
        live=fill.role == "live",
        role=_ROLES[fill.role],
        chunks_filled=fill.chunks_filled,
        chunks=fill.chunks,
        documents=fill.documents,
        documents_filled=fill.documents_filled,
        documents_failed=fill.documents_failed,
        calibration=None if fill.calibration is None else from_calibration(fill.calibration, report=True),
    )
