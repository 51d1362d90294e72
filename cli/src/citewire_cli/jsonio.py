"""Typed reading of JSON that came from elsewhere: a value of the wrong kind reads as absent, never as a crash."""

import json
from typing import TypeAlias, cast

JsonObject: TypeAlias = dict[str, object]


def parse_object(text: str | bytes) -> JsonObject | None:
    """The JSON object in `text`, or None if it isn't one."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return as_object(value)


def as_object(value: object) -> JsonObject | None:
    """`value` if it is a JSON object, else None."""
    return cast("JsonObject", value) if isinstance(value, dict) else None


def get_object(source: JsonObject, key: str) -> JsonObject:
    """The object under `key`, empty if absent or of another kind."""
    return as_object(source.get(key)) or {}


def get_objects(source: JsonObject, key: str) -> list[JsonObject]:
    """The objects in the list under `key`; elements of another kind are left out."""
    value = source.get(key)
    members = cast("list[object]", value) if isinstance(value, list) else []
    return [entry for member in members if (entry := as_object(member)) is not None]


def get_texts(source: JsonObject, key: str) -> list[str]:
    """The texts in the list under `key`; elements of another kind are left out."""
    value = source.get(key)
    return [text for text in cast("list[object]", value) if isinstance(text, str)] if isinstance(value, list) else []


def get_str(source: JsonObject, key: str, default: str = "") -> str:
    """The text under `key`; a number is written out, anything else is `default`."""
    value = source.get(key)
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return default


def get_int(source: JsonObject, key: str) -> int | None:
    """The whole number under `key`, None if absent or of another kind."""
    value = source.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def get_float(source: JsonObject, key: str) -> float | None:
    """The number under `key`, None if absent or of another kind."""
    value = source.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
