"""The one table between domain errors, gRPC statuses and HTTP statuses."""

from collections.abc import Iterable, Mapping

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

from citewire_kit import errors
from citewire_kit.errors import CitewireError, Code, FieldViolation

DOMAIN = "citewire.dev"
DETAILS_KEY = "grpc-status-details-bin"
MAX_DETAILS_BYTES = 4096
_MAX_MESSAGE = 512
_MAX_VALUE = 256

_CLASSES: Mapping[Code, type[CitewireError]] = {
    cls.code: cls
    for cls in (
        errors.InvalidArgument,
        errors.NotFound,
        errors.AlreadyExists,
        errors.FailedPrecondition,
        errors.Unauthenticated,
        errors.PermissionDenied,
        errors.ResourceExhausted,
        errors.Unavailable,
        errors.DeadlineExceeded,
        errors.Unimplemented,
        errors.Internal,
        errors.Aborted,
        errors.DataLoss,
    )
}

_HTTP: Mapping[Code, int] = {
    Code.INVALID_ARGUMENT: 422,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.FAILED_PRECONDITION: 409,
    Code.UNAUTHENTICATED: 401,
    Code.PERMISSION_DENIED: 403,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.UNAVAILABLE: 503,
    Code.DEADLINE_EXCEEDED: 504,
    Code.UNIMPLEMENTED: 501,
    Code.INTERNAL: 500,
    Code.ABORTED: 409,
    Code.DATA_LOSS: 500,
}

# Reasons for which HTTP has a more specific status than their code.
_HTTP_BY_REASON: Mapping[str, int] = {
    "BUDGET_EXCEEDED": 402,
    "INVALID_JSON": 400,
    "METHOD_NOT_ALLOWED": 405,
    "TOO_LARGE": 413,
    "UNSUPPORTED_FORMAT": 415,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "OVERLOADED": 503,
    "PROVIDER_MISSING": 400,
    "PROVIDER_RATE_LIMITED": 503,
    "STORAGE_FULL": 507,  # as in WebDAV: a retry helps only after space has been freed
}


def to_rpc_status(err: CitewireError) -> Status:
    """Writes an error as `google.rpc.Status` with ErrorInfo, BadRequest and RetryInfo, under 4 KiB.

    Long texts are cut; violations that don't fit are left out, and ErrorInfo's metadata `violations_left_out` counts
    them. (gRPC's metadata has a hard limit, beyond which the call would break instead of failing.)
    """
    status = Status(code=grpc_code(err).value[0], message=_cut(err.message, _MAX_MESSAGE))
    info = error_details_pb2.ErrorInfo(reason=err.reason, domain=DOMAIN)
    for key, value in list(err.metadata.items())[:4]:
        info.metadata[_cut(key, 64)] = _cut(value, _MAX_VALUE)
    retry = error_details_pb2.RetryInfo() if err.retry_after is not None else None
    if retry is not None:
        retry.retry_delay.CopyFrom(_duration(err.retry_after or 0.0))
    shown = _fitting(err.violations, MAX_DETAILS_BYTES - 256 - status.ByteSize() - info.ByteSize())
    if len(shown) < len(err.violations):
        info.metadata["violations_left_out"] = str(len(err.violations) - len(shown))
    status.details.add().Pack(info)
    if shown:
        bad = error_details_pb2.BadRequest()
        for violation in shown:
            bad.field_violations.add(field=violation.field, description=violation.message)
        status.details.add().Pack(bad)
    if retry is not None:
        status.details.add().Pack(retry)
    return status


def from_rpc_error(err: grpc.RpcError) -> CitewireError:
    """Reads an error that a gRPC call raised.

    Without details, or with those of another domain, it returns an error with the same code and a text that is safe to
    show; the original text is only logged.
    """
    code, details, trailing = _parts(err)
    for key, value in trailing:
        if key == DETAILS_KEY and isinstance(value, bytes):
            known = _from_status(value)
            if known is not None:
                return known
    return _without_details(code, details)


