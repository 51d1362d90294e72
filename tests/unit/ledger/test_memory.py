"""The in-memory ledger, which other tests rely on."""

from __future__ import annotations

import asyncio

import pytest

from citewire_kit.errors import CitewireError, ResourceExhausted, Unavailable
from citewire_ledger import CallUsage, MemoryLedger, NewCall, NoLedger, Outcome, Purpose

NEW = NewCall(Purpose.GENERATION, "p", "m", None, input_tokens=100, max_output_tokens=50)


async def test_usage_is_recorded() -> None:
    ledger = MemoryLedger()
    async with ledger.call(NEW) as call:
        assert ledger.rows[0].outcome is Outcome.OPEN
        call.record_progress(3)
        call.record_usage(CallUsage(90, 10, 4, finish="stop"))
    (row,) = ledger.rows
    assert (row.new, row.outcome, row.reason, row.usage) == (NEW, "done", "", CallUsage(90, 10, 4, finish="stop"))


@pytest.mark.parametrize(
    ("error", "outcome", "reason"),
    [
        (Unavailable("x", reason="PROVIDER_UNAVAILABLE"), "failed", "PROVIDER_UNAVAILABLE"),
        (KeyError(), "failed", "KeyError"),
        (asyncio.CancelledError(), "cancelled", "cancelled"),
        (GeneratorExit(), "cancelled", "cancelled"),
    ],
)
async def test_whatever_happens_the_row_is_settled(error: BaseException, outcome: str, reason: str) -> None:
    ledger = MemoryLedger()

    async def make_call() -> None:
        async with ledger.call(NEW) as call:
            call.record_progress(7)
            raise error

    with pytest.raises(type(error)):
        await make_call()
    (row,) = ledger.rows
    assert (row.outcome, row.reason) == (outcome, reason)
    assert row.usage == CallUsage(100, output_tokens=7, estimated=True)


async def test_a_refused_call_has_no_row() -> None:
    ledger = MemoryLedger()
    ledger.refuse = ResourceExhausted("spent", reason="BUDGET_EXCEEDED")
    with pytest.raises(CitewireError):
        async with ledger.call(NEW):
            pytest.fail("the call was made")
    assert ledger.rows == []


async def test_no_ledger_records_nothing() -> None:
    async with NoLedger().call(NEW) as call:
        call.record_progress(1)
        call.record_usage(CallUsage(1))
