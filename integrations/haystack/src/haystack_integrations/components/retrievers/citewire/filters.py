"""Converts Haystack's filters to the gateway's format."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from haystack.errors import FilterError

_OPERATORS: Final = {"==": "eq", "!=": "ne", ">": "gt", ">=": "ge", "<": "lt", "<=": "le", "in": "in"}
_META: Final = "meta."


def translate_filters(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a Haystack filter to the format of `POST /v1/search`.

    Raises:
        FilterError: It isn't a valid filter; the message says where.
    """
    operator = filters.get("operator")
    if "field" in filters:
        return _comparison(filters, operator)
    if operator not in {"AND", "OR", "NOT"}:
        raise FilterError(f"operator must be AND, OR or NOT, or have a field: it is {operator!r}")
    given: object = filters.get("conditions")
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise FilterError(f"conditions of {operator} must be a non-empty list")
    conditions = [translate_filters(condition) for condition in cast("Sequence[Mapping[str, Any]]", given)]
    return {"any": conditions} if operator == "OR" else {"all": conditions} if operator == "AND" else _none(conditions)


def _comparison(condition: Mapping[str, Any], operator: object) -> dict[str, Any]:
    field = str(condition["field"])
    if "value" not in condition:
        raise FilterError(f"value is required for {field}")
    name = f"metadata.{field.removeprefix(_META)}" if field.startswith(_META) else field
    if operator == "not in":
        return {"not": {"field": name, "op": "in", "value": condition["value"]}}
    if operator not in _OPERATORS:
        raise FilterError(f"operator of {field} must be one of {', '.join(_OPERATORS)} or not in: it is {operator!r}")
    return {"field": name, "op": _OPERATORS[str(operator)], "value": condition["value"]}


def _none(conditions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Not all of the conditions, which is the meaning of Haystack's NOT."""
    return {"not": {"all": list(conditions)}}
