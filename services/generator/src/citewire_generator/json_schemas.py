"""JSON schemas of answers: whether one can be followed, and whether an answer follows it.

Validated by `jsonschema`. Schemas and answers are strangers' texts, so some of it is done otherwise: a reference leads
nowhere but to a part of the schema that was looked at, patterns are matched by pydantic's engine in linear time, a
schema's parts are checked one by one, and reading an answer ends after a second of computing.
"""

from __future__ import annotations

import functools
import json
import math
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from pydantic import ValidationError
from pydantic_core import SchemaError as PatternError
from pydantic_core import SchemaValidator, core_schema

if TYPE_CHECKING:  # it takes a while, and few requests need it
    from jsonschema.protocols import Validator

MAX_DEPTH: Final = 60
"""Maximum nesting in schemas and answers; OpenAI allows 10 levels of objects."""
MAX_PARTS: Final = 5_000
"""Maximum schemas in a schema; OpenAI's limit for properties."""
MAX_VARIANTS: Final = 1_000
"""Maximum schemas in one list."""
MAX_SECONDS: Final = 1.0
"""Seconds of CPU time to check a schema, or to validate an answer."""
_MAX_CANDIDATES: Final = 16
"""Maximum candidates for the JSON in an answer."""
_MAX_PLACE: Final = 200
"""Maximum characters of a path in a message."""
_FORMATS: Final = ("date", "email", "ipv4", "ipv6", "uuid")
"""Formats that are validated; others are left to the model."""
_UNTIL: ContextVar[float] = ContextVar("time of this thread until which schemas may be followed", default=math.inf)
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_SUBSCHEMAS: Final = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_SUBSCHEMA_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SUBSCHEMA_MAPS: Final = ("properties", "$defs", "definitions", "dependentSchemas")
_REFUSED: Final = (
    "$id",
    "$schema",
    "$anchor",
    "$dynamicRef",
    "$dynamicAnchor",
    "patternProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_STANDARD: Final = "https://json-schema.org/draft/2020-12/meta/"
_VOCABULARIES: Final = ("core", "applicator", "validation", "meta-data", "format-annotation", "content")


class SchemaError(ValueError):
    """A schema isn't supported; the text says why and where."""


class NotJsonError(ValueError):
    """An answer doesn't follow its schema; the text says how."""


class _TooLongError(Exception):
    """Validation exceeded its time limit."""


@functools.lru_cache(maxsize=16)
def read_schema(schema_json: str, *, strict: bool = False) -> AnswerSchema:
    """Returns a cached schema, because a request needs it several times. See `AnswerSchema`."""
    return AnswerSchema(schema_json, strict=strict)


class AnswerSchema:
    """The schema of an answer in JSON.

    Args:
        schema_json: The schema, 2020-12; "" for any object.
        strict: Whether each object of the schema must require all its properties and allow no others, as with OpenAI.

    Raises:
        SchemaError: It is invalid or not supported.
    """

    def __init__(self, schema_json: str, *, strict: bool = False) -> None:
        _standard()  # its modules take a while to load the first time
        self.schema: Mapping[str, Any] = {"type": "object"}
        parts: list[tuple[str, Mapping[str, Any]]] = []
        with _limited():
            if schema_json:
                self.schema = _load_schema(schema_json)
                try:
                    for path, part in _parts(self.schema, "#", 0):
                        _check_part(path, part, strict=strict)
                        parts.append((path, part))
                        if len(parts) > MAX_PARTS:
                            raise SchemaError(f"must have at most {MAX_PARTS:,} schemas in it")
                except _TooLongError:
                    raise SchemaError("takes too long to read") from None
        self.referred, self._validator = _validator(self.schema, parts)
        """The targets of references."""

    def read(self, text: str) -> str:
        """Returns the JSON in a model's answer verbatim, without any surrounding text.

        Raises:
            NotJsonError: There is none, or it doesn't follow the schema.
        """
        problem: NotJsonError | None = None
        with _limited():
            for candidate in islice(_candidates(text), _MAX_CANDIDATES):
                try:
                    value = _load(candidate)
                except ValueError:
                    continue
                fault = self._fault(value)
                if fault is None:
                    return candidate
                problem = problem or NotJsonError(fault)
        raise problem or NotJsonError("it isn't JSON")

    def _fault(self, value: Any) -> str | None:  # noqa: ANN401 # any value of JSON
        try:
            error = next(iter(self._validator.iter_errors(value)), None)
        except RecursionError:
            return "it, or its schema, is nested too deeply"
        except _TooLongError:
            return "it takes too long to compare it with its schema"
        if error is None:
            return None
        at = "".join(f"/{part}" for part in error.absolute_path)[:_MAX_PLACE]
        return f"{at or 'it'} doesn't follow the schema's `{error.validator}`"


@contextmanager
def _limited() -> Generator[None]:
    """Makes keywords raise `_TooLongError` when the time limit is exceeded."""
    token = _UNTIL.set(time.thread_time() + MAX_SECONDS)
    try:
        yield
    finally:
        _UNTIL.reset(token)


def _check_time() -> None:
    if time.thread_time() > _UNTIL.get():
        raise _TooLongError


def _load_schema(text: str) -> Mapping[str, Any]:
    try:
        schema = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise SchemaError("is nested too deeply") from None
    except json.JSONDecodeError as exc:
        raise SchemaError(f"isn't JSON: {exc.msg} at character {exc.pos}") from None
    except ValueError:
        raise SchemaError("contains a number that JSON or this server doesn't allow") from None
    if not isinstance(schema, dict):
        raise SchemaError("must be a JSON object")
    schema = cast("dict[str, Any]", schema)
    for name in ("$schema", "$id"):  # written at the top by schema generators; any value is allowed
        schema.pop(name, None)
    return schema


def _parts(schema: object, path: str, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields all subschemas with their paths; each is checked before those inside it."""
    if not isinstance(schema, Mapping):
        return
    if depth > MAX_DEPTH:
        raise SchemaError(f"must be nested at most {MAX_DEPTH} deep")
    part = cast("Mapping[str, Any]", schema)
    yield path, part
    for name in _SUBSCHEMAS:
        yield from _parts(part.get(name), f"{path}/{name}", depth + 1)
    for name in _SUBSCHEMA_LISTS:
        for index, inner in enumerate(part.get(name, ())):
            yield from _parts(inner, f"{path}/{name}/{index}", depth + 1)
    for name in _SUBSCHEMA_MAPS:
        for key, inner in part.get(name, {}).items():
            yield from _parts(inner, f"{path}/{name}/{key}", depth + 1)


def _check_part(path: str, part: Mapping[str, Any], *, strict: bool) -> None:
    _check_time()
    error = next(iter(_standard().iter_errors(part)), None)
    if error is not None:
        at = "/".join([path, *map(str, error.absolute_path)])[:_MAX_PLACE]
        raise SchemaError(f"isn't a JSON schema: {at} doesn't follow `{error.validator}` of the standard")
    for name in _REFUSED:
        if name in part:
            raise SchemaError(f"{path}: `{name}` isn't supported")
    if not part.get("$ref", "#").startswith("#"):
        raise SchemaError(f"{path}: references must begin with `#`, and point into the schema itself")
    for name in _SUBSCHEMA_LISTS:
        if len(part.get(name, ())) > MAX_VARIANTS:
            raise SchemaError(f"{path}/{name}: must be at most {MAX_VARIANTS:,}")
    if "pattern" in part:
        _check_pattern(path, part["pattern"])
    if not strict:
        return
    if path == "#" and part.get("type") != "object" and "$ref" not in part:
        raise SchemaError("#: the type of a strict schema must be object; put another inside of one")
    properties = part.get("properties", {})
    if "object" not in _types(part) and not properties:
        return
    if part.get("additionalProperties") is not False:
        raise SchemaError(f"{path}: a strict schema's object must have `additionalProperties: false`")
    required = frozenset(part.get("required", ()))
    missing = [name for name in properties if name not in required]
    if missing:
        raise SchemaError(f"{path}: a strict schema's object must list each property in `required`: {missing[0]} isn't")


def _types(part: Mapping[str, Any]) -> list[str]:
    types = part.get("type", [])
    return [types] if isinstance(types, str) else types


def _check_pattern(path: str, pattern: str) -> None:
    try:
        _matcher(pattern)
    except PatternError:
        raise SchemaError(
            f"{path}: the pattern can't be matched in linear time: look-around and back-references aren't supported"
        ) from None


@functools.lru_cache(maxsize=32)  # each may take megabytes
def _matcher(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


def _matches(pattern: str, text: str) -> bool:
    try:
        _matcher(pattern).validate_python(text, strict=True)
    except ValidationError:
        return False
    return True


@functools.cache
def _validator_class() -> Any:  # noqa: ANN401 # untyped there
    from jsonschema import Draft202012Validator, validators

    own = {"pattern": _pattern, "uniqueItems": _unique_items, "multipleOf": _multiple_of}
    keywords = {**Draft202012Validator.VALIDATORS, **own}
    untyped = cast("Any", validators)
    return untyped.extend(Draft202012Validator, {name: _timed(keyword) for name, keyword in keywords.items()})


def _timed(keyword: Callable[..., Any]) -> Callable[..., Any]:
    def check(validator: object, value: object, instance: object, schema: object) -> Any:  # noqa: ANN401 # untyped there
        _check_time()
        return keyword(validator, value, instance, schema)

    return check


def _pattern(validator: Any, pattern: str, instance: object, schema: object) -> Iterator[Exception]:  # noqa: ANN401 # untyped there
    del schema
    if validator.is_type(instance, "string") and not _matches(pattern, str(instance)):
        yield _fault_of("it doesn't match the pattern")


def _unique_items(validator: Any, unique: object, instance: Any, schema: object) -> Iterator[Exception]:  # noqa: ANN401 # untyped there
    del schema
    items = instance if unique and validator.is_type(instance, "array") else ()
    if len({_hashable(item) for item in items}) < len(items):
        yield _fault_of("it has an item twice")


def _multiple_of(validator: Any, divisor: object, instance: object, schema: object) -> Iterator[Exception]:  # noqa: ANN401 # untyped there
    """Uses decimal digits: 19.99 is a multiple of 0.01, which isn't true for doubles."""
    del schema
    if not validator.is_type(instance, "number"):
        return
    try:
        is_multiple = (Fraction(str(instance)) / Fraction(str(divisor))).denominator == 1
    except ValueError:  # a number beyond a double's range
        is_multiple = False
    if not is_multiple:
        yield _fault_of("it isn't a multiple")


def _fault_of(message: str) -> Exception:
    from jsonschema.exceptions import ValidationError as Fault

    return Fault(message)


def _hashable(value: Any) -> object:  # noqa: ANN401 # any value of JSON
    """Returns a key that is equal only for equal JSON values: numbers by their value, and true isn't 1."""
    if isinstance(value, list):
        return tuple(_hashable(item) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        return frozenset((name, _hashable(member)) for name, member in cast("dict[str, Any]", value).items())
    return (bool, value) if isinstance(value, bool) else value


@functools.cache
def _standard() -> Validator:
    """The standard's rules for one schema; for nested ones, only that they are schemas."""
    from jsonschema_specifications import REGISTRY

    rules: dict[str, dict[str, Any]] = {"properties": {}, "$defs": {}}
    for vocabulary in _VOCABULARIES:
        text = json.dumps(REGISTRY.contents(_STANDARD + vocabulary))
        contents = json.loads(text.replace('{"$dynamicRef": "#meta"}', '{"type": ["object", "boolean"]}'))
        for name, rule in rules.items():
            rule |= contents.get(name, {})
    rules["properties"]["definitions"] = rules["properties"]["$defs"]
    return _validator_class()(rules)


def _validator(
    schema: Mapping[str, Any], parts: list[tuple[str, Mapping[str, Any]]]
) -> tuple[Mapping[str, object], Validator]:
    """Returns the targets of the schema's references, and its validator."""
    from jsonschema import FormatChecker
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    registry: Registry[Any] = Registry()
    resolver = registry.with_resource("", DRAFT202012.create_resource(schema)).resolver()
    referred: dict[str, object] = {}
    known = {id(part) for _, part in parts}
    for path, part in parts:
        reference = part.get("$ref")
        if reference is None:
            continue
        try:
            target = referred[reference] = resolver.lookup(reference).contents
        except (Unresolvable, TypeError, ValueError):  # the last two: an index into a text, or one that isn't a number
            raise SchemaError(f"{path}: `{reference[:_MAX_PLACE]}` doesn't resolve within the schema") from None
        if id(target) not in known and not isinstance(target, bool):
            raise SchemaError(f"{path}: `{reference[:_MAX_PLACE]}` doesn't point to a schema")
    return referred, _validator_class()(schema, registry=registry, format_checker=FormatChecker(_FORMATS))


def _candidates(text: str) -> Iterator[str]:
    """Yields candidates for the JSON: the whole text, the content of a code fence, and of the outermost braces."""
    yield text.strip()
    for fence in _FENCE.finditer(text):
        yield fence[1].strip()
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        yield text[start : end + 1]


def _load(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} isn't JSON")
