"""The ledger under faults: a generator that is killed during calls, and many callers with a small budget.

`make faults` runs it in full (500 calls, 200 callers), a normal run scales it down; `--seed` repeats a run's choices.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from citewire.generator.v1.generator_pb2_grpc import GeneratorServiceStub
from pydantic import SecretStr

from callers import signed_channel
from citewire_generator.app import start
from citewire_generator.settings import GeneratorSettings
from citewire_kit import client
from citewire_kit.channel import open_channel
from citewire_kit.errors import CitewireError
from citewire_kit.tenant import use_request_id
from databases import Database
from generator_with_ledger import MODEL, Accounts, number_of, numbers_of, question, write_catalogue
from proof_scale import PrintTable, ProofScale
from raw_upstream import DONE, Exchange, RawUpstream, usage_event
from service_process import ServiceProcess, service_process

PROMPT, COMPLETION = 90, 30
COST = PROMPT * 2000 + COMPLETION * 10_000
"""Nano-USD of an answer, by its provider's usage."""

SETTLED_SECONDS = 60
PACE_SECONDS = 0.02


async def answer(exchange: Exchange, words: int = 3) -> None:
    """Answers with so many words, and reports the usage."""
    await exchange.head()
    for _ in range(words):
        await exchange.delta("word ")
        await asyncio.sleep(PACE_SECONDS)
    await exchange.delta(reason="stop")
    await exchange.send(usage_event(PROMPT, COMPLETION) + DONE)


async def ask(stub: GeneratorServiceStub, number: int) -> str:
    """Asks a question; returns "" or the reason why it failed."""
    with use_request_id(f"call-{number}"):
        try:
            async for _ in client.stream(stub.Generate, question(number), timeout=60):
                pass
        except CitewireError as exc:
            return exc.reason
    return ""


@pytest.fixture
def accounts(database: Database) -> Iterator[Accounts]:
    """The accounts in the database."""
    reading = Accounts(database.owner_dsn)
    yield reading
    reading.close()


@asynccontextmanager
async def killed_generator(
    database: Database, base: str, folder: Path, wave: int, lease_seconds: int
) -> AsyncGenerator[tuple[ServiceProcess, GeneratorServiceStub]]:
    """A generator's process and a client for it."""
    environment = {
        "CITEWIRE_AUTH": "off",
        "CITEWIRE_LEDGER_DSN": database.dsn("citewire_ledger"),
        "CITEWIRE_LEDGER_LEASE_SECONDS": str(lease_seconds),
        "CITEWIRE_CATALOGUE": str(write_catalogue(folder)),
        "CITEWIRE_GENERATOR_PROVIDER": "openai-compatible",
        "CITEWIRE_GENERATOR_API_BASE": base,
        "CITEWIRE_GENERATOR_MODEL": MODEL,
        "CITEWIRE_GENERATOR_ATTEMPTS": "1",
    }
    async with service_process("generator", log=folder / f"generator-{wave}.log", **environment) as running:
        channel = signed_channel(f"127.0.0.1:{running.port}", streams=True, local=True)
        try:
            yield running, GeneratorServiceStub(channel)
        finally:
            await channel.close()


async def ask_until_killed(
    running: ServiceProcess, stub: GeneratorServiceStub, numbers: range, choices: random.Random
) -> dict[int, str]:
    """Asks at random moments, and kills the process at another one."""
    kill_at = choices.uniform(0.2, 1.5)
    moments = [choices.uniform(0, kill_at) for _ in numbers]

    async def ask_at(number: int, moment: float) -> str:
        await asyncio.sleep(moment)
        return await ask(stub, number)

    askers = [asyncio.create_task(ask_at(*pair)) for pair in zip(numbers, moments, strict=True)]
    await asyncio.sleep(kill_at)
    running.process.kill()
    await running.process.wait()
    return dict(zip(numbers, await asyncio.gather(*askers), strict=True))


