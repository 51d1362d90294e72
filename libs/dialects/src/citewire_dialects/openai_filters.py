"""OpenAI's search of vector stores, as our own API says it: collections, and the filter grammar."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from citewire_dialects.filters import MAX_DEPTH
from citewire_dialects.schemas.compatible import Extras
from citewire_dialects.schemas.responses import FileSearchTool
from citewire_kit.errors import FieldViolation, InvalidArgument, invalid_field

_COMPARISONS = {"eq": "eq", "ne": "ne", "gt": "gt", "gte": "ge", "lt": "lt", "lte": "le", "in": "in", "nin": "in"}
_COMPOUNDS = {"and": "all", "or": "any"}


def narrowed(extras: Extras, tool: FileSearchTool, most: int) -> Extras:
    """Returns what a request searches, according to the search tool and Citewire's own fields.

    Args:
        extras: Citewire's own fields.
        tool: The search tool.
        most: Maximum number of passages that the profile allows.

    Raises:
        InvalidArgument: The filters are malformed, or both set the same thing; the violation names the place.
    """
    if extras.collection is not None:
        raise invalid_field("citewire.collection", "can't be given together with tools, which name vector stores")
    stores = list(dict.fromkeys(tool.vector_store_ids))
    filters: list[Any] = [] if extras.filter is None else [extras.filter]
    if tool.filters is not None:
        filters.append(native_filter(tool.filters, "tools.0.filters"))
    if len(stores) > 1:
        filters.append({"field": "collection", "op": "in", "value": stores})
    changes: dict[str, Any] = {"collection": stores[0] if len(stores) == 1 else None}
    if filters:
        changes["filter"] = filters[0] if len(filters) == 1 else {"all": filters}
    if tool.max_num_results is not None:
        changes["top_k"] = min(tool.max_num_results, most)
    if tool.ranking_options is not None and tool.ranking_options.score_threshold is not None:
        changes["min_score"] = tool.ranking_options.score_threshold
    return extras.model_copy(update=changes)


def native_filter(value: object, at: str, depth: int = 1) -> dict[str, Any]:
    """Returns a filter on attributes as a condition on metadata, for `parse_filter`.

    Args:
        value: `{"type", "key", "value"}` or `{"type": "and" | "or", "filters"}`.
        at: The field that contained it, for errors.
        depth: How deep it is nested, from 1.

    Raises:
        InvalidArgument: It is malformed (reason `INVALID_FILTER`); the violation names the place.
    """
    if depth > MAX_DEPTH:
        raise _invalid(at, f"is nested deeper than {MAX_DEPTH} levels")
    if not isinstance(value, Mapping):
        raise _invalid(at, 'must be an object: {"type", "key", "value"} or {"type": "and" | "or", "filters"}')
    given = cast("Mapping[str, object]", value)
    kind = given.get("type")
    if kind in _COMPOUNDS:
        return {_COMPOUNDS[str(kind)]: _members(given, at, depth)}
    if kind not in _COMPARISONS:
        raise _invalid(f"{at}.type", f"must be one of {', '.join([*_COMPARISONS, *_COMPOUNDS])}")
    _refuse_others(given, at, "key", "value")
    key = given.get("key")
    if not isinstance(key, str) or not key:
        raise _invalid(f"{at}.key", "must be the name of a metadata field")
    if "value" not in given:
        raise _invalid(f"{at}.value", "is required")
    value, many = given["value"], kind in ("in", "nin")
    if many != isinstance(value, list) or not all(map(_is_plain, cast("list[object]", value) if many else [value])):
        plain = "texts, numbers, true or false"
        raise _invalid(f"{at}.value", f"must be a list of {plain}" if many else f"must be one of {plain}")
    comparison = {"field": f"metadata.{key}", "op": _COMPARISONS[str(kind)], "value": value}
    return {"not": comparison} if kind == "nin" else comparison


def _members(given: Mapping[str, object], at: str, depth: int) -> list[dict[str, Any]]:
    _refuse_others(given, at, "filters")
    filters = given.get("filters")
    if not isinstance(filters, Sequence) or isinstance(filters, str) or not filters:
        raise _invalid(f"{at}.filters", "must be a list of filters, at least one")
    members = cast("Sequence[object]", filters)
    return [native_filter(member, f"{at}.filters.{number}", depth + 1) for number, member in enumerate(members)]


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float)


def _refuse_others(given: Mapping[str, object], at: str, *known: str) -> None:
    others = sorted(given.keys() - {"type", *known})
    if others:
        raise _invalid(at, f"has an unknown key {others[0][:64]!r}")


def _invalid(at: str, message: str) -> InvalidArgument:
    return InvalidArgument(f"{at} {message}", reason="INVALID_FILTER", violations=[FieldViolation(at, message)])
