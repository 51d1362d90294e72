"""The filter grammar: from a request's JSON to a condition, with an error that names the place."""

from collections.abc import Mapping, Sequence
from typing import cast

from citewire.retriever.v1 import filter_pb2

from citewire_dialects.json_values import value_from_json
from citewire_kit.enums import enum_number, enum_text
from citewire_kit.errors import FieldViolation, InvalidArgument
from citewire_kit.filter_fields import OTHER_FIELDS, TEXT_FIELDS, TIME_FIELDS

MAX_DEPTH = 8
MAX_NODES = 100
MAX_LIST = 1000
_MAX_FIELD = 200
_FIELDS = frozenset((*TEXT_FIELDS, *TIME_FIELDS, *OTHER_FIELDS))
_METADATA = "metadata."
_OPERATORS = tuple(enum_text(filter_pb2.Operator, number) for number in filter_pb2.Operator.values() if number)


def parse_filter(value: object) -> filter_pb2.Filter:
    """Reads a filter.

    Raises:
        InvalidArgument: It is malformed (reason `INVALID_FILTER`); the violation names the place.
    """
    return _Parser().node(value, "filter", 1)


class _Parser:
    def __init__(self) -> None:
        self._nodes = 0

    def node(self, value: object, at: str, depth: int) -> filter_pb2.Filter:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _invalid("filter", f"has more than {MAX_NODES} conditions")
        if depth > MAX_DEPTH:
            raise _invalid(at, f"is nested deeper than {MAX_DEPTH} levels")
        if not isinstance(value, Mapping):
            raise _invalid(at, 'must be an object: {"all": […]}, {"any": […]}, {"not": …} or {"field", "op", "value"}')
        given = cast("Mapping[str, object]", value)
        if "field" in given or "op" in given:
            return _comparison(given, at)
        if len(given) != 1:
            raise _invalid(at, 'must have exactly one of "all", "any", "not", or "field" with "op" and "value"')
        (name, member), *_ = given.items()
        if name == "not":
            negation = filter_pb2.Filter()
            getattr(negation, "not").CopyFrom(self.node(member, f"{at}.not", depth + 1))  # `not` is a keyword of Python
            return negation
        if name not in ("all", "any"):
            raise _invalid(at, f"has an unknown key {name[:64]!r}")
        if not isinstance(member, Sequence) or isinstance(member, str):
            raise _invalid(f"{at}.{name}", "must be a list of conditions")
        members = filter_pb2.FilterList(
            filters=[
                self.node(condition, f"{at}.{name}.{number}", depth + 1)
                for number, condition in enumerate(cast("Sequence[object]", member))
            ]
        )
        return filter_pb2.Filter(all=members) if name == "all" else filter_pb2.Filter(any=members)


def _comparison(given: Mapping[str, object], at: str) -> filter_pb2.Filter:
    unknown = sorted(given.keys() - {"field", "op", "value"})
    if unknown:
        raise _invalid(at, f"has an unknown key {unknown[0][:64]!r}")
    field, op = given.get("field"), given.get("op")
    if not isinstance(field, str) or not _is_field(field):
        raise _invalid(f"{at}.field", f"must be one of {', '.join(sorted(_FIELDS))}, or metadata.KEY")
    if not isinstance(op, str) or op not in _OPERATORS:
        raise _invalid(f"{at}.op", f"must be one of {', '.join(_OPERATORS)}")
    if "value" not in given and op != "exists":
        raise _invalid(f"{at}.value", "is required")
    value = value_from_json(_value(op, given.get("value", True), f"{at}.value"))
    comparison = filter_pb2.Comparison(field=field, op=enum_number(filter_pb2.Operator, op), value=value)
    return filter_pb2.Filter(comparison=comparison)


def _value(op: str, value: object, at: str) -> object:
    if op == "exists" and not isinstance(value, bool):
        raise _invalid(at, "must be true or false")
    if op != "in":
        return _scalar(value, at)
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise _invalid(at, "must be a list")
    members = cast("Sequence[object]", value)
    if len(members) > MAX_LIST:
        raise _invalid(at, f"has more than {MAX_LIST} values")
    return [_scalar(member, f"{at}.{number}") for number, member in enumerate(members)]


def _scalar(value: object, at: str) -> str | int | float | bool:
    if isinstance(value, (str, bool, int, float)):
        return value
    raise _invalid(at, "must be a string, a number, true or false")


def _is_field(name: str) -> bool:
    if len(name) > _MAX_FIELD:
        return False
    return name in _FIELDS or (name.startswith(_METADATA) and all(name.removeprefix(_METADATA).split(".")))


def _invalid(at: str, message: str) -> InvalidArgument:
    return InvalidArgument(f"{at} {message}", reason="INVALID_FILTER", violations=[FieldViolation(at, message)])
