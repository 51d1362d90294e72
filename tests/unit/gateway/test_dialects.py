"""Frames byte for byte, whatever the text."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from citewire_dialects.events import Citation, Citations, Step, Tokens, Usage
from citewire_dialects.native import NativeDialect
from citewire_dialects.profile import EventType
from citewire_dialects.simple import SimpleDialect
from citewire_gateway.profiles.builtin import DOCUMENTS
from citewire_kit.errors import Unavailable
from gateway_fakes import result

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5)
ERROR = Unavailable("the model provider went away", reason="PROVIDER_UNAVAILABLE")


def data_of(raw: bytes) -> list[object]:
    frames = raw.decode().split("\n\n")
    assert frames[-1] == ""
    lines = [[line for line in frame.split("\n") if line.startswith("data: ")] for frame in frames[:-1]]
    assert all(len(entry) == 1 for entry in lines), "data must be one line"
    return [json.loads(element[0].removeprefix("data: ")) for element in lines]


@given(TEXTS)
def test_native_tokens_are_one_frame_each_and_numbered(texts: list[str]) -> None:
    dialect = NativeDialect(DOCUMENTS.events)
    raw = dialect.encode(Tokens(tuple(texts)))
    assert data_of(raw) == [{"text": text} for text in texts]
    assert raw.decode().split("\n\n")[len(texts) - 1].startswith(f"event: token\nid: {len(texts)}\ndata: ")
    assert dialect.encode(Usage(1, 2, 3)).startswith(f"event: usage\nid: {len(texts) + 1}\n".encode())


@given(TEXTS)
def test_simple_tokens_are_one_frame_each(texts: list[str]) -> None:
    raw = SimpleDialect().encode(Tokens(tuple(texts)))
    assert data_of(raw) == [{"token": text} for text in texts]
    assert all(frame.startswith("data: ") for frame in raw.decode().split("\n\n")[:-1])


def test_native_shows_only_what_the_profile_allows() -> None:
    step = Step("name", "text", counts={"items": 3}, reason="why")
    assert NativeDialect(DOCUMENTS.events).encode(step) == b""
    shown = NativeDialect(DOCUMENTS.events | {EventType.STEP}).encode(step)
    assert shown == (
        b'event: step\nid: 1\ndata: {"name": "name", "text": "text", "counts": {"items": 3}, "reason": "why"}\n\n'
    )


def test_a_fault_of_the_native_dialect_is_an_error_and_then_done() -> None:
    assert NativeDialect(DOCUMENTS.events).failed(ERROR) == (
        b'event: error\nid: 1\ndata: {"text": "the model provider went away"}\n\nevent: done\nid: 2\ndata: {}\n\n'
    )
    retryable = NativeDialect(DOCUMENTS.events).going_away(ERROR)
    assert data_of(retryable) == [{"text": "the model provider went away", "retryable": True}, {}]


def test_a_fault_of_the_simple_dialect_is_an_error_and_nothing_else() -> None:
    for end in (SimpleDialect().failed, SimpleDialect().going_away):
        assert end(ERROR) == b'data: {"error": "the model provider went away"}\n\n'


def test_a_snippet_is_the_first_200_characters_not_bytes() -> None:
    raw = NativeDialect(DOCUMENTS.events).encode(Citations((Citation(1, result(1, text="ü🙂" * 150)),)))
    (data,) = data_of(raw)
    assert isinstance(data, dict)
    assert data["citations"][0]["snippet"] == "ü🙂" * 100
