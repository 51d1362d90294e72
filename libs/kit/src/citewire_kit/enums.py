"""The one mapping between our enums and those of the contracts.

A value `DOCUMENT_STATUS_READY` of a contract's enum is our member "ready". Both sides are compared when the mapping is
made, at import, so that a value added on one side only fails the first test that imports it.
"""

from collections.abc import Collection
from enum import StrEnum
from functools import cache
from typing import Generic, TypeVar, cast

from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

E = TypeVar("E", bound=StrEnum)
N = TypeVar("N", bound=int)

_ZERO = "UNSPECIFIED"


class EnumMap(Generic[E, N]):
    """Maps a StrEnum to the enum of a contract and back.

    Example:
        PURPOSES = EnumMap(Purpose, pb.Purpose, unspecified=Purpose.DOCUMENT)
        PURPOSES.to_proto(Purpose.QUERY)  # pb.PURPOSE_QUERY
        PURPOSES.from_proto(request.purpose)  # Purpose.QUERY, or None for an unknown number
    """

    def __init__(
        self, enum: type[E], proto_enum: type[N], *, unspecified: E | None = None, internal: Collection[E] = ()
    ) -> None:
        """Creates the mapping.

        Args:
            enum: Our enum; its values are the contract's names in lower case, without their prefix.
            proto_enum: The contract's enum, as its stub names it.
            unspecified: What `..._UNSPECIFIED` means; None if it isn't valid.
            internal: Members that are never sent.

        Raises:
            TypeError: A value has no counterpart.
        """
        numbers = dict(_numbers(proto_enum))
        zero = numbers.pop(_ZERO.lower())
        ours = {member.value for member in enum} - {member.value for member in internal}
        if ours != numbers.keys():
            raise TypeError(f"{enum.__name__} and its message enum differ in {sorted(ours ^ numbers.keys())}")
        self._to_proto: dict[E, N] = {enum(text): number for text, number in numbers.items()}
        self._from_proto: dict[int, E] = {number: member for member, number in self._to_proto.items()}
        if unspecified is not None:
            self._from_proto[zero] = unspecified

    def to_proto(self, member: E) -> N:
        """Returns the contract's number of a member."""
        return self._to_proto[member]

    def from_proto(self, number: int) -> E | None:
        """Returns the member of a number; None for one that is invalid or unknown."""
        return self._from_proto.get(number)


def enum_text(proto_enum: type[int], number: int) -> str:
    """Returns a value's name in lower case, without its prefix; `unspecified` for an unknown number."""
    return next((text for text, known in _numbers(proto_enum).items() if known == number), _ZERO.lower())


def enum_number(proto_enum: type[N], text: str) -> N:
    """Returns the value with that name in lower case, without its prefix. Raises `KeyError`."""
    return _numbers(proto_enum)[text]


def _numbers(proto_enum: type[N]) -> dict[str, N]:
    """Returns the numbers of a contract's enum by their names in lower case, without the prefix."""
    return cast("dict[str, N]", _cached_numbers(cast("EnumTypeWrapper", proto_enum)))  # the stub declares a class


@cache
def _cached_numbers(proto_enum: EnumTypeWrapper) -> dict[str, int]:
    items = proto_enum.items()
    prefix = next(name for name, number in items if number == 0).removesuffix(_ZERO)
    return {name.removeprefix(prefix).lower(): number for name, number in items}
