"""JSON schemas of answers: whether one can be followed, and whether an answer follows it.

Validated by `jsonschema`, with two of its defaults changed: a reference leads nowhere but into the schema itself, and
patterns are matched by pydantic's engine, in linear time, as schemas and answers are strangers' texts.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from pydantic import ValidationError
from pydantic_core import SchemaError as PatternError
from pydantic_core import SchemaValidator, core_schema

if TYPE_CHECKING:  # it takes a while, and few requests need it
    from jsonschema.protocols import Validator

MAX_DEPTH: Final = 60
"""Of nesting, in schemas and answers; OpenAI takes 10 levels of objects."""
MAX_REFERENCES: Final = 20_000
"""That are followed for one answer."""
_FORMATS: Final = ("date", "email", "ipv4", "ipv6", "uuid")
"""Formats that are checked; any other is what the model makes of it."""
_STEPS: ContextVar[int] = ContextVar("references followed", default=0)
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_SUBSCHEMAS: Final = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_SUBSCHEMA_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SUBSCHEMA_MAPS: Final = ("properties", "$defs", "definitions", "dependentSchemas")


class SchemaError(ValueError):
    """A schema can't be followed; its text says why, and where."""


class NotJsonError(ValueError):
    """An answer doesn't follow its schema; its text says how."""


class AnswerSchema:
    """What an answer in JSON has to follow.

    Args:
        schema_json: The schema, 2020-12; "" for any object.
        strict: Whether each object of the schema must require all its properties and allow no others, as OpenAI has it.

    Raises:
        SchemaError: It is none, or can't be followed.
    """

    def __init__(self, schema_json: str, *, strict: bool = False) -> None:
        self.schema: dict[str, Any] = {"type": "object"}
        if schema_json:
            self.schema = _read_schema(schema_json)
            for path, part in _parts(self.schema, "#", 0):
                _check_part(path, part, strict=strict)
        self._validator = _validator(self.schema)

    def read(self, text: str) -> str:
        """Returns the JSON in a model's answer, in the model's own words: all of it, or what it put around is left out.

        Raises:
            NotJsonError: There is none, or it doesn't follow the schema.
        """
        problem: NotJsonError | None = None
        for candidate in _candidates(text):
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
        _STEPS.set(0)
        try:
            error = next(iter(self._validator.iter_errors(value)), None)
        except RecursionError:
            return "it, or its schema, is nested too deeply"
        if error is None:
            return None
        at = "".join(f"/{part}" for part in error.absolute_path)
        return f"{at or 'it'} doesn't follow the schema's `{error.validator}`"


def _read_schema(text: str) -> dict[str, Any]:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError as InvalidSchema

    try:
        schema = json.loads(text)
        if not isinstance(schema, dict):
            raise SchemaError("must be a JSON object")
        schema = cast("dict[str, Any]", schema)
        for name in ("$schema", "$id"):  # what generators of schemas write at the top, whatever it says
            schema.pop(name, None)
        Draft202012Validator.check_schema(schema)
    except RecursionError:
        raise SchemaError("is nested too deeply") from None
    except InvalidSchema as exc:
        at = "/".join(["#", *map(str, exc.absolute_path)])
        raise SchemaError(f"isn't a JSON schema: {at} doesn't follow `{exc.validator}` of the standard") from None
    except json.JSONDecodeError as exc:
        raise SchemaError(f"isn't JSON: {exc.msg} at character {exc.pos}") from None
    return schema


def _parts(schema: object, path: str, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields all subschemas with their places."""
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
    for name in ("$id", "$schema", "$anchor", "$dynamicRef", "$dynamicAnchor", "patternProperties", "unevaluatedItems"):
        if name in part:
            raise SchemaError(f"{path}: `{name}` isn't supported")
    if not part.get("$ref", "#").startswith("#"):
        raise SchemaError(f"{path}: references must begin with `#`, and point into the schema itself")
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
    missing = [name for name in properties if name not in part.get("required", ())]
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
            f"{path}: the pattern can't be matched in linear time: look-around and back-references aren't taken"
        ) from None


@functools.lru_cache(maxsize=256)
def _matcher(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


def _matches(pattern: str, text: str) -> bool:
    try:
        _matcher(pattern).validate_python(text, strict=True)
    except ValidationError:
        return False
    return True


@functools.cache
def _validator_class() -> type[Validator]:
    from jsonschema import Draft202012Validator, validators

    original = Draft202012Validator.VALIDATORS["$ref"]

    def pattern(validator: Any, regex: str, instance: object, schema: object) -> Iterator[object]:  # noqa: ANN401 # untyped there
        from jsonschema.exceptions import ValidationError as Fault

        del schema
        if validator.is_type(instance, "string") and not _matches(regex, str(instance)):
            yield Fault("it doesn't match the pattern")

    def reference(validator: Any, regex: str, instance: object, schema: object) -> Iterator[object]:  # noqa: ANN401 # untyped there
        _STEPS.set(_STEPS.get() + 1)
        if _STEPS.get() > MAX_REFERENCES:
            raise RecursionError  # references that double at each level would never come to an end
        yield from original(validator, regex, instance, schema) or ()

    untyped = cast("Any", validators)
    return untyped.extend(Draft202012Validator, {"pattern": pattern, "$ref": reference})


def _validator(schema: dict[str, Any]) -> Validator:
    from jsonschema import FormatChecker
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    registry: Registry[Any] = Registry()
    resolver = registry.with_resource("", DRAFT202012.create_resource(schema)).resolver()
    for path, part in _parts(schema, "#", 0):
        try:
            resolver.lookup(part.get("$ref", "#"))
        except Unresolvable:
            raise SchemaError(f"{path}: `{part['$ref']}` doesn't resolve within the schema") from None
    made: Any = _validator_class()
    return made(schema, registry=registry, format_checker=FormatChecker(_FORMATS))


def _candidates(text: str) -> Iterator[str]:
    """Yields what may be the JSON: all of it, what stands in a code fence, what is between the outermost braces."""
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
