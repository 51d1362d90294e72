"""The filter grammar as data: conditions on documents, checked once, before anything is asked of the database.

Meaning, whatever stores them:

- Comparing values of different kinds (a number with a text, a text with a list) is false, never an error. So is any
  comparison with a field that is missing; `ne` is the opposite of `eq`, and so true in both cases.
- A field is missing if it isn't there, is null, or (`url`, `file_name`, `collection`, `tags`) is empty.
- Texts compare by code point. Dates are RFC 3339; a date alone is its midnight in UTC.
"""

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from citewire_kit.errors import FieldViolation, InvalidArgument

MAX_DEPTH: Final = 8
MAX_NODES: Final = 100
MAX_LIST: Final = 1000
MAX_KEY: Final = 128

Operator = Literal["eq", "ne", "in", "lt", "le", "gt", "ge", "contains", "exists"]
Scalar: TypeAlias = str | float | bool
TextField = Literal["title", "file_name", "type", "url", "collection", "owner"]
TimeField = Literal["created_at", "updated_at"]

TEXT_FIELDS: Final[tuple[TextField, ...]] = ("title", "file_name", "type", "url", "collection", "owner")
TIME_FIELDS: Final[tuple[TimeField, ...]] = ("created_at", "updated_at")
_ORDER: Final = ("lt", "le", "gt", "ge")
_METADATA: Final = "metadata."


@dataclass(frozen=True, slots=True)
class All:
    """True if every member is; an empty one is true."""

    members: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Any:
    """True if at least one member is; an empty one is false."""

    members: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """True if its member isn't."""

    member: "Filter"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of one field. Make it with `comparison`, which checks it."""

    field: TextField | TimeField | Literal["tags", "id", "metadata"]
    path: tuple[str, ...]
    """Keys inside `metadata`; empty for other fields."""
    op: Operator
    values: tuple[Scalar, ...]
    """The value; for `in` any number of them. For time fields, texts are RFC 3339 with offset."""


Filter: TypeAlias = All | Any | Not | Comparison


def invalid_filter(where: str, message: str) -> InvalidArgument:
    """Returns the error that says which part of a filter is wrong; `where` is its path, such as `filter.all[2]`."""
    return InvalidArgument(f"{where}: {message}", reason="INVALID_FILTER", violations=[FieldViolation(where, message)])


def comparison(where: str, field: str, op: Operator, value: Scalar | tuple[Scalar, ...] | None) -> Comparison:
    """Makes a comparison.

    Args:
        where: Path of this part in the request, for errors.
        field: The field as the grammar names it, such as `title` or `metadata.author.name`.
        op: The operator.
        value: What to compare with; a tuple if the request holds a list, None if it holds null or an object.

    Raises:
        InvalidArgument: The comparison isn't of the grammar (reason `INVALID_FILTER`).
    """
    name, path = _field(where, field)
    values = _values(where, op, value)
    if name in TIME_FIELDS and op != "exists":
        values = tuple(_time(where, item) if isinstance(item, str) else item for item in values)
    return Comparison(name, path, op, values)


def check_size(where: str, root: Filter) -> None:
    """Raises `InvalidArgument` (reason `INVALID_FILTER`) if the filter is too deep or has too many nodes."""
    nodes = 0
    level: list[Filter] = [root]
    depth = 0
    while level:
        depth += 1
        nodes += len(level)
        if depth > MAX_DEPTH:
            raise invalid_filter(where, f"must be at most {MAX_DEPTH} levels deep")
        if nodes > MAX_NODES:
            raise invalid_filter(where, f"must have at most {MAX_NODES} nodes")
        level = [child for node in level for child in _children(node)]


def _children(node: Filter) -> tuple[Filter, ...]:
    if isinstance(node, All | Any):
        return node.members
    return (node.member,) if isinstance(node, Not) else ()


def _field(where: str, field: str) -> tuple[TextField | TimeField | Literal["tags", "id", "metadata"], tuple[str, ...]]:
    for known in (*TEXT_FIELDS, *TIME_FIELDS, "tags", "id"):
        if field == known:
            return known, ()
    if field.startswith(_METADATA):
        key = field.removeprefix(_METADATA)
        keys = tuple(key.split("."))
        if not all(keys) or len(key) > MAX_KEY:
            raise invalid_filter(f"{where}.field", f"metadata's key must be 1–{MAX_KEY} characters, no part empty")
        _no_odd_characters(f"{where}.field", field)
        return "metadata", keys
    fields = ", ".join((*TEXT_FIELDS, *TIME_FIELDS, "tags", "id", "metadata.KEY"))
    raise invalid_filter(f"{where}.field", f"must be one of {fields}")


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
        raise invalid_filter(where, "must hold neither NUL characters nor lone surrogates")


_RFC3339: Final = re.compile(r"\d{4}-\d{2}-\d{2}([Tt ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2}))?")


def _time(where: str, text: str) -> str:
    """Returns the moment in UTC with microseconds, as Postgres reads it."""
    problem = "must be a date as RFC 3339 writes it, such as 2026-05-01T12:00:00Z or 2026-05-01"
    if _RFC3339.fullmatch(text) is None:
        raise invalid_filter(f"{where}.value", problem)
    try:
        moment = datetime.fromisoformat(text.upper())
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise invalid_filter(f"{where}.value", problem) from None
    return moment.isoformat()
