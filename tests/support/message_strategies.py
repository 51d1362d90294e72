"""Messages of any type for property-based tests, generated from their descriptors."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

_MOST_DEPTH: Final = 5
_MOST_VALUES: Final = 3
"""The greatest length of a repeated field."""
_SIGNED_32, _SIGNED_64 = (-(1 << 31), (1 << 31) - 1), (-(1 << 63), (1 << 63) - 1)
_UNSIGNED_32, _UNSIGNED_64 = (0, (1 << 32) - 1), (0, (1 << 64) - 1)
_INTEGERS: Final = {
    FieldDescriptor.TYPE_INT32: _SIGNED_32,
    FieldDescriptor.TYPE_SINT32: _SIGNED_32,
    FieldDescriptor.TYPE_SFIXED32: _SIGNED_32,
    FieldDescriptor.TYPE_INT64: _SIGNED_64,
    FieldDescriptor.TYPE_SINT64: _SIGNED_64,
    FieldDescriptor.TYPE_SFIXED64: _SIGNED_64,
    FieldDescriptor.TYPE_UINT32: _UNSIGNED_32,
    FieldDescriptor.TYPE_FIXED32: _UNSIGNED_32,
    FieldDescriptor.TYPE_UINT64: _UNSIGNED_64,
    FieldDescriptor.TYPE_FIXED64: _UNSIGNED_64,
}
_ODD: Final = ("", "a", "What is it?", "\0", "\u202e", "𝒜", "a" * 5000, "../../etc/passwd", "' OR 1=1 --", "%s{}")
_TEXTS: Final = st.one_of(
    st.sampled_from(_ODD),
    st.text(max_size=40),
    st.text(string.ascii_letters, min_size=1, max_size=12),
)
_SCALARS: Final[Mapping[int, SearchStrategy[Any]]] = {
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_STRING: _TEXTS,
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=64),
    FieldDescriptor.TYPE_FLOAT: st.one_of(st.floats(0, 1, width=32), st.floats(width=32)),
    FieldDescriptor.TYPE_DOUBLE: st.one_of(st.floats(0, 1), st.floats()),
}


@dataclass(frozen=True)
class MessageMaker:
    """Creates strategies for messages: each field is unset, has any value of its type, or a known value."""

    known: Mapping[str, Sequence[Any]]
    """Values by field name, such as ids that exist."""

    def messages(self, descriptor: Descriptor, depth: int = 0) -> SearchStrategy[Message]:
        """Returns a strategy for messages of a type; fields nested too deeply stay unset."""
        fields = {
            field.name: self._values(field, depth)
            for field in descriptor.fields
            if depth < _MOST_DEPTH or field.message_type is None
        }
        # At most one field of a oneof, so that each is tried.
        selected: list[SearchStrategy[dict[str, Any]]] = []
        for choice in descriptor.oneofs:
            names = [field.name for field in choice.fields if field.name in fields]
            selected.append(
                st.one_of(st.just({}), *(st.fixed_dictionaries({name: fields.pop(name)}) for name in names))
            )
        plain = st.fixed_dictionaries({}, optional=fields)
        message_class = GetMessageClass(descriptor)
        return st.builds(lambda *parts: _build(message_class, parts), plain, *selected)

    def _values(self, field: FieldDescriptor, depth: int) -> SearchStrategy[Any]:
        message = field.message_type
        if message is not None and message.GetOptions().map_entry:
            key, value = (self._value(message.fields_by_name[name], depth + 1) for name in ("key", "value"))
            return st.dictionaries(key, value, max_size=_MOST_VALUES)
        strategy = self._value(field, depth)
        return st.lists(strategy, max_size=_MOST_VALUES) if field.is_repeated else strategy

    def _value(self, field: FieldDescriptor, depth: int) -> SearchStrategy[Any]:
        message, enum = field.message_type, field.enum_type
        if message is not None:
            return st.deferred(lambda: self.messages(message, depth + 1))
        anything = _numbers(field.type) if enum is None else _members(enum)
        values = self.known.get(field.name)
        return st.one_of(st.sampled_from(values), anything) if values else anything


def _build(message_class: type[Message], parts: Sequence[Mapping[str, Any]]) -> Message:
    return message_class(**{name: value for part in parts for name, value in part.items()})


def _numbers(kind: int) -> SearchStrategy[Any]:
    if kind in _INTEGERS:
        low, high = _INTEGERS[kind]
        return st.one_of(st.integers(0, 20), st.integers(low, high))
    return _SCALARS[kind]


def _members(enum: EnumDescriptor) -> SearchStrategy[int]:
    return st.one_of(st.sampled_from([value.number for value in enum.values]), st.integers(0, 99))
