"""Tokens and cost are counted by the ledger's call, whichever ledger it is."""

from __future__ import annotations

from decimal import Decimal

import pytest
from prometheus_client import REGISTRY

from citewire_kit.metrics import init_model
from citewire_ledger import CallUsage, Ledger, MemoryLedger, NewCall, NoLedger, Price, Purpose

PRICE = Price(Decimal(1), Decimal("0.5"), Decimal(1), Decimal(4))


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


@pytest.mark.parametrize("ledger", [MemoryLedger(), NoLedger()], ids=["memory", "none"])
async def test_tokens_and_cost_are_counted_once(ledger: Ledger) -> None:
    provider = type(ledger).__name__
    init_model(provider=provider, model="m", operation="chat")
    labels = {"provider": provider, "model": "m", "purpose": "generation"}
    new = NewCall(Purpose.GENERATION, provider, "m", PRICE, 100, 50)
    async with ledger.call(new) as call:
        call.record_usage(CallUsage(90, 10, 4))
    results = {
        kind: sample("citewire_provider_tokens_total", **labels, type=kind)
        for kind in ("input", "cached_input", "cache_write", "output")
    }
    assert results == {"input": 90, "cached_input": 10, "cache_write": 0, "output": 4}
    cost = sample("citewire_provider_cost_usd_total", **labels, payer="operator")
    assert cost == pytest.approx((80 * 1 + 10 * 0.5 + 4 * 4) / 1e6)
    convention = {
        "gen_ai_provider_name": provider,
        "gen_ai_request_model": "m",
        "gen_ai_operation_name": "chat",
        "gen_ai_token_type": "output",
    }
    assert sample("gen_ai_client_token_usage_sum", **convention) == 4


async def test_an_interrupted_call_is_counted_by_estimate_and_payer() -> None:
    labels = {"provider": "cut", "model": "own", "purpose": "generation"}

    async def make_call() -> None:
        async with NoLedger().call(NewCall(Purpose.GENERATION, "cut", "m", PRICE, 100, 50, own=True)) as call:
            call.record_progress(7)
            raise KeyError

    with pytest.raises(KeyError):
        await make_call()
    assert sample("citewire_provider_tokens_total", **labels, type="input") == 100
    assert sample("citewire_provider_tokens_total", **labels, type="output") == 7
    assert sample("citewire_provider_cost_usd_total", **labels, payer="tenant") == pytest.approx(128 / 1e6)


async def test_local_models_cost_nothing() -> None:
    async with NoLedger(metered=False).call(NewCall(Purpose.GENERATION, "here", "m", PRICE, 100)):
        pass
    assert sample("citewire_provider_tokens_total", provider="here", model="m", purpose="generation", type="input") == 0
