"""Chats and documents stored by the previous release can be replayed and shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from citewire_dialects.native import JsonAnswer, NativeDialect
from citewire_dialects.profile import EventType
from citewire_dialects.run_codec import EVENT_CODEC
from citewire_dialects.schemas.chat import AnswerDetails
from citewire_dialects.schemas.library import Document
from citewire_dialects.simple import SimpleJsonAnswer

# Written by the code of commit d5bce88: a chat's events, the details stored with its answer, and what was sent.
PREVIOUS: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "stored_by_d5bce88.json").read_text("utf-8"))


def test_a_chat_of_the_previous_release_is_replayed_as_it_was_sent() -> None:
    previous = list(EVENT_CODEC.load(PREVIOUS["replay"]["events"]))
    for events in (previous, list(EVENT_CODEC.load(json.loads(json.dumps(EVENT_CODEC.dump(previous)))))):
        native = NativeDialect(frozenset(EventType))
        stream = b"".join(native.encode(event) for event in events).decode()
        assert _without_links(stream.replace('"Revenue grew by 12 % [ref:1]."', '"…"')) == _one_token(
            PREVIOUS["stream"]
        )
        answer, simple = JsonAnswer(frozenset(EventType)), SimpleJsonAnswer()
        for event in events:
            answer.add(event)
            simple.add(event)
        body = answer.body().members()
        assert [source.pop("url") for source in body["sources"]] == [
            "/v1/documents/7/content?version=2#page=3",
            "https://example.org/notes",
        ]
        assert body == PREVIOUS["answer"]
        assert simple.body().members() == PREVIOUS["simple"]


def test_the_details_of_an_answer_are_the_same_json_in_both_versions() -> None:
    details = TypeAdapter(AnswerDetails).validate_python(PREVIOUS["details"])
    assert details.members() == PREVIOUS["details"]
    assert details.stored() == {"schema_version": 2} | PREVIOUS["details"]


def test_a_document_of_the_previous_release_is_read_back() -> None:
    stored: dict[str, Any] = {
        "id": 7,
        "title": "Notes",
        "file_name": "",
        "type": "article",
        "status": "pending",
        "version": 1,
        "live_version": None,
        "chunks": 0,
        "media_type": "text/markdown",
        "size_bytes": 7,
        "tokens": 0,
        "collection": None,
        "tags": [],
        "metadata": {"a": 1},
        "owner": "local",
        "sha256": "9f86",
        "created_at": "2026-01-15T09:30:00.123456Z",
    }
    document = Document.model_validate(stored)
    assert document.members() == stored
    assert Document.model_validate(document.stored()) == document


def _without_links(stream: str) -> str:
    """The stream without the sources' `url`, which that release didn't have."""
    head, sources = stream.split("event: sources", 1)
    frame, rest = sources.split("\n\n", 1)
    return head + "event: sources" + re.sub(r', "url": "[^"]*"', "", frame) + "\n\n" + rest


def _one_token(stream: str) -> str:
    """The stream in the form of its replay: the text in one piece, and numbers without a gap."""
    frames = stream.split("\n\n")
    tokens = [frame for frame in frames if frame.startswith("event: token")]
    first = frames.index(tokens[0])
    frames = [frame for frame in frames if frame not in tokens[1:]]
    frames[first] = 'event: token\nid: 0\ndata: {"text": "…"}'
    lines = [frame.split("\n") for frame in frames[:-1]]
    return "".join("\n".join([head, f"id: {number}", data]) + "\n\n" for number, (head, _, data) in enumerate(lines, 1))
