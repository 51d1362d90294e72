"""Cost per token of reading streamed answers: an SDK's events, its raw bytes, our adapter, a raw body with aiohttp.

The adapter is the generator's own, including time limits: the SDK builds the request, and aiohttp moves the bytes. The
raw body with aiohttp is the minimum possible in Python with the same parser.

All of them read the same streams from the same upstream (a separate process) in turns, round after round; the benchmark
counts the CPU time of this process and prints medians and ratios to aiohttp.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import aiohttp
import openai

from benchmarks.tables import describe_machine, format_table
from citewire_generator.model import Message, ModelInfo, Role
from citewire_generator.providers.base import ChatTask, Delta
from citewire_generator.providers.factory import build_chat_provider
from citewire_generator.providers.openai_stream import OpenAiStream
from citewire_remote.stall_timeout import TimeLimits

Client = Callable[[], Awaitable[int]]
MESSAGES: list[Any] = [{"role": "user", "content": "q"}]
_AIOHTTP = "raw body by aiohttp"


@asynccontextmanager
async def upstream(rate: float) -> AsyncGenerator[str]:
    """Starts the paced upstream; yields its base URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.upstream", "--port", "0", "--rate", str(rate), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{json.loads(await process.stdout.readline())['port']}/v1"
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def clients(base: str) -> AsyncGenerator[Mapping[str, Client]]:
    """The ways of reading one answer; each returns the number of texts received."""
    sdk = openai.AsyncOpenAI(api_key="x", base_url=base, max_retries=0)
    raw_completions = sdk.chat.completions.with_streaming_response

    async def by_events() -> int:
        count = 0
        async for event in await sdk.chat.completions.create(model="paced", messages=MESSAGES, stream=True):
            count += bool(event.choices and event.choices[0].delta.content)
        return count

    async def by_sdk_bytes() -> int:
        count, reader = 0, OpenAiStream("openai")
        async with raw_completions.create(model="paced", messages=MESSAGES, stream=True) as response:
            async for chunk in response.iter_bytes():
                count += len(reader.feed(chunk))
        return count

    adapter = build_chat_provider(
        "openai", api_base=base, api_key="x", models=(ModelInfo("openai", "paced"),), limits=TimeLimits()
    )
    task = ChatTask(model="paced", messages=(Message(Role.USER, "q"),))

    async def by_adapter() -> int:
        async with aclosing(adapter.stream(task)) as events:
            return sum([len(event.texts) async for event in events if isinstance(event, Delta)])

    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        await stack.enter_async_context(sdk)
        stack.push_async_callback(adapter.close)

        async def by_aiohttp() -> int:
            count, reader = 0, OpenAiStream("openai")
            body = {"model": "paced", "messages": MESSAGES, "stream": True}
            async with session.post(f"{base}/chat/completions", json=body) as response:
                while chunk := await response.content.readany():
                    count += len(reader.feed(chunk))
            return count

        yield {
            "SDK's events": by_events,
            "SDK's raw bytes": by_sdk_bytes,
            "our adapter": by_adapter,
            _AIOHTTP: by_aiohttp,
        }


async def cost(client: Client, streams: int) -> float:
    """CPU microseconds of this process per text, over concurrent streams."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    counts = await asyncio.gather(*(client() for _ in range(streams)))
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return seconds / sum(counts) * 1e6


async def measure(rounds: int, streams: int, rate: float) -> None:
    """Measures all ways in turns, and prints the table."""
    results: dict[str, list[float]] = {}
    async with upstream(rate) as base, clients(base) as ways:
        for client in ways.values():
            await cost(client, 2)  # warms up connections, imports and caches
        for _ in range(rounds):
            for name, client in ways.items():
                results.setdefault(name, []).append(await cost(client, streams))
    fastest = statistics.median(results[_AIOHTTP])
    rows = [[name, statistics.median(costs), statistics.median(costs) / fastest] for name, costs in results.items()]
    print(f"{describe_machine()}\n{streams} streams of {rate:g} tokens a second, {rounds} rounds\n")
    print(format_table(["way", "CPU µs per token", "× aiohttp"], rows))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--rate", type=float, default=100)
    options = parser.parse_args()
    asyncio.run(measure(options.rounds, options.streams, options.rate))


if __name__ == "__main__":
    main()
