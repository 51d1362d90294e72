"""The common parts of the adapters to frameworks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import create_model

from citewire_client import DocumentFailedError, models
from citewire_client.adapters import (
    AnswerReader,
    ChatSettings,
    Question,
    StopSequences,
    answer_format,
    chosen_tool,
    document_fields,
    passage_metadata,
    require_readable,
)

FEW = st.text(alphabet="ab.", max_size=12)


@given(pieces=st.lists(FEW, max_size=6), sequences=st.lists(st.text(alphabet="ab.", max_size=4), max_size=3))
def test_a_streamed_text_stops_where_the_whole_text_would(pieces: list[str], sequences: list[str]) -> None:
    whole = "".join(pieces)
    starts = [place for sequence in sequences if sequence and (place := whole.find(sequence)) >= 0]
    stop, shown = StopSequences(sequences), ""
    for piece in pieces:
        shown += stop.feed(piece)
        if stop.reached:
            break
    shown += stop.rest()
    assert stop.reached is bool(starts)
    ended = [whole[: whole.find(sequence)] for sequence in sequences if sequence and sequence in whole]
    # The sequence that is completed first ends the text, even if a longer one began earlier.
    assert shown in ended if starts else shown == whole


def test_a_single_sequence_is_not_split_into_characters() -> None:
    stop = StopSequences("END")
    assert stop.feed("No End. Next") + stop.feed(" END") == "No End. Next "
    assert stop.reached


def test_text_that_was_held_back_comes_at_the_end() -> None:
    reader = AnswerReader("grounded", ["###"])
    assert reader.read(models.TokenEvent(event="token", id=1, data=models.Token(text="One ##"))) == "One "
    assert reader.read(models.DoneEvent(event="done", id=2, data=models.ChatEnd())) == "##"
    assert (reader.text, reader.is_over) == ("One ##", True)


def test_questions_need_a_user_and_roles_that_can_be_sent() -> None:
    read = Question.read(
        [("system", "Be brief."), ("user", "Hi"), ("assistant", ""), ("system", "In French."), ("user", "Why?")]
    )
    assert read.instructions == "Be brief.\n\nIn French."
    assert [message["content"] for message in read.messages] == ["Hi", "Why?"]
    with pytest.raises(ValueError, match="the last message must be the user's"):
        Question.read([("user", "Hi"), ("assistant", "Hello")])
    with pytest.raises(ValueError, match="of role 'tool' can't be sent"):
        Question.read([("tool", "42")])


def test_tool_choice_accepts_the_usual_words() -> None:
    names = ["weather", "auto_pilot"]
    named = {"type": "function", "function": {"name": "weather"}}
    answers = {choice: chosen_tool(choice, names) for choice in ("auto", "none", "required", "any", "weather", "")}
    assert answers == {
        "auto": "auto",
        "none": "none",
        "required": "required",
        "any": "required",
        "weather": named,
        "": None,
    }
    assert [chosen_tool(choice, names) for choice in (True, False, None, named)] == ["required", None, None, named]
    with pytest.raises(ValueError, match="no tool 'pilot'; there are weather, auto_pilot"):
        chosen_tool("pilot", names)


def test_a_class_becomes_a_schema_for_the_answer() -> None:

    given = {"type": "json_object"}
    assert (answer_format(None), answer_format(given)) == (None, given)
    pair = create_model("Pair[int]", first=(int, ...))
    form = answer_format(pair)
    assert form == {
        "type": "json_schema",
        "json_schema": {"name": "Pair_int_", "schema": pair.model_json_schema()},
    }


def test_a_conversation_is_continued_with_the_last_question_only() -> None:
    question = Question.read([("user", "Hi"), ("assistant", "Hello"), ("user", "Why?")])
    new = ChatSettings("grounded/openai/gpt-4.1", max_tokens=9).arguments(question)
    assert (new["profile"], new["model"], new["keep"]) == ("grounded", "openai/gpt-4.1", False)
    assert new["options"] == {"max_completion_tokens": 9}
    assert new["messages"] == question.messages
    continued = ChatSettings("grounded", conversation_id="c-1").arguments(question)
    assert continued["question"] == "Why?"
    assert not {"messages", "keep", "model", "options"} & continued.keys()


@pytest.mark.parametrize(
    ("metadata", "title", "url"),
    [
        ({"title": " On water ", "source": "/data/w.pdf"}, "On water", None),
        ({"source": "C:\\data\\water.pdf"}, "water.pdf", None),
        ({"source": "/data/water.pdf"}, "water.pdf", None),
        ({"source": "https://example.org/guides/"}, "guides", "https://example.org/guides/"),
        ({"url": "https://example.org/", "file_name": "w.md"}, "w.md", "https://example.org/"),
        ({"source": "javascript:alert(1)", "title": 7}, "javascript:alert(1)", None),
        ({"source": "http://", "title": "T"}, "T", None),
        ({}, "First line", None),
    ],
)
def test_title_and_address_come_from_the_loaders_usual_fields(
    metadata: dict[str, object], title: str, url: str | None
) -> None:
    fields = document_fields("\n# First line\nSecond", metadata)
    assert (fields["title"], fields.get("url")) == (title, url)
    assert fields.get("metadata", {}) == metadata


def test_a_text_without_words_has_a_title() -> None:
    assert document_fields("# \n", {})["title"] == "Untitled"
    assert len(document_fields("x" * 500, {})["title"]) == 100


def test_a_documents_own_metadata_keeps_its_names() -> None:
    result = models.SearchResult(
        chunk_id=1, chunk_index=0, content="x", document_id=2, file_name="", rank_score=0.5, score=0.25, title="T",
        version=1, tags=[], metadata={"title": None, "score": "A"},
    )  # fmt: skip
    assert passage_metadata(result) == {
        "title": None, "score": "A", "citewire_title": "T", "citewire_score": 0.25,
        "chunk_id": 1, "chunk_index": 0, "document_id": 2, "rank_score": 0.5, "version": 1,
    }  # fmt: skip


def test_a_failed_document_says_why() -> None:
    document = models.Document.model_construct(
        id=7, title="T", status="failed", error=models.DocumentError(code="ENCRYPTED", message="it has a password")
    )
    with pytest.raises(DocumentFailedError, match=r"document 7 \(T\) couldn't be read: it has a password"):
        require_readable(document)
