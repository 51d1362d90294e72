"""Filters and scopes as conditions on `corpus.documents d`: fixed fragments and parameters, never values in SQL.

Each leaf is true or false, never NULL, so that `NOT` means what it says.
"""

import json
from collections.abc import Callable, Sequence
from typing import Final, LiteralString, cast

from psycopg import sql

from citewire_kit.filter_fields import TEXT_FIELDS, TIME_FIELDS
from citewire_kit.transaction_settings import Resolved
from citewire_retriever.filters import All, AnyOf, Comparison, Filter, Not, Scalar
from citewire_retriever.model import Scope, Validity
from citewire_retriever.store import rows

VISIBLE: Final = Resolved(
    "citewire.visible",
    "CASE WHEN EXISTS (SELECT FROM corpus.restrictions) THEN corpus.visible_setting() ELSE 'all' END",
    on_nodes="corpus.visible_setting()",
)
"""Caches what a transaction's caller may see, for the retriever's pools, as policies would otherwise check every row.

It must run after the tenant has been set, as the table only shows the organisation's row.
"""
_VISIBLE: Final = rows.queries("search")["visible"]
_FALSE: Final = sql.SQL("false")
_TRUE: Final = sql.SQL("true")

_COLLECTION: Final[LiteralString] = (
    "(SELECT k.name FROM corpus.collections k WHERE k.org_id = %(org_id)s AND k.collection_id = d.collection_id)"
)
_NEVER_EMPTY: Final = ("title", "type", "owner")


def _column(field: str) -> sql.SQL:
    # The contract's name of a field is as literal as a string in the source.
    return sql.SQL(cast("LiteralString", f"d.{field}"))


_TEXT: Final[dict[str, sql.Composable]] = {
    **{field: sql.SQL("nullif({}, '')").format(_column(field)) for field in TEXT_FIELDS},
    **{field: _column(field) for field in _NEVER_EMPTY},
    "collection": sql.SQL(_COLLECTION),
}
_TIME: Final[dict[str, sql.Composable]] = {field: _column(field) for field in TIME_FIELDS}
# A NULL bound is never exceeded. A CASE is opaque to the planner: for two ORs it would expect a ninth of the rows and
# choose another plan.
_VALID: Final = "CASE WHEN d.valid_from > {0} OR d.valid_until <= {0} THEN false ELSE true END"
WHOLE: Final = sql.SQL(_VALID).format(sql.SQL("now()"))
"""The condition for a document in the scope of an unfiltered search."""
_COMPARE: Final[dict[str, sql.SQL]] = {
    "eq": sql.SQL("="),
    "ne": sql.SQL("="),
    "lt": sql.SQL("<"),
    "le": sql.SQL("<="),
    "gt": sql.SQL(">"),
    "ge": sql.SQL(">="),
}


