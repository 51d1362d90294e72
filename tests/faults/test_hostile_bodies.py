"""Providers with hostile bodies: bombs, endless errors, errors that arrive byte by byte, events without an end.

An embedding, a rerank and a chat provider face each attack over real sockets. We measure its cost: the peak of
allocated memory, the longest pause of the event loop, and the time until the call is over. `make faults` prints
the table.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from citewire_egress.addresses import EgressPolicy
from citewire_egress.connections import guarded_client
from citewire_embedder.providers.base import Purpose
from citewire_embedder.providers.remote_calls import CallLimits, ModelSpec
from citewire_embedder.providers.remote_embedding import RemoteModel, read_answer
from citewire_embedder.providers.remote_rerank import RemoteReranker
from citewire_generator.model import Message, ModelInfo, Role
from citewire_generator.providers.base import ChatTask, Delta
from citewire_generator.providers.factory import build_chat_provider
from citewire_kit.errors import CitewireError
from citewire_remote.catalogue import load_catalogue
from citewire_remote.egress import guarded_connector
from citewire_remote.retry import RetryPolicy
from citewire_remote.stall_timeout import TimeLimits
from compression_bombs import MIB, deflate_bomb, endless_members, gzip_bomb
from proof_scale import PrintTable, ProofScale
from raw_upstream import Behaviour, Exchange, RawUpstream

POLICY = EgressPolicy.parse("127.0.0.1")
CALL = CallLimits(retry=RetryPolicy(attempts=1), seconds=20)
CHAT = TimeLimits(connect=2, first_token=20, between_tokens=20, whole=20)
ERROR_BYTES = 4 * MIB
"""The most memory that a hostile error may allocate, including the buffers at both ends of its connection."""
ANSWER_BYTES = 24 * MIB
"""The same for an answer. A MiB of JSON becomes twenty."""
PAUSE_SECONDS = 0.25
"""Longest pause of the event loop in CPU time of its thread, which other processes don't lengthen."""
EVENTS = "text/event-stream"
ERROR_SECONDS = 6.0
"""Longest time until an error is reported: five seconds for its body, and a second for the rest."""

Call = Callable[[str], Awaitable[object]]
"""Calls the provider at a URL."""


@dataclass
class Cost:
    """A call's cost to the process."""

    seconds: float = 0.0
    pause: float = 0.0
    peak: int = 0


async def embedding(base: str) -> None:
    spec = ModelSpec("openai-compatible", "m", api_base=base, own=True, dimensions=8)
    model = RemoteModel(spec, load_catalogue(), guarded_client(POLICY, timeout=CALL.timeout()), limits=CALL)
    try:
        await model.embed(await model.tokenise(["a text"], Purpose.DOCUMENT))
    finally:
        await model.close()


async def rerank(base: str) -> None:
    spec = ModelSpec("jina", "m", api_base=base, own=True)
    model = RemoteReranker(spec, load_catalogue(), guarded_client(POLICY, timeout=CALL.timeout()), limits=CALL)
    try:
        await model.rerank("a query", ["a text"])
    finally:
        await model.close()


async def chat(base: str) -> int:
    made = build_chat_provider(
        "openai-compatible",
        api_base=base,
        api_key="",
        models=(ModelInfo("openai-compatible", "m"),),
        limits=CHAT,
        connector=guarded_connector(POLICY),
    )
    characters = 0
    try:
        async for event in made.stream(ChatTask("m", (Message(Role.USER, "hello"),))):
            if isinstance(event, Delta):
                characters += sum(map(len, event.texts))
    finally:
        await made.close()
    return characters


CALLS: dict[str, Call] = {"embedding": embedding, "rerank": rerank, "chat": chat}


@contextmanager
def measure_cost() -> Generator[Cost]:
    """Measures the block's cost in this event loop."""
    cost = Cost()

    async def tick() -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0.005)
            now = time.thread_time()
            cost.pause, before = max(cost.pause, now - before), now

    ticking = asyncio.get_running_loop().create_task(tick())
    tracemalloc.start()
    started = time.perf_counter()
    try:
        yield cost
    finally:
        cost.seconds = time.perf_counter() - started
        cost.peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        ticking.cancel()


def sender(
    pieces: Callable[[], Iterator[bytes]], status: int = 500, kind: str = "application/json", **headers: str
) -> Behaviour:
    """Returns a provider's behaviour that sends these pieces as fast as the client reads them."""

    async def behave(exchange: Exchange) -> None:
        await exchange.head(status, kind, **headers)
        for piece in pieces():
            await exchange.send(piece)

    return behave


def chunked(piece: bytes) -> Callable[[], Iterator[bytes]]:
    return lambda: itertools.repeat(b"%x\r\n%s\r\n" % (len(piece), piece))


async def promise(exchange: Exchange) -> None:
    """Announces ten gigabytes and sends a byte."""
    await exchange.head(500, "application/json", Content_Length="9999999999")
    await exchange.send(b"{")
    await exchange.gone()


async def drip(exchange: Exchange) -> None:
    """Sends a byte now and then without an end; each pause is too short for a timeout."""
    await exchange.head(500, "application/json")
    while True:
        await exchange.send(b" ")
        await asyncio.sleep(0.05)


