"""Answers in JSON without a language model: quotations put where a schema asks for text, and numbers that they hold.

Nothing is judged or guessed: a value that would have to be is null or empty where the schema allows that, and otherwise
the answer is a refusal that names the value.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from citewire_generator.json_schemas import MAX_DEPTH, AnswerSchema, NotJsonError, read_schema

MAIN_NAMES: Final = frozenset(
    {"answer", "text", "response", "content", "result", "message", "reply", "quote", "summary", "value", "output"}
)
"""Names of values that are the answer itself."""
_MAX_ASKED: Final = 24
"""Maximum number of values searched for individually, each of which takes as long as an answer."""
_MAX_STEPS: Final = 2_000
"""Maximum number of schemas visited, because nested variants double with each level."""
_NUMBER = re.compile(r"(?<![\w.,-])-?\d{1,15}(?:\.\d{1,9})?(?![\w-]|[.,]\d)")
_DATE = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)")
_WORD_LIMITS = re.compile(r"(?<=[a-z])(?=[A-Z])|[_\W]+")


@dataclass(frozen=True, slots=True)
class Quotation:
    """Returns the passages' answer to a question; "" if there is none."""

    text: str


@dataclass(frozen=True, slots=True)
class Filled:
    """An answer in JSON, or why there is none."""

    text: str = ""
    refusal: str = ""


class _UnfillableError(Exception):
    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"`{path or '/'}` ({what})")


def fill(schema_json: str, question: str, ask: Callable[[str], Quotation]) -> Filled:
    """Fills a schema with quotations.

    Args:
        schema_json: The schema; "" for any object.
        question: The question, which the passages can answer.
        ask: Returns the passages' answer to a question.
    """
    schema = read_schema(schema_json)
    root: Mapping[str, Any] = schema.schema if schema_json else {"properties": {"answer": {"type": "string"}}}
    try:
        value = _Filler(schema, question, ask).value(root, "", 0)
        return Filled(schema.read(json.dumps(value, ensure_ascii=False)))
    except _UnfillableError as exc:
        reason = f"the value {exc} can't be taken from a document word for word"
    except _TooLargeError:
        reason = "the schema can be filled in too many ways"
    except NotJsonError as exc:
        reason = f"the documents' answer doesn't fit: {exc}"
    return Filled(
        refusal=f"Without a language model answers are quotations: {reason}. Allow null there, or use a model."
    )


class _TooLargeError(Exception):
    """A schema would take too many steps."""


