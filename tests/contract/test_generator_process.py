"""The generator as a process: it starts, serves, lets a running answer finish at SIGTERM, and says what is wrong."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

from citewire.generator.v1 import generator_pb2 as pb
from citewire.generator.v1.generator_pb2_grpc import GeneratorServiceStub

from benchmarks.upstream import Upstream, UpstreamSettings
from citewire_kit import client
from citewire_kit.channel import open_channel

COMMAND = (sys.executable, "-m", "citewire_generator")
ENVIRONMENT = {
    **os.environ,
    "CITEWIRE_AUTH": "off",
    "CITEWIRE_GENERATOR_PORT": "0",
    "CITEWIRE_GENERATOR_METRICS_PORT": "0",
    "CITEWIRE_GENERATOR_LEAVE_SECONDS": "0.1",
}


@asynccontextmanager
async def process(**environment: str) -> AsyncGenerator[tuple[asyncio.subprocess.Process, int]]:
    """The process, and its port as its log gives it."""
    child = await asyncio.create_subprocess_exec(
        *COMMAND, env=ENVIRONMENT | environment, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert child.stderr is not None
        port = 0
        async with asyncio.timeout(30):
            while not port:
                line = json.loads(await child.stderr.readline())
                port = line["port"] if line["event"] == "listening" else 0
        yield child, port
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


async def test_a_running_answer_finishes_at_sigterm() -> None:
    asked = pb.GenerateRequest(question="x?", policy=pb.AnswerPolicy(grounding=pb.GROUNDING_OPEN))
    async with Upstream(UpstreamSettings(rate=50, tokens=40)).running() as base:
        options = {
            "CITEWIRE_GENERATOR_PROVIDER": "openai-compatible",
            "CITEWIRE_GENERATOR_API_BASE": base,
            "CITEWIRE_GENERATOR_MODEL": "paced",
        }
        async with process(**options) as (child, port):
            channel = open_channel(f"127.0.0.1:{port}", streams=True)
            events: list[pb.GenerateResponse] = []
            async with aclosing(client.stream(GeneratorServiceStub(channel).Generate, asked, timeout=20)) as stream:
                async for event in stream:
                    events.append(event)
                    if len(events) == 3:
                        child.send_signal(signal.SIGTERM)
            await channel.close()
            async with asyncio.timeout(10):
                assert await child.wait() == 0
    assert events[-1].HasField("completed")
    assert sum(len(event.delta.texts) for event in events) == 40


async def test_wrong_settings_end_the_process_with_a_clear_line() -> None:
    child = await asyncio.create_subprocess_exec(
        *COMMAND,
        env=ENVIRONMENT | {"CITEWIRE_GENERATOR_PROVIDER": "openai-compatible"},
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        _, error = await child.communicate()
    assert child.returncode == 2
    assert b"CITEWIRE_GENERATOR_API_BASE is required" in error


async def test_questions_answers_and_keys_stay_out_of_the_log() -> None:
    canaries = ("QUESTION-CANARY", "PASSAGE-CANARY", "KEY-CANARY", "ANSWER-CANARY")
    asked = pb.GenerateRequest(
        question="What is QUESTION-CANARY?",
        passages=[pb.Passage(chunk_id=1, document_id=1, text="PASSAGE-CANARY is here.", title="PASSAGE-CANARY")],
    )
    upstream = Upstream(UpstreamSettings(rate=500, text="ANSWER-CANARY is it."))
    async with upstream.running() as base:
        options = {
            "CITEWIRE_GENERATOR_PROVIDER": "openai-compatible",
            "CITEWIRE_GENERATOR_API_BASE": base,
            "CITEWIRE_GENERATOR_MODEL": "paced",
            "CITEWIRE_GENERATOR_API_KEY": "KEY-CANARY",
            "CITEWIRE_LOG_LEVEL": "DEBUG",
        }
        async with process(**options) as (child, port):
            channel = open_channel(f"127.0.0.1:{port}", streams=True)
            stub = GeneratorServiceStub(channel)
            for model in ("", "extractive"):
                asked.model = model
                async with aclosing(client.stream(stub.Generate, asked, timeout=20)) as stream:
                    text = "".join([part async for event in stream for part in event.delta.texts])
                assert "CANARY" in text
            await channel.close()
            child.send_signal(signal.SIGTERM)
            async with asyncio.timeout(10):
                _, log = await child.communicate()
    assert b"answer_completed" in log
    assert not [canary for canary in canaries if canary.encode() in log]
