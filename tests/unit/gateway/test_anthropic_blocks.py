"""Anthropic's dialect: each sentence is a block with its own verified citations and no others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from citewire.generator.v1 import generator_pb2

from citewire_dialects.anthropic_messages import MessagesAnswer, MessagesStream
from citewire_dialects.events import Citation, Citations, Done, Event, Outcome, Tokens, Usage, VerifiedCitation
from gateway_fakes import result

if TYPE_CHECKING:
    from collections.abc import Sequence

FIRST, SECOND, THIRD = "Revenue grew by 3.5 %.", " Staff grew too, says Who.", "\n\nNobody knows why!"
ANSWER = FIRST + SECOND + THIRD
CITATIONS = tuple(Citation(number, result(number, text=f"passage {number}", verbatim=True)) for number in (1, 2))


def verified_citation(sentence: str, number: int, verdict: str = "SUPPORTED", answer: str = ANSWER) -> VerifiedCitation:
    start = answer.index(sentence.strip())
    span = generator_pb2.AnswerSpan(start=start, end=start + len(sentence.strip()))
    message = generator_pb2.VerifiedCitation(
        sentence=span,
        number=number,
        quote="passage",
        quote_start=0,
        quote_end=7,
        verdict=f"VERDICT_{verdict}",
        sentence_verdict=f"VERDICT_{verdict}",
    )
    return VerifiedCitation(message, CITATIONS[number - 1].chunk)


def frames(events: Sequence[Event]) -> list[dict[str, Any]]:
    dialect = MessagesStream("msg_1", "grounded", lambda citation: f"https://example.org/{citation.index}")
    text = b"".join(dialect.encode(event) for event in events).decode()
    return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]


def blocks(events: Sequence[Event]) -> list[tuple[str, list[str]]]:
    """The text and cited passages of each block, as a client collects them; also checks the frames' order."""
    gathered: list[tuple[str, list[str]]] = []
    is_open = False
    for frame in frames(events):
        match frame["type"]:
            case "content_block_start":
                assert not is_open
                assert frame["index"] == len(gathered)
                gathered.append(("", []))
                is_open = True
            case "content_block_delta":
                assert is_open
                assert frame["index"] == len(gathered) - 1
                text, cited = gathered[-1]
                delta = frame["delta"]
                if delta["type"] == "text_delta":
                    gathered[-1] = (text + delta["text"], cited)
                else:
                    cited.append(delta["citation"].get("file_id") or delta["citation"]["source"])
            case "content_block_stop":
                assert is_open
                is_open = False
            case _:
                pass
    assert not is_open
    return gathered


def end(*, finish_reason: str = "stop") -> list[Event]:
    return [Usage(3, 100, 20), Done(Outcome("c", "e", "grounded", finish_reason=finish_reason, cited=(1,)))]


@pytest.mark.parametrize("cut", range(1, len(ANSWER)))
def test_each_sentence_has_its_own_citations_however_the_answer_is_cut(cut: int) -> None:
    # The end of a sentence is seen with the next one's beginning, so its citations come after that.
    events: list[Event] = [Citations(CITATIONS)]
    written = 0
    for piece in (ANSWER[:cut], ANSWER[cut:]):
        events.append(Tokens((piece,)))
        for sentence, number in ((FIRST, 1), (SECOND, 2)):
            after = ANSWER.index(sentence) + len(sentence) + 1
            if written < after <= written + len(piece):
                events.append(verified_citation(sentence, number))
        written += len(piece)
    gathered = blocks([*events, *end()])
    assert "".join(text for text, _ in gathered) == ANSWER
    assert [(text, len(cited)) for text, cited in gathered] == [(FIRST, 1), (SECOND, 1), (THIRD, 0)]


def test_an_unsupported_sentence_has_no_citation() -> None:
    events = [Citations(CITATIONS), Tokens((FIRST, SECOND)), verified_citation(FIRST, 1, "UNSUPPORTED"), *end()]
    assert [cited for _, cited in blocks(events) if cited] == []


def words(text: str) -> list[Tokens]:
    return [Tokens((f" {word}" if place else word,)) for place, word in enumerate(text.split(" "))]


def test_citations_may_come_some_words_after_the_sentence() -> None:
    # The verification sees the end of a sentence with the next word, and takes a moment.
    later = words(SECOND)
    events = [
        Citations(CITATIONS),
        *words(FIRST),
        *later[:4],
        verified_citation(FIRST, 1),
        verified_citation(FIRST, 2),
        *later[4:],
        *end(),
    ]
    assert blocks(events) == [(FIRST, ["7", "7"]), (SECOND, [])]


def test_text_after_a_sentence_without_citations_is_held_only_briefly() -> None:
    dialect = MessagesStream("msg_1", "grounded", lambda _: "")
    dialect.encode(Tokens((FIRST,)))
    held = 0
    while not dialect.encode(Tokens((" and",))):
        held += len(" and")
    assert 100 < held <= 160


def test_a_late_citation_is_sent_and_never_given_to_another_sentence() -> None:
    later = words(SECOND + " On and on" * 20)
    events = [Citations(CITATIONS), Tokens((FIRST,)), *later, verified_citation(FIRST, 1), *end()]
    gathered = blocks(events)
    assert gathered[0] == (FIRST, [])
    assert gathered[-1] == ("", ["7"])
    assert [cited for _, cited in gathered[:-1] if cited] == []


def test_the_whole_answer_has_the_blocks_of_the_stream() -> None:
    events = [Citations(CITATIONS), Tokens((FIRST, SECOND)), verified_citation(FIRST, 1), Tokens((THIRD,)), *end()]
    answer = MessagesAnswer("msg_1", "grounded", lambda _: "")
    for event in events:
        answer.add(event)
    body = answer.members()
    assert [(block["text"], len(block["citations"] or [])) for block in body["content"]] == [
        (text, len(cited)) for text, cited in blocks(events)
    ]
    cached = {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    assert body["usage"] == {"input_tokens": 100, "output_tokens": 20} | cached
    assert body["stop_reason"] == "end_turn"


def test_a_passage_that_differs_from_the_stored_text_is_cited_as_a_whole() -> None:
    citation = Citation(1, result(1, text="| a | b |", verbatim=False))
    event = verified_citation(FIRST, 1)
    events = [Citations((citation,)), Tokens((FIRST,)), VerifiedCitation(event.verified, citation.chunk), *end()]
    cited = [frame["delta"]["citation"] for frame in frames(events) if "citation" in frame.get("delta", {})]
    assert [(entry["type"], entry["cited_text"], entry["source"]) for entry in cited] == [
        ("search_result_location", "| a | b |", "https://example.org/1")
    ]


@pytest.mark.parametrize(("reason", "shown"), [("length", "max_tokens"), ("content_filter", "refusal")])
def test_the_stop_reason(reason: str, shown: str) -> None:
    events = [Citations(()), Tokens(("a",)), *end(finish_reason=reason)]
    assert frames(events)[-2]["delta"]["stop_reason"] == shown
