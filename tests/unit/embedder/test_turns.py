"""The reranker's thread: one piece of work at a time, in turn, even if callers leave."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable

import pytest

from citewire_embedder.providers.turns import Turns


class Gate:
    """Work that ends when the test says so."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.end = threading.Event()

    def work(self) -> str:
        """Waits for the test's signal."""
        self.begun.set()
        assert self.end.wait(10)
        return "gate"


@pytest.fixture
async def turns() -> AsyncGenerator[Turns]:
    result = Turns("test")
    yield result
    result.close()


async def begin(turns: Turns) -> tuple[Gate, asyncio.Task[str]]:
    gate = Gate()
    task = asyncio.create_task(turns.run(gate.work))
    assert await asyncio.to_thread(gate.begun.wait, 10)
    return gate, task


async def test_callers_have_turns_in_their_order_and_the_urgent_first(turns: Turns) -> None:
    done: list[str] = []

    def note(name: str) -> Callable[[], None]:
        return lambda: done.append(name)

    gate, first = await begin(turns)
    calls = [asyncio.create_task(turns.run(note(name), urgent=name.startswith("u"))) for name in ("a", "b", "u", "u2")]
    await asyncio.sleep(0)
    assert done == []
    gate.end.set()
    assert await first == "gate"
    await asyncio.gather(*calls)
    assert done == ["u", "u2", "a", "b"]


async def test_organisations_take_turns(turns: Turns) -> None:
    done: list[str] = []

    def note(name: str) -> Callable[[], None]:
        return lambda: done.append(name)

    gate, first = await begin(turns)
    calls = [asyncio.create_task(turns.run(note("flood"), org_id="flood")) for _ in range(20)]
    calls.append(asyncio.create_task(turns.run(note("other"), org_id="other")))
    await asyncio.sleep(0)
    gate.end.set()
    await asyncio.gather(first, *calls)
    assert done.index("other") <= 1


async def test_a_caller_that_leaves_gives_up_its_turn(turns: Turns) -> None:
    done: list[str] = []
    gate, running = await begin(turns)
    quitter = asyncio.create_task(turns.run(lambda: done.append("left")))
    staying = asyncio.create_task(turns.run(lambda: done.append("stayed")))
    await asyncio.sleep(0)
    quitter.cancel()
    running.cancel()
    await asyncio.gather(quitter, running, return_exceptions=True)
    assert (quitter.cancelled(), running.cancelled()) == (True, True)
    await asyncio.sleep(0)
    assert done == [], "running work can't be stopped, and keeps its turn to the end"
    gate.end.set()
    await staying
    assert done == ["stayed"]


async def test_a_turn_given_to_a_leaving_caller_is_passed_on(turns: Turns) -> None:
    gate, running = await begin(turns)
    quitter = asyncio.create_task(turns.run(lambda: None))
    staying = asyncio.create_task(turns.run(lambda: "stayed"))
    await asyncio.sleep(0)
    gate.end.set()
    await running
    quitter.cancel()
    assert await staying == "stayed"


async def test_a_failure_affects_only_its_caller(turns: Turns) -> None:
    def fail() -> None:
        raise ValueError("no")

    failing, next_one = asyncio.create_task(turns.run(fail)), asyncio.create_task(turns.run(lambda: 1))
    with pytest.raises(ValueError, match="no"):
        await failing
    assert await next_one == 1


async def test_a_closed_thread_refuses(turns: Turns) -> None:
    turns.close()
    for _ in range(2):
        with pytest.raises(RuntimeError):
            await turns.run(lambda: None)
