"""Ids, keys, titles, filters, steps, JSON bodies, replayed answers."""

from __future__ import annotations

import json
import time
import uuid

import pytest
from citewire.common.v1 import place_pb2
from citewire.generator.v1 import generator_pb2
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from citewire_accounts.tenants.identity import hash_key, is_key, make_key
from citewire_dialects.events import (
    Citation,
    Citations,
    ConversationCreated,
    Done,
    Event,
    Outcome,
    Step,
    Tokens,
    UncitedSentence,
    Usage,
    VerifiedCitation,
)
from citewire_dialects.filters import parse_filter
from citewire_dialects.profile import Suggest
from citewire_dialects.run_codec import EVENT_CODEC
from citewire_dialects.schemas.openai import CompletionRequest
from citewire_gateway.chat.run import add_usage
from citewire_gateway.chat.steps import finish_step, no_match_answer, suggestions_text, truncated_step
from citewire_gateway.chat.store import title_of
from citewire_gateway.profiles.builtin import DOCUMENTS
from citewire_http.api.schemas import RequestModel
from citewire_http.bodies import parse_json, unstorable, validate
from citewire_http.idempotency import hash_body, hash_json
from citewire_kit.errors import InvalidArgument
from citewire_kit.ids import uuid7
from gateway_fakes import result
from pipeline_harness import usage


def test_ids_are_uuids_of_version_7_in_the_order_of_time() -> None:
    before = time.time_ns() // 1_000_000
    ids = [uuid7() for _ in range(100)]
    after = time.time_ns() // 1_000_000
    assert len(set(ids)) == 100
    for entry in ids:
        assert (entry.version, entry.variant) == (7, uuid.RFC_4122)
        assert before <= entry.int >> 80 <= after


def test_keys_are_random_and_recognisable() -> None:
    keys = [make_key() for _ in range(50)]
    assert len({key.text for key in keys}) == len({key.key_id for key in keys}) == 50
    for key in keys:
        assert is_key(key.text)
        assert key.prefix == key.text[:11]
        assert len(key.hash) == 32
        assert key.hash == hash_key(key.text)
        assert key.text not in repr(key)


@pytest.mark.parametrize("text", ["", "cw_", "cw_short", "xx_" + "a" * 43, "cw_" + "a" * 44, "cw_" + "ü" * 43])
def test_malformed_keys_are_recognised(text: str) -> None:
    assert not is_key(text)


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("What?", "What?"),
        ("  a \n\t b  ", "a b"),
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 79 + "…"),
        ("word " * 30, "word " * 14 + "word…"),
        ("w" * 50 + " " + "x" * 50, "w" * 50 + "…"),
    ],
)
def test_a_title_is_one_line_cut_at_the_end_of_a_word(question: str, title: str) -> None:
    assert title_of(question) == title
    assert len(title) <= 80


def test_a_filter_is_read() -> None:
    condition = {
        "all": [
            {"field": "tags", "op": "contains", "value": "x"},
            {"any": [{"field": "metadata.a.b", "op": "in", "value": [1, "x", True, 2.5]}]},
            {"not": {"field": "url", "op": "exists"}},
        ]
    }
    tags = {"field": "tags", "op": "OPERATOR_CONTAINS", "value": "x"}
    nested = {"field": "metadata.a.b", "op": "OPERATOR_IN", "value": [1, "x", True, 2.5]}
    url = {"field": "url", "op": "OPERATOR_EXISTS", "value": True}
    assert json_format.MessageToDict(parse_filter(condition)) == {
        "all": {
            "filters": [
                {"comparison": tags},
                {"any": {"filters": [{"comparison": nested}]}},
                {"not": {"comparison": url}},
            ]
        }
    }


def nested(levels: int) -> object:
    condition: object = {"field": "tags", "op": "eq", "value": "x"}
    for _ in range(levels - 1):
        condition = {"not": condition}
    return condition


def test_a_filter_may_be_as_deep_and_wide_as_the_grammar_allows() -> None:
    parse_filter(nested(8))
    parse_filter({"all": [nested(1)] * 99})


NO_FILTERS: list[tuple[object, str]] = [
    ([], "filter"),
    ("x", "filter"),
    ({}, "filter"),
    ({"all": [], "any": []}, "filter"),
    ({"some": []}, "filter"),
    ({"all": {}}, "filter.all"),
    ({"all": "x"}, "filter.all"),
    ({"all": [1]}, "filter.all.0"),
    ({"not": []}, "filter.not"),
    ({"field": "tags"}, "filter.op"),
    ({"field": "nonsense", "op": "eq", "value": 1}, "filter.field"),
    ({"field": "metadata.", "op": "eq", "value": 1}, "filter.field"),
    ({"field": "metadata.a..b", "op": "eq", "value": 1}, "filter.field"),
    ({"field": 7, "op": "eq", "value": 1}, "filter.field"),
    ({"field": "tags", "op": "like", "value": 1}, "filter.op"),
    ({"field": "tags", "op": "eq"}, "filter.value"),
    ({"field": "tags", "op": "eq", "value": None}, "filter.value"),
    ({"field": "tags", "op": "eq", "value": {}}, "filter.value"),
    ({"field": "tags", "op": "in", "value": "x"}, "filter.value"),
    ({"field": "tags", "op": "in", "value": [[]]}, "filter.value.0"),
    ({"field": "tags", "op": "in", "value": [1] * 1001}, "filter.value"),
    ({"field": "tags", "op": "exists", "value": 1}, "filter.value"),
    ({"field": "tags", "op": "eq", "value": 1, "more": 1}, "filter"),
    (nested(9), "filter" + ".not" * 8),
    ({"all": [nested(1)] * 100}, "filter"),
]


