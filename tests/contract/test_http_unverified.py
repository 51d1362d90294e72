"""Failed verification is reported to clients as `unverified` and counted: a real generator behind a gateway."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import REGISTRY

from citewire_generator import verification
from citewire_generator.verification import MAX_RESULTS
from citewire_verify import verifier
from citewire_verify.segment import Segmenter
from citewire_verify.verifier import MAX_CITED
from gateway_fakes import result
from gateway_process import Gateway, frames_of
from generator_behind_gateway import WAYS, generator_behind_gateway
from scripted_chat import ScriptedChat

if TYPE_CHECKING:
    from databases import Database

Json = dict[str, Any]

PASSAGE = "Refunds take 14 days. They go to the card. " * 20
ANSWER = ("Refunds take 14 days ", "[ref:1]. They go ", "to the card [ref:2].")


@pytest.fixture
def model() -> ScriptedChat:
    return ScriptedChat(*ANSWER)


@pytest.fixture
async def gateway(database: Database, model: ScriptedChat) -> AsyncIterator[Gateway]:
    async with generator_behind_gateway(database, model, PASSAGE) as running:
        yield running


def _annotations(message: Json) -> list[Json]:
    return [annotation["citewire"] for annotation in message.get("annotations", []) if "citewire" in annotation]


def _openai(text: str) -> list[Json]:
    deltas = [frame.data["choices"][0]["delta"] for frame in frames_of(text.replace("data: [DONE]\n\n", ""))]
    return [verified for delta in deltas for verified in _annotations(delta)]


VERIFIED: dict[str, Callable[[Any], list[Json]]] = {
    "native": lambda answer: [frame.data for frame in frames_of(answer.text) if frame.event == "citation"],
    "native whole": lambda answer: answer.json()["verified"],
    "ui-message": lambda answer: [
        frame.data["data"]
        for frame in frames_of(answer.text.replace("data: [DONE]\n\n", ""))
        if frame.data["type"] == "data-citation"
    ],
    "openai": lambda answer: _openai(answer.text),
    "openai whole": lambda answer: _annotations(answer.json()["choices"][0]["message"]),
}
"""The sentences' verdicts in an answer, for each dialect that has verdicts."""


async def verdicts_of(gateway: Gateway, way: str, **fields: object) -> list[Json]:
    path, body = WAYS[way]
    answer = await gateway.http.post(path, json=body | fields)
    assert answer.status_code == 200, answer.text
    return VERIFIED[way](answer)


def failures(cause: str) -> float:
    return REGISTRY.get_sample_value("citewire_generator_verification_failures_total", {"cause": cause}) or 0.0


def fail(*_: object) -> None:
    raise ValueError("a fault")


@pytest.mark.parametrize("way", VERIFIED)
async def test_a_fault_in_a_passage_is_reported_and_counted(
    gateway: Gateway, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [citation["verdict"] for citation in await verdicts_of(gateway, way)] == ["supported", "supported"]
    before = failures("fault")
    monkeypatch.setattr(verifier, "compare", fail)
    seen = await verdicts_of(gateway, way)
    assert [(citation["index"], citation["verdict"], citation["sentence_verdict"]) for citation in seen] == [
        (1, "unverified", "unverified"),
        (2, "unverified", "unverified"),
    ]
    assert failures("fault") == before + 2


@pytest.mark.parametrize("way", VERIFIED)
@pytest.mark.parametrize("method", ["_next", "_sentence", "finish"])
async def test_a_fault_between_marker_and_end_of_sentence_hides_no_citation(
    gateway: Gateway, way: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Segmenter, method, fail)
    before = failures("fault")
    seen = {citation["index"]: citation["verdict"] for citation in await verdicts_of(gateway, way)}
    assert seen[2] == "unverified"
    assert seen.keys() == {1, 2}
    assert failures("fault") == before + 1


@pytest.mark.parametrize("way", VERIFIED)
async def test_too_little_time_is_reported_and_counted(
    gateway: Gateway, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*_: object) -> None:
        time.sleep(0.5)  # in a thread: it can't be interrupted

    monkeypatch.setattr(verifier, "compare", late)
    monkeypatch.setattr(verification, "MAX_SECONDS", 0.1)
    before = failures("time")
    started = time.monotonic()
    seen = await verdicts_of(gateway, way)
    assert time.monotonic() - started < 5
    assert [(citation["index"], citation["verdict"]) for citation in seen] == [(1, "unverified"), (2, "unverified")]
    assert failures("time") == before + 1


@pytest.mark.parametrize("way", VERIFIED)
async def test_sentences_beyond_the_limit_are_reported_and_counted(
    gateway: Gateway, model: ScriptedChat, way: str
) -> None:
    text = "It is so [ref:1]. " * (MAX_RESULTS + 100) + "They go [ref:2]. They go [ref:3]."
    model.script = (text,)
    before = failures("limit")
    seen = await verdicts_of(gateway, way)
    rest = [citation for citation in seen if citation["verdict"] == "unverified"]
    assert [citation["index"] for citation in rest] == [1, 2, 3]
    assert {(citation["sentence"]["start"], citation["sentence"]["end"]) for citation in rest} == {
        (18 * MAX_RESULTS, len(text) - len(" [ref:3]."))
    }
    assert len(seen) == MAX_RESULTS + 3
    assert failures("limit") == before + 1


async def test_citations_of_a_sentence_beyond_the_limit_are_reported_and_counted(
    gateway: Gateway, model: ScriptedChat
) -> None:
    numbers = range(1, MAX_CITED + 4)
    gateway.fakes.retriever.results = [result(number, text=PASSAGE) for number in numbers]
    model.script = (f"Refunds take 14 days [ref:{', '.join(map(str, numbers))}].",)
    before = failures("limit")
    seen = await verdicts_of(gateway, "native", top_k=len(numbers))
    assert [citation["verdict"] for citation in seen] == ["supported"] * MAX_CITED + ["unverified"] * 3
    assert {citation["sentence_verdict"] for citation in seen} == {"supported"}
    assert failures("limit") == before + 1