def http_status(err: CitewireError) -> int:
    """Returns the HTTP status of an error."""
    return _HTTP_BY_REASON.get(err.reason) or _HTTP.get(err.code, 500)


def grpc_code(err: CitewireError) -> grpc.StatusCode:
    """Returns the gRPC status code of an error."""
    return grpc.StatusCode[err.code.value]


def _cut(text: str, limit: int) -> str:
    raw = text.encode("utf-8", "replace")
    return raw.decode() if len(raw) <= limit else raw[: limit - 3].decode("utf-8", "ignore") + "…"


def _duration(seconds: float) -> Duration:
    whole = int(seconds)
    return Duration(seconds=whole, nanos=int((seconds - whole) * 1e9))


def _fitting(violations: Iterable[FieldViolation], room: int) -> list[FieldViolation]:
    fitting: list[FieldViolation] = []
    for violation in violations:
        short = FieldViolation(_cut(violation.field, 128), _cut(violation.message, _MAX_VALUE))
        room -= len(short.field.encode()) + len(short.message.encode()) + 8
        if room < 0:
            break
        fitting.append(short)
    return fitting


def _parts(err: grpc.RpcError) -> tuple[Code, str, list[tuple[str, str | bytes]]]:
    if not isinstance(err, (grpc.aio.AioRpcError, grpc.Call)):
        return Code.UNKNOWN, "", []
    code = err.code()
    return Code[code.name], err.details() or "", list(err.trailing_metadata() or ())


def _from_status(raw: bytes) -> CitewireError | None:
    status = Status()
    try:
        status.ParseFromString(raw)
    except Exception:  # noqa: BLE001 # protobuf's DecodeError has no stable import
        return None
    info, bad, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    retry_after: float | None = None
    for detail in status.details:
        # Unpack does nothing and returns False if the detail has another type.
        if detail.Unpack(retry):
            retry_after = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
        elif not detail.Unpack(bad):
            detail.Unpack(info)
    cls = _CLASSES.get(_code_of(status.code))
    if info.domain != DOMAIN or cls is None:
        return None
    return cls(
        status.message,
        reason=info.reason,
        violations=[FieldViolation(v.field, v.description) for v in bad.field_violations],
        metadata=dict(info.metadata),
        retry_after=retry_after,
    )


def _code_of(number: int) -> Code:
    for code in grpc.StatusCode:
        if code.value[0] == number:
            return Code[code.name]
    return Code.UNKNOWN


# C-core's description of a peer that disappeared; the code alone would look like a defect.
_GONE = ("RST_STREAM", "Stream removed", "Socket closed", "Connection reset", "GOAWAY")


def _without_details(code: Code, details: str) -> CitewireError:
    looks_like_a_defect = code in (Code.INTERNAL, Code.UNKNOWN)
    if code in (Code.UNAVAILABLE, Code.CANCELLED) or (looks_like_a_defect and any(text in details for text in _GONE)):
        return errors.Unavailable(
            "a service that this call needs can't be reached", reason="SERVICE_UNAVAILABLE", retry_after=1.0
        )
    if code is Code.DEADLINE_EXCEEDED:
        return errors.DeadlineExceeded("the call took longer than its time budget", reason="DEADLINE_EXCEEDED")
    if code is Code.UNIMPLEMENTED:
        return errors.Unimplemented("the service doesn't offer this call", reason="NOT_IMPLEMENTED")
    if code is Code.RESOURCE_EXHAUSTED:
        if "message larger than max" in details:
            return errors.ResourceExhausted("the message is larger than the limit", reason="TOO_LARGE")
        return errors.ResourceExhausted("the service is at its limit", reason="OVERLOADED", retry_after=1.0)
    return errors.Internal("a service failed; the log has the details", reason="INTERNAL")