class Parameters:
    """Collects values and hands out their placeholders."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}

    def add(self, value: object) -> sql.Placeholder:
        """Adds a value, and returns its placeholder."""
        name = f"p{len(self.values)}"
        self.values[name] = value
        return sql.Placeholder(name)


def scope_condition(scope: Scope, user_id: str, parameters: Parameters) -> sql.Composable:
    """Returns the condition for a document in the scope, apart from organisation and liveness."""
    parts = [valid_condition(scope.validity, parameters)]
    if scope.own:
        parts.append(_format("d.owner = {}", parameters.add(user_id)))
    if scope.document_ids is not None:
        parts.append(_format("d.document_id = ANY({}::bigint[])", parameters.add(list(scope.document_ids))))
    if scope.collection:
        parts.append(
            _format(
                "d.collection_id = (SELECT k.collection_id FROM corpus.collections k"
                " WHERE k.org_id = %(org_id)s AND k.name = {})",
                parameters.add(scope.collection),
            )
        )
    if scope.types:
        parts.append(_format("d.type = ANY({}::text[])", parameters.add(list(scope.types))))
    if scope.filter is not None:
        parts.append(filter_condition(scope.filter, parameters))
    return sql.SQL(" AND ").join(parts)


def valid_condition(validity: Validity, parameters: Parameters) -> sql.Composable:
    """Returns the condition that a document is found by its validity."""
    if validity.any:
        return _TRUE
    if validity.as_of is None:
        return WHOLE
    return _format(_VALID, _format("{}::timestamptz", parameters.add(validity.as_of)))


def only_visible(scope: sql.Composable, *, hidden: bool) -> sql.Composable:
    """Returns a scope's condition for a scan, which uses an index if part of the library is hidden from the caller.

    The policy on documents decides what is visible; this only saves the scan from reading what it would drop.
    """
    return _format("{} AND {}", scope, sql.SQL(_VISIBLE)) if hidden else scope


def filter_condition(node: Filter, parameters: Parameters) -> sql.Composable:
    """Returns the condition for a document that satisfies the filter."""
    if isinstance(node, All):
        return _joined(sql.SQL(" AND "), node.members, _TRUE, parameters)
    if isinstance(node, AnyOf):
        return _joined(sql.SQL(" OR "), node.members, _FALSE, parameters)
    if isinstance(node, Not):
        return _format("(NOT {})", filter_condition(node.member, parameters))
    condition = _comparison(node, parameters)
    return _format("(({}) IS NOT TRUE)" if node.op == "ne" else "(({}) IS TRUE)", condition)


def _joined(word: sql.SQL, members: Sequence[Filter], empty: sql.Composable, parameters: Parameters) -> sql.Composable:
    if not members:
        return empty
    return _format("({})", word.join([filter_condition(member, parameters) for member in members]))


def _comparison(node: Comparison, parameters: Parameters) -> sql.Composable:
    if node.field in TEXT_FIELDS:
        return _text(_TEXT[node.field], node, parameters)
    if node.field in TIME_FIELDS:
        return _time(_TIME[node.field], node, parameters)
    compilers: dict[str, Callable[[Comparison, Parameters], sql.Composable]] = {
        "tags": _tags,
        "id": _id,
        "metadata": _metadata,
    }
    return compilers[node.field](node, parameters)


def _text(field: sql.Composable, node: Comparison, parameters: Parameters) -> sql.Composable:
    if node.op == "exists":
        return _exists(_format("{} IS NOT NULL", field), node)
    texts = [value for value in node.values if isinstance(value, str)]
    if node.op == "in":
        return _format("{} = ANY({}::text[])", field, parameters.add(texts))
    if not texts:
        return _FALSE
    value = parameters.add(texts[0])
    if node.op == "contains":
        return _format("strpos({}, {}::text) > 0", field, value)
    return _format('({}) COLLATE "C" {} {}::text', field, _COMPARE[node.op], value)


def _time(field: sql.Composable, node: Comparison, parameters: Parameters) -> sql.Composable:
    if node.op == "exists":
        return _exists(_format("{} IS NOT NULL", field), node)
    moments = [value for value in node.values if isinstance(value, str)]
    if node.op == "in":
        return _format("{} = ANY({}::timestamptz[])", field, parameters.add(moments))
    if not moments or node.op == "contains":
        return _FALSE
    return _format("{} {} {}::timestamptz", field, _COMPARE[node.op], parameters.add(moments[0]))


def _tags(node: Comparison, parameters: Parameters) -> sql.Composable:
    if node.op == "exists":
        return _exists(sql.SQL("cardinality(d.tags) > 0"), node)
    # A list isn't a text: only contains can be true.
    if node.op == "contains" and isinstance(node.values[0], str):
        return _format("{}::text = ANY(d.tags)", parameters.add(node.values[0]))
    return _FALSE


def _id(node: Comparison, parameters: Parameters) -> sql.Composable:
    if node.op == "exists":
        return _exists(_TRUE, node)
    numbers = [float(value) for value in node.values if not isinstance(value, str | bool)]
    if node.op in ("eq", "ne", "in"):
        # As integers, so that the primary key is used; a fraction isn't an id.
        whole = [int(number) for number in numbers if number.is_integer() and abs(number) < 2**63]
        return _format("d.document_id = ANY({}::bigint[])", parameters.add(whole))
    if not numbers or node.op == "contains":
        return _FALSE
    return _format("d.document_id {} {}::float8", _COMPARE[node.op], parameters.add(numbers[0]))


def _metadata(node: Comparison, parameters: Parameters) -> sql.Composable:
    result = _format("(d.metadata #> {}::text[])", parameters.add(list(node.path)))
    if node.op == "exists":
        return _exists(_format("{0} IS NOT NULL AND jsonb_typeof({0}) <> 'null'", result), node)
    if node.op == "in":
        members = parameters.add([_json(value) for value in node.values])
        return _format("{} = ANY({}::text[]::jsonb[])", result, members)
    value = node.values[0]
    if isinstance(value, str) and node.op in ("lt", "le", "gt", "ge"):
        return _format(
            "jsonb_typeof({0}) = 'string' AND ({0} #>> '{{}}') COLLATE \"C\" {1} {2}::text",
            result,
            _COMPARE[node.op],
            parameters.add(value),
        )
    as_json = parameters.add(_json(value))
    if node.op in ("eq", "ne"):
        return _format("{} = {}::jsonb", result, as_json)
    if node.op == "contains":
        in_list = _format("jsonb_typeof({0}) = 'array' AND {0} @> {1}::jsonb", result, as_json)
        if not isinstance(value, str):
            return in_list
        in_text = _format(
            "jsonb_typeof({0}) = 'string' AND strpos({0} #>> '{{}}', {1}::text) > 0", result, parameters.add(value)
        )
        return _format("({}) OR ({})", in_list, in_text)
    kind = sql.SQL("'boolean'" if isinstance(value, bool) else "'number'")
    return _format("jsonb_typeof({0}) = {1} AND {0} {2} {3}::jsonb", result, kind, _COMPARE[node.op], as_json)


def _exists(condition: sql.Composable, node: Comparison) -> sql.Composable:
    return _format("({})", condition) if node.values[0] else _format("NOT ({})", condition)


def _json(value: Scalar) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _format(template: LiteralString, *parts: sql.Composable) -> sql.Composed:
    return sql.SQL(template).format(*parts)
