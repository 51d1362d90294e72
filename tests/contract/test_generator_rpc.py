"""GeneratorService over a real gRPC server: every RPC, the order of a stream, cancellation, faults of providers."""

from __future__ import annotations

import asyncio
import time

import pytest
from citewire.common.v1.common_pb2 import ProviderRef
from citewire.generator.v1 import generator_pb2 as pb
from prometheus_client import REGISTRY

from benchmarks.upstream import Upstream, UpstreamSettings
from citewire_generator.model import NOT_FOUND_SENTENCE
from citewire_generator.providers.extractive import Extractive
from citewire_kit import client
from citewire_kit.errors import CitewireError, Code
from citewire_kit.tenant import LOCAL_TENANT, use_tenant
from generator_server import handled, in_flight, kinds, relay, request, running_generator, sample, text_of
from scripted_chat import ScriptedChat
from waiting import BUSY_SECONDS, wait_until


async def test_a_quoted_answer_from_start_to_completion() -> None:
    async with running_generator() as running:
        policy = pb.AnswerPolicy(marker_style=pb.MARKER_STYLE_REF)
        events = await running.events(request(policy=policy))
    assert kinds(events) == ["started", "delta", "completed"]
    started = events[0].started
    assert (started.provider, started.model) == ("extractive", "extractive")
    assert [(citation.number, citation.passage_index, citation.chars) for citation in started.citations] == [
        (1, 0, 21),
        (2, 1, 17),
    ]
    assert text_of(events) == "Refunds take 14 days. [ref:1]"
    score = events[-1].completed.answerable_score
    assert 0.5 < score < 1
    assert events[-1].completed == pb.Completed(
        usage=pb.TokenUsage(),
        finish_reason=pb.FINISH_REASON_STOP,
        attempts=0,
        cited_numbers=[1],
        provider="extractive",
        model="extractive",
        answerable_score=score,
    )


async def test_the_answers_score_and_the_policys_threshold() -> None:
    async with running_generator() as running:
        for threshold, not_found in ((0.99, True), (0.01, False)):
            policy = pb.AnswerPolicy(answerable_threshold=threshold)
            completed = (await running.events(request(policy=policy)))[-1].completed
            assert completed.not_found == not_found
            assert 0.01 < completed.answerable_score < 0.99
        nothing = (await running.events(request(passages=[])))[-1].completed
        assert (nothing.not_found, nothing.HasField("answerable_score")) == (True, False)


async def test_a_not_found_answer_is_a_fixed_sentence_with_suggestions() -> None:
    passages = [
        pb.Passage(chunk_id=1, document_id=1, text="Refunds take 14 days.", section="Terms > Refunds", similarity=0.1),
        pb.Passage(chunk_id=2, document_id=1, text="Shipping is free.", section="Terms > Shipping", similarity=0.1),
    ]
    asked = request(
        question="Who won the 1998 world cup?",
        passages=passages,
        policy=pb.AnswerPolicy(suggest_on_not_found=True, marker_style=pb.MARKER_STYLE_REMOVE),
    )
    async with running_generator() as running:
        events = await running.events(asked)
    assert text_of(events).startswith(f"{NOT_FOUND_SENTENCE}\n\n- ")
    completed = events[-1].completed
    assert completed.not_found
    assert completed.suggested_questions == text_of(events).count("?") >= 2


async def test_notices_follow_started() -> None:
    policy = pb.AnswerPolicy(context_format=pb.CONTEXT_FORMAT_SOURCE_LABELS, max_context_chars=30)
    async with running_generator([ScriptedChat("x")]) as running:
        events = await running.events(request(policy=policy))
    assert kinds(events) == ["started", "notice", "notice", "delta", "completed"]
    assert [event.notice.name for event in events[1:3]] == ["passage_cut", "context_trimmed"]
    assert events[0].started.citations[0].chars == 30 - len("[SOURCE 1] terms.md\n\n\n")


async def test_no_passages_are_allowed() -> None:
    async with running_generator([ScriptedChat("Hello!")]) as running:
        events = await running.events(request(passages=[], policy=pb.AnswerPolicy(grounding=pb.GROUNDING_OPEN)))
    assert (kinds(events), text_of(events)) == (["started", "delta", "completed"], "Hello!")


