"""Money: what a call costs, and what is reserved for it."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_ledger import CallUsage, NewCall, Price, Purpose
from citewire_ledger.store import exchange_uuid, usd

PRICE = Price(Decimal(3), Decimal("0.30"), Decimal("3.75"), Decimal(15))
USD = st.decimals(0, 1000, places=6)


def test_each_kind_of_token_has_its_price() -> None:
    spent = CallUsage(1000, 400, 20, cache_write_input_tokens=100)
    assert PRICE.cost(spent) == 500 * 3000 + 400 * 300 + 100 * 3750 + 20 * 15_000


def test_a_part_of_a_nano_is_rounded_up() -> None:
    cheap = Price(Decimal("0.0000001"), Decimal(0), Decimal(0), Decimal(0))
    assert cheap.cost(CallUsage(1)) == 1
    assert cheap.cost(CallUsage(0)) == 0


@given(
    price=st.builds(Price, USD, USD, USD, USD),
    estimate=st.integers(0, 10**6),
    most=st.integers(0, 10**5),
    parts=st.tuples(st.floats(0, 1.5), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)),
)
def test_the_reserve_covers_half_as_much_again(
    price: Price, estimate: int, most: int, parts: tuple[float, float, float, float]
) -> None:
    used = int(estimate * parts[0])
    cached = int(used * parts[1])
    spent = CallUsage(used, cached, int(most * parts[3]), cache_write_input_tokens=int((used - cached) * parts[2]))
    assert price.cost(spent) <= NewCall(Purpose.GENERATION, "p", "m", price, estimate, most).reserved()


def test_without_a_price_nothing_is_reserved() -> None:
    assert NewCall(Purpose.INGEST, "p", "m", None, 10**6).reserved() == 0


@pytest.mark.parametrize(
    ("nano", "text"), [(0, "0"), (1, "0.000000001"), (1_500_000_000, "1.5"), (20_000_000_000, "20"), (10, "0.00000001")]
)
def test_money_is_written_without_needless_zeros(nano: int, text: str) -> None:
    assert usd(nano) == text


def test_an_id_that_is_no_exchange_is_none() -> None:
    assert exchange_uuid("") is None
    assert exchange_uuid("call-7") is None
    assert str(exchange_uuid("01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11")) == "01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11"