class _Filler:
    """Fills one schema."""

    def __init__(self, schema: AnswerSchema, question: str, ask: Callable[[str], Quotation]) -> None:
        self._referred = schema.referred
        self._question = question
        self._ask = ask
        self._asked = 0
        self._steps = 0
        self._main = ask(question).text

    def value(self, part: object, path: str, depth: int) -> object:
        """Returns a value for a part of the schema.

        Raises:
            _UnfillableError: There is none without guessing.
            _TooLargeError: It takes more than `_MAX_STEPS`.
        """
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise _TooLargeError
        if depth > MAX_DEPTH:
            raise _UnfillableError(path, "it contains itself")
        if not isinstance(part, Mapping):
            raise _UnfillableError(path, "anything")
        schema = cast("Mapping[str, Any]", part)
        if "$ref" in schema:
            return self.value(self._referred[schema["$ref"]], path, depth + 1)
        if "const" in schema:
            return schema["const"]
        for name in ("anyOf", "oneOf"):
            if name in schema:
                return self._first_of(schema[name], path, depth)
        types = schema.get("type", "object" if "properties" in schema else "string")
        if isinstance(types, list):
            return self._first_of([{**schema, "type": name} for name in cast("list[str]", types)], path, depth)
        if "enum" in schema:
            return self._choice(schema["enum"], schema, path)
        return self._of_type(str(types), schema, path, depth)

    def _of_type(self, kind: str, schema: Mapping[str, Any], path: str, depth: int) -> object:
        if kind == "null":
            return None
        if kind == "object":
            return self._object(schema, path, depth)
        if kind == "array":
            return self._array(schema, path, depth)
        if kind == "string":
            return self._text(schema, path)
        if kind in {"number", "integer"}:
            return self._number(kind, schema, path)
        raise _UnfillableError(path, kind)

    def _first_of(self, variants: Sequence[Any], path: str, depth: int) -> object:
        """The first variant that can be filled, with null as the last resort."""
        failure: _UnfillableError | None = None
        for variant in sorted(variants, key=_is_null):
            try:
                return self.value(variant, path, depth + 1)
            except _UnfillableError as exc:
                failure = failure or exc
        raise failure or _UnfillableError(path, "nothing")

    def _object(self, schema: Mapping[str, Any], path: str, depth: int) -> dict[str, object]:
        required = schema.get("required", ())
        values: dict[str, object] = {}
        for name, part in schema.get("properties", {}).items():
            try:
                values[name] = self.value(part, f"{path}/{name}", depth + 1)
            except _UnfillableError:
                if name in required:
                    raise
        missing = [name for name in required if name not in values]
        if missing:
            raise _UnfillableError(f"{path}/{missing[0]}", "anything")
        return values

    def _array(self, schema: Mapping[str, Any], path: str, depth: int) -> list[object]:
        items: Any = schema.get("items", {})
        named = dict[str, Any]() if isinstance(items, bool) else cast("Mapping[str, Any]", items)
        if named.get("type") == "string" and not {"enum", "const", "pattern", "format"} & named.keys():
            texts = [block for block in self._quotation(schema, path).split("\n\n") if block]
            return [*texts[: int(schema.get("maxItems", len(texts)))]]
        try:
            return [self.value(items, f"{path}/0", depth + 1)]
        except _UnfillableError:
            if schema.get("minItems", 0):
                raise
            return []

    def _text(self, schema: Mapping[str, Any], path: str) -> str:
        text = self._quotation(schema, path)
        if schema.get("format") == "date":
            return _only(_DATE.findall(text), path, "date")
        if "pattern" in schema or "format" in schema:
            raise _UnfillableError(path, "a text of a certain form")
        most = schema.get("maxLength")
        return text if most is None else text[: int(most)]

    def _number(self, kind: str, schema: Mapping[str, Any], path: str) -> float | int:
        number = _only(_NUMBER.findall(self._quotation(schema, path)), path, kind)
        return float(number) if "." in number else int(number)

    def _choice(self, values: Sequence[object], schema: Mapping[str, Any], path: str) -> object:
        if len(values) == 1:
            return values[0]
        text = f" {_words(self._quotation(schema, path)).casefold()} "
        named = [value for value in values if isinstance(value, str) and f" {_words(value).casefold()} " in text]
        if not named and None in values:
            return None
        return _only(named, path, "one of several")

    def _quotation(self, schema: Mapping[str, Any], path: str) -> str:
        """The quotation for a value: the answer itself, or the answer to its name and description."""
        names = [name for name in path.split("/") if name and not name.isdigit()]
        if not names or names[-1].casefold() in MAIN_NAMES or self._asked >= _MAX_ASKED:
            return self._main
        self._asked += 1
        label = " ".join((_words(names[-1]), str(schema.get("description", ""))[:200])).strip()
        return self._ask(f"{label}: {self._question}").text


def _words(text: str) -> str:
    return " ".join(filter(None, _WORD_LIMITS.split(text)))


def _is_null(variant: object) -> bool:
    return isinstance(variant, Mapping) and cast("Mapping[str, Any]", variant).get("type") == "null"


def _only(values: Sequence[str], path: str, what: str) -> str:
    """The value, if there is exactly one."""
    different = set(values)
    if len(different) != 1:
        raise _UnfillableError(path, what)
    return values[0]
