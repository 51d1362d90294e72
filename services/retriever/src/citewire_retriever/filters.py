"""The filter grammar as data: conditions on documents, checked once, before any query.

Meaning, whatever stores them:

- Comparing values of different kinds (a number with a text, a text with a list) is false, never an error. So is any
  comparison with a field that is missing; `ne` is the opposite of `eq`, and so true in both cases.
- A field is missing if it isn't there, is null, or is empty; only values of the metadata can be empty.
- Texts compare by code point. Dates are RFC 3339; a date alone is its midnight in UTC.
"""

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TypeAlias

from citewire.retriever.v1 import filter_pb2 as pb
from google.protobuf.struct_pb2 import Value

from citewire_kit.enums import EnumMap
from citewire_kit.errors import FieldViolation, InvalidArgument
from citewire_kit.filter_fields import OTHER_FIELDS, TEXT_FIELDS, TIME_FIELDS

MAX_DEPTH: Final = 8
MAX_NODES: Final = 100
MAX_LIST: Final = 1000
MAX_KEY: Final = 128

Scalar: TypeAlias = str | float | bool
_ORDER: Final = ("lt", "le", "gt", "ge")
_FIELDS: Final = (*TEXT_FIELDS, *TIME_FIELDS, *OTHER_FIELDS)
_METADATA: Final = "metadata."


class Operator(StrEnum):
    """Comparison operators; the contract says what they mean."""

    EQ = "eq"
    NE = "ne"
    IN = "in"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    CONTAINS = "contains"
    EXISTS = "exists"


OPERATORS: Final = EnumMap(Operator, pb.Operator)


@dataclass(frozen=True, slots=True)
class All:
    """True if all members are true; also if it is empty."""

    members: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True if at least one member is true; false if it is empty."""

    members: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """True if its member is false."""

    member: "Filter"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of one field. Create it with `comparison`, which checks it."""

    field: str
    """One of `citewire_kit.filter_fields`, or `metadata`."""
    path: tuple[str, ...]
    """Keys inside `metadata`; empty for other fields."""
    op: Operator
    values: tuple[Scalar, ...]
    """The value; for `in` any number of them. For time fields, texts are RFC 3339 with offset."""


Filter: TypeAlias = All | AnyOf | Not | Comparison


def invalid_filter(where: str, message: str) -> InvalidArgument:
    """Returns the error for an invalid part of a filter; `where` is its path, such as `filter.all[2]`."""
    return InvalidArgument(f"{where}: {message}", reason="INVALID_FILTER", violations=[FieldViolation(where, message)])


def filter_from_proto(where: str, message: pb.Filter) -> Filter:
    """Reads and checks a filter.

    Args:
        where: Its path in the request, for errors.
        message: The filter.

    Raises:
        InvalidArgument: It is malformed or too large (reason `INVALID_FILTER`).
    """
    nodes = 0

    def read(at: str, node: pb.Filter, depth: int) -> Filter:
        nonlocal nodes
        nodes += 1
        if depth > MAX_DEPTH:
            raise invalid_filter(at, f"must be at most {MAX_DEPTH} levels deep")
        if nodes > MAX_NODES:
            raise invalid_filter(where, f"must have at most {MAX_NODES} nodes")
        kind = node.WhichOneof("condition")
        if kind == "all" or kind == "any":
            members = node.all.filters if kind == "all" else node.any.filters
            read_members = tuple(
                read(f"{at}.{kind}[{place}]", member, depth + 1) for place, member in enumerate(members)
            )
            return All(read_members) if kind == "all" else AnyOf(read_members)
        if kind == "not":
            # `not` is a keyword of Python, so the field has no such attribute.
            return Not(read(f"{at}.not", getattr(node, "not"), depth + 1))
        if kind == "comparison":
            op = OPERATORS.from_proto(node.comparison.op)
            if op is None:
                raise invalid_filter(f"{at}.op", f"must be one of {', '.join(Operator)}")
            return comparison(at, node.comparison.field, op, _value(at, node.comparison.value))
        raise invalid_filter(at, "must contain exactly one of all, any, not and a comparison")

    return read(where, message, 1)


