"""Built-in calibrations: measured scores of models, from `calibrations.json`."""

import json
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from citewire.retriever.v1.calibration_pb2 import Calibration

from citewire_retriever.model import Space, SpaceScale


def built_in(space: Space) -> Calibration | None:
    """Returns the built-in calibration for a space's model; None if there is none.

    A model is identified by its name, with or without an organisation prefix (`org/name`), and its dimensions.
    """
    return _BUILT_IN.get((space.model.rpartition("/")[2], space.dimensions))


def effective(space: Space, stored: Calibration | None, *, report: bool = False) -> Calibration | None:
    """Returns the effective calibration: the organisation's, as a whole, or else the built-in one."""
    if stored is not None:
        return stored
    result = built_in(space)
    if result is None:
        return None
    calibration = Calibration()
    calibration.CopyFrom(result)
    if not report:
        calibration.ClearField("report")
    return calibration


def built_in_scale(space: Space) -> SpaceScale | None:
    """Returns a space's built-in scale, used until a worker has measured it for the organisation; None if unknown."""
    return _SCALES.get((space.model.rpartition("/")[2], space.dimensions))


_ENTRIES: Final[list[dict[str, Any]]] = json.loads(
    files("citewire_retriever").joinpath("calibrations.json").read_bytes()
)["models"]
_SCALES: Final[Mapping[tuple[str, int], SpaceScale]] = MappingProxyType(
    {(entry["model"], entry["dimensions"]): SpaceScale(**entry["scale"]) for entry in _ENTRIES if "scale" in entry}
)
_BUILT_IN: Final[Mapping[tuple[str, int], Calibration]] = MappingProxyType(
    {
        (entry["model"], entry["dimensions"]): Calibration(
            relevance_threshold=entry.get("relevance_threshold"),
            answerable_threshold=entry.get("answerable_threshold"),
            dense_weight=entry.get("dense_weight"),
            report=entry["report"],
        )
        for entry in _ENTRIES
    }
)
