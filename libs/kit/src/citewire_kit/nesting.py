"""How deep JSON is nested. What passes it on may take less of it than what reads it: protobuf, pydantic, Python."""

from collections.abc import Mapping
from typing import Final, cast

MAX_METADATA_NESTING: Final = 16
"""Objects and lists in metadata, one in another. Protobuf reads 100 messages deep, and an object is three of them; in
what is found, metadata stands deeper than where it was sent."""


def is_deeper(value: object, most: int) -> bool:
    """Says whether more objects and lists than that stand in one another."""
    level, depth = _members(value), 0
    while level is not None:
        depth += 1
        if depth > most:
            return True
        inner = [members for member in level if (members := _members(member)) is not None]
        level = [member for members in inner for member in members] if inner else None
    return False


def _members(value: object) -> list[object] | None:
    """What stands in an object or a list; None for anything else."""
    if isinstance(value, Mapping):
        return list(cast("Mapping[str, object]", value).values())
    return cast("list[object]", value) if isinstance(value, list) else None