def comparison(where: str, field: str, op: Operator, value: Scalar | tuple[Scalar, ...] | None) -> Comparison:
    """Creates a comparison.

    Args:
        where: Path of this part in the request, for errors.
        field: The field as the grammar names it, such as `title` or `metadata.author.name`.
        op: The operator.
        value: The value to compare with; a tuple for a list in the request, None for null or an object.

    Raises:
        InvalidArgument: The comparison is malformed (reason `INVALID_FILTER`).
    """
    name, path = _field(where, field)
    values = _values(where, op, value)
    if name in TIME_FIELDS and op != "exists":
        values = tuple(_time(where, item) if isinstance(item, str) else item for item in values)
    return Comparison(name, path, op, values)


def _value(where: str, message: Value) -> Scalar | tuple[Scalar, ...] | None:
    if message.WhichOneof("kind") != "list_value":
        return _scalar(message)
    members: list[Scalar] = []
    for number, member in enumerate(message.list_value.values):
        scalar = _scalar(member)
        if scalar is None:
            raise invalid_filter(f"{where}.value[{number}]", "must be a text, a number or a boolean")
        members.append(scalar)
    return tuple(members)


def _scalar(message: Value) -> Scalar | None:
    kind = message.WhichOneof("kind")
    if kind == "string_value":
        return message.string_value
    if kind == "number_value":
        return message.number_value
    return message.bool_value if kind == "bool_value" else None


def _field(where: str, field: str) -> tuple[str, tuple[str, ...]]:
    if field in _FIELDS:
        return field, ()
    if field.startswith(_METADATA):
        key = field.removeprefix(_METADATA)
        keys = tuple(key.split("."))
        if not all(keys) or len(key) > MAX_KEY:
            raise invalid_filter(
                f"{where}.field", f"the key of metadata must have 1–{MAX_KEY} characters and no empty part"
            )
        _no_odd_characters(f"{where}.field", field)
        return "metadata", keys
    raise invalid_filter(f"{where}.field", f"must be one of {', '.join(_FIELDS)}, metadata.KEY")


def _values(where: str, op: Operator, value: Scalar | tuple[Scalar, ...] | None) -> tuple[Scalar, ...]:
    where = f"{where}.value"
    if op == "in":
        if not isinstance(value, tuple):
            raise invalid_filter(where, "must be a list for the operator in")
        if len(value) > MAX_LIST:
            raise invalid_filter(where, f"must have at most {MAX_LIST} members")
        values = value
    elif op == "exists":
        if not isinstance(value, bool):
            raise invalid_filter(where, "must be true or false for the operator exists")
        values = (value,)
    elif value is None or isinstance(value, tuple):
        raise invalid_filter(where, f"must be a text, a number or a boolean for the operator {op}")
    else:
        values = (value,)
    for item in values:
        if isinstance(item, str):
            _no_odd_characters(where, item)
        elif not math.isfinite(item):
            raise invalid_filter(where, "must be a finite number")
    return values


def _no_odd_characters(where: str, text: str) -> None:
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise invalid_filter(where, "must contain neither NUL characters nor lone surrogates")


_RFC3339: Final = re.compile(r"\d{4}-\d{2}-\d{2}([Tt ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2}))?")


def _time(where: str, text: str) -> str:
    """Returns the time in UTC with microseconds, in the form that Postgres reads."""
    problem = "must be a date as in RFC 3339, such as 2026-05-01T12:00:00Z or 2026-05-01"
    if _RFC3339.fullmatch(text) is None:
        raise invalid_filter(f"{where}.value", problem)
    try:
        moment = datetime.fromisoformat(text.upper())
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise invalid_filter(f"{where}.value", problem) from None
    return moment.isoformat()