def errors(mebibytes: int) -> dict[str, Behaviour]:
    bomb, raw = gzip_bomb(mebibytes), deflate_bomb(mebibytes)
    return {
        "gzip bomb": sender(lambda: iter([bomb]), Content_Encoding="gzip"),
        "deflate bomb": sender(lambda: iter([raw]), Content_Encoding="deflate"),
        "gzip twice": sender(lambda: iter([bomb]), Content_Encoding="gzip, gzip"),
        "an encoding we never offered": sender(lambda: iter([bomb]), Content_Encoding="br"),
        "zstd": sender(lambda: iter([bomb]), Content_Encoding="zstd"),
        "endless members of nothing": sender(endless_members, Content_Encoding="gzip"),
        "endless chunks": sender(chunked(b"x" * 65_536), Transfer_Encoding="chunked"),
        "endless, without a length": sender(lambda: itertools.repeat(b"x" * 65_536)),
        "a length that never comes": promise,
        "a drip": drip,
        "deep JSON": sender(lambda: iter([b"[" * 60_000]), Content_Length="60000"),
        "a wait until the year 99999": sender(
            lambda: iter([b"{}"]), Content_Length="2", Retry_After="Mon, 01 Jan 99999 00:00:00 GMT"
        ),
    }


STALLING = ("a length that never comes", "a drip")
"""Attacks that only a time limit ends; all calls are made at once."""


def answers(mebibytes: int) -> dict[str, Behaviour]:
    """Answers with status 200. Attacks by streams are sent to all providers."""
    bomb = gzip_bomb(mebibytes)
    line = b"data: " + b" " * 65_536 + b"\n"
    return {
        "gzip bomb": sender(lambda: iter([bomb]), 200, Content_Encoding="gzip"),
        "a bomb in events": sender(lambda: iter([bomb]), 200, EVENTS, Content_Encoding="gzip"),
        "an encoding we never offered": sender(lambda: iter([bomb]), 200, Content_Encoding="br"),
        "endless body": sender(chunked(b"[],".ljust(65_536)), 200, Transfer_Encoding="chunked"),
        "an event without an end": sender(lambda: itertools.repeat(line), 200, EVENTS),
        "a line without an end": sender(lambda: itertools.repeat(line[:-1]), 200, EVENTS),
        "deep JSON": sender(lambda: iter([b"[" * 60_000]), 200, Content_Length="60000"),
        "deep JSON in an event": sender(lambda: iter([b"data: " + b"[" * 60_000 + b"\n\n"]), 200, EVENTS),
        "many empty lists": sender(lambda: iter([b"[" + b"[]," * MIB]), 200, Content_Length=str(1 + 3 * MIB)),
    }


async def run_attack(behave: Behaviour, *callers: str) -> tuple[Cost, list[str]]:
    """Makes these calls at once; returns their total cost and the reason why each failed."""

    async def reason_of(caller: str, base: str) -> str:
        try:
            await CALLS[caller](base)
        except CitewireError as exc:
            return exc.reason
        except Exception as exc:  # noqa: BLE001 # it is in the table, and fails the test
            return type(exc).__name__
        return "none"

    async with RawUpstream(behave).running() as base:
        with measure_cost() as cost:
            reasons = list(await asyncio.gather(*(reason_of(caller, base) for caller in callers)))
    return cost, reasons


async def attack_each(
    attacks: dict[str, Behaviour], title: str, peak: int, print_table: PrintTable
) -> dict[str, set[str]]:
    """Makes each call against each attack and checks its cost; returns the reasons by attack."""
    rows: list[tuple[object, ...]] = []
    reasons: dict[str, set[str]] = {}
    for name, behave in attacks.items():
        together = [tuple(CALLS)] if name in STALLING else [(caller,) for caller in CALLS]
        for callers in together:
            cost, given = await run_attack(behave, *callers)
            reasons.setdefault(name, set()).update(given)
            measures = (f"{cost.seconds:.2f}", f"{cost.pause * 1000:.0f}", f"{cost.peak / MIB:.1f}")
            rows.append((name, ", ".join(callers), ", ".join(sorted(set(given))), *measures))
            assert cost.peak <= peak * len(callers), rows[-1]
            assert cost.pause <= PAUSE_SECONDS, rows[-1]
            assert cost.seconds <= ERROR_SECONDS, rows[-1]
    print_table(title, ("attack", "call", "reason", "s", "longest pause, ms", "peak, MiB"), rows)
    return reasons


async def test_hostile_errors_are_cut_short(proof: ProofScale, print_table: PrintTable) -> None:
    reasons = await attack_each(
        errors(proof.pick(scaled_down=64, full=600)), "hostile errors", ERROR_BYTES, print_table
    )
    assert set().union(*reasons.values()) == {"PROVIDER_UNAVAILABLE"}, reasons


async def test_hostile_answers_are_cut_short(proof: ProofScale, print_table: PrintTable) -> None:
    reasons = await attack_each(
        answers(proof.pick(scaled_down=64, full=600)), "hostile answers", ANSWER_BYTES, print_table
    )
    expected = {"PROVIDER_REJECTED", "PROVIDER_STREAM_BROKEN", "PROVIDER_UNAVAILABLE"}
    assert set().union(*reasons.values()) <= expected, reasons


@pytest.mark.parametrize("count", [2**31, 2**64, 10**4000, -1, True, 1.5, "7"])
async def test_an_invalid_token_count_is_estimated(count: object) -> None:
    answer = {"data": [{"index": 0, "embedding": [1.0] * 8}], "usage": {"prompt_tokens": count}}
    body = json.dumps(answer).encode()
    assert read_answer(body, 1, "a provider").tokens is None
