"""Schemas and answers made to take for ever or to break their readers: refused, or read in a bounded time."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator import json_schemas
from citewire_generator.converters import generate_from_proto
from citewire_generator.extraction.filling import Filled, Quotation, fill
from citewire_generator.json_schemas import MAX_PARTS, MAX_VARIANTS, AnswerSchema, NotJsonError, SchemaError
from citewire_generator.registry import Registry
from citewire_generator.service import Generator as Answers
from citewire_generator.structured import MAX_POINTER, scalars
from generator_calls import make_passage
from loop_holds import measured_holds
from machine_speed import slowness
from scripted_chat import ScriptedChat

LIMIT, AT_MOST = 0.25, 1.5
"""Seconds of computing: the limit in these tests, and the most including steps that can't be interrupted."""
BACKTRACKS: dict[str, Any] = {"patternProperties": {"^(a+)+$": {}}}
DOUBLED: dict[str, Any] = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)} | {"a40": {}}
TWICE = {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}


@pytest.fixture(autouse=True)
def little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_schemas, "MAX_SECONDS", LIMIT * slowness())


@contextmanager
def time_limit() -> Generator[None]:
    most, began = AT_MOST * slowness(), time.thread_time()
    yield
    assert time.thread_time() - began < most


REFUSED: list[tuple[Any, str]] = [
    ({"$ref": "#/x", "x": BACKTRACKS}, "#: `#/x` doesn't point to a schema"),
    ({"$ref": "#/properties", "properties": {"pattern": {}}}, "doesn't point to a schema"),
    ({"unevaluatedProperties": BACKTRACKS}, "#: `unevaluatedProperties` isn't supported"),
    ({"properties": {"a": BACKTRACKS}}, "#/properties/a: `patternProperties` isn't supported"),
    ({"$ref": "#/anyOf/first", "anyOf": [{}]}, "`#/anyOf/first` doesn't resolve within the schema"),
    ({"$ref": "#/title/0/x", "title": "abc"}, "`#/title/0/x` doesn't resolve within the schema"),
    ({"$ref": "#/minLength/x", "minLength": 1}, "`#/minLength/x` doesn't resolve within the schema"),
    ({"anyOf": [{}] * (MAX_VARIANTS + 1)}, "#/anyOf: must be at most 1,000"),
    ({"anyOf": [False] * (MAX_VARIANTS + 1)}, "#/anyOf: must be at most 1,000"),
    ({"$defs": {f"d{n}": {} for n in range(MAX_PARTS + 1)}}, "at most 5,000"),
    ({"type": [{f"a{n}": n} for n in range(4_000)]}, "isn't a JSON schema: #/type"),
    ({"properties": {"a": {"type": "thing"}}}, "isn't a JSON schema: #/properties/a/type"),
    ({"properties": {"a": 1}}, "isn't a JSON schema: #/properties/a doesn't follow `type`"),
    ({"definitions": []}, "isn't a JSON schema: #/definitions"),
    ({"anyOf": [{"pattern": rf"\w{{140}}{n}"} for n in range(1_000)]}, "takes too long to read"),
]


@pytest.mark.parametrize(("schema", "why"), REFUSED)
def test_refused(schema: object, why: str) -> None:
    with time_limit(), pytest.raises(SchemaError) as refused:
        AnswerSchema(json.dumps(schema))
    assert why in str(refused.value)


@pytest.mark.parametrize("number", ["NaN", "9" * 5_000])
def test_invalid_numbers_are_refused(number: str) -> None:
    with pytest.raises(SchemaError, match=r"number|isn't JSON"):
        AnswerSchema(f'{{"const": {number}}}')


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ({"items": {"anyOf": [{"const": n} for n in range(900)]}}, json.dumps([*range(20_000)])),
        ({"anyOf": [{"type": "string"}] * 900}, json.dumps([*range(20_000)])),
        ({"$defs": DOUBLED, "$ref": "#/$defs/a0"}, "```json\n{}\n```\n" * 8_000),
        ({"items": {"enum": [*range(9_000)]}}, json.dumps([10_000] * 20_000)),
    ],
)
def test_comparisons_that_take_long_are_given_up(schema: object, answer: str) -> None:
    with time_limit(), pytest.raises(NotJsonError):
        AnswerSchema(json.dumps(schema)).read(answer)


