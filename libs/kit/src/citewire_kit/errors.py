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
    """One invalid field of a request, and what would be valid."""

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
        """The problem and its remedy, for clients."""
        self.reason = reason
        """Name of a value of `citewire.common.v1.ErrorReason`, without prefix."""
        self.violations = tuple(violations)
        """The invalid fields, for `InvalidArgument`."""
        self.metadata = dict(metadata or {})
        """Dynamic values, for programs (ids, limits)."""
        self.retry_after = retry_after
        """Seconds after which a retry makes sense; None if there is no advice."""

    def __str__(self) -> str:
        return f"{self.message} ({self.code.value}, {self.reason})"


class InvalidArgument(CitewireError):
    """The request is invalid, regardless of the system's state."""

    code = Code.INVALID_ARGUMENT


class NotFound(CitewireError):
    """Something that the request names doesn't exist in the caller's scope."""

    code = Code.NOT_FOUND


class AlreadyExists(CitewireError):
    """The object that the request would create already exists."""

    code = Code.ALREADY_EXISTS


class FailedPrecondition(CitewireError):
    """The system's state doesn't allow the request; retrying won't help."""

    code = Code.FAILED_PRECONDITION


class Unauthenticated(CitewireError):
    """The caller isn't identified."""

    code = Code.UNAUTHENTICATED


class PermissionDenied(CitewireError):
    """The caller is identified, but may not do this."""

    code = Code.PERMISSION_DENIED


class ResourceExhausted(CitewireError):
    """A limit, quota or budget is reached."""

    code = Code.RESOURCE_EXHAUSTED


class Unavailable(CitewireError):
    """Something that the call needs is unreachable; a retry may work."""

    code = Code.UNAVAILABLE


class DeadlineExceeded(CitewireError):
    """The time limit was reached."""

    code = Code.DEADLINE_EXCEEDED


class Unimplemented(CitewireError):
    """This version doesn't support it."""

    code = Code.UNIMPLEMENTED


class Internal(CitewireError):
    """A defect on our side; the log has the details under the request id."""

    code = Code.INTERNAL


class Aborted(CitewireError):
    """Another call interfered; retrying the whole request may work."""

    code = Code.ABORTED


class DataLoss(CitewireError):
    """Stored data is lost or damaged."""

    code = Code.DATA_LOSS


class StartupError(Exception):
    """A process can't start, for a reason that its operator can fix; the message says how."""


def invalid_field(field: str, message: str, *, reason: str = "INVALID_FIELD") -> InvalidArgument:
    """Returns the error for one invalid field; `message` says what would be valid."""
    return InvalidArgument(f"{field}: {message}", reason=reason, violations=[FieldViolation(field, message)])


class Violations:
    """Collects the errors in a request, so that the caller gets all of them at once.

    Example:
        v = Violations()
        v.require(1 <= top_k <= 200, "top_k", "must be between 1 and 200")
        v.raise_if_any()
    """

    def __init__(self) -> None:
        self._violations: list[FieldViolation] = []

    def add(self, field: str, message: str) -> None:
        """Adds a violation of `field`."""
        self._violations.append(FieldViolation(field, message))

    def require(self, condition: bool, field: str, message: str) -> bool:
        """Adds a violation unless `condition` holds, and returns `condition`."""
        if not condition:
            self.add(field, message)
        return condition

    def __bool__(self) -> bool:
        return bool(self._violations)

    def raise_if_any(self) -> None:
        """Raises `InvalidArgument` (reason `INVALID_FIELD`) with all violations, if there are any."""
        if not self._violations:
            return
        first = self._violations[0]
        more = f", and {len(self._violations) - 1} more" if len(self._violations) > 1 else ""
        raise InvalidArgument(
            f"{first.field}: {first.message}{more}", reason="INVALID_FIELD", violations=tuple(self._violations)
        )
