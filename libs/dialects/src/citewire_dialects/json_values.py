"""JSON as protobuf's messages, and what others' APIs take of it."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from google.protobuf import struct_pb2

_MOST_ATTRIBUTES = 16
_LONGEST_KEY = 64
_LONGEST_VALUE = 512


def struct_from_json(value: Mapping[str, Any]) -> struct_pb2.Struct:
    """Returns a JSON object as a message."""
    message = struct_pb2.Struct()
    message.update(value)  # pyright: ignore[reportUnknownMemberType, reportArgumentType] - its stub knows only `dict`
    return message


def value_from_json(value: object) -> struct_pb2.Value:
    """Returns a JSON value as a message."""
    return struct_from_json({"": value}).fields[""]


def attributes_of(metadata: struct_pb2.Struct) -> dict[str, str | float | bool]:
    """Returns a file's attributes in OpenAI's sense: the first 16 short, plain values of its metadata."""
    attributes: dict[str, str | float | bool] = {}
    for key, value in metadata.fields.items():
        kind = value.WhichOneof("kind")
        if kind not in ("string_value", "number_value", "bool_value") or len(key) > _LONGEST_KEY:
            continue
        plain: str | float | bool = getattr(value, kind)
        if not isinstance(plain, str) or len(plain) <= _LONGEST_VALUE:
            attributes[key] = plain
    return dict(islice(attributes.items(), _MOST_ATTRIBUTES))
