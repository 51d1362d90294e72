"""The rate limit of backfill."""

from citewire_retriever.ingest.backfill.rate import TokenRate


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_spent_tokens_must_be_waited_for() -> None:
    clock = Clock()
    rate = TokenRate(50, clock)
    assert rate.wait_seconds() == 0
    rate.spend(100)
    assert rate.wait_seconds() == 2
    rate.spend(25)
    assert rate.wait_seconds() == 2.5
    clock.now += 2.4
    assert 0 < rate.wait_seconds() < 0.11
    clock.now += 0.2
    assert rate.wait_seconds() == 0


def test_nothing_is_saved_up() -> None:
    clock = Clock()
    rate = TokenRate(50, clock)
    clock.now += 3600
    rate.spend(100)
    assert rate.wait_seconds() == 2


def test_no_limit() -> None:
    rate = TokenRate(0, Clock())
    rate.spend(10**9)
    assert rate.wait_seconds() == 0
