"""Errors as RFC 9457 `application/problem+json`, and nothing else: no page, no stack trace, no driver's text."""

import math
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from citewire_http.api.schemas import FieldError, Problem
from citewire_kit.audit import fail
from citewire_kit.errors import CitewireError, Code, FieldViolation, Internal, InvalidArgument, NotFound, Unimplemented
from citewire_kit.status import http_status
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import current_request_id

log = get_logger(__name__)

TYPE_BASE = "https://citewire.dev/errors/"
MEDIA_TYPE = "application/problem+json"

_TITLES: Mapping[int, str] = {
    400: "The request could not be read",
    401: "An API key is needed",
    402: "A budget is used up",
    403: "This is not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "This conflicts with the current state",
    413: "The body is too large",
    415: "Unsupported media type",
    422: "The request is not valid",
    429: "Too many requests",
    500: "Something went wrong on our side",
    501: "Not available yet",
    503: "Temporarily unavailable",
    504: "This took too long",
    507: "The storage is full",
}


_TITLES_BY_REASON: Mapping[str, str] = {"PROVIDER_MISSING": "A model provider is missing"}


def problem_json(error: CitewireError) -> dict[str, Any]:
    """Returns an error as the members of a problem document."""
    status = http_status(error)
    missing = {"types": error.metadata["types"].split(",")} if error.reason == "PROVIDER_MISSING" else {}
    budget = _budget_of(error) if error.reason == "BUDGET_EXCEEDED" else {}
    at_fault: dict[str, Any] = {}
    if error.reason.startswith("PROVIDER_") and error.metadata.keys() >= {"provider", "model"}:
        at_fault = {name: error.metadata[name] for name in ("provider", "model")}
    scope: dict[str, Any] = {"scope": error.metadata["scope"]} if error.reason == "SCOPE_MISSING" else {}
    problem = Problem(
        type=TYPE_BASE + error.reason.lower().replace("_", "-"),
        title=_TITLES_BY_REASON.get(error.reason) or _TITLES.get(status, HTTPStatus(status).phrase),
        status=status,
        detail=error.message,
        reason=error.reason,
        errors=[FieldError(field=violation.field, message=violation.message) for violation in error.violations],
        request_id=current_request_id(),
        **missing,
        **budget,
        **_limit_of(error),
        **at_fault,
        **scope,
    )
    return problem.members()


def problem_response(error: CitewireError, extra: Mapping[str, Any] | None = None) -> Response:
    """Returns an error as a response, with `Retry-After` and `WWW-Authenticate` where they belong."""
    fail(error.reason)
    status = http_status(error)
    headers: dict[str, str] = {}
    if status in (429, 503) or error.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after or 1)))
    if status == 401:
        headers["WWW-Authenticate"] = _challenge(error)
    if "ratelimit" in error.metadata:
        headers["RateLimit-Policy"] = error.metadata["ratelimit_policy"]
        headers["RateLimit"] = error.metadata["ratelimit"]
    if "allow" in error.metadata:
        headers["Allow"] = error.metadata["allow"]
    return JSONResponse(problem_json(error) | dict(extra or {}), status, headers, media_type=MEDIA_TYPE)


def _budget_of(error: CitewireError) -> dict[str, Any]:
    """The budget that is used up, what is left of it, and when it resets."""
    shown: dict[str, Any] = {name: error.metadata[name] for name in ("budget", "resets_at") if name in error.metadata}
    amounts = {name: error.metadata[name] for name in ("limit_usd", "left_usd") if name in error.metadata}
    return shown | {name: float(amount) for name, amount in amounts.items()}


_LIMIT_NUMBERS = ("quota", "window_seconds", "used", "size_bytes")


def _limit_of(error: CitewireError) -> dict[str, Any]:
    """The limit that is reached, and its value."""
    if error.reason not in ("RATE_LIMITED", "STORAGE_FULL"):
        return {}
    numbers = {name: int(error.metadata[name]) for name in _LIMIT_NUMBERS if name in error.metadata}
    return {"limit": error.metadata["limit"], **numbers} if "limit" in error.metadata else {}


Extra = Callable[[Request, CitewireError], Mapping[str, Any]]
"""Additional members of an error's document."""


def install(app: FastAPI, extra: Extra) -> None:
    """Turns all errors of the application's routes into problem documents."""

    async def citewire_error(request: Request, exc: Exception) -> Response:
        if not isinstance(exc, CitewireError):
            raise exc
        if exc.code in (Code.INTERNAL, Code.DATA_LOSS):
            log.error("request_failed", reason=exc.reason, error=exc.message, exc_info=exc.__cause__)
        return problem_response(exc, extra(request, exc))

    async def http_exception(request: Request, exc: Exception) -> Response:
        if not isinstance(exc, HTTPException):
            raise exc
        error = _error_of(request, exc)
        return problem_response(error, extra(request, error))

    app.add_exception_handler(CitewireError, citewire_error)
    app.add_exception_handler(HTTPException, http_exception)
    app.add_exception_handler(Exception, _defect)
    app.add_exception_handler(RequestValidationError, _invalid_parameters)


async def _invalid_parameters(_request: Request, exc: Exception) -> Response:
    """Parameters that FastAPI rejected."""
    if not isinstance(exc, RequestValidationError):
        raise exc
    violations = [
        FieldViolation(str(error["loc"][-1]), str(error["msg"]).removeprefix("Value error, ")) for error in exc.errors()
    ]
    error = InvalidArgument(
        f"{violations[0].field}: {violations[0].message}", reason="INVALID_FIELD", violations=violations
    )
    return problem_response(error)


async def _defect(_request: Request, exc: Exception) -> Response:
    log.error("request_failed", exc_info=exc)
    return problem_response(Internal("something went wrong on our side; the log has the details", reason="INTERNAL"))


def _error_of(request: Request, exc: HTTPException) -> CitewireError:
    """Errors of the framework itself: unknown addresses and methods."""
    match exc.status_code:
        case 404:
            return NotFound(f"there is nothing at {request.url.path}", reason="ROUTE_NOT_FOUND")
        case 405:
            allow = (exc.headers or {}).get("allow") or (exc.headers or {}).get("Allow", "")
            return Unimplemented(
                f"{request.url.path} doesn't take {request.method}",
                reason="METHOD_NOT_ALLOWED",
                metadata={"allow": allow} if allow else None,
            )
        case status if status < 500:
            return InvalidArgument("the request could not be read", reason="INVALID_JSON")
        case _:
            return Internal("something went wrong on our side; the log has the details", reason="INTERNAL")


def _challenge(error: CitewireError) -> str:
    if error.reason == "API_KEY_MISSING":
        return 'Bearer realm="citewire"'
    return 'Bearer realm="citewire", error="invalid_token"'
