"""Messages about embedding spaces: requests are checked and read; answers are messages already."""

from datetime import UTC

from citewire.common.v1 import common_pb2
from citewire.retriever.v1 import corpus_pb2 as pb
from citewire.retriever.v1.calibration_pb2 import Calibration

from citewire_kit.errors import Violations
from citewire_retriever.converters.checks import check_metadata, check_space
from citewire_retriever.model import CALIBRATED_SHARES, Space, space_from_proto


def required_space(message: common_pb2.EmbeddingSpace) -> Space:
    """Reads a space. Raises `InvalidArgument` that names each wrong field."""
    violations = Violations()
    space = check_space(violations, "space", space_from_proto(message))
    violations.raise_if_any()
    return space


def calibration_from_proto(message: pb.SetCalibrationRequest) -> tuple[Space, Calibration | None]:
    """Reads a space and its calibration. Raises `InvalidArgument` that names each invalid field."""
    violations = Violations()
    space = check_space(violations, "space", space_from_proto(message.space))
    calibration = message.calibration
    for field, value in calibration.ListFields():
        if field.name in CALIBRATED_SHARES:
            violations.require(0 <= value <= 1, f"calibration.{field.name}", "must be between 0 and 1")
    try:
        calibration.measured_at.ToDatetime(UTC)
    except (ValueError, OverflowError):
        violations.add("calibration.measured_at", "must be a time in the years 1 to 9999")
    check_metadata(violations, "calibration.report", calibration.report)
    violations.raise_if_any()
    return space, calibration if message.HasField("calibration") else None
