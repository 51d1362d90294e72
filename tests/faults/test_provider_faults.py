"""Scripted faults of a model provider: what the client sees, and how many calls the provider gets.

Each fault happens over real sockets: with one provider, with a second one that takes over, and to check the ledger.
`make faults` prints the table.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import pytest
from citewire.generator.v1 import generator_pb2 as pb
from citewire.generator.v1.generator_pb2_grpc import GeneratorServiceStub
from pydantic import SecretStr

from citewire_generator.app import start
from citewire_generator.settings import GeneratorSettings, ProviderKind
from citewire_kit import client
from citewire_kit.channel import open_channel
from citewire_kit.errors import CitewireError, Code
from citewire_ledger import MemoryLedger, Outcome
from faulty_provider import (
    SECRET,
    Behaviour,
    after,
    answer,
    cut,
    malformed,
    overloaded,
    reset,
    stall,
    status,
)
from proof_scale import PrintTable, ProofScale
from raw_upstream import RawUpstream

FIRST_TOKEN_SECONDS = 0.8
GOOD = "Refunds take 14 days."
OTHER = "The other one says so."
BEGUN = "Once "
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, a row of the table."""

    name: str
    behave: Behaviour | None
    """The provider's behaviour; None if nothing listens at its URL."""
    calls: int
    """How many calls it gets."""
    code: Code
    reason: str
    """With `code`, the error that the client sees if no other provider takes over."""
    text: str = ""
    """The text that the client has by then. If there is any, no other provider takes over."""
    retry_after: float | None = None
    """The seconds that the client should wait, if the provider says so."""


QUOTA = {"code": "insufficient_quota", "type": "insufficient_quota"}
DOWN, LIMITED = (Code.UNAVAILABLE, "PROVIDER_UNAVAILABLE"), (Code.RESOURCE_EXHAUSTED, "PROVIDER_RATE_LIMITED")
BROKEN, LATE = (Code.UNAVAILABLE, "PROVIDER_STREAM_BROKEN"), (Code.DEADLINE_EXCEEDED, "PROVIDER_TIMEOUT")
AUTH, REFUSED = (Code.FAILED_PRECONDITION, "PROVIDER_AUTH"), (Code.FAILED_PRECONDITION, "PROVIDER_REJECTED")

FAULTS = [
    Fault("connection refused", None, 0, *DOWN),
    Fault("401", status(401), 1, *AUTH),
    Fault("404, no such model", status(404), 1, *REFUSED),
    Fault("429 with retry-after 60", status(429, Retry_After="60"), 1, *LIMITED, retry_after=60),
    Fault("429 with retry-after 0.05", status(429, Retry_After="0.05"), ATTEMPTS, *LIMITED),
    Fault("429 without retry-after", status(429), ATTEMPTS, *LIMITED),
    Fault("429, quota spent", status(429, error=QUOTA), 1, *LIMITED),
    Fault("500", status(500), ATTEMPTS, *DOWN),
    Fault("529, overloaded", status(529), ATTEMPTS, *DOWN),
    Fault("200, then overloaded", after("", overloaded), ATTEMPTS, *DOWN),
    Fault("stall before headers", stall, 1, *LATE),
    Fault("stall before first token", after("", stall), 1, *LATE),
    Fault("malformed JSON before first token", after("", malformed), ATTEMPTS, *BROKEN),
    Fault("reset before headers", reset, ATTEMPTS, *DOWN),
    Fault("reset before first token", after("", reset), ATTEMPTS, *BROKEN),
    Fault("clean end before first token", after("", cut), ATTEMPTS, *BROKEN),
    Fault("stall mid-stream", after(BEGUN, stall), 1, *LATE, BEGUN),
    Fault("malformed JSON mid-stream", after(BEGUN, malformed), 1, *BROKEN, BEGUN),
    Fault("reset mid-stream", after(BEGUN, reset), 1, *BROKEN, BEGUN),
    Fault("clean end mid-stream", after(BEGUN, cut), 1, *BROKEN, BEGUN),
    Fault("overloaded mid-stream", after(BEGUN, overloaded), 1, *DOWN, BEGUN),
]
DIALECTS = ("openai-compatible", "anthropic")
by_dialect = pytest.mark.parametrize("dialect", DIALECTS)
by_name = pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.name) for fault in FAULTS])


