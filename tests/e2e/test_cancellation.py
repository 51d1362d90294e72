"""Who leaves stops everything at once: through the gateway and the generator down to the provider's socket."""

from collections.abc import AsyncIterator

import pytest

from leaving import TOKEN, How, Leaving, leaving
from paced_stack import PacedStack

pytestmark = pytest.mark.system(program="curl", package="curl")


@pytest.fixture
async def clients(paced: PacedStack) -> AsyncIterator[Leaving]:
    paced.upstream.pace(rate=50, tokens=500)
    async with leaving(paced) as clients:
        yield clients


@pytest.mark.parametrize("how", ["killed", "hangs up"])
@pytest.mark.parametrize("path", TOKEN)
async def test_a_client_that_leaves_after_the_second_token(clients: Leaving, path: str, how: How) -> None:
    for _ in range(3):
        await clients.leave_stream(path, how)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat", {"stream": False}),
        ("/v1/chat", {"stream": False, "profile": "simple"}),
        ("/api/chat/query", {}),
    ],
)
async def test_a_client_that_leaves_before_the_whole_answer_is_there(
    clients: Leaving, path: str, body: dict[str, object]
) -> None:
    await clients.leave_silence(path, body, tokens=2)


@pytest.mark.parametrize("path", TOKEN)
async def test_a_client_that_leaves_before_the_first_token(paced: PacedStack, clients: Leaving, path: str) -> None:
    paced.upstream.pace(rate=50, tokens=500, first_delay=10)
    await clients.leave_silence(path, {}, tokens=0)
