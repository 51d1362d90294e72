"""Floors of similarity, measured per embedding model.

Below its model's floor a chunk has nothing to do with the question: if no chunk is above it, no model is asked. The
floor lies far below the threshold at which the generator says that it found nothing; it must never cost an answer.
"""

from collections.abc import Mapping
from types import MappingProxyType

FLOORS: Mapping[str, float] = MappingProxyType({"all-MiniLM-L6-v2": 0.05})

UNMEASURED = 0.0
"""For models that nobody measured: only a chunk that points away from the question is left out."""


def floor_of(model: str) -> float:
    """Returns the floor of an embedding model; its name may carry an organisation in front (`org/name`)."""
    return FLOORS.get(model.rpartition("/")[2], UNMEASURED)