@dataclass(slots=True)
class Result:
    """The result of a client's call."""

    kinds: list[str] = field(default_factory=list[str])
    text: str = ""
    notices: list[str] = field(default_factory=list[str])
    completed: pb.Completed | None = None
    error: CitewireError | None = None
    seconds: float = 0.0
    """The time until the first text or the error."""


class Client:
    """A client of a server with one or two providers."""

    def __init__(self, stub: GeneratorServiceStub, upstreams: Sequence[RawUpstream], ledger: MemoryLedger) -> None:
        self._stub = stub
        self.upstreams = upstreams
        self.ledger = ledger

    async def ask(self) -> Result:
        """Asks once."""
        seen, loop = Result(), asyncio.get_running_loop()
        began = loop.time()
        passage = pb.Passage(chunk_id=1, document_id=1, text="Refunds take 14 days.")
        asked = pb.GenerateRequest(question="How long do refunds take?", passages=[passage])
        try:
            async with aclosing(client.stream(self._stub.Generate, asked, timeout=20)) as events:
                async for event in events:
                    self._note(event, seen)
                    if seen.text and not seen.seconds:
                        seen.seconds = loop.time() - began
        except CitewireError as exc:
            seen.error = exc
        seen.seconds = seen.seconds or loop.time() - began
        return seen

    @staticmethod
    def _note(event: pb.GenerateResponse, seen: Result) -> None:
        kind = str(event.WhichOneof("event"))
        seen.kinds.append(kind)
        seen.text += "".join(event.delta.texts)
        if kind == "notice":
            seen.notices.append(f"{event.notice.name} {event.notice.provider}/{event.notice.model}")
        if kind == "completed":
            seen.completed = event.completed


@asynccontextmanager
async def serving(*behaviours: Behaviour | None, dialect: str = DIALECTS[0]) -> AsyncGenerator[Client]:
    """Serves with a provider for each behaviour; the second one takes over. None: nothing listens there.

    The first provider speaks `dialect`, the second OpenAI's.
    """
    ledger = MemoryLedger()
    async with AsyncExitStack() as stack:
        upstreams: list[RawUpstream] = []
        bases: list[str] = []
        for behave in behaviours:
            upstream = RawUpstream(behave or answer(GOOD))
            async with AsyncExitStack() as own:
                bases.append(await own.enter_async_context(upstream.running()))
                if behave is not None:
                    stack.push_async_callback(own.pop_all().aclose)
            upstreams.append(upstream)
        settings = GeneratorSettings(
            port=0,
            metrics_port=0,
            auth="off",
            leave_seconds=0,
            drain_seconds=1,
            provider=cast("ProviderKind", dialect),
            api_base=bases[0] if dialect == DIALECTS[0] else "",
            model="first" if dialect == DIALECTS[0] else "",
            anthropic_api_key=SecretStr("k") if dialect == "anthropic" else None,
            anthropic_api_base=bases[0],
            anthropic_model="claude-sonnet-4-6",
            context_window=32_768,
            ollama_api_base=bases[1] if len(bases) > 1 else "",
            ollama_model="second",
            ollama_context_window=32_768,
            fallbacks="ollama/second" if len(bases) > 1 else "",
            connect_seconds=FIRST_TOKEN_SECONDS,
            first_token_seconds=FIRST_TOKEN_SECONDS,
            between_tokens_seconds=0.5,
            total_seconds=5,
            attempts=ATTEMPTS,
            retry_seconds=0.02,
        )
        server = await start(stack, settings, ledger=ledger)
        stack.push_async_callback(server.drain_and_stop)
        channel = open_channel(f"127.0.0.1:{server.port}", streams=True)
        stack.push_async_callback(channel.close)
        yield Client(GeneratorServiceStub(channel), upstreams, ledger)


