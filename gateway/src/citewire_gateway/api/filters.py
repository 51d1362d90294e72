"""The filter grammar: from a request's JSON to a condition, with an error that names the place."""

from collections.abc import Mapping, Sequence
from typing import cast

from citewire_gateway.clients.domain import All, AnyOf, Comparison, Filter, Json, Not, Operator
from citewire_kit.errors import FieldViolation, InvalidArgument

MAX_DEPTH = 8
MAX_NODES = 100
MAX_LIST = 1000
_MAX_FIELD = 200
_FIELDS = frozenset(
    {"title", "file_name", "type", "url", "collection", "owner", "tags", "created_at", "updated_at", "id"}
)
_METADATA = "metadata."


def parse_filter(value: object) -> Filter:
    """Reads a filter.

    Raises:
        InvalidArgument: It isn't of the grammar (reason `INVALID_FILTER`); the violation names the place.
    """
    return _Parser().node(value, "filter", 1)


class _Parser:
    def __init__(self) -> None:
        self._nodes = 0

    def node(self, value: object, at: str, depth: int) -> Filter:
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
            return Not(self.node(member, f"{at}.not", depth + 1))
        if name not in ("all", "any"):
            raise _invalid(at, f"knows no {name[:64]!r}")
        if not isinstance(member, Sequence) or isinstance(member, str):
            raise _invalid(f"{at}.{name}", "must be a list of conditions")
        members = tuple(
            self.node(one, f"{at}.{name}.{number}", depth + 1)
            for number, one in enumerate(cast("Sequence[object]", member))
        )
        return All(members) if name == "all" else AnyOf(members)


def _comparison(given: Mapping[str, object], at: str) -> Comparison:
    unknown = sorted(given.keys() - {"field", "op", "value"})
    if unknown:
        raise _invalid(at, f"knows no {unknown[0][:64]!r}")
    field, op = given.get("field"), given.get("op")
    if not isinstance(field, str) or not _is_field(field):
        raise _invalid(f"{at}.field", f"must be one of {', '.join(sorted(_FIELDS))}, or metadata.KEY")
    if not isinstance(op, str) or op not in frozenset(Operator):
        raise _invalid(f"{at}.op", f"must be one of {', '.join(Operator)}")
    operator = Operator(op)
    if "value" not in given and operator is not Operator.EXISTS:
        raise _invalid(f"{at}.value", "is required")
    return Comparison(field, operator, _value(operator, given.get("value", True), f"{at}.value"))


def _value(op: Operator, value: object, at: str) -> Json:
    if op is Operator.EXISTS and not isinstance(value, bool):
        raise _invalid(at, "must be true or false")
    if op is not Operator.IN:
        return _scalar(value, at)
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise _invalid(at, "must be a list")
    members = cast("Sequence[object]", value)
    if len(members) > MAX_LIST:
        raise _invalid(at, f"has more than {MAX_LIST} values")
    return [_scalar(one, f"{at}.{number}") for number, one in enumerate(members)]


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
