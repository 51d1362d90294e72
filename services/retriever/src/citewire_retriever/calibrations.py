"""Calibrations that come with the server: what was measured of models' scores, as `calibrations.json` says."""

import json
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from citewire_retriever.model import Calibration, Space


def built_in(space: Space) -> Calibration | None:
    """Returns what comes with the server for a space's model; None: nobody measured it.

    A model is known by its name, with or without an organisation in front (`org/name`), and its dimensions.
    """
    return _BUILT_IN.get((space.model.rpartition("/")[2], space.dimensions))


def effective(space: Space, stored: Calibration | None) -> Calibration | None:
    """Returns what counts: what the organisation stored, as a whole, or else what comes with the server."""
    return built_in(space) if stored is None else stored


def _load() -> Mapping[tuple[str, int], Calibration]:
    entries: list[dict[str, Any]] = json.loads(files("citewire_retriever").joinpath("calibrations.json").read_bytes())[
        "models"
    ]
    return MappingProxyType(
        {
            (entry["model"], entry["dimensions"]): Calibration(
                relevance_threshold=entry.get("relevance_threshold"),
                answerable_threshold=entry.get("answerable_threshold"),
                dense_weight=entry.get("dense_weight"),
                report=entry["report"],
            )
            for entry in entries
        }
    )


_BUILT_IN: Final = _load()
