"""Converts call errors to the client's own."""

from collections.abc import Iterable
from typing import Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

from citewire_client.errors import (
    CitewireError,
    ConnectionFailedError,
    FieldError,
    InvalidResponseError,
    TimedOutError,
    error_class,
)

_DETAILS: Final = "grpc-status-details-bin"
_DOMAIN: Final = "citewire.dev"
_HTTP: Final = {
    grpc.StatusCode.INVALID_ARGUMENT: 422,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
    grpc.StatusCode.UNIMPLEMENTED: 501,
}
_BUDGET: Final = "BUDGET_EXCEEDED"


def error_of(failure: grpc.RpcError, target: str) -> CitewireError:
    """Returns the error for a failed call; `target` is the called service.

    An error from a service has `status` (the HTTP equivalent), `reason`, `errors` (rejected fields) and `retry_after`.
    """
    if not isinstance(failure, grpc.aio.AioRpcError | grpc.Call):
        return InvalidResponseError(f"{target} ended a call without a status")
    code = failure.code()
    for key, value in failure.trailing_metadata() or ():
        if key == _DETAILS and isinstance(value, bytes):
            told = _told(code, value)
            if told is not None:
                return told
    match code:
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return TimedOutError(f"{target} took longer than the call's time limit")
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED:
            return ConnectionFailedError(f"{target} can't be reached, or the connection broke")
        case grpc.StatusCode.UNIMPLEMENTED:
            return error_class(501)(f"{target} doesn't offer this call", status=501, reason="NOT_IMPLEMENTED")
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return error_class(413)("the message is larger than 16 MiB", status=413, reason="TOO_LARGE")
        case _:
            return InvalidResponseError(f"{target} failed in a way that isn't Citewire's ({code.name})")


def _told(code: grpc.StatusCode, raw: bytes) -> CitewireError | None:
    """The error details from one of our services; None if the error comes from elsewhere."""
    status = Status()
    try:
        status.ParseFromString(raw)
    except DecodeError:
        return None
    info, bad, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    unpacked = [[part for part in (info, bad, retry) if detail.Unpack(part)] for detail in status.details]
    if info.domain != _DOMAIN:
        return None
    has_wait = any(part is retry for parts in unpacked for part in parts)
    http = 402 if info.reason == _BUDGET else _HTTP.get(code, 500)
    return error_class(http)(
        status.message,
        status=http,
        reason=info.reason,
        errors=tuple(_fields(bad.field_violations)),
        retry_after=retry.retry_delay.ToTimedelta().total_seconds() if has_wait else None,
    )


def _fields(violations: Iterable[error_details_pb2.BadRequest.FieldViolation]) -> Iterable[FieldError]:
    return [FieldError(violation.field, violation.description) for violation in violations]