@pytest.mark.timeout(600)
async def test_a_killed_generators_calls_are_all_in_the_ledger_and_settled(
    database: Database, accounts: Accounts, proof: ProofScale, tmp_path: Path, print_table: PrintTable
) -> None:
    choices = proof.random()
    calls_per_kill, kills = proof.pick(scaled_down=20, full=25), proof.pick(scaled_down=2, full=20)
    count = calls_per_kill * kills
    lease_seconds = proof.pick(scaled_down=3, full=30)
    lengths = {number: choices.randrange(40) for number in range(count)}

    async def behave(exchange: Exchange) -> None:
        await answer(exchange, lengths[number_of(exchange.request)])

    upstream, reasons = RawUpstream(behave), dict[int, str]()
    accounts.put_budget(10**12)
    async with upstream.running() as base:
        for wave in range(kills):
            first = wave * calls_per_kill
            async with killed_generator(database, base, tmp_path, wave, lease_seconds) as (running, stub):
                reasons |= await ask_until_killed(running, stub, range(first, first + calls_per_kill), choices)
        killed_at, open_then = time.monotonic(), accounts.open()
        async with killed_generator(database, base, tmp_path, count, lease_seconds), asyncio.timeout(SETTLED_SECONDS):
            while accounts.open():  # noqa: ASYNC110 - a row has no event to wait for
                await asyncio.sleep(0.05)
            settled_after = time.monotonic() - killed_at
    asked, calls = numbers_of(upstream.requests), accounts.calls()
    on_ledger = Counter(int(call["request_id"].removeprefix("call-")) for call in calls)
    assert set(asked.values()) == set(on_ledger.values()) == {1}
    assert asked.keys() <= on_ledger.keys(), "a call isn't in the ledger"
    # Killed between writing the row and sending the request: the row says that the outcome is unknown.
    unseen = [call for call in calls if int(call["request_id"].removeprefix("call-")) not in asked]
    assert all(call["reason"] == "ORPHANED" for call in unseen), unseen
    by_number = {int(call["request_id"].removeprefix("call-")): call for call in calls}
    for number in (number for number, reason in reasons.items() if not reason):
        call = by_number[number]
        assert (call["state"], call["estimated"], call["cost_nano"]) == ("done", False, COST)
    orphans = [call for call in calls if call["reason"] == "ORPHANED"]
    assert orphans
    assert all(call["estimated"] and call["cost_nano"] > 0 for call in orphans)
    (budget,) = accounts.budgets()
    assert (budget["reserved_nano"], budget["spent_nano"]) == (0, sum(call["cost_nano"] for call in calls))
    title = f"{count} calls, the generator killed {kills} times, seed {proof.seed}"
    table: list[tuple[str, object]] = [
        ("calls that the provider saw", asked.total()),
        ("rows on the ledger", len(calls)),
        ("rows that were killed before their request", len(unseen)),
        ("answers that reached their client", sum(not reason for reason in reasons.values())),
        ("settled as orphans, by estimate", len(orphans)),
        ("open after the last kill", open_then),
        (f"seconds until none was (lease {lease_seconds} s)", round(settled_after, 1)),
    ]
    print_table(title, ["", ""], table)


@asynccontextmanager
async def two_generators(database: Database, base: str, folder: Path) -> AsyncGenerator[list[GeneratorServiceStub]]:
    """Two generators that share only the database."""
    settings = GeneratorSettings(
        port=0,
        metrics_port=0,
        auth="off",
        leave_seconds=0,
        drain_seconds=1,
        provider="openai-compatible",
        api_base=base,
        model=MODEL,
        attempts=1,
        catalogue=write_catalogue(folder),
        ledger_dsn=SecretStr(database.dsn("citewire_ledger")),
    )
    stubs: list[GeneratorServiceStub] = []
    async with AsyncExitStack() as stack:
        for _ in range(2):
            server = await start(stack, settings)
            stack.push_async_callback(server.drain_and_stop)
            channel = open_channel(f"127.0.0.1:{server.port}", streams=True)
            stack.push_async_callback(channel.close)
            stubs.append(GeneratorServiceStub(channel))
        yield stubs


@pytest.mark.parametrize("held", [True, False], ids=["all at once", "one after another"])
async def test_parallel_callers_never_overspend(
    database: Database, accounts: Accounts, proof: ProofScale, tmp_path: Path, print_table: PrintTable, *, held: bool
) -> None:
    count, allowed = proof.pick(scaled_down=60, full=200), proof.pick(scaled_down=6, full=20)
    decided = asyncio.Event()

    async def behave(exchange: Exchange) -> None:
        if held and len(upstream.requests) > 1:
            await decided.wait()
        await answer(exchange)

    upstream, refused = RawUpstream(behave), 0

    async def ask_one(number: int) -> str:
        nonlocal refused
        reason = await ask(stubs[number % 2], number)
        refused += bool(reason)
        if refused == count - allowed:
            decided.set()
        return reason

    async with upstream.running() as base, two_generators(database, base, tmp_path) as stubs:
        assert await ask(stubs[0], 10_000) == ""
        (first,) = accounts.calls()
        reserved = int(first["reserved_nano"])
        assert first["cost_nano"] == COST < reserved
        # Costs of this month from before the budget was set count too.
        limit = COST + allowed * (reserved if held else COST)
        accounts.put_budget(limit)
        reasons = Counter(await asyncio.gather(*(ask_one(number) for number in range(count))))
    went_through = reasons[""]
    assert reasons == {"": went_through, "BUDGET_EXCEEDED": count - went_through}
    assert len(upstream.requests) == len(accounts.calls()) == went_through + 1
    assert went_through == allowed if held else 0 < went_through <= allowed
    (budget,) = accounts.budgets()
    assert (budget["spent_nano"], budget["reserved_nano"]) == ((went_through + 1) * COST, 0)
    assert budget["spent_nano"] <= budget["limit_nano"] == limit
    title = f"{count} calls in parallel at two generators, {'held until all were decided' if held else 'as they come'}"
    print_table(
        title,
        ["allowed", "went through", "refused", "spent of the budget"],
        [[allowed, went_through, count - went_through, f"{budget['spent_nano'] / limit:.0%}"]],
    )