async def test_each_delta_is_an_entry() -> None:
    async with running_generator([ScriptedChat(("a", "b"), "c")]) as running:
        events = await running.events(request(policy=pb.AnswerPolicy(grounding=pb.GROUNDING_SAY_SO)))
    assert [list(event.delta.texts) for event in events[1:-1]] == [["a", "b"], ["c"]]


async def test_suggest_questions() -> None:
    passage = pb.Passage(chunk_id=1, document_id=1, text="Refunds take 14 days.", section="Terms > Refunds")
    async with running_generator() as running:
        asked = pb.SuggestQuestionsRequest(passages=[passage], count=1)
        answer = await client.unary(running.stub.SuggestQuestions, asked, timeout=5)
    assert list(answer.questions) == ["What is said about Refunds?"]
    assert answer.heading == ""


async def test_a_minimum_of_questions_is_filled_with_sections_titles_and_words() -> None:
    """Unchecked questions follow those that the passages answer, in the requested language."""
    passages = [pb.Passage(chunk_id=1, document_id=1, title="Lieferung", text="Ja.", section="Kosten {a}")]
    async with running_generator() as running:

        async def suggest(minimum: int) -> pb.SuggestQuestionsResponse:
            asked = pb.SuggestQuestionsRequest(passages=passages, count=4, minimum=minimum, language="Deutsch")
            return await client.unary(running.stub.SuggestQuestions, asked, timeout=5)

        few, filled = await suggest(0), await suggest(3)
        with pytest.raises(CitewireError) as refused:
            await suggest(5)
    assert filled.heading == few.heading == "Stattdessen könnten Sie fragen:"
    assert len(few.questions) < 3 <= len(filled.questions)
    assert list(filled.questions[: len(few.questions)]) == list(few.questions)
    assert {"Worum geht es in „Lieferung“?", "Was sind die wichtigsten Punkte von „Lieferung“?"} <= {*filled.questions}
    assert any("Kosten {a}" in question for question in filled.questions)
    assert [violation.field for violation in refused.value.violations] == ["minimum"]


async def test_list_models() -> None:
    async with running_generator([ScriptedChat("x"), Extractive()]) as running:
        answer = await client.unary(running.stub.ListModels, pb.ListModelsRequest(), timeout=5)
    assert [(model.provider, model.name, model.is_default, model.remote) for model in answer.models] == [
        ("scripted", "parrot", True, True),
        ("scripted", "lab/crow", False, True),
        ("extractive", "extractive", False, False),
    ]


@pytest.mark.parametrize(
    ("asked", "code", "reason", "fields"),
    [
        (request(question="  "), Code.INVALID_ARGUMENT, "INVALID_FIELD", ["question"]),
        (request(question="x" * 1_000_000), Code.INVALID_ARGUMENT, "INVALID_FIELD", ["question"]),
        (request(question="a\0b", temperature=9), Code.INVALID_ARGUMENT, "INVALID_FIELD", ["question", "temperature"]),
        (request(model="gpt-99"), Code.NOT_FOUND, "MODEL_NOT_FOUND", []),
        (request(provider=ProviderRef(provider="openai")), Code.INVALID_ARGUMENT, "INVALID_FIELD", ["provider.type"]),
    ],
)
async def test_refusals(asked: pb.GenerateRequest, code: Code, reason: str, fields: list[str]) -> None:
    async with running_generator() as running:
        with pytest.raises(CitewireError) as caught:
            await running.events(asked)
    assert (caught.value.code, caught.value.reason) == (code, reason)
    assert [violation.field for violation in caught.value.violations] == fields


async def test_without_a_tenant_nothing_is_served() -> None:
    async with running_generator(auth="keys") as running:
        with pytest.raises(CitewireError) as caught:
            await running.events(request())
        assert caught.value.reason == "TENANT_MISSING"
        with use_tenant(LOCAL_TENANT):
            assert kinds(await running.events(request())) == ["started", "delta", "completed"]


async def test_one_call_too_many_is_refused_at_once() -> None:
    hold = asyncio.Event()
    provider = ScriptedChat("x", hold)
    async with running_generator([provider], max_concurrent=1) as running:
        first = asyncio.ensure_future(running.events(request()))
        await provider.waiting.wait()
        with pytest.raises(CitewireError) as caught:
            await running.events(request())
        assert caught.value.reason == "OVERLOADED"
        assert caught.value.retry_after is not None
        hold.set()
        assert kinds(await first) == ["started", "delta", "completed"]


