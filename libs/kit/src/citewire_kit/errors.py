"""The tree of domain errors. They know nothing of any transport; `status.py` maps them to gRPC and HTTP.

An error's `message` is shown to clients, so it must be safe: driver and provider texts are logged, never put in it.
Its `reason` is the name of a value of `citewire.common.v1.ErrorReason` without the prefix.
"""

# ruff: noqa: N818 # errors are named after gRPC's codes, which have no suffix

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar


class Code(StrEnum):
    """gRPC's canonical codes by name, so that domain code needs no grpc import."""

    OK = "OK"
    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    ABORTED = "ABORTED"
    OUT_OF_RANGE = "OUT_OF_RANGE"
    UNIMPLEMENTED = "UNIMPLEMENTED"
    INTERNAL = "INTERNAL"
    UNAVAILABLE = "UNAVAILABLE"
    DATA_LOSS = "DATA_LOSS"
    UNAUTHENTICATED = "UNAUTHENTICATED"


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One field of a request that is wrong, and what would be right."""

    field: str
    message: str


class CitewireError(Exception):
    """Base of all errors that a client may see.

    Raise one of the subclasses: each fixes the code.
    """

    code: ClassVar[Code] = Code.UNKNOWN
    """The canonical code."""

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        violations: Iterable[FieldViolation] = (),
        metadata: Mapping[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        """What happened and what to do, for clients."""
        self.reason = reason
        """Name of a value of `citewire.common.v1.ErrorReason`, without prefix."""
        self.violations = tuple(violations)
        """The fields that are wrong, for `InvalidArgument`."""
        self.metadata = dict(metadata or {})
        """Dynamic values, for programs (ids, limits)."""
        self.retry_after = retry_after
        """Seconds after which a retry makes sense; None if the server gives no advice."""

    def __str__(self) -> str:
        return f"{self.message} ({self.code.value}, {self.reason})"


class InvalidArgument(CitewireError):
    """The request is wrong whatever the state of the system is."""

    code = Code.INVALID_ARGUMENT


class NotFound(CitewireError):
    """What the request names doesn't exist in the caller's scope."""

    code = Code.NOT_FOUND


class AlreadyExists(CitewireError):
    """What the request would make exists."""

    code = Code.ALREADY_EXISTS


class FailedPrecondition(CitewireError):
    """The system isn't in a state that allows the request; repeating it won't help."""

    code = Code.FAILED_PRECONDITION


class Unauthenticated(CitewireError):
    """It isn't known who calls."""

    code = Code.UNAUTHENTICATED


class PermissionDenied(CitewireError):
    """It is known who calls, and they may not do this."""

    code = Code.PERMISSION_DENIED


class ResourceExhausted(CitewireError):
    """A limit, quota or budget is reached."""

    code = Code.RESOURCE_EXHAUSTED


class Unavailable(CitewireError):
    """Something that the call needs can't be reached now; a retry may work."""

    code = Code.UNAVAILABLE


class DeadlineExceeded(CitewireError):
    """The time budget ran out."""

    code = Code.DEADLINE_EXCEEDED


class Unimplemented(CitewireError):
    """This version doesn't offer it."""

    code = Code.UNIMPLEMENTED


class Internal(CitewireError):
    """A defect on our side; the log has the details under the request id."""

    code = Code.INTERNAL


class Aborted(CitewireError):
    """Another call got in the way; repeating the whole request may work."""

    code = Code.ABORTED


class DataLoss(CitewireError):
    """Stored data is lost or damaged."""

    code = Code.DATA_LOSS


class StartupError(Exception):
    """A process can't start, for a reason that its operator can remove; the message says which and how."""


def invalid_field(field: str, message: str, *, reason: str = "INVALID_FIELD") -> InvalidArgument:
    """Returns the error for one wrong field; `message` says what would be right."""
    return InvalidArgument(f"{field}: {message}", reason=reason, violations=[FieldViolation(field, message)])


class Violations:
    """Collects what is wrong with a request, so that the caller hears of all of it at once.

    Example:
        v = Violations()
        v.require(1 <= top_k <= 200, "top_k", "must be between 1 and 200")
        v.raise_if_any()
    """

    def __init__(self) -> None:
        self._violations: list[FieldViolation] = []

    def add(self, field: str, message: str) -> None:
        """Notes that `field` is wrong."""
        self._violations.append(FieldViolation(field, message))

    def require(self, condition: bool, field: str, message: str) -> bool:
        """Notes a violation unless `condition` holds, and returns `condition`."""
        if not condition:
            self.add(field, message)
        return condition

    def __bool__(self) -> bool:
        return bool(self._violations)

    def raise_if_any(self) -> None:
        """Raises `InvalidArgument` (reason `INVALID_FIELD`) that names every violation, if there is one."""
        if not self._violations:
            return
        first = self._violations[0]
        more = f", and {len(self._violations) - 1} more" if len(self._violations) > 1 else ""
        raise InvalidArgument(
            f"{first.field}: {first.message}{more}", reason="INVALID_FIELD", violations=tuple(self._violations)
        )
