"""From messages, and from values of our own, to the fields of a schema: by name, so that a field is named once."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, Self, cast, get_args

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import MISSING, BaseModel
from pydantic.fields import FieldInfo

from citewire_kit.enums import enum_text

Names = Mapping[str, str]
Reader = Callable[[Any], Any]
_MAX_EXACT = 2**53


def time_text(moment: datetime) -> str:
    """Returns a time as RFC 3339, in UTC."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


class ReadableModel(BaseModel):
    """A schema whose fields can be read from messages and from our own values."""

    names: ClassVar[Names] = {}
    """Source names of fields, if they differ; `place.page` is a member of a member."""
    parts: ClassVar[tuple[str, ...]] = ()
    """Members of the source whose own members are read as well."""

    @classmethod
    def read(cls, source: object, **fields: Any) -> Self:  # noqa: ANN401 # fields of any schema
        """Reads each field from the source by its name; `fields` are added or take precedence.

        Unset values and empty texts become null or are left out, depending on the field. Enums become texts, and times
        RFC 3339.
        """
        held: tuple[Any, ...] = (source, *(getattr(source, part) for part in cls.parts))
        plan = _plan(cls, tuple(map(type, held)))
        values = dict(plan.absent)
        for index, member, optional in plan.members:
            # One call for all fields that are set, because of a place hardly any is.
            for field, value in getattr(held[index], member).ListFields():
                known = optional.get(field.number)
                if known is not None and (value or known.has_presence):
                    values[known.name] = known.convert(value)
        for name, index, read in plan.fields:
            value = read(held[index])
            if value is not MISSING:
                values[name] = value
        return cls(**values | fields)


class _Optional(NamedTuple):
    """A message's field that is absent unless it is set."""

    name: str
    has_presence: bool
    convert: Reader


class _Plan(NamedTuple):
    """How to read a schema's fields; sources are given by index among the source and its parts."""

    fields: Sequence[tuple[str, int, Reader]]
    members: Sequence[tuple[int, str, Mapping[int, _Optional]]]
    """Members of messages, and what is read of them by field number."""
    absent: Mapping[str, None]
    """Fields of these that are null unless they are set."""


@cache
def _plan(model: type[ReadableModel], kinds: tuple[type[Any], ...]) -> _Plan:
    """Returns how to read each field that a source has; `kinds` are the types of the source and its parts."""
    fields: list[tuple[str, int, Reader]] = []
    members: dict[tuple[int, str], dict[int, _Optional]] = {}
    absent: dict[str, None] = {}
    for name, field in model.model_fields.items():
        path = model.names.get(name, name).split(".")
        index = next((index for index, kind in enumerate(kinds) if _has(kind, path[0])), None)
        if index is None:
            continue
        member = _member(kinds[index], path)
        if member is None or not _is_optional(field):
            fields.append((name, index, _reader_of_path(kinds[index], path, field)))
            continue
        known = _Optional(name, member.has_presence, _converter(member, _nested(field)))
        members.setdefault((index, path[0]), {})[member.number] = known
        if field.default is not MISSING:
            absent[name] = None
    return _Plan(fields, [(*source, optional) for source, optional in members.items()], absent)


def _member(kind: type[Any], path: Sequence[str]) -> FieldDescriptor | None:
    """Returns the field of a message's member that a path leads to; None if it leads elsewhere."""
    descriptor: Descriptor | None = getattr(kind, "DESCRIPTOR", None)
    if descriptor is None or len(path) != 2:
        return None
    message = descriptor.fields_by_name[path[0]].message_type
    return None if message is None else message.fields_by_name[path[1]]


def _has(kind: type[Any], name: str) -> bool:
    descriptor = getattr(kind, "DESCRIPTOR", None)
    if descriptor is not None:
        return name in descriptor.fields_by_name
    return name in getattr(kind, "__dataclass_fields__", {}) or isinstance(getattr(kind, name, None), property)


def _is_optional(field: FieldInfo) -> bool:
    return field.default is MISSING or type(None) in get_args(field.annotation)


def _nested(field: FieldInfo) -> type[ReadableModel] | None:
    return next((kind for kind in _kinds(field.annotation) if issubclass(kind, ReadableModel)), None)


def _reader_of_path(kind: type[Any], path: Sequence[str], field: FieldInfo) -> Reader:
    """Returns what reads a field of a source of this type, or of one of its members."""
    *parents, last = path
    absent = MISSING if field.default is MISSING else None
    reader_of = cache(partial(_reader, name=last, nested=_nested(field), optional=_is_optional(field), absent=absent))
    if not parents:
        return reader_of(kind)

    def read(source: object) -> Any:  # noqa: ANN401 # fields are of any kind
        member: object = source
        for parent in parents:
            member = getattr(member, parent)
            if member is None:
                return absent
        return reader_of(type(member))(member)

    return read


def _reader(
    kind: type[Any], *, name: str, nested: type[ReadableModel] | None, optional: bool, absent: object
) -> Reader:
    """Returns what reads a field of a source of this type."""
    descriptor: Descriptor | None = getattr(kind, "DESCRIPTOR", None)
    if descriptor is None:

        def read_own(source: object) -> Any:  # noqa: ANN401 # fields are of any kind
            value = getattr(source, name)
            return absent if optional and (value is None or value == "") else _converted(value, nested)

        return read_own
    field = descriptor.fields_by_name[name]
    has_presence, has_value = optional and field.has_presence, optional and not field.has_presence
    convert = _converter(field, nested)
    if not optional and convert is _unchanged:
        return attrgetter(name)

    def read(source: Message) -> Any:  # noqa: ANN401 # fields are of any kind
        if has_presence and not source.HasField(name):
            return absent
        value = getattr(source, name)
        return absent if has_value and not value else convert(value)

    return read


def _converter(field: FieldDescriptor, nested: type[ReadableModel] | None) -> Reader:
    """Returns what converts the values of a message's field."""
    if field.enum_type is not None:
        return partial(_enum_text, field.enum_type)
    if field.message_type is None and not field.is_repeated:
        return _unchanged
    return partial(_converted, nested=nested)


def _unchanged(value: Any) -> Any:  # noqa: ANN401 # values of fields are of any kind
    return value


def _kinds(annotation: Any) -> Iterator[type]:  # noqa: ANN401 # any annotation
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for argument in get_args(annotation):
        yield from _kinds(argument)


@cache
def _enum_text(enum: Any, number: int) -> str:  # noqa: ANN401 # its descriptor, of one of two implementations
    return enum_text(cast("type[int]", EnumTypeWrapper(enum)), number)


def _converted(value: Any, nested: type[ReadableModel] | None) -> Any:  # noqa: ANN401 # values of fields are of any kind
    match value:
        case str() | int() | float() | None:
            return value
        case Timestamp():
            return value.ToJsonString()
        case datetime():
            return time_text(value)
        case Struct():
            return struct_to_json(value)
        case Mapping():
            return dict(cast("Mapping[str, Any]", value))
        case Message():
            return value if nested is None else nested.read(value)
        case Iterable():
            return [_converted(member, nested) for member in cast("Iterable[Any]", value)]
        case _:
            return value if nested is None else nested.read(value)


def struct_to_json(message: Struct) -> dict[str, Any]:
    """Returns a message as a JSON object. A struct contains only doubles; whole numbers become integers again."""
    return json.loads(json_format.MessageToJson(message, indent=None), parse_float=_number)


def _number(digits: str) -> float:
    number = float(digits)
    return int(number) if number.is_integer() and abs(number) <= _MAX_EXACT else number