@pytest.mark.parametrize(
    ("schema", "answer", "follows"),
    [
        ({"uniqueItems": True}, json.dumps([{"a": n} for n in range(12_000)]), True),
        ({"uniqueItems": True}, "[1, true, 0, false, null, [1], [true], {}]", True),
        ({"uniqueItems": True}, "[1, 1.0]", False),
        ({"uniqueItems": True}, '[{"a": 1, "b": 2}, {"b": 2, "a": 1.0}]', False),
        ({"uniqueItems": False}, "[1, 1]", True),
        ({"multipleOf": 0.01}, "19.99", True),
        ({"multipleOf": 0.01}, "19.995", False),
        ({"multipleOf": 0.5}, "1" + "0" * 400, True),
        ({"multipleOf": 0.5}, "1e999", False),
        ({"multipleOf": 3}, "9", True),
        ({"pattern": r"^\p{Lu}"}, '"Ärger"', True),
    ],
)
def test_values(schema: object, answer: str, follows: bool) -> None:  # a row of the table
    with time_limit():
        if follows:
            assert AnswerSchema(json.dumps(schema)).read(answer) == answer
        else:
            with pytest.raises(NotJsonError):
                AnswerSchema(json.dumps(schema)).read(answer)


def filled(schema: object) -> Filled:
    return fill(json.dumps(schema), "What?", lambda _: Quotation("It came to 310 million euros."))


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"a": TWICE}, **TWICE},
        {"type": "object", "properties": {name: {"$ref": "#"} for name in "abcd"}},
        {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, "minItems": 1},
    ],
)
def test_quotations_are_given_up_if_the_ways_to_fill_a_schema_double(schema: object) -> None:
    with time_limit():
        assert "can be filled in too many ways" in filled(schema).refusal


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$defs": {"a b": {"type": "integer"}}, "$ref": "#/$defs/a%20b"}, 310),
        ({"type": "array", "items": True}, []),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 1.0}, ["It came to 310 million euros."]),
        ({"type": "string", "maxLength": 7.0}, "It came"),
    ],
)
def test_quotations_fill_whatever_the_standard_accepts(schema: object, value: object) -> None:
    assert json.loads(filled(schema).text or "null") == value, filled(schema)


def test_pointers_of_long_names_are_left_out() -> None:
    text = json.dumps({"n" * 50_000: [*range(10_000)], "a": {"b": [7]}, "x": [[[1]]] * 3})
    pointers = [pointer for pointer, *_ in scalars(text)]
    assert len(pointers) == 10_004
    assert pointers[-4:] == ["/a/b/0", "/x/0/0/0", "/x/1/0/0", "/x/2/0/0"]
    assert sum(map(len, pointers)) < 100
    deep = "[" * 500 + "1" + "]" * 500
    assert [len(pointer) <= MAX_POINTER for pointer, *_ in scalars(deep)] == [True]


async def test_other_tasks_run_while_an_answer_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"items": {"anyOf": [{"const": n} for n in range(900)]}}
    provider = ScriptedChat(json.dumps([*range(8_000)]))
    request = pb.GenerateRequest(
        question="Which?",
        passages=[make_passage(1, 1, "Revenue grew.")],
        format=pb.AnswerFormat(name="answer", schema_json=json.dumps(schema)),
    )
    AnswerSchema(request.format.schema_json)  # loads the library
    history, route = generate_from_proto(request)
    with measured_holds(monkeypatch) as holds:
        events = [event async for event in Answers(Registry([provider])).generate(request, history, route)]
    assert isinstance(events[-1], pb.Completed)
    assert "takes too long" in events[-1].refusal
    assert max(holds) < 100, "milliseconds"
