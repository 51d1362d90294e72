"""Judgements in a chat run: which passages are relevant, and which provider is named if judging fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2

from citewire_dialects.events import Citations, Decision, Done, Step, Usage
from citewire_gateway.profiles.builtin import DOCUMENTS, GROUNDED, LIBRARY, SELF_RAG, SOURCES
from citewire_kit.errors import Unavailable
from gateway_fakes import result, started
from pipeline_harness import PipelineHarness, usage


@pytest.fixture
async def harness() -> PipelineHarness:
    return PipelineHarness()


def judgement(passages: int, *irrelevant: int) -> generator_pb2.JudgeRelevanceResponse:
    return generator_pb2.JudgeRelevanceResponse(irrelevant=irrelevant, judged=passages, usage=usage(30, 4))


def step_of(events: Sequence[object], name: str) -> Step:
    """The step with a name, among those stored with the answer."""
    done = next(event for event in events if isinstance(event, Done))
    return next(step for step in done.outcome.steps if step.name == name)


async def test_passages_that_the_model_judges_irrelevant_are_left_out(harness: PipelineHarness) -> None:
    harness.retriever.results = [result(number) for number in range(1, 6)]
    harness.messages[0] = started((1, 0), (2, 1))
    harness.generator.relevance = generator_pb2.JudgeRelevanceResponse(
        irrelevant=[0, 2, 4], judged=5, usage=usage(30, 4)
    )
    events = await harness.events(replace(SELF_RAG, judge_relevance=True))
    assert harness.calls.index("decide") < harness.calls.index("judge") < harness.calls.index("generate")
    assert [passage.chunk_id for passage in harness.generator.requests[0].passages] == [2, 4]
    citations = next(event for event in events if isinstance(event, Citations))
    assert [citation.chunk.chunk_id for citation in citations.citations] == [2, 4]
    assert step_of(events, "relevance_judged").text == "The model judged 5 passages: 3 of them are left out."
    spent = next(event for event in events if isinstance(event, Usage))
    assert (spent.prompt_tokens, spent.completion_tokens) == (10 + 30 + 1 + 20, 1 + 4 + 2 + 2)


async def test_relevance_is_judged_only_on_request(harness: PipelineHarness) -> None:
    for profile in (SELF_RAG, DOCUMENTS, GROUNDED, LIBRARY, SOURCES):
        await harness.events(profile)
    assert harness.generator.judged == []


async def test_the_passages_of_a_greeting_are_not_judged(harness: PipelineHarness) -> None:
    harness.generator.decision = generator_pb2.DecideResponse(reason="It is a greeting.")
    await harness.events(replace(SELF_RAG, judge_relevance=True))
    assert harness.generator.judged == []


@pytest.mark.parametrize("by_call", [True, False])
async def test_a_judge_that_fails_keeps_all_passages_and_is_named(harness: PipelineHarness, by_call: bool) -> None:
    harness.retriever.results = [result(1), result(2)]
    named = {"provider": "openai", "model": "gpt-4.1-mini"}
    if by_call:
        message = "the model provider openai failed (model gpt-4.1-mini)"
        harness.log.errors["judge"] = Unavailable(message, reason="PROVIDER_UNAVAILABLE", metadata=named)
    else:
        failure = generator_pb2.JudgementFailure(**named, error_reason="PROVIDER_UNAVAILABLE")
        harness.generator.relevance = generator_pb2.JudgeRelevanceResponse(fallback=True, failure=failure)
    events = await harness.events(replace(DOCUMENTS, judge_relevance=True))
    assert [passage.chunk_id for passage in harness.generator.requests[0].passages] == [1, 2]
    step = step_of(events, "relevance_not_judged")
    assert step.text == (
        "The model could not judge the passages: all of them are kept. "
        "The model provider openai failed (model gpt-4.1-mini)."
    )
    assert step.reason == "PROVIDER_UNAVAILABLE"


async def test_if_all_passages_are_irrelevant_nothing_was_found(harness: PipelineHarness) -> None:
    harness.generator.relevance = judgement(1, 0)
    await harness.events(replace(DOCUMENTS, judge_relevance=True))
    assert "generate" not in harness.calls
    assert "no match" in harness.records.closings[0].answer or harness.records.closings[0].answer.startswith(
        "I could not"
    )


async def test_the_latest_documents_are_never_left_out(harness: PipelineHarness) -> None:
    latest, both_ways = result(7, document_id=7), result(1)
    latest.recent, latest.recency_rank, both_ways.recency_rank = True, 1, 2
    harness.retriever.results = [both_ways, result(2), latest]
    harness.generator.relevance = judgement(2, 0, 1)
    await harness.events(replace(LIBRARY, judge_relevance=True))
    assert [passage.chunk_id for passage in harness.generator.judged[0].passages] == [1, 2]
    assert [passage.chunk_id for passage in harness.generator.requests[0].passages] == [1, 7]


async def test_a_library_read_whole_is_not_judged(harness: PipelineHarness) -> None:
    harness.retriever.path = retriever_pb2.CONTEXT_PATH_LONG_CONTEXT
    await harness.events(replace(LIBRARY, judge_relevance=True))
    assert harness.generator.judged == []


async def test_a_failed_decision_names_its_provider_in_a_step(harness: PipelineHarness) -> None:
    failure = generator_pb2.JudgementFailure(
        provider="openai", model="gpt-4.1-mini", error_reason="PROVIDER_UNAVAILABLE"
    )
    harness.generator.decision = generator_pb2.DecideResponse(needs_retrieval=True, fallback=True, failure=failure)
    events = await harness.events(SELF_RAG)
    assert [type(event) for event in events[:3]] == [Decision, Step, Citations]
    step = step_of(events, "decision_failed")
    assert step.text == (
        "The model could not decide whether the documents are needed, so they are searched. "
        "The model provider openai failed (model gpt-4.1-mini)."
    )
    assert (events[1], step.reason) == (step, "PROVIDER_UNAVAILABLE")


async def test_a_decision_by_rule_names_the_provider_that_failed(harness: PipelineHarness) -> None:
    harness.generator.decision.failure.CopyFrom(generator_pb2.JudgementFailure(provider="ollama", model="llama3.2"))
    step = step_of(await harness.events(SELF_RAG), "decision_failed")
    assert step.text == (
        "The model could not decide whether the documents are needed. "
        "The model provider ollama failed (model llama3.2)."
    )
