"""Calibrations that come with the server: what was measured of models' scores, as `calibrations.json` says."""

import json
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from citewire.retriever.v1.calibration_pb2 import Calibration

from citewire_retriever.model import Space


def built_in(space: Space) -> Calibration | None:
    """Returns what comes with the server for a space's model; None: nobody measured it.

    A model is known by its name, with or without an organisation in front (`org/name`), and its dimensions.
    """
    return _BUILT_IN.get((space.model.rpartition("/")[2], space.dimensions))


def effective(space: Space, stored: Calibration | None, *, report: bool = False) -> Calibration | None:
    """Returns what applies: what the organisation stored, as a whole, or else what comes with the server."""
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


def off_topic_threshold(space: Space) -> float:
    """Returns the score below which a chunk has nothing to do with the question; if none is above, nothing is asked.

    It lies far below the threshold at which the generator says that it found nothing, as it must never cost an answer.
    Of a model that nobody measured, only a chunk that points away from the question is off topic.
    """
    return _OFF_TOPIC.get(space.model.rpartition("/")[2], 0.0)


_ENTRIES: Final[list[dict[str, Any]]] = json.loads(
    files("citewire_retriever").joinpath("calibrations.json").read_bytes()
)["models"]
_OFF_TOPIC: Final[Mapping[str, float]] = MappingProxyType(
    {entry["model"]: entry["off_topic_threshold"] for entry in _ENTRIES if "off_topic_threshold" in entry}
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
