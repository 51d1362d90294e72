"""Clients leave a Generate call at a random moment: the provider's socket is closed, the row in Postgres settled.

`make faults` has 200 calls, a normal run a few. `test_cancellations.py` tests the same from an HTTP client on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from citewire.generator.v1 import generator_pb2 as pb
from citewire.generator.v1.generator_pb2_grpc import GeneratorServiceStub
from pydantic import SecretStr

from citewire_generator.app import start
from citewire_generator.settings import GeneratorSettings
from citewire_generator.tokens import estimate_tokens
from citewire_kit import client
from citewire_kit.channel import open_channel
from generator_with_ledger import MODEL, OUTPUT_USD, Accounts, write_catalogue
from proof_scale import PrintTable, ProofScale
from raw_upstream import Exchange, RawUpstream

if TYPE_CHECKING:
    from databases import Database

LIMIT_SECONDS = 1.0
PACE_SECONDS = 0.01
WORD = "word "


class Endless:
    """Answers without an end, a word at a time, and notes when its client is gone."""

    def __init__(self, first_delay: float) -> None:
        self.first_delay = first_delay
        self.sent = 0
        self.asked = asyncio.Event()
        self.gone_at: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def behave(self, exchange: Exchange) -> None:
        self.asked.set()
        speaking = asyncio.create_task(self._speak(exchange))
        try:
            await exchange.gone()
        finally:
            self.gone_at.set_result(asyncio.get_running_loop().time())
            speaking.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await speaking

    async def _speak(self, exchange: Exchange) -> None:
        await exchange.head()
        await asyncio.sleep(self.first_delay)
        while True:
            await exchange.delta(WORD)
            self.sent += 1
            await asyncio.sleep(PACE_SECONDS)


@dataclass(frozen=True, slots=True)
class Server:
    """A generator, its provider, and its ledger."""

    stub: GeneratorServiceStub
    upstream: RawUpstream
    accounts: Accounts


@asynccontextmanager
async def serving(database: Database, folder: Path) -> AsyncGenerator[Server]:
    upstream, accounts = RawUpstream(Endless(0).behave), Accounts(database.owner_dsn)
    async with AsyncExitStack() as stack:
        stack.callback(accounts.close)
        base = await stack.enter_async_context(upstream.running())
        settings = GeneratorSettings(
            port=0,
            metrics_port=0,
            auth="off",
            leave_seconds=0,
            drain_seconds=1,
            provider="openai-compatible",
            api_base=base,
            model=MODEL,
            catalogue=write_catalogue(folder),
            ledger_dsn=SecretStr(database.dsn("citewire_ledger")),
        )
        server = await start(stack, settings)
        stack.push_async_callback(server.drain_and_stop)
        channel = open_channel(f"127.0.0.1:{server.port}", streams=True)
        stack.push_async_callback(channel.close)
        yield Server(GeneratorServiceStub(channel), upstream, accounts)


async def leave(server: Server, words: int) -> tuple[float, float]:
    """Leaves after `words` words (0: before the first); returns the seconds until the socket and the row are closed."""
    loop = asyncio.get_running_loop()
    endless = Endless(60 if words == 0 else 0)
    server.upstream.behave = endless.behave
    asked = pb.GenerateRequest(question="How?", passages=[pb.Passage(chunk_id=1, document_id=1, text="So.")])
    seen = 0
    stream = client.stream(server.stub.Generate, asked, timeout=30)
    reading = asyncio.create_task(anext(stream))
    await endless.asked.wait()
    while seen < words:
        seen += len((await reading).delta.texts)
        reading = asyncio.create_task(anext(stream))
    left_at = loop.time()
    reading.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reading
    await stream.aclose()
    async with asyncio.timeout(LIMIT_SECONDS):
        socket = await endless.gone_at - left_at
        while server.accounts.open():  # noqa: ASYNC110 - a row has no event to wait for
            await asyncio.sleep(0.002)
    settled, row = loop.time() - left_at, server.accounts.latest()
    assert (row["state"], row["reason"], row["estimated"]) == ("cancelled", "cancelled", True)
    assert row["input_tokens"] > 0
    # Tokens are charged for at least the words that the client saw, and at most those that the provider sent.
    word_tokens = estimate_tokens(WORD)
    assert seen * word_tokens <= row["output_tokens"] <= endless.sent * word_tokens
    assert row["cost_nano"] > row["output_tokens"] * OUTPUT_USD * 1000
    return socket, settled


async def test_sockets_close_and_rows_are_settled(
    database: Database,
    proof: ProofScale,
    tmp_path: Path,
    print_table: PrintTable,
) -> None:
    choices, count = proof.random(), proof.pick(scaled_down=6, full=200)
    results: list[tuple[float, float]] = []
    async with serving(database, tmp_path) as server:
        for number in range(count):
            results.append(await leave(server, 0 if number == 0 else choices.randrange(8)))  # noqa: PERF401 - one by one
        assert len(server.upstream.requests) == len(server.accounts.calls()) == count
    rows: list[list[object]] = []
    for title, column in (("provider's socket closed", 0), ("row settled as cancelled, by estimate", 1)):
        times = sorted(entry[column] * 1000 for entry in results)
        assert times[-1] < LIMIT_SECONDS * 1000
        rows.append([title, *(round(times[min(count - 1, int(part * count))], 1) for part in (0.5, 0.99, 1.0))])
    title = f"{count} Generate calls left at a random word, seed {proof.seed}: milliseconds until"
    print_table(title, ["", "p50", "p99", "most"], rows)
