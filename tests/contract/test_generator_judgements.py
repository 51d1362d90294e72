"""Decide, Assess and Rewrite over a real gRPC server: models, rules, fallbacks, deadlines, refusals."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest
from citewire.generator.v1 import generator_pb2 as pb
from google.protobuf.message import Message

from citewire_kit import client
from citewire_kit.errors import CitewireError, Code, Unavailable
from generator_server import running_generator
from raw_upstream import Exchange, RawUpstream
from scripted_chat import ScriptedChat

USAGE = pb.TokenUsage(prompt_tokens=11, cached_prompt_tokens=2, completion_tokens=7)
PASSAGES = [pb.Passage(chunk_id=1, document_id=1, text="Refunds take 14 days.", title="Terms")]
HISTORY = [pb.Message(role=pb.ROLE_USER, content="How do refunds work?")]


async def test_a_models_judgements() -> None:
    replies = (
        'Sure:\n```json\n{"needs_retrieval": false, "reason": "A greeting.", "supported": true, "utility": 0.85}\n```'
    )
    async with running_generator([ScriptedChat(replies)]) as running:
        decision = await client.unary(running.stub.Decide, pb.DecideRequest(question="Hi"), timeout=5)
        asked = pb.AssessRequest(question="How long?", answer="14 days [ref:1].", passages=PASSAGES)
        assessment = await client.unary(running.stub.Assess, asked, timeout=5)
    assert decision == pb.DecideResponse(needs_retrieval=False, reason="A greeting.", usage=USAGE)
    assert assessment == pb.AssessResponse(supported=True, utility=0.85, usage=USAGE)


async def test_rewriting_by_a_model() -> None:
    async with running_generator([ScriptedChat("How long ", "do refunds take?")]) as running:
        for kind in (pb.REWRITE_KIND_CONDENSE, pb.REWRITE_KIND_HYDE):
            asked = pb.RewriteRequest(kind=kind, question="How long?", history=HISTORY)
            rewritten = await client.unary(running.stub.Rewrite, asked, timeout=5)
            assert rewritten == pb.RewriteResponse(text="How long do refunds take?", usage=USAGE)


async def test_the_requests_on_the_wire_and_a_server_without_schemas() -> None:
    async def behave(exchange: Exchange) -> None:
        if "response_format" in exchange.request.body:
            await exchange.head(400, "application/json")
            await exchange.send(b'{"error": {"message": "unknown field response_format"}}')
            return
        content = '{"needs_retrieval": false, "reason": "Small talk."}'
        choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 11, "completion_tokens": 7}
        await exchange.head(200, "application/json")
        await exchange.send(json.dumps({"choices": [choice], "usage": usage}).encode())

    upstream = RawUpstream(behave)
    async with (
        upstream.running() as base,
        running_generator(provider="openai-compatible", api_base=base, model="small", context_window=8_192) as running,
    ):
        for _ in range(2):
            decision = await client.unary(running.stub.Decide, pb.DecideRequest(question="Hi"), timeout=5)
            assert (decision.needs_retrieval, decision.reason, decision.fallback) == (False, "Small talk.", False)
            assert (decision.usage.prompt_tokens, decision.usage.completion_tokens) == (11, 7)
    first, second, third = [request.body for request in upstream.requests]
    assert first["temperature"] == 0
    assert cast("dict[str, object]", first["response_format"])["type"] == "json_schema"
    assert not first.get("stream")
    for body in (second, third):
        assert "response_format" not in body
        assert "temperature" not in body


async def test_a_provider_that_fails_costs_no_answer() -> None:
    broken = ScriptedChat(Unavailable("away", reason="PROVIDER_UNAVAILABLE"))
    async with running_generator([broken], attempts=1) as running:
        decision = await client.unary(running.stub.Decide, pb.DecideRequest(question="x"), timeout=5)
        assessment = await client.unary(running.stub.Assess, pb.AssessRequest(question="x", answer="y"), timeout=5)
        asked = pb.RewriteRequest(kind=pb.REWRITE_KIND_HYDE, question="x")
        rewritten = await client.unary(running.stub.Rewrite, asked, timeout=5)
        passages = pb.JudgeRelevanceRequest(question="x", passages=PASSAGES)
        judged = await client.unary(running.stub.JudgeRelevance, passages, timeout=5)
    assert (decision.needs_retrieval, decision.fallback) == (True, True)
    assert decision.reason == "The model could not be asked (scripted, model parrot), so the saved content is searched."
    failure = pb.JudgementFailure(provider="scripted", model="parrot", error_reason="PROVIDER_UNAVAILABLE")
    nothing = pb.TokenUsage()
    assert assessment == pb.AssessResponse(supported=True, utility=0.7, fallback=True, usage=nothing, failure=failure)
    assert rewritten == pb.RewriteResponse(text="x", fallback=True, usage=nothing, failure=failure)
    assert judged == pb.JudgeRelevanceResponse(fallback=True, usage=nothing, failure=failure)


async def test_the_fallback_comes_before_the_callers_deadline() -> None:
    stuck = ScriptedChat(asyncio.Event())
    async with running_generator([stuck]) as running:
        decision = await client.unary(running.stub.Decide, pb.DecideRequest(question="x"), timeout=0.8)
        await stuck.closed.wait()
    assert (decision.needs_retrieval, decision.fallback) == (True, True)
    in_time = "The model did not decide in time (scripted, model parrot), so the saved content is searched."
    assert decision.reason == in_time


async def test_rules_without_a_model() -> None:
    async with running_generator() as running:
        decision = await client.unary(running.stub.Decide, pb.DecideRequest(question="Hello!"), timeout=5)
        asked = pb.AssessRequest(question="How long?", answer="Refunds take 14 days.", passages=PASSAGES)
        assessment = await client.unary(running.stub.Assess, asked, timeout=5)
        condense = pb.RewriteRequest(kind=pb.REWRITE_KIND_CONDENSE, question="How long?", history=HISTORY)
        rewritten = await client.unary(running.stub.Rewrite, condense, timeout=5)
    assert decision == pb.DecideResponse(
        needs_retrieval=False,
        reason="Heuristic, without a language model: the message is a greeting or small talk.",
        usage=pb.TokenUsage(),
        heuristic=True,
    )
    assert (assessment.supported, assessment.heuristic, assessment.fallback) == (True, True, False)
    assert 0 <= assessment.utility <= 1
    assert (rewritten.text, rewritten.heuristic) == ("How long? (refunds)", True)


@pytest.mark.parametrize(
    ("method", "asked", "fields"),
    [
        ("Decide", pb.DecideRequest(question="  "), ["question"]),
        ("Decide", pb.DecideRequest(question="ä" * 16_385), ["question"]),
        ("Decide", pb.DecideRequest(question="x", fallbacks=[pb.Fallback()]), ["fallbacks[0]"]),
        ("JudgeRelevance", pb.JudgeRelevanceRequest(question=" "), ["question", "passages"]),
        ("JudgeRelevance", pb.JudgeRelevanceRequest(question="x", passages=PASSAGES * 201), ["passages"]),
        ("Assess", pb.AssessRequest(question="", answer=""), ["question", "answer"]),
        (
            "Assess",
            pb.AssessRequest(question="x", answer="y", passages=[pb.Passage(chunk_id=1, document_id=1)]),
            ["passages[0].text"],
        ),
        ("Rewrite", pb.RewriteRequest(question="x"), ["kind"]),
        ("Rewrite", pb.RewriteRequest(kind=pb.REWRITE_KIND_CONDENSE, question="x"), ["history"]),
        ("Rewrite", pb.RewriteRequest(kind=pb.REWRITE_KIND_HYDE, question="x", model="a\nb"), ["model"]),
    ],
)
async def test_refusals_name_the_fields(method: str, asked: Message, fields: list[str]) -> None:
    async with running_generator() as running:
        with pytest.raises(CitewireError) as caught:
            await client.unary(getattr(running.stub, method), asked, timeout=5)
    assert (caught.value.code, caught.value.reason) == (Code.INVALID_ARGUMENT, "INVALID_FIELD")
    assert [violation.field for violation in caught.value.violations] == fields


async def test_an_unknown_model_is_refused() -> None:
    async with running_generator() as running:
        with pytest.raises(CitewireError) as caught:
            await client.unary(running.stub.Decide, pb.DecideRequest(question="x", model="nobody"), timeout=5)
    assert (caught.value.code, caught.value.reason) == (Code.NOT_FOUND, "MODEL_NOT_FOUND")