@by_dialect
@by_name
async def test_with_one_provider(fault: Fault, dialect: str) -> None:
    async with serving(fault.behave, dialect=dialect) as faulty:
        seen = await faulty.ask()
        again = None
        if fault.behave is not None:
            faulty.upstreams[0].behave = answer(GOOD)
            again = await faulty.ask()
    assert seen.error is not None
    assert (seen.error.code, seen.error.reason) == (fault.code, fault.reason)
    assert seen.text == fault.text
    assert seen.kinds == (["started", "delta"] if fault.text else ["started"])
    assert SECRET not in str(seen.error)
    assert SECRET not in str(seen.error.metadata)
    if fault.retry_after is not None:
        assert seen.error.retry_after == fault.retry_after
    assert seen.seconds < FIRST_TOKEN_SECONDS + 1
    # The server keeps serving, and the fault affects no other call.
    assert again is None or again.text.strip() == GOOD
    assert len(faulty.upstreams[0].requests) == (fault.calls + 1 if fault.behave else 0)
    rows = faulty.ledger.rows[: -1 if fault.behave else None]
    # Each attempt has its row, connected or not.
    assert [row.outcome for row in rows] == [Outcome.FAILED] * (fault.calls if fault.behave else ATTEMPTS)
    assert {row.reason for row in rows} == {fault.reason}


@by_dialect
@by_name
async def test_with_a_second_provider_that_takes_over(fault: Fault, dialect: str) -> None:
    async with serving(fault.behave, answer(OTHER), dialect=dialect) as faulty:
        seen = await faulty.ask()
    first, second = (len(upstream.requests) for upstream in faulty.upstreams)
    assert first == fault.calls
    if fault.text:
        assert seen.error is not None
        assert (seen.error.reason, seen.text, second) == (fault.reason, fault.text, 0)
        return
    assert seen.error is None
    assert (seen.text.strip(), second) == (OTHER, 1)
    assert seen.notices == ["failover ollama/second"]
    assert seen.kinds[:2] == ["started", "notice"]
    assert seen.completed is not None
    assert (seen.completed.provider, seen.completed.model) == ("ollama", "second")
    assert seen.completed.attempts == max(fault.calls, 0 if fault.behave else ATTEMPTS) + 1
    assert seen.seconds <= FIRST_TOKEN_SECONDS + 1
    *failed, last = faulty.ledger.rows
    assert {row.outcome for row in failed} == {Outcome.FAILED}
    assert (last.outcome, last.new.provider) == (Outcome.DONE, "ollama")
    assert last.usage is not None
    assert (last.usage.input_tokens, last.usage.output_tokens, last.usage.estimated) == (7, 3, False)


async def test_the_table(
    proof: ProofScale,
    print_table: PrintTable,
) -> None:
    """Measures the time until the other provider's first word, and prints the table of all faults."""
    rows: list[list[object]] = []
    selected = proof.random().sample(FAULTS, proof.pick(scaled_down=3, full=len(FAULTS)))
    for fault, dialect in itertools.product(sorted(selected, key=FAULTS.index), DIALECTS):
        async with serving(fault.behave, answer(OTHER), dialect=dialect) as faulty:
            seen = await faulty.ask()
        taken = f"{seen.seconds * 1000:.0f} ms" if seen.error is None else "no: text was shown"
        rows.append([fault.name, dialect, f"{fault.code.value} {fault.reason}", fault.calls, repr(fault.text), taken])
        assert seen.text.count(BEGUN) + seen.text.count(OTHER) == 1
    title = f"Scripted faults; first token within {FIRST_TOKEN_SECONDS} s, at most {ATTEMPTS} calls to one provider"
    print_table(
        title, ["fault", "dialect", "alone, the client sees", "calls", "after the text", "taken over after"], rows
    )
