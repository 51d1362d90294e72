"""No answer blocks the event loop for long, however hostile its text and however a provider cuts it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest
from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.model import FinishReason, Message, ModelInfo, Role, Usage
from citewire_generator.providers.base import ChatTask, Delta, End
from citewire_generator.providers.factory import build_chat_provider
from citewire_generator.registry import Registry
from citewire_generator.service import Generator
from citewire_remote.stall_timeout import TimeLimits
from loop_holds import measured_holds
from raw_upstream import Exchange, RawUpstream
from scripted_chat import ScriptedChat

MOST_MS = 5.0
TRIES = 8
"""The least of the tries counts, as processor time sometimes doubles on a shared machine."""
CHARS = 24_000
PASSAGE = "The limit is 500 euros per day if the tenant must not pay at least 500 euros. " * 60
UNITS = (
    "[", "[1] ", "```\n", "語。", "- a\n", ". ",
    "No tenant is above at least 500 or 500 000 euros hourly unless seven landlords may never pay [ref:1]. ",
)  # fmt: skip


async def read(generator: Generator) -> None:
    policy = pb.AnswerPolicy(marker_style=pb.MARKER_STYLE_REF, verify_citations=True, flag_uncited=True)
    passages = [pb.Passage(chunk_id=1, document_id=1, text=PASSAGE)]
    async for _ in generator.generate(pb.GenerateRequest(question="What?", passages=passages, policy=policy)):
        pass


@pytest.mark.parametrize("size", [3, 64, CHARS])
@pytest.mark.parametrize("unit", UNITS)
async def test_a_hostile_answer_blocks_the_loop_only_for_milliseconds(
    unit: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (unit * CHARS)[:200]

    class Burst(ScriptedChat):
        async def stream(self, task: ChatTask) -> AsyncGenerator[Delta | End, None]:
            del task
            for start in range(0, len(text), size):
                yield Delta((text[start : start + size],))
            yield End(FinishReason.STOP, Usage())

    generator = Generator(Registry([Burst()]))
    await read(generator)  # fills tables that are made once
    text = (unit * CHARS)[:CHARS]
    worst: list[float] = []
    while len(worst) < TRIES and min(worst, default=MOST_MS) >= MOST_MS:
        with measured_holds(monkeypatch) as holds:
            await asyncio.create_task(read(generator))
        worst.append(max(holds))
    assert min(worst) < MOST_MS


async def test_a_burst_of_events_blocks_the_loop_only_for_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    event = json.dumps({"choices": [{"index": 0, "delta": {"content": "a"}}]})
    end = json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})

    async def burst(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.send(f"data: {event}\n\n".encode() * 10_000 + f"data: {end}\n\ndata: [DONE]\n\n".encode())

    upstream = RawUpstream(burst)
    limits = TimeLimits(connect=1, first_token=5, between_tokens=5, whole=20)
    async with upstream.running() as base:
        provider = build_chat_provider(
            "openai", api_base=base, api_key="k", models=(ModelInfo("o", "m"),), limits=limits
        )
        task = ChatTask("m", (Message(Role.USER, "hello"),), max_completion_tokens=9)
        worst: list[float] = []
        while len(worst) < TRIES and min(worst, default=MOST_MS) >= MOST_MS:
            deltas = 0
            with measured_holds(monkeypatch) as holds:
                async for message in provider.stream(task):
                    deltas += len(message.texts) if isinstance(message, Delta) else 0
            assert deltas == 10_000
            # The first hold includes opening the connection.
            worst.append(sorted(holds)[-3])
        await provider.close()
    assert min(worst) < MOST_MS
