"""How deep JSON is nested. What passes it on may take less of it than what reads it: protobuf, pydantic, Python."""

from collections.abc import Mapping
from typing import Final, cast

MAX_METADATA_NESTING: Final = 16
"""Nesting of objects and lists in metadata. Protobuf reads 100 messages deep, and an object is three of them; in
search results, metadata is nested deeper than in the request."""


def is_deeper(value: object, most: int) -> bool:
    """Whether objects and lists are nested deeper than that."""
    level, depth = _members(value), 0
    while level is not None:
        depth += 1
        if depth > most:
            return True
        inner = [members for member in level if (members := _members(member)) is not None]
        level = [member for members in inner for member in members] if inner else None
    return False


def _members(value: object) -> list[object] | None:
    """The elements of an object or a list; None for anything else."""
    if isinstance(value, Mapping):
        return list(cast("Mapping[str, object]", value).values())
    return cast("list[object]", value) if isinstance(value, list) else None
