"""The client's exceptions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldError:
    """A field that the gateway rejected: its name and the expected value."""

    field: str
    message: str


class CitewireError(Exception):
    """Any error between a program and its gateway."""


class ConnectionFailedError(CitewireError):
    """There was no response: the gateway can't be reached, or the connection broke."""


class TimedOutError(ConnectionFailedError):
    """No data arrived within the timeout."""


class InvalidResponseError(CitewireError):
    """The response isn't Citewire's: another server, or a proxy in between, sent it."""


class UploadStuckError(CitewireError):
    """A document wasn't ready in the allotted time; it may become ready later."""


class DocumentFailedError(CitewireError):
    """A document couldn't be read; the message says why."""


class StreamError(CitewireError):
    """A stream that ended early."""


class StreamCutError(StreamError):
    """A stream ended without its last event: the data received is incomplete."""


class ChatFailedError(StreamError):
    """The gateway reported in the stream that the answer failed."""

    def __init__(self, message: str, *, reason: str = "", retryable: bool = False) -> None:
        """`retryable`: the same request may be repeated immediately."""
        super().__init__(message)
        self.reason = reason
        """`RUN_LOST`, `RUN_CANCELLED` or ""."""
        self.retryable = retryable


class ApiError(CitewireError):
    """The gateway rejected a request or failed."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        reason: str = "",
        errors: tuple[FieldError, ...] = (),
        request_id: str = "",
        retry_after: float | None = None,
    ) -> None:
        """`message` is for people: the problem's detail, or its title."""
        super().__init__(message)
        self.status = status
        """HTTP status."""
        self.reason = reason
        """A stable code in upper case, for programs; "" if the response had none."""
        self.errors = errors
        """The rejected fields."""
        self.request_id = request_id
        """The gateway's id of the request, for its logs."""
        self.retry_after = retry_after
        """Seconds to wait before retrying; None: the response didn't specify it."""


class InvalidRequestError(ApiError):
    """400, 413, 415 or 422: the request must be changed."""


class AuthenticationError(ApiError):
    """401: the key or token is missing, unknown or expired."""


class BudgetExceededError(ApiError):
    """402: a budget is spent."""


class PermissionDeniedError(ApiError):
    """403: the caller's role or key doesn't allow it."""


class NotFoundError(ApiError):
    """404 or 410: it doesn't exist, or the caller may not see it."""


class ConflictError(ApiError):
    """409: the request conflicts with the present state."""


class RateLimitError(ApiError):
    """429: a limit of the caller's plan is reached."""


class UnavailableError(ApiError):
    """500 and above: the gateway, or a part of it, failed or is full."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: AuthenticationError,
    402: BudgetExceededError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    410: NotFoundError,
    429: RateLimitError,
}


def error_class(status: int) -> type[ApiError]:
    """The error class for an unsuccessful status."""
    return _BY_STATUS.get(status) or (UnavailableError if status >= 500 else InvalidRequestError)
