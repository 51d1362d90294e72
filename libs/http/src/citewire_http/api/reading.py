"""From messages, and from values of our own, to the fields of a schema: by name, so that a field is named once."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, ClassVar, Self, cast, get_args

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import MISSING, BaseModel
from pydantic.fields import FieldInfo

from citewire_kit.enums import enum_text

Names = Mapping[str, str]
Getter = Callable[[tuple[Any, ...]], Any]
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
        values = ((name, get(held)) for name, get in _plan(cls, tuple(map(type, held))))
        return cls(**{name: value for name, value in values if value is not MISSING} | fields)


@cache
def _plan(model: type[ReadableModel], kinds: tuple[type[Any], ...]) -> list[tuple[str, Getter]]:
    """Returns how to read each field that a source has; `kinds` are the types of the source and its parts."""
    plan: list[tuple[str, Getter]] = []
    for name, field in model.model_fields.items():
        first, *rest = model.names.get(name, name).split(".")
        index = next((index for index, kind in enumerate(kinds) if _has(kind, first)), None)
        if index is not None:
            plan.append((name, _getter(index, [first, *rest], field)))
    return plan


def _has(kind: type[Any], name: str) -> bool:
    descriptor = getattr(kind, "DESCRIPTOR", None)
    if descriptor is not None:
        return name in descriptor.fields_by_name
    return name in getattr(kind, "__dataclass_fields__", {}) or isinstance(getattr(kind, name, None), property)


def _getter(index: int, path: list[str], field: FieldInfo) -> Getter:
    *parents, last = path
    nested = next((kind for kind in _kinds(field.annotation) if issubclass(kind, ReadableModel)), None)
    optional = field.default is MISSING or type(None) in get_args(field.annotation)
    absent = MISSING if field.default is MISSING else None
    # Decided once for each type of source, since a search reads thousands of fields.
    reader_of = cache(partial(_reader, name=last, nested=nested, optional=optional, absent=absent))

    def get(sources: tuple[Any, ...]) -> Any:  # noqa: ANN401 # fields are of any kind
        source: object = sources[index]
        for parent in parents:
            source = getattr(source, parent)
            if source is None:
                return absent
        return reader_of(type(source))(source)

    return get


def _reader(
    kind: type[Any], *, name: str, nested: type[ReadableModel] | None, optional: bool, absent: object
) -> Callable[[Any], Any]:
    """Returns what reads a field of a source of this type."""
    descriptor: Descriptor | None = getattr(kind, "DESCRIPTOR", None)
    convert = partial(_converted, nested=nested)
    if descriptor is None:

        def read_own(source: object) -> Any:  # noqa: ANN401 # fields are of any kind
            value = getattr(source, name)
            return absent if optional and (value is None or value == "") else convert(value)

        return read_own
    field = descriptor.fields_by_name[name]
    has_presence, has_value = optional and field.has_presence, optional and not field.has_presence
    if field.enum_type is not None:
        convert = partial(_enum_text, field.enum_type)
    is_plain = field.enum_type is None and field.message_type is None and not field.is_repeated

    def read(source: Message) -> Any:  # noqa: ANN401 # fields are of any kind
        if has_presence and not source.HasField(name):
            return absent
        value = getattr(source, name)
        if has_value and not value:
            return absent
        return value if is_plain else convert(value)

    return read


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
