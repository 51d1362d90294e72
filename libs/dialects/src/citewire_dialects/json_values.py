"""JSON as protobuf's messages."""

from collections.abc import Mapping
from typing import Any

from google.protobuf import struct_pb2


def struct_from_json(value: Mapping[str, Any]) -> struct_pb2.Struct:
    """Returns a JSON object as a message."""
    message = struct_pb2.Struct()
    message.update(value)  # pyright: ignore[reportUnknownMemberType, reportArgumentType] - its stub knows only `dict`
    return message


def value_from_json(value: object) -> struct_pb2.Value:
    """Returns a JSON value as a message."""
    return struct_from_json({"": value}).fields[""]