@pytest.mark.parametrize(("condition", "at"), NO_FILTERS)
def test_an_invalid_filter_names_the_wrong_part(condition: object, at: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        parse_filter(condition)
    assert raised.value.reason == "INVALID_FILTER"
    assert raised.value.violations[0].field == at


SUGGEST = Suggest(minimum=2, count=3, heading="You could ask instead:")


@pytest.mark.parametrize(
    ("given", "questions", "answer", "text"),
    [
        (0, ["A?", "B?", "C?", "D?"], "", "\n\nYou could ask instead:\n- A?\n- B?\n- C?"),
        (0, ["A?", "A?"], "", "\n\nYou could ask instead:\n- A?"),
        (1, ["A?", "B?", "C?"], "- a?", "\n- B?\n- C?"),
        (0, [], "", ""),
        (1, ["A?"], "- A?", ""),
    ],
)
def test_suggestions_continue_where_the_answer_stopped(
    given: int, questions: list[str], answer: str, text: str
) -> None:
    assert suggestions_text(SUGGEST, given, questions, answer) == text


def test_the_no_match_answer_begins_with_the_exact_sentence() -> None:
    assert DOCUMENTS.no_match is not None
    answer = no_match_answer(DOCUMENTS.no_match, 0, empty_library=False)
    assert answer.startswith(f"{DOCUMENTS.no_match.sentence}\n\n- ")
    assert "can't be searched" not in answer
    waiting = no_match_answer(DOCUMENTS.no_match, 2, empty_library=False)
    assert "2 of the selected documents that can't be searched" in waiting


def test_the_no_match_answer_of_an_empty_library_says_how_to_fill_it() -> None:
    assert DOCUMENTS.no_match is not None
    sentence, _, suggestions = no_match_answer(DOCUMENTS.no_match, 0, empty_library=True).partition("\n\n")
    assert sentence == DOCUMENTS.no_match.sentence
    assert "POST /v1/documents" in suggestions
    assert "citewire ingest" in suggestions
    assert "selected" not in suggestions


def test_steps_say_what_happened() -> None:
    assert "900 tokens" in truncated_step(900).text
    assert finish_step("stop") is None
    assert finish_step("length") == Step("finish", "The answer was cut at the model's length limit.", reason="length")


def test_usage_adds_up_and_stays_an_estimate() -> None:
    total = usage(1, 2)
    add_usage(total, usage(3, 4, estimated=True))
    assert total == usage(4, 6, estimated=True)


@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
                    lambda children: st.lists(children) | st.dictionaries(st.text(), children)))  # fmt: skip
def test_json_is_read_as_it_was_written(value: object) -> None:
    assert parse_json(json.dumps(value).encode()) == value


def test_the_same_json_has_the_same_digest_whatever_its_order() -> None:
    assert hash_json({"a": 1, "b": [1, 2]}) == hash_json({"b": [1, 2], "a": 1})
    assert hash_json({"a": 1, "b": [1, 2]}) != hash_json({"a": 1, "b": [2, 1]})


def test_a_bodys_hash_stays_when_the_body_gets_another_field() -> None:
    class Body(RequestModel):
        url: str
        tags: list[str] = Field(default_factory=list[str])

    class Later(Body):
        department: str = "none"

    sent = {"url": "https://example.org", "tags": ["a"]}
    assert hash_body(Body.model_validate(sent)) == hash_body(Later.model_validate(sent))
    assert hash_body(Later.model_validate(sent)) != hash_body(Later.model_validate({**sent, "department": "hr"}))


@pytest.mark.parametrize(("text", "usable"), [("ü🙂\n", True), ("\x00", False), ("\ud800", False)])
def test_texts_that_cannot_be_stored_are_recognised(text: str, usable: bool) -> None:
    assert (unstorable(text) is None) is usable


def test_a_stored_answer_is_replayed_unchanged() -> None:
    cited = result(1, section="A", place=place_pb2.Place(page=3))
    sentence = generator_pb2.AnswerSpan(start=0, end=7)
    verified = generator_pb2.VerifiedCitation(
        sentence=sentence, number=1, quote="ev", quote_start=1, quote_end=3, support=0.5, mismatches=["1999"]
    )
    step = Step("name", "text", counts={"items": 1})
    events: list[Event] = [
        ConversationCreated("c"),
        step,
        Citations((Citation(1, cited),)),
        Tokens(("one", " two")),
        Tokens((" \x00three",)),
        VerifiedCitation(verified, cited.chunk),
        UncitedSentence(generator_pb2.AnswerSpan(start=7, end=13)),
        Usage(1, 2, 3),
        Done(Outcome("c", "e", "documents", "fake", "fake-1", "stop", False, (1,), (step,))),
    ]
    stored = json.loads(json.dumps(EVENT_CODEC.dump(events)))
    assert list(EVENT_CODEC.load(stored)) == [*events[:3], Tokens(["one", " two", " \ufffdthree"]), *events[5:]]


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"stop": 5}, "stop", "Input should be a valid string; or: Input should be a valid list"),
        ({"stop": ["a", 5]}, "stop.1", "Input should be a valid string"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content.0", "text is required"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content", "Input should be a valid string"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.function", "is required"),
        ({"tool_choice": "some"}, "tool_choice", "Input should be 'none', 'auto' or 'required'"),
    ],
)
def test_a_wrong_field_is_named_once_as_in_the_body(changes: dict[str, object], field: str, message: str) -> None:
    body = {"model": "grounded", "messages": [{"role": "user", "content": "Why?"}], **changes}
    with pytest.raises(InvalidArgument) as caught:
        validate(CompletionRequest, body)
    assert len(caught.value.violations) == 1
    assert (caught.value.violations[0].field, message in caught.value.violations[0].message) == (field, True)
