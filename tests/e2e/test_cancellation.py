"""A client that leaves stops everything at once: the gateway, the generator and the provider's connection."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from client_disconnects import (
    LIMIT_SECONDS,
    QUESTION,
    TOKEN,
    Disconnect,
    DisconnectProbe,
    disconnect_probe,
    running_curl,
)
from deploy.rehearsal.load import Load
from paced_model_stack import PacedModelStack

pytestmark = pytest.mark.system(program="curl", package="curl")


@pytest.fixture
async def clients(paced: PacedModelStack) -> AsyncIterator[DisconnectProbe]:
    paced.upstream.pace(rate=50, tokens=500)
    async with disconnect_probe(paced) as clients:
        yield clients


@pytest.mark.parametrize("how", ["killed", "hangs up"])
@pytest.mark.parametrize("path", TOKEN)
async def test_a_client_that_leaves_after_the_second_token(
    clients: DisconnectProbe, path: str, how: Disconnect
) -> None:
    for _ in range(3):
        await clients.disconnect_from_stream(path, how)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat", {"stream": False}),
        ("/v1/chat", {"stream": False, "profile": "simple"}),
        ("/api/chat/query", {}),
    ],
)
async def test_a_client_that_leaves_before_the_answer_is_complete(
    clients: DisconnectProbe, path: str, body: dict[str, object]
) -> None:
    await clients.disconnect_before_output(path, body, tokens=2)


@pytest.mark.parametrize("path", TOKEN)
async def test_a_client_that_leaves_before_the_first_token(
    paced: PacedModelStack, clients: DisconnectProbe, path: str
) -> None:
    paced.upstream.pace(rate=50, tokens=500, first_delay=10)
    await clients.disconnect_before_output(path, {}, tokens=0)


async def test_clients_that_leave_do_not_disturb_others(paced: PacedModelStack) -> None:
    paced.upstream.pace(rate=40, tokens=80)
    load = Load(lambda: paced.stack.base_url, f"bystander-{time.monotonic_ns()}")
    async with load.running({"native": 3, "simple": 3}), AsyncExitStack() as stack:
        await load.until(lambda: len(load.streaming(2)) == 6, "the streams haven't started")
        starting = [running_curl(f"{paced.stack.base_url}{path}", {"question": QUESTION}) for path in (*TOKEN, *TOKEN)]
        curls = [await stack.enter_async_context(curl) for curl in starting]
        await asyncio.gather(
            *(curl.read_until(sign, 2) for curl, sign in zip(curls, (*TOKEN.values(), *TOKEN.values()), strict=True))
        )
        before = len(paced.upstream.stats()["closed_early"])
        left_at = [await curl.disconnect("killed") for curl in curls]
        async with asyncio.timeout(LIMIT_SECONDS):
            while len(closed := paced.upstream.stats()["closed_early"][before:]) < len(curls):  # noqa: ASYNC110 # nobody tells us
                await asyncio.sleep(0.01)
        assert max(closed) - min(left_at) < LIMIT_SECONDS
        assert len(load.streaming()) >= 4
    assert load.ends().keys() == {"complete"}, load.asked
    assert len(paced.upstream.stats()["closed_early"]) == before + len(curls)