async def test_a_large_request_arrives_whole() -> None:
    passages = [pb.Passage(chunk_id=n, document_id=n, text="word " * 800) for n in range(1, 1001)]
    passages[0].text = "Refunds take 14 days. " + passages[0].text
    async with running_generator() as running:
        events = await running.events(request(passages=passages))
    assert len(events[0].started.citations) == 1000
    assert "Refunds take 14 days." in text_of(events)


async def test_an_answer_relayed_from_a_paced_upstream() -> None:
    async with Upstream(UpstreamSettings(rate=500, tokens=30)).running() as base, relay(base) as running:
        events = await running.events(request())
    assert kinds(events) == ["started", "delta", "completed"]
    assert len([text for event in events for text in event.delta.texts]) == 30
    completed = events[-1].completed
    assert (completed.attempts, completed.usage.completion_tokens, completed.usage.estimated) == (1, 30, False)


async def test_cancelling_ends_the_call_and_closes_the_upstreams_socket() -> None:
    upstream = Upstream(UpstreamSettings(rate=50, tokens=10_000))
    async with upstream.running() as base, relay(base) as running:
        before = handled(Code.CANCELLED), sample("citewire_streams_cancelled_total", cause="client")
        stream = running.generate(request())
        async for event in stream:
            if event.HasField("delta"):
                break
        assert in_flight() == 1
        left = time.monotonic()
        await stream.aclose()
        async with asyncio.timeout(BUSY_SECONDS):
            closed = await upstream.wait_closed_early()
        assert closed[0] - left < BUSY_SECONDS
        await wait_until(lambda: handled(Code.CANCELLED) == before[0] + 1)
        assert sample("citewire_streams_cancelled_total", cause="client") == before[1] + 1
        assert in_flight() == 0
    assert time.monotonic() - left < 2 * BUSY_SECONDS, "of 200 seconds"


async def test_cancelling_before_the_first_token_closes_the_socket_too() -> None:
    upstream = Upstream(UpstreamSettings(first_delay=30))
    async with upstream.running() as base, relay(base) as running:
        stream = running.generate(request())
        assert (await anext(stream)).HasField("started")
        waiting = asyncio.ensure_future(anext(stream))
        await wait_until(lambda: upstream.stats.requests == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await stream.aclose()
        async with asyncio.timeout(BUSY_SECONDS):
            await upstream.wait_closed_early()
        await wait_until(lambda: in_flight() == 0)


async def test_a_deadline_ends_the_call_and_the_upstream() -> None:
    upstream = Upstream(UpstreamSettings(rate=50, tokens=10_000))
    async with upstream.running() as base, relay(base) as running:
        before = sample("citewire_streams_cancelled_total", cause="deadline")
        with pytest.raises(CitewireError) as caught:
            await running.events(request(), timeout=0.5)
        assert caught.value.code is Code.DEADLINE_EXCEEDED
        async with asyncio.timeout(BUSY_SECONDS):
            await upstream.wait_closed_early()
        await wait_until(lambda: sample("citewire_streams_cancelled_total", cause="deadline") == before + 1)
        assert in_flight() == 0


async def test_a_cancelled_calls_tokens_are_counted_by_estimate() -> None:
    labels = {
        "gen_ai_provider_name": "openai-compatible",
        "gen_ai_request_model": "paced",
        "gen_ai_operation_name": "chat",
        "gen_ai_token_type": "output",
    }
    async with Upstream(UpstreamSettings(rate=50, tokens=10_000)).running() as base, relay(base) as running:
        before = sample("gen_ai_client_token_usage_count", **labels)
        stream = running.generate(request())
        async for event in stream:
            if event.HasField("delta"):
                break
        await stream.aclose()
        await wait_until(lambda: sample("gen_ai_client_token_usage_count", **labels) == before + 1)


# What the client sees when a provider fails. A call is never repeated after the first token.


async def test_series_exist_from_the_start() -> None:
    async with running_generator([ScriptedChat("x")]):
        for outcome in ("cited", "invalid", "removed"):
            assert REGISTRY.get_sample_value("citewire_generator_markers_total", {"outcome": outcome}) is not None
        for cause in ("client", "deadline", "drain", "upstream"):
            assert REGISTRY.get_sample_value("citewire_streams_cancelled_total", {"cause": cause}) is not None
        labels = {"gen_ai_provider_name": "scripted", "gen_ai_request_model": "parrot"}
        assert REGISTRY.get_sample_value("gen_ai_server_time_to_first_token_seconds_count", labels) is not None
