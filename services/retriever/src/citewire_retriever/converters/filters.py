"""Filters: proto to domain."""

from typing import Final

from citewire.retriever.v1 import filter_pb2 as pb
from google.protobuf.struct_pb2 import Value

from citewire_retriever import filters
from citewire_retriever.filters import All, Any, Filter, Not, Operator, Scalar, comparison, invalid_filter

_OPERATORS: Final[dict[int, Operator]] = {
    pb.OPERATOR_EQ: "eq",
    pb.OPERATOR_NE: "ne",
    pb.OPERATOR_IN: "in",
    pb.OPERATOR_LT: "lt",
    pb.OPERATOR_LE: "le",
    pb.OPERATOR_GT: "gt",
    pb.OPERATOR_GE: "ge",
    pb.OPERATOR_CONTAINS: "contains",
    pb.OPERATOR_EXISTS: "exists",
}


def to_filter(where: str, message: pb.Filter) -> Filter:
    """Reads a filter.

    Args:
        where: Its path in the request, for errors.
        message: The filter.

    Raises:
        InvalidArgument: It isn't of the grammar, or too large (reason `INVALID_FILTER`).
    """
    found = _node(where, message, 1)
    filters.check_size(where, found)
    return found


def _node(where: str, message: pb.Filter, depth: int) -> Filter:
    if depth > filters.MAX_DEPTH:
        raise invalid_filter(where, f"must be at most {filters.MAX_DEPTH} levels deep")
    kind = message.WhichOneof("condition")
    if kind == "all":
        return All(_members(f"{where}.all", message.all, depth))
    if kind == "any":
        return Any(_members(f"{where}.any", message.any, depth))
    if kind == "not":
        # `not` is a word of Python's: the field has no attribute of that name.
        return Not(_node(f"{where}.not", getattr(message, "not"), depth + 1))
    if kind == "comparison":
        return _comparison(where, message.comparison)
    raise invalid_filter(where, "must hold exactly one of all, any, not and a comparison")


def _members(where: str, message: pb.FilterList, depth: int) -> tuple[Filter, ...]:
    if len(message.filters) > filters.MAX_NODES:
        raise invalid_filter(where, f"must have at most {filters.MAX_NODES} members")
    return tuple(_node(f"{where}[{number}]", member, depth + 1) for number, member in enumerate(message.filters))


def _comparison(where: str, message: pb.Comparison) -> Filter:
    op = _OPERATORS.get(message.op)
    if op is None:
        raise invalid_filter(f"{where}.op", f"must be one of {', '.join(_OPERATORS.values())}")
    return comparison(where, message.field, op, _value(where, message.value))


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
