"""The client's exceptions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldError:
    """A field that the gateway refused: its name, and what would be right."""

    field: str
    message: str


class CitewireError(Exception):
    """Whatever goes wrong between a program and its gateway."""


class ConnectionFailedError(CitewireError):
    """No answer came: the gateway can't be reached, or the connection broke."""


class TimedOutError(ConnectionFailedError):
    """Nothing came for longer than the timeout allows."""


class InvalidResponseError(CitewireError):
    """The answer isn't one of Citewire's: another server, or a gateway in between."""


class UploadStuckError(CitewireError):
    """A document wasn't ready in the time that it was given; it may be later."""


class DocumentFailedError(CitewireError):
    """A document couldn't be read; the message says why."""


class StreamError(CitewireError):
    """A stream that didn't come to its end."""


class StreamCutError(StreamError):
    """It ended without its last event: what came of it isn't whole."""


class ChatFailedError(StreamError):
    """The gateway said in the stream that the answer failed."""

    def __init__(self, message: str, *, reason: str = "", retryable: bool = False) -> None:
        """`retryable`: the same request may be sent again at once."""
        super().__init__(message)
        self.reason = reason
        """`RUN_LOST`, `RUN_CANCELLED` or ""."""
        self.retryable = retryable


class ApiError(CitewireError):
    """The gateway refused a request, or failed."""

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
        """A stable code in upper case, for programs; "" if the answer had none."""
        self.errors = errors
        """Fields that were refused."""
        self.request_id = request_id
        """The gateway's id of the request, for its logs."""
        self.retry_after = retry_after
        """Seconds to wait before another try makes sense; None: the answer didn't say."""


class InvalidRequestError(ApiError):
    """400, 413, 415 or 422: the request has to change."""


class AuthenticationError(ApiError):
    """401: the key or token is missing, unknown or expired."""


class BudgetExceededError(ApiError):
    """402: a budget is spent."""


class PermissionDeniedError(ApiError):
    """403: the caller's role or key doesn't allow it."""


class NotFoundError(ApiError):
    """404 or 410: there is none that the caller may see."""


class ConflictError(ApiError):
    """409: it conflicts with the present state."""


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
    """The class of an unsuccessful status."""
    return _BY_STATUS.get(status) or (UnavailableError if status >= 500 else InvalidRequestError)
