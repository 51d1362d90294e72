"""Shared by both clients: requests, the rules for retries, and the errors for unsuccessful responses."""

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import IO, Any, Final, Literal, TypeAlias, TypeVar, cast
from urllib.parse import quote
from uuid import uuid4

from pydantic import BaseModel, TypeAdapter, ValidationError

from citewire_client.connection import retry_after
from citewire_client.errors import ApiError, FieldError, InvalidResponseError, error_class

M = TypeVar("M", bound=BaseModel)

_RETRIED: Final = frozenset({429, 502, 503, 504})
_BACKOFF_SECONDS: Final = 0.5
_LONGEST_BACKOFF: Final = 8.0
_LONGEST_WAIT: Final = 60.0
"""The client doesn't retry if a server asks it to wait longer."""
_MANY_CHARACTERS: Final = 500

FilePart: TypeAlias = tuple[str, IO[bytes], str]
"""A file in a form: name, open file, media type."""


class NotGiven(Enum):
    """Distinguishes a field that isn't sent from one that is null."""

    NOT_GIVEN = "NOT_GIVEN"


NOT_GIVEN: Final[Literal[NotGiven.NOT_GIVEN]] = NotGiven.NOT_GIVEN
_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the API."""

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    json: Any = None
    form: Mapping[str, str] | None = None
    file: FilePart | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    repeatable: bool = True
    """Whether it may be repeated when its outcome is unknown."""


def path_of(template: str, *values: object) -> str:
    """A path with its parameters, each quoted, so that no value can change the path.

    Raises:
        ValueError: A value is empty, or `.` or `..`, which clients and proxies resolve.
    """
    texts = [str(value) for value in values]
    for text in texts:
        if text in {"", ".", ".."}:
            raise ValueError(f"{text!r} can't be part of a path")
    return template.format(*(quote(text, safe="") for text in texts))


def given(**members: object) -> dict[str, Any]:
    """The given members as JSON values; `from_` stands for `from`, which is a keyword in Python."""
    return _ANYTHING.dump_python(
        {name.removesuffix("_"): value for name, value in members.items() if value is not NOT_GIVEN},
        mode="json",
        exclude_unset=True,
        by_alias=True,
    )


def query(**params: object) -> dict[str, Any]:
    """The given query parameters, without those that are None."""
    return {name: value for name, value in given(**params).items() if value is not None}


def form_fields(**members: object) -> dict[str, str]:
    """The given members of a form: texts unchanged, everything else as JSON."""
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in given(**members).items()
        if value is not None
    }


def read_model(model: type[M], content: bytes) -> M:
    """Parses the body of a response.

    Raises:
        InvalidResponseError: The body doesn't match the model.
    """
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        places = ", ".join(".".join(map(str, place["loc"])) or "body" for place in error.errors()[:5])
        raise InvalidResponseError(
            f"the response isn't a {model.__name__} of Citewire's API (see {places}): is the URL correct?"
        ) from None


def error_of(status: int, headers: Mapping[str, str], content: bytes) -> ApiError:
    """The error for an unsuccessful response; `application/problem+json` (RFC 9457) gives the most details."""
    try:
        parsed: object = json.loads(content)
    except (ValueError, RecursionError):
        parsed = None
    body = cast("dict[str, object]", parsed) if isinstance(parsed, dict) else {}
    listed = body.get("errors")
    errors = tuple(_field_errors(cast("list[object]", listed))) if isinstance(listed, list) else ()
    message = _text(body, "detail") or _text(body, "title") or f"the gateway answered HTTP {status}"
    return error_class(status)(
        message[:_MANY_CHARACTERS],
        status=status,
        reason=_text(body, "reason"),
        errors=errors,
        request_id=_text(body, "request_id") or headers.get("x-request-id", ""),
        retry_after=retry_after(headers),
    )


def wait_before(attempt: int, error: ApiError | None) -> float | None:
    """Seconds to wait before a retry; None: don't retry.

    Args:
        attempt: Number of tries so far.
        error: The gateway's error; None: there was no response.
    """
    if error is not None:
        if error.status not in _RETRIED:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= _LONGEST_WAIT else None
    # Full jitter, so that clients that failed together don't retry together.
    return random.uniform(0, min(_LONGEST_BACKOFF, _BACKOFF_SECONDS * 2**attempt))  # noqa: S311 # not a secret


def _field_errors(listed: Iterable[object]) -> Iterable[FieldError]:
    for entry in listed:
        if isinstance(entry, dict):
            members = cast("dict[str, object]", entry)
            yield FieldError(_text(members, "field"), _text(members, "message"))


def _text(body: Mapping[str, object], name: str) -> str:
    value = body.get(name)
    return value if isinstance(value, str) else ""


def idempotent(key: str | None) -> dict[str, str]:
    """The header with which the gateway executes a repeated request only once; None: a generated key."""
    return {"Idempotency-Key": key or uuid4().hex}
