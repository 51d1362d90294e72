"""JSON as messages carry it."""

from collections.abc import Mapping
from typing import Any

from google.protobuf import struct_pb2

_MAX_EXACT = 2**53


def struct_from_json(value: Mapping[str, Any]) -> struct_pb2.Struct:
    """Returns a JSON object as a message."""
    message = struct_pb2.Struct()
    message.update(value)  # pyright: ignore[reportUnknownMemberType, reportArgumentType] - its stub knows only `dict`
    return message


def value_from_json(value: object) -> struct_pb2.Value:
    """Returns a JSON value as a message."""
    return struct_from_json({"": value}).fields[""]


def struct_to_json(message: struct_pb2.Struct) -> dict[str, Any]:
    """Returns a message as a JSON object."""
    return {key: _to_json(value) for key, value in message.fields.items()}


def _to_json(message: struct_pb2.Value) -> Any:  # noqa: ANN401 # JSON values are of any kind
    match message.WhichOneof("kind"):
        case "number_value":
            # A struct holds doubles only; whole numbers come back as they were sent.
            number = message.number_value
            return int(number) if number.is_integer() and abs(number) <= _MAX_EXACT else number
        case "string_value":
            return message.string_value
        case "bool_value":
            return message.bool_value
        case "struct_value":
            return struct_to_json(message.struct_value)
        case "list_value":
            return [_to_json(member) for member in message.list_value.values]
        case _:
            return None
