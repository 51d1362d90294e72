"""Answers in JSON: valid or refused, never broken; cited value by value."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.converters import generate_from_proto
from citewire_generator.json_schemas import AnswerSchema, NotJsonError, SchemaError
from citewire_generator.model import FinishReason, Usage
from citewire_generator.providers.base import ChatProvider, End
from citewire_generator.providers.extractive import Extractive
from citewire_generator.registry import Registry
from citewire_generator.service import Generator
from citewire_generator.structured import scalars
from citewire_kit.errors import InvalidArgument
from generator_calls import make_passage
from proof_scale import PrintTable, ProofScale
from scripted_chat import ScriptedChat
from strict_schemas import strict_schema, value_of

PASSAGE = make_passage(1, 1, "Revenue grew by 12 % in 2025. It came to 310 million euros. The north sold most.")
GROWTH: dict[str, Any] = {
    "type": "object",
    "properties": {"growth": {"type": "string"}, "million_euros": {"type": "integer"}},
    "required": ["growth", "million_euros"],
    "additionalProperties": False,
}


async def ask(provider: ChatProvider, schema: object, question: str = "How much did revenue grow?") -> list[Any]:
    answer_format = pb.AnswerFormat(
        name="answer", schema_json=json.dumps(schema) if schema else "", strict=bool(schema)
    )
    request = pb.GenerateRequest(question=question, passages=[PASSAGE], format=answer_format)
    history, route = generate_from_proto(request)
    return [event async for event in Generator(Registry([provider])).generate(request, history, route)]


def text_of(events: list[Any]) -> str:
    return "".join(text for event in events if isinstance(event, pb.TextDelta) for text in event.texts)


def pieces(text: str, rng: random.Random) -> list[str]:
    cuts = sorted({0, len(text), *(rng.randrange(len(text) + 1) for _ in range(5))})
    return [text[start:end] for start, end in itertools.pairwise(cuts)]


async def test_generated_schemas_are_followed_and_never_refused(proof: ProofScale, print_table: PrintTable) -> None:
    seed = proof.seed
    frames = ("{}", "```json\n{}\n```", "Here it is:\n{}\nAnything else?", "  {}\n")
    filled = 0
    count = proof.pick(scaled_down=40, full=200)
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        schema = strict_schema(rng)
        value = value_of(rng, schema, schema)
        reply = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 2)))
        frame = rng.choice(frames)
        provider = ScriptedChat(*pieces(frame.replace("{}", reply), rng))
        events = await ask(provider, schema)
        assert json.loads(text_of(events)) == value, (seed, number)
        assert not events[-1].refusal
        answer = text_of(events)
        for event in events:
            if isinstance(event, pb.VerifiedCitation):
                assert event.pointer, (seed, number)
                assert 0 < event.sentence.start < event.sentence.end <= len(answer)
        quoted = await ask(Extractive(), schema)
        assert isinstance(quoted[-1], pb.Completed)
        if quoted[-1].refusal:
            assert text_of(quoted) == ""
        else:
            filled += 1
            AnswerSchema(json.dumps(schema)).read(text_of(quoted))
    print_table(
        f"{count} schemas of the strict subset, seed {seed}",
        ["scripted model: valid", "refused", "extractive: valid", "refused by name", "broken"],
        [[count, 0, filled, count - filled, 0]],
    )


async def test_values_are_cited_at_their_position() -> None:
    reply = {"growth": "Revenue grew by 12 % in 2025.", "million_euros": 310}
    events = await ask(ScriptedChat(json.dumps(reply)), GROWTH)
    cited = {event.pointer: event for event in events if isinstance(event, pb.VerifiedCitation)}
    growth = cited["/growth"]
    assert text_of(events)[growth.sentence.start : growth.sentence.end] == "Revenue grew by 12 % in 2025."
    assert (growth.quote, growth.verdict) == ("Revenue grew by 12 % in 2025.", pb.VERDICT_SUPPORTED)
    assert isinstance(events[-1], pb.Completed)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("I can't say.", "it isn't JSON"),
        ('{"growth": "12 %", "million_euros": "310"}', "/million_euros doesn't follow the schema's `type`"),
        ('{"growth": "12 %"}', "it doesn't follow the schema's `required`"),
        ('{"growth": "12 %", "million_euros": NaN}', "it isn't JSON"),
        ('{"growth": ' * 5000, "it isn't JSON"),
    ],
)
async def test_an_answer_that_does_not_follow_the_schema_is_a_refusal(reply: str, problem: str) -> None:
    events = await ask(ScriptedChat(reply), GROWTH)
    assert text_of(events) == ""
    assert events[-1].refusal == f"The model's answer didn't have the requested form: {problem}."


async def test_a_models_own_refusal_and_a_cut_are_passed_on() -> None:
    refused = await ask(ScriptedChat("I won't.", end=End(FinishReason.REFUSAL, Usage())), GROWTH)
    assert (text_of(refused), refused[-1].refusal) == ("", "I won't.")
    cut = await ask(ScriptedChat('{"growth": "Rev', end=End(FinishReason.LENGTH, Usage())), GROWTH)
    assert (text_of(cut), cut[-1].refusal) == ('{"growth": "Rev', "")
    assert cut[-1].finish_reason == pb.FINISH_REASON_LENGTH


async def test_quotations_fill_what_they_can_and_name_what_they_cannot() -> None:
    allowed = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    schema = {**GROWTH, "properties": {**GROWTH["properties"], "million_euros": allowed}}
    assert "12 %" in json.loads(text_of(await ask(Extractive(), schema)))["growth"]
    any_object = json.loads(text_of(await ask(Extractive(), None)))
    assert "12 %" in any_object["answer"]
    judged = {**GROWTH, "properties": {"good": {"type": "boolean"}}, "required": ["good"]}
    refused = await ask(Extractive(), judged)
    assert "`/good` (boolean)" in refused[-1].refusal


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("{", "isn't JSON: "),
        ("[]", "must be a JSON object"),
        ('{"type": "thing"}', "isn't a JSON schema: #/type"),
        ('{"type": "array"}', "the type of a strict schema must be object"),
        ('{"type": "object", "properties": {}}', "a strict schema's object must have `additionalProperties: false`"),
        (
            '{"type": "object", "properties": {"a": {}}, "additionalProperties": false}',
            "a strict schema's object must list each property in `required`: a isn't",
        ),
        ('{"$ref": "https://example.org/s.json"}', "references must begin with `#`"),
        ('{"$ref": "#/$defs/none"}', "`#/$defs/none` doesn't resolve within the schema"),
        ('{"type": "object", "anyOf": [{"pattern": "(?=a)b"}]}', "#/anyOf/0: the pattern can't be matched in linear"),
        (
            '{"$id": "x", "type": "object", "allOf": [{"$schema": "http://json-schema.org/draft-07/schema#"}]}',
            "`$schema`",
        ),
        ('{"not": ' * 100 + "{}" + "}" * 100, "must be nested at most 60 deep"),
    ],
)
def test_schemas_that_cannot_be_followed_are_named(schema: str, why: str) -> None:
    with pytest.raises(SchemaError) as caught:
        AnswerSchema(schema, strict="strict" in why)
    assert why in str(caught.value)
    request = pb.GenerateRequest(question="x", format=pb.AnswerFormat(schema_json=schema, strict="strict" in why))
    with pytest.raises(InvalidArgument) as refused:
        generate_from_proto(request)
    assert refused.value.violations[0].field == "format.schema_json"


def test_schemas_made_to_take_for_ever_are_refused() -> None:
    doubled = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)} | {"a40": {}}
    for schema, why in (
        ({"$defs": doubled, "$ref": "#/$defs/a0"}, "takes too long"),
        ({"$ref": "#"}, "nested too deeply"),
    ):
        with pytest.raises(NotJsonError, match=why):
            AnswerSchema(json.dumps(schema)).read("{}")
    slow = AnswerSchema('{"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}')
    with pytest.raises(NotJsonError, match="/a doesn't follow the schema's `pattern`"):
        slow.read(json.dumps({"a": "a" * 5000 + "!"}))


def test_places_of_values() -> None:
    text = '{"a": [1, {"b/c": "x\\u00e9\\n"}, [], {}], "d": -2.5e3, "e": null, "f": true}'
    assert [(pointer, text[start:end], value) for pointer, start, end, value in scalars(text)] == [
        ("/a/0", "1", 1),
        ("/a/1/b~1c", "x\\u00e9\\n", "xé\n"),
        ("/d", "-2.5e3", -2500),
    ]
