"""The adapters' requests through SDKs, and the features they turn off: retries, the environment, redirects."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from citewire_egress.bodies import MAX_ERROR_BODY
from citewire_generator.model import FinishReason, Message, Role, Usage
from citewire_generator.providers.anthropic_messages import CACHED_FROM
from citewire_generator.providers.base import ChatProvider, ChatTask, Completion, End
from citewire_kit.errors import CitewireError
from citewire_remote.stall_timeout import TimeLimits
from raw_upstream import Exchange
from remote_chats import KEY, chat_with

RULES, ASKED = Message(Role.SYSTEM, "rules"), Message(Role.USER, "hello")
TASK = ChatTask("m", (RULES, ASKED), max_completion_tokens=9, temperature=0.5)
LONG = "word " * CACHED_FROM * 2
KINDS = ("anthropic", "openai", "openai-responses", "ollama", "openai-compatible")
SCHEMA: dict[str, object] = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}


def answer_with(kind: str, text: str = "Hi") -> Callable[[Exchange], Awaitable[None]]:
    if kind == "anthropic":
        usage = {"input_tokens": 5, "output_tokens": 2}
        body: dict[str, Any] = {"type": "message", "content": [{"type": "text", "text": text}], "usage": usage}
        body["stop_reason"] = "end_turn"
    elif kind == "openai-responses":
        output = [{"type": "message", "content": [{"type": "output_text", "text": text}]}]
        usage = {"input_tokens": 5, "output_tokens": 2}
        body = {"object": "response", "status": "completed", "error": None, "output": output, "usage": usage}
    else:
        body = {"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}]}
        body["usage"] = {"prompt_tokens": 5, "completion_tokens": 2}

    async def behave(exchange: Exchange) -> None:
        await exchange.head(kind="application/json")
        await exchange.send(json.dumps(body).encode())

    return behave


async def drain(provider: ChatProvider, task: ChatTask = TASK) -> End:
    async for event in provider.stream(task):
        if isinstance(event, End):
            return event
    raise AssertionError("no end")


async def test_the_request_to_anthropic() -> None:
    async with chat_with("anthropic", answer_with("anthropic")) as (made, upstream):
        await drain(made)
    request = upstream.requests[0]
    assert request.path == "/v1/messages"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["anthropic-version"] >= "2026-10-21"
    assert request.body == {  # no temperature: the API refuses it since that version
        "model": "m",
        "system": [{"type": "text", "text": "rules"}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
        "max_tokens": 9,
        "stream": True,
    }


async def test_the_request_to_openais_responses() -> None:
    history = (Message(Role.USER, "before"), Message(Role.ASSISTANT, "said"))
    async with chat_with("openai-responses", answer_with("openai-responses")) as (made, upstream):
        await drain(made, ChatTask("m", (RULES, *history, ASKED), max_completion_tokens=9, temperature=0.5))
    request = upstream.requests[0]
    assert request.path == "/v1/responses"
    assert request.body == {
        "model": "m",
        "instructions": "rules",
        "input": [
            {"role": "user", "content": "before"},
            {"role": "assistant", "content": "said"},
            {"role": "user", "content": "hello"},
        ],
        "max_output_tokens": 16,  # the least that the API takes
        "temperature": 0.5,
        "store": False,
        "stream": True,
        "stream_options": {"include_obfuscation": False},
    }


async def test_anthropics_cache_is_for_repeated_parts() -> None:
    history = (Message(Role.USER, "before"), Message(Role.ASSISTANT, LONG))
    cached = {"cache_control": {"type": "ephemeral"}}
    async with chat_with("anthropic", answer_with("anthropic")) as (made, upstream):
        await drain(made, ChatTask("m", (RULES, *history, ASKED)))
        await drain(made, ChatTask("m", (Message(Role.SYSTEM, LONG), ASKED)))
        await drain(made, ChatTask("m", (RULES, Message(Role.USER, LONG))))
        await drain(made, ChatTask("m", (RULES, *history, ASKED), reused=True))
    *others, again = upstream.requests
    messages: Any = again.body["messages"]
    assert [cached.items() <= turn["content"][0].items() for turn in messages] == [False, False, True]
    talk, rules, question = ([r.body["system"], r.body["messages"]] for r in others)
    turns: Any = talk[1]
    assert [cached.items() <= turn["content"][0].items() for turn in turns] == [False, True, False]
    assert "cache_control" not in str(talk[0])
    assert "cache_control" in str(rules[0])
    assert "cache_control" not in str(rules[1])
    assert "cache_control" not in str(question)  # its passages are rarely repeated, and writing them costs more


@pytest.mark.parametrize("kind", ["openai", "openai-responses", "ollama", "anthropic"])
async def test_a_conversations_cache_key_goes_only_to_providers_that_use_it(kind: str) -> None:
    async with chat_with(kind, answer_with(kind)) as (made, upstream):
        for key in ("c-1", "c" * 65, ""):
            await drain(made, ChatTask("m", (ASKED,), cache_key=key))
    keys = [request.body.get("prompt_cache_key") for request in upstream.requests]
    hashed = hashlib.sha256(b"c" * 65).hexdigest()  # OpenAI refuses keys of more than 64 characters
    assert keys == (["c-1", hashed, None] if kind.startswith("openai") else [None] * 3)


@pytest.mark.parametrize(("kind", "name"), [("openai", "max_completion_tokens"), ("ollama", "max_tokens")])
async def test_openais_own_models_have_another_name_for_the_limit(kind: str, name: str) -> None:
    async with chat_with(kind, answer_with(kind)) as (made, upstream):
        await drain(made)
    assert upstream.requests[0].body[name] == 9


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_in_one_piece_to_a_schema(kind: str) -> None:
    async with chat_with(kind, answer_with(kind, '{"yes": true}')) as (made, upstream):
        done = await made.complete(TASK, json_schema=SCHEMA)
        await made.complete(TASK)
    assert done == Completion('{"yes": true}', Usage(5, 0, 2), FinishReason.STOP)
    asked, plain = (request.body for request in upstream.requests)
    assert "stream" not in asked
    if kind == "anthropic":
        assert asked["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}
    elif kind == "openai-responses":
        form = {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}
        assert asked["text"] == {"format": form}
    else:
        schema = {"name": "answer", "schema": SCHEMA, "strict": True}
        assert asked["response_format"] == {"type": "json_schema", "json_schema": schema}
    assert not {"output_config", "response_format", "text"} & plain.keys()


@pytest.mark.parametrize("kind", KINDS)
async def test_no_answer_in_time(kind: str) -> None:
    async def silent(exchange: Exchange) -> None:
        await exchange.gone()

    limits = TimeLimits(connect=1, first_token=0.2, between_tokens=0.2, whole=0.3)
    async with chat_with(kind, silent, limits=limits) as (made, _):
        with pytest.raises(CitewireError) as streamed:
            await drain(made)
        with pytest.raises(CitewireError) as completed:
            await made.complete(TASK)
    assert {streamed.value.reason, completed.value.reason} == {"PROVIDER_TIMEOUT"}


@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_of_the_environment_is_sent(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "the-operators-own"
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, secret)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", secret)
    for name in ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, f"Authorization: Bearer {secret}\nX-Api-Key: {secret}\nX-More: {secret}")
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for key in (KEY, ""):
        async with chat_with(kind, answer_with(kind), key) as (made, upstream):
            await drain(made)
            await made.complete(TASK)
        for request in upstream.requests:
            assert secret not in str(request)
            assert request.headers.get("authorization") == (f"Bearer {KEY}" if key else None)
            assert request.headers["user-agent"].startswith("citewire/")
            assert not [name for name in request.headers if name.startswith("x-")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [302, 401, 429, 500, 529])
async def test_a_refusal_is_not_retried(kind: str, status: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def refuse(exchange: Exchange) -> None:
        await exchange.head(status, "application/json", Location="http://127.0.0.1:9/", Retry_After="0")
        await exchange.send(json.dumps({"error": {"message": f"no {KEY}"}}).encode())

    async with chat_with(kind, refuse) as (made, upstream):
        with pytest.raises(CitewireError) as streamed:
            await drain(made)
        assert len(upstream.requests) == 1
        with pytest.raises(CitewireError) as completed:
            await made.complete(TASK)
        assert len(upstream.requests) == 2
    assert streamed.value.metadata == completed.value.metadata
    assert streamed.value.metadata["status"] == str(status)
    assert KEY not in f"{streamed.value} {completed.value} {caplog.text}"


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_an_errors_body_is_read_up_to_a_limit(kind: str) -> None:
    sent = 0

    async def endless(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.head(500, "text/plain")
        while True:
            await exchange.send(b"x" * 65_536)
            sent += 65_536

    async with chat_with(kind, endless) as (made, _):
        with pytest.raises(CitewireError) as caught:
            await drain(made)
    assert caught.value.reason == "PROVIDER_UNAVAILABLE"
    assert sent < 300 * MAX_ERROR_BODY  # allows for the buffers of two sockets


async def test_an_ollama_server_that_answers_in_its_own_format() -> None:
    async def native(exchange: Exchange) -> None:
        await exchange.head(kind="application/x-ndjson")
        await exchange.send(b'{"message":{"content":"Hi"},"done":false}\n')
        await exchange.send(b'{"message":{"content":""},"done":true,"done_reason":"length","prompt_eval_count":4,')
        await exchange.send(b'"eval_count":2}\n')

    async with chat_with("ollama", native, "") as (made, _):
        assert await drain(made) == End(FinishReason.LENGTH, Usage(4, 0, 2))
