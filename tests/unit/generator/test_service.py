"""The path of an answer, with a scripted provider."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from citewire.generator.v1 import generator_pb2 as pb
from prometheus_client import REGISTRY

from citewire_generator.model import FINISH_REASONS, NOT_FOUND_SENTENCE, Event, FinishReason, Message, Role, Usage
from citewire_generator.providers.base import ChatProvider, End
from citewire_generator.providers.extractive import Extractive
from citewire_generator.registry import ModelRoute, Registry
from citewire_generator.service import Generator
from citewire_kit.errors import CitewireError, InvalidArgument, NotFound, Unavailable
from citewire_kit.metrics import init_model
from generator_calls import GenerateCall, changed, make_passage, make_policy, make_request
from scripted_chat import ScriptedChat

PASSAGES = (
    make_passage(1, 1, "Refunds take 14 days.", title="Terms", file_name="terms.md", similarity=0.7),
    make_passage(2, 1, "Shipping is free above 50 EUR.", title="Terms", file_name="terms.md", similarity=0.4),
)


def request(question: str = "How long do refunds take?", **fields: Any) -> GenerateCall:  # noqa: ANN401 # values of any kind are meant
    fields.setdefault("passages", PASSAGES)
    return make_request(question, **fields)


async def run(providers: ChatProvider | Sequence[ChatProvider], asked: GenerateCall) -> list[Event]:
    registry = Registry([providers] if isinstance(providers, ChatProvider) else providers)
    return [event async for event in Generator(registry).generate(*asked)]


def text_of(events: list[Event]) -> str:
    return "".join(text for event in events if isinstance(event, pb.TextDelta) for text in event.texts)


def completed(events: list[Event]) -> pb.Completed:
    last = events[-1]
    assert isinstance(last, pb.Completed)
    return last


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def test_started_first_completed_last_text_between() -> None:
    provider = ScriptedChat("Refunds ", ("take ", "14 days."))
    events = await run(provider, request())
    started = events[0]
    assert isinstance(started, pb.Started)
    assert (started.provider, started.model) == ("scripted", "parrot")
    assert [(citation.number, citation.passage_index, citation.chars) for citation in started.citations] == [
        (1, 0, 21),
        (2, 1, 30),
    ]
    assert events[1:3] == [pb.TextDelta(texts=["Refunds "]), pb.TextDelta(texts=["take ", "14 days."])]
    usage = pb.TokenUsage(prompt_tokens=11, cached_prompt_tokens=2, completion_tokens=7)
    finish = pb.FINISH_REASON_STOP
    assert events[3:] == [
        pb.Completed(usage=usage, finish_reason=finish, attempts=1, provider="scripted", model="parrot")
    ]
    assert provider.closed.is_set()


async def test_packed_passages_are_those_read_and_cited() -> None:
    provider = ScriptedChat("It takes 14 days [SOURCE 1] [SOURCE 3].")
    policy = make_policy(pb.CONTEXT_FORMAT_SOURCE_LABELS, pb.MARKER_STYLE_SOURCE, max_context_chars=44)
    events = await run(provider, request(policy=policy))
    assert isinstance(events[0], pb.Started)
    assert [citation.number for citation in events[0].citations] == [1]
    assert isinstance(events[1], pb.Notice)
    assert events[1].name == "context_trimmed"
    prompt = provider.tasks[0].messages[-1].content
    assert "[SOURCE 1] terms.md\nRefunds take 14 days.\n\n" in prompt
    assert "Shipping" not in prompt
    assert text_of(events) == "It takes 14 days [SOURCE 1] [SOURCE 3]."
    assert (list(completed(events).cited_numbers), completed(events).invalid_markers) == ([1], 1)


async def test_markers_are_counted_in_metrics() -> None:
    before = {o: sample("citewire_generator_markers_total", outcome=o) for o in ("cited", "invalid", "removed")}
    await run(ScriptedChat("a [ref:1][ref:2] b [ref:7]"), request(policy=make_policy(marker_style=pb.MARKER_STYLE_REF)))
    await run(ScriptedChat("a [1] b [Source: x]"), request(policy=make_policy(marker_style=pb.MARKER_STYLE_REMOVE)))
    after = {o: sample("citewire_generator_markers_total", outcome=o) for o in before}
    assert {o: after[o] - before[o] for o in before} == {"cited": 2, "invalid": 1, "removed": 2}


@pytest.mark.parametrize("sentence", [NOT_FOUND_SENTENCE, "The documents don't mention this."])
async def test_not_found_in_the_models_words_becomes_ours(sentence: str) -> None:
    pieces = [sentence[i : i + 5] for i in range(0, len(sentence), 5)]
    provider = ScriptedChat(*pieces, "\n\n- What is X?", "\n- What is Y?")
    events = await run(provider, request(policy=make_policy(marker_style=pb.MARKER_STYLE_REMOVE)))
    assert text_of(events) == f"{NOT_FOUND_SENTENCE}\n\n- What is X?\n- What is Y?"
    assert (completed(events).not_found, completed(events).suggested_questions) == (True, 2)


@pytest.mark.parametrize("grounding", [pb.GROUNDING_SAY_SO, pb.GROUNDING_OPEN])
async def test_without_strict_grounding_the_models_words_stay(grounding: pb.Grounding) -> None:
    events = await run(
        ScriptedChat("The documents don't ", "mention this."), request(policy=make_policy(grounding=grounding))
    )
    assert text_of(events) == "The documents don't mention this."
    assert not completed(events).not_found
    assert events[1] == pb.TextDelta(texts=["The documents don't "])


async def test_text_held_back_at_the_end_is_shown() -> None:
    events = await run(ScriptedChat("The ", "document"), request())
    assert text_of(events) == "The document"
    events = await run(ScriptedChat("See [ref:"), request(policy=make_policy(marker_style=pb.MARKER_STYLE_REF)))
    assert text_of(events) == "See [ref:"


async def test_an_error_of_the_provider_is_the_streams_end() -> None:
    error = Unavailable("no", reason="PROVIDER_UNAVAILABLE")
    init_model(provider="scripted", model="parrot", operation="chat")
    before = sample(
        "gen_ai_client_operation_duration_seconds_count",
        gen_ai_provider_name="scripted",
        gen_ai_request_model="parrot",
        gen_ai_operation_name="chat",
        error_type="PROVIDER_UNAVAILABLE",
    )
    events = Generator(Registry([ScriptedChat("x", error)])).generate(*request())
    assert isinstance(await anext(events), pb.Started)
    assert await anext(events) == pb.TextDelta(texts=["x"])
    with pytest.raises(Unavailable) as caught:
        await anext(events)
    assert caught.value is error
    after = sample(
        "gen_ai_client_operation_duration_seconds_count",
        gen_ai_provider_name="scripted",
        gen_ai_request_model="parrot",
        gen_ai_operation_name="chat",
        error_type="PROVIDER_UNAVAILABLE",
    )
    assert after - before == 1


async def test_a_stream_without_an_end_is_an_error() -> None:
    with pytest.raises(Unavailable) as caught:
        await run(ScriptedChat("a", end=None), request())
    assert caught.value.reason == "PROVIDER_STREAM_BROKEN"


async def test_usage_that_is_not_reported_is_estimated_and_says_so() -> None:
    provider = ScriptedChat("four chars and more", end=End(FinishReason.STOP))
    usage = completed(await run(provider, request())).usage
    assert usage.estimated
    assert usage.completion_tokens == 5
    assert 100 < usage.prompt_tokens < 600


async def test_leaving_closes_the_provider_and_settles_an_estimate() -> None:
    labels = {"gen_ai_provider_name": "scripted", "gen_ai_request_model": "parrot", "gen_ai_operation_name": "chat"}
    init_model(provider="scripted", model="parrot", operation="chat")
    before = sample("gen_ai_client_token_usage_count", **labels, gen_ai_token_type="output")
    provider = ScriptedChat("x ", asyncio.Event())
    events = Generator(Registry([provider])).generate(*request())
    assert isinstance(await anext(events), pb.Started)
    assert isinstance(await anext(events), pb.TextDelta)
    waiting = asyncio.ensure_future(anext(events))
    await provider.waiting.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await events.aclose()
    assert provider.closed.is_set()
    assert sample("gen_ai_client_token_usage_count", **labels, gen_ai_token_type="output") - before == 1


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("", "scripted", "parrot"),
        ("parrot", "scripted", "parrot"),
        ("scripted/parrot", "scripted", "parrot"),
        ("lab/crow", "scripted", "lab/crow"),
        ("scripted/lab/crow", "scripted", "lab/crow"),
        ("extractive", "extractive", "extractive"),
    ],
)
async def test_models_by_name(model: str, provider: str, name: str) -> None:
    events = await run([ScriptedChat("x"), Extractive()], request(model=model))
    assert isinstance(events[0], pb.Started)
    assert (events[0].provider, events[0].model) == (provider, name)


async def test_an_unknown_model_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(NotFound) as caught:
        await run([ScriptedChat("x"), Extractive()], request(model="gpt-99"))
    assert caught.value.reason == "MODEL_NOT_FOUND"
    assert caught.value.metadata["models"] == "scripted/parrot, scripted/lab/crow, extractive/extractive"


async def test_the_extractive_provider_makes_no_attempt_and_spends_nothing() -> None:
    events = await run(Extractive(), request(policy=make_policy(marker_style=pb.MARKER_STYLE_REF)))
    assert text_of(events) == "Refunds take 14 days. [ref:1]"
    expected = pb.Completed(
        usage=pb.TokenUsage(),
        finish_reason=pb.FINISH_REASON_STOP,
        cited_numbers=[1],
        provider="extractive",
        model="extractive",
    )
    assert events[-1] == changed(expected, answerable_score=completed(events).answerable_score)
    assert completed(events).HasField("answerable_score")


async def test_a_quotation_that_sounds_like_a_refusal_is_an_answer() -> None:
    text = "There is no information about the treasure in the ship's log."
    events = await run(
        Extractive(), request("What is in the ship's log about the treasure?", passages=(make_passage(1, 1, text),))
    )
    assert text_of(events) == text
    assert not completed(events).not_found


async def test_completion_tokens_default_and_the_models_own_limit() -> None:
    provider = ScriptedChat("x")
    await run(provider, request())
    await run(provider, request(max_completion_tokens=50))
    await run(provider, request(model="lab/crow"))
    assert [task.max_completion_tokens for task in provider.tasks] == [1000, 50, 2048]


async def test_the_window_bounds_the_context() -> None:
    provider = ScriptedChat("x", window=3000)
    many = tuple(make_passage(n, n, "word " * 100, token_count=125) for n in range(1, 40))
    events = await run(provider, request(passages=many))
    assert isinstance(events[0], pb.Started)
    assert 5 < len(events[0].citations) < 15
    assert [event.name for event in events if isinstance(event, pb.Notice)] == ["context_trimmed"]


async def test_old_messages_that_do_not_fit_are_left_out_with_a_notice() -> None:
    provider = ScriptedChat("x", window=3000)
    history = tuple(Message(role, f"{n} " + "word " * 400) for n, role in enumerate((Role.USER, Role.ASSISTANT) * 3))
    events = await run(provider, request(history=history))
    contents = [message.content[0] for message in provider.tasks[0].messages[1:-1]]
    assert 0 < len(contents) < 6
    assert contents == list("012345")[-len(contents) :]
    notices = [event.text for event in events if isinstance(event, pb.Notice)]
    assert notices == [f"{6 - len(contents)} of 6 earlier messages don't fit the model's window and were left out."]
    assert isinstance(events[0], pb.Started)
    assert len(events[0].citations) == 2


async def test_a_question_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(InvalidArgument) as caught:
        await run(ScriptedChat("x", window=3000), request("word " * 3000))
    assert caught.value.reason == "CONTEXT_TOO_LONG"


async def test_suggestions_come_from_the_requested_model() -> None:
    generator = Generator(Registry([ScriptedChat(), Extractive()]))
    suggestions = await generator.suggest(pb.SuggestQuestionsRequest(passages=PASSAGES, count=2))
    assert suggestions.questions == ("parrot 0?", "parrot 1?")
    assert suggestions.usage == Usage(3, 0, 2)
    local = await generator.suggest(pb.SuggestQuestionsRequest(passages=PASSAGES, count=2, model="extractive"))
    assert all(question.endswith("?") for question in local.questions)


async def test_suggestions_of_an_unknown_model_are_an_error() -> None:
    request = pb.SuggestQuestionsRequest(passages=PASSAGES)
    with pytest.raises(CitewireError) as caught:
        await Generator(Registry([ScriptedChat()])).suggest(request, ModelRoute("none"))
    assert caught.value.reason == "MODEL_NOT_FOUND"


async def test_finish_reasons_are_passed_on() -> None:
    for reason in FinishReason:
        end = completed(await run(ScriptedChat("x", end=End(reason)), request()))
        assert end.finish_reason == FINISH_REASONS.to_proto(reason)
