"""Dataclasses and messages as JSON, and back by their types."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, cast, get_args, get_origin, get_type_hints

from google.protobuf import json_format
from google.protobuf.message import Message


def from_json(kind: Any, value: Any) -> Any:  # noqa: ANN401 # fields are of any kind
    """Returns a value converted to its type: a dataclass, a message, a tuple, or the value itself."""
    if get_origin(kind) is tuple:
        return tuple(from_json(get_args(kind)[0], member) for member in value)
    if is_dataclass(kind):
        build = cast("Callable[..., Any]", kind)
        return build(**{name: from_json(_types(kind)[name], member) for name, member in value.items()})
    if isinstance(kind, type) and issubclass(kind, Message):
        return json_format.ParseDict(value, kind(), ignore_unknown_fields=True)
    return value


@cache
def _types(kind: Any) -> dict[str, Any]:  # noqa: ANN401 # a dataclass
    return get_type_hints(kind)


def to_json(value: Any) -> Any:  # noqa: ANN401 # fields are of any kind
    """Returns a dataclass, a message, a tuple of them or a plain value as JSON."""
    if isinstance(value, Message):
        return json_format.MessageToDict(value, preserving_proto_field_name=True)
    if isinstance(value, tuple):
        return [to_json(member) for member in value]  # pyright: ignore[reportUnknownVariableType] - of any kind
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    return value
