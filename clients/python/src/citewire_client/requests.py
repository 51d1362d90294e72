"""What is the same for both clients: requests, when they may be sent again, and what an unsuccessful answer means."""

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
"""A server that asks for more is not waited for."""
_MANY_CHARACTERS: Final = 500

FilePart: TypeAlias = tuple[str, IO[bytes], str]
"""A file of a form: name, open file, media type."""


class NotGiven(Enum):
    """Tells a field that isn't sent from one that is null."""

    NOT_GIVEN = "NOT_GIVEN"


NOT_GIVEN: Final[Literal[NotGiven.NOT_GIVEN]] = NotGiven.NOT_GIVEN
_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the API."""

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    json: Any = None
    form: Mapping[str, str] | None = None
    file: FilePart | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    repeatable: bool = True
    """Whether it may be sent again when it isn't known what became of it."""


def path_of(template: str, *values: object) -> str:
    """A path with its parameters, each quoted: no value can reach another path.

    Raises:
        ValueError: A value is empty, or a dot or two, which clients and proxies resolve.
    """
    texts = [str(value) for value in values]
    for text in texts:
        if text in {"", ".", ".."}:
            raise ValueError(f"{text!r} can't be part of a path")
    return template.format(*(quote(text, safe="") for text in texts))


def given(**members: object) -> dict[str, Any]:
    """The members that were given, as JSON takes them; `from_` stands for `from`, which is a word of Python's."""
    return _ANYTHING.dump_python(
        {name.removesuffix("_"): value for name, value in members.items() if value is not NOT_GIVEN},
        mode="json",
        exclude_unset=True,
        by_alias=True,
    )


def query(**params: object) -> dict[str, Any]:
    """Query parameters that were given; none is sent for None."""
    return {name: value for name, value in given(**params).items() if value is not None}


def form_fields(**members: object) -> dict[str, str]:
    """Members of a form that were given: texts as they are, all else as JSON."""
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in given(**members).items()
        if value is not None
    }


def read_model(model: type[M], content: bytes) -> M:
    """An answer's body.

    Raises:
        InvalidResponseError: It isn't one.
    """
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        places = ", ".join(".".join(map(str, place["loc"])) or "body" for place in error.errors()[:5])
        raise InvalidResponseError(
            f"the answer isn't a {model.__name__} of Citewire's API (see {places}): is the address right?"
        ) from None


def error_of(status: int, headers: Mapping[str, str], content: bytes) -> ApiError:
    """The error that an unsuccessful answer stands for; `application/problem+json` (RFC 9457) says most."""
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
    """Seconds to wait before a try after the first; None: it isn't worth one.

    Args:
        attempt: Tries so far.
        error: What the gateway answered; None: nothing came.
    """
    if error is not None:
        if error.status not in _RETRIED:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= _LONGEST_WAIT else None
    # Full jitter: clients that failed together don't come back together.
    return random.uniform(0, min(_LONGEST_BACKOFF, _BACKOFF_SECONDS * 2**attempt))  # noqa: S311 # no secret


def _field_errors(listed: Iterable[object]) -> Iterable[FieldError]:
    for entry in listed:
        if isinstance(entry, dict):
            members = cast("dict[str, object]", entry)
            yield FieldError(_text(members, "field"), _text(members, "message"))


def _text(body: Mapping[str, object], name: str) -> str:
    value = body.get(name)
    return value if isinstance(value, str) else ""


def idempotent(key: str | None) -> dict[str, str]:
    """The header by which the gateway does a request once, however often it comes; None: a key of its own."""
    return {"Idempotency-Key": key or uuid4().hex}
