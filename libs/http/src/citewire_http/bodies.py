"""JSON bodies: read under a limit, checked as text, then validated; each error names its field."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Generic, NoReturn, TypeVar, cast

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from citewire_kit.errors import FieldViolation, InvalidArgument, ResourceExhausted
from citewire_kit.nesting import is_deeper

M = TypeVar("M", bound=BaseModel)

_MAX_VIOLATIONS = 20
_MAX_DIGITS = 300
MAX_NESTING = 200
"""Maximum nesting of objects and lists in a body; the JSON writer allows 255."""


class JsonBody(Generic[M]):
    """A dependency that returns the request's body as a `model`.

    FastAPI's own body parameters are read before any dependency runs, so a caller without a key would get errors about
    the body first; this one is read in the order of the dependencies, after authentication.
    """

    def __init__(self, model: type[M]) -> None:
        self.model = model

    async def __call__(self, request: Request) -> M:
        """Reads the body.

        Raises:
            InvalidArgument: It isn't JSON (reason `INVALID_JSON`, 400), or a field is wrong (`INVALID_FIELD`, 422).
            ResourceExhausted: It is larger than the limit (`TOO_LARGE`, 413).
        """
        require_json(request)
        return validate(self.model, parse_json(await request.body()))


def require_json(request: Request) -> None:
    """Rejects a body of another media type (reason `UNSUPPORTED_MEDIA_TYPE`, HTTP 415)."""
    media_type = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise unsupported_media_type(media_type, "application/json")


def unsupported_media_type(given: str, expected: str) -> InvalidArgument:
    """Returns the error for a body of the wrong media type."""
    return InvalidArgument(
        f"the body's media type is {given[:100] or 'missing'}; send {expected} (in Content-Type)",
        reason="UNSUPPORTED_MEDIA_TYPE",
    )


def parse_json(raw: bytes) -> object:
    """Parses a body as JSON: UTF-8, one value, no NaN or infinity."""
    if not raw:
        raise _invalid_json("the body is empty; it must be JSON")
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_no_constant, parse_float=_finite, parse_int=_exact)
    except json.JSONDecodeError as exc:
        raise _invalid_json(f"the body isn't JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}") from exc
    except UnicodeDecodeError as exc:
        raise _invalid_json(f"the body isn't UTF-8, at byte {exc.start}") from exc
    except RecursionError as exc:
        raise _invalid_json("the body is nested too deeply") from exc
    except ValueError as exc:  # NaN, or a number beyond a double's range
        raise _invalid_json("the body contains a number that JSON or this server doesn't allow") from exc


def validate(model: type[M], value: object) -> M:
    """Validates a parsed body.

    Raises:
        InvalidArgument: With one violation per wrong field.
    """
    _check_text(value)
    try:
        return model.model_validate(value)
    except ValidationError as exc:
        errors = exc.errors(include_url=False, include_context=False, include_input=False)
        raise_violations(_violations(errors[: 4 * _MAX_VIOLATIONS], value)[:_MAX_VIOLATIONS])


def raise_violations(violations: Sequence[FieldViolation]) -> NoReturn:
    """Raises the violations of a request; the detail describes the first one."""
    first = violations[0]
    more = f", and {len(violations) - 1} more" if len(violations) > 1 else ""
    raise InvalidArgument(f"{first.field}: {first.message}{more}", reason="INVALID_FIELD", violations=violations)


def too_large(limit: int, what: str = "the body") -> ResourceExhausted:
    """Returns the error for a body beyond `limit` bytes."""
    return ResourceExhausted(
        f"{what} is larger than {_size(limit)}", reason="TOO_LARGE", metadata={"limit_bytes": str(limit)}
    )


def unstorable(text: str) -> str | None:
    """Returns why a text is unusable, or None. Databases, models and UTF-8 don't support these characters."""
    if "\x00" in text:
        return "must not contain a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "must not contain half of a surrogate pair"
    return None


def _check_text(value: object) -> None:
    """Checks all texts in a body, at any depth."""
    violations: list[FieldViolation] = []
    if is_deeper(value, MAX_NESTING):
        raise _invalid_json(f"the body is nested too deeply: at most {MAX_NESTING} levels are allowed")
    rest: list[tuple[str, object]] = [("", value)]
    while rest and len(violations) < _MAX_VIOLATIONS:
        at, node = rest.pop()
        if isinstance(node, str):
            if (wrong := unstorable(node)) is not None:
                violations.append(FieldViolation(at or "body", wrong))
        elif isinstance(node, Mapping):
            for key, member in cast("Mapping[str, object]", node).items():
                if unstorable(key) is not None:
                    violations.append(FieldViolation(at or "body", "has a name with a character that isn't allowed"))
                else:
                    rest.append((f"{at}.{key[:64]}" if at else key[:64], member))
        elif isinstance(node, Sequence):
            members = cast("Sequence[object]", node)
            rest.extend((f"{at}.{number}" if at else str(number), member) for number, member in enumerate(members))
    if violations:
        raise_violations(violations)


def _violations(errors: Sequence[ErrorDetails], body: object) -> list[FieldViolation]:
    """One violation per field. If a value may have several types, pydantic reports an error for each."""
    messages: dict[str, list[str]] = {}
    for error in errors:
        messages.setdefault(_field(error, body), []).append(_message(error))
    return [
        FieldViolation(field, "; or: ".join(dict.fromkeys(each)))
        for field, each in messages.items()
        if not any(other.startswith(f"{field}.") for other in messages)  # which is more specific
    ]


def _field(error: ErrorDetails, body: object) -> str:
    """The path of a field in the body. Pydantic's path includes names of types, if there are several."""
    path, value = list[str](), body
    for number, part in enumerate(error["loc"]):
        last = number == len(error["loc"]) - 1
        if isinstance(value, Mapping) and (number == 0 or part in value or (last and error["type"] == "missing")):
            value = cast("Mapping[object, object]", value).get(part)
        elif isinstance(value, list) and isinstance(part, int):
            value = cast("list[object]", value)[part]
        else:
            continue
        path.append(str(part))
    return ".".join(path) or "body"


def _message(error: ErrorDetails) -> str:
    if error["type"] == "missing":
        return "is required"
    if error["type"] == "extra_forbidden":
        return "is not a field of this request"
    return error["msg"].removeprefix("Value error, ")


def _invalid_json(message: str) -> InvalidArgument:
    return InvalidArgument(message, reason="INVALID_JSON")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(digits)
    return number


def _exact(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(digits)
    return int(digits)


def _size(limit: int) -> str:
    mib = 1024 * 1024
    return f"{limit // mib} MiB" if limit % mib == 0 else f"{limit} bytes"
