"""Measures the cost of the ledger per call: opening its row (and reserving) before it, settling it after.

    python -m benchmarks.ledger [--seconds 3] [--rounds 5]

The ways take turns: without a ledger, with one, and with one and two budgets that all calls of the organisation share;
with one caller at a time, and with many at once. Calls that settle for the same budget queue at its row.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from decimal import Decimal

import psycopg

from benchmarks.tables import describe_machine, format_table
from citewire_kit.migrate import migrate
from citewire_kit.tenant import Tenant, use_tenant
from citewire_ledger import CallUsage, Ledger, NewCall, NoLedger, Price, Purpose, open_ledger
from embedded_postgres import start_embedded_postgres

CALLERS = (1, 32)
PRICE = Price(Decimal(2), Decimal(1), Decimal(2), Decimal(10))
NEW = NewCall(Purpose.GENERATION, "p", "m", PRICE, 1000, max_output_tokens=500)
USAGE = CallUsage(900, output_tokens=100, finish="stop")


def main() -> int:
    """Runs the benchmark and returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds in which every way takes its turn")
    parser.add_argument("--seconds", type=float, default=2, help="seconds of each turn")
    options = parser.parse_args()
    with start_embedded_postgres(durable=True) as server:
        server.create_database("ledger_bench")
        owner = server.dsn(database="ledger_bench")
        asyncio.run(migrate(owner, schema="ledger", package="citewire_ledger"))
        _put_budgets(owner)
        rows = asyncio.run(_measure(server.dsn("citewire_ledger", "ledger_bench"), options.rounds, options.seconds))
    print(describe_machine())
    print(f"One call's row opened and settled; medians of {options.rounds} rounds of {options.seconds:g} s")
    print(format_table(["way", "callers", "ms p50", "ms p95", "calls/s"], rows))
    return 0


def _put_budgets(owner: str) -> None:
    with psycopg.connect(owner) as connection:
        connection.execute("SELECT set_config('citewire.org_id', 'budgeted', true)")
        for period in ("day", "month"):
            connection.execute("SELECT ledger.put_budget('', %s, %s, 'bench')", (period, 10**15))


async def _measure(dsn: str, rounds: int, seconds: float) -> list[Sequence[object]]:
    async with AsyncExitStack() as stack:
        postgres = await stack.enter_async_context(open_ledger(dsn, process="bench"))
        ways: list[tuple[str, Ledger, str]] = [
            ("no ledger", NoLedger(), "free"),
            ("Postgres", postgres, "free"),
            ("Postgres, two budgets", postgres, "budgeted"),
        ]
        results: dict[tuple[str, int], list[list[float]]] = {(way[0], n): [] for n in CALLERS for way in ways}
        for _ in range(rounds):
            for callers in CALLERS:
                for title, ledger, org in ways:
                    results[title, callers].append(await _turn(ledger, Tenant(org, "u", "pro"), callers, seconds))
    return [_row(title, callers, turns, seconds) for (title, callers), turns in results.items()]


async def _turn(ledger: Ledger, tenant: Tenant, callers: int, seconds: float) -> list[float]:
    """Returns the seconds of accounting for each call."""
    took: list[float] = []
    until = time.perf_counter() + seconds

    async def calling() -> None:
        while (began := time.perf_counter()) < until:
            async with ledger.call(NEW) as call:
                call.record_usage(USAGE)
            took.append(time.perf_counter() - began)
            await asyncio.sleep(0)

    with use_tenant(tenant):
        await asyncio.gather(*(calling() for _ in range(callers)))
    return took


def _row(title: str, callers: int, turns: list[list[float]], seconds: float) -> Sequence[object]:
    quantiles = [statistics.quantiles(turn, n=20) for turn in turns]
    middle = statistics.median(quantile[9] for quantile in quantiles) * 1000
    high = statistics.median(quantile[18] for quantile in quantiles) * 1000
    rate = statistics.median(len(turn) / seconds for turn in turns)
    return [title, callers, round(middle, 3), round(high, 3), round(rate)]


if __name__ == "__main__":
    raise SystemExit(main())
