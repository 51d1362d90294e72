"""No answer holds the gateway's event loop for long, however hostile: a real generator and a real gateway, one loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING

import pytest
from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator import converters
from citewire_generator.model import FinishReason, Usage
from citewire_generator.providers.base import ChatTask, Delta, End
from citewire_generator.registry import Registry
from citewire_generator.service import Generator
from gateway_fake_servers import running_fakes
from gateway_fakes import result
from gateway_process import Gateway, running_gateway
from loop_holds import measured_holds
from scripted_chat import ScriptedChat

if TYPE_CHECKING:
    from databases import Database

MOST_MS = 10.0
"""Five are aimed at, and measured alone; on a shared machine processor time doubles."""
TRIES = 3
PASSAGE = "The limit is 500 euros per day if the tenant must not pay at least 500 euros. " * 30
POLICY = pb.AnswerPolicy(marker_style=pb.MARKER_STYLE_REF, verify_citations=True, flag_uncited=True)
QUESTION = {"model": "grounded", "messages": [{"role": "user", "content": "What?"}]}
CHARS = 24_000
UNITS = ["[1] ", "Pay 500 euros [ref:1]. " + "." * 380, "a\u0301\u0301 \u05d0\u05d1 **_`[ref:1]`_**. ", '"\u2028\x01`']
WAYS = {
    "native": ("/v1/chat", {"question": "What?"}),
    "openai": ("/v1/chat/completions", QUESTION | {"stream": True}),
}


class Burst(ScriptedChat):
    """Answers with one text in one delta."""

    text = ""

    async def stream(self, task: ChatTask) -> AsyncGenerator[Delta | End, None]:
        del task
        yield Delta((self.text,))
        yield End(FinishReason.STOP, Usage())


@pytest.fixture
def model() -> Burst:
    return Burst()


@pytest.fixture
async def gateway(database: Database, model: Burst) -> AsyncIterator[Gateway]:
    generator = Generator(Registry([model]))

    async def generate(request: pb.GenerateRequest) -> AsyncGenerator[pb.GenerateResponse, None]:
        request.policy.CopyFrom(POLICY)
        async for event in generator.generate(request):
            yield converters.event_to_proto(event)

    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        fakes.generator.script = generate
        fakes.retriever.results = [result(number, text=PASSAGE) for number in range(1, 4)]
        yield running


async def read(gateway: Gateway, way: str) -> int:
    path, body = WAYS[way]
    async with gateway.http.stream("POST", path, json=body) as response:
        assert response.status_code == 200
        return sum([len(part) async for part in response.aiter_raw()])


@pytest.mark.parametrize("way", WAYS)
async def test_a_hostile_answer_holds_no_loop(
    gateway: Gateway, model: Burst, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.text = "Warm up [ref:1]."
    await read(gateway, way)
    for unit in UNITS:
        model.text = (unit * CHARS)[:CHARS]
        worst: list[float] = []
        while len(worst) < TRIES and min(worst, default=MOST_MS) >= MOST_MS:
            with measured_holds(monkeypatch) as holds:
                assert await read(gateway, way) > CHARS
            worst.append(max(holds))
        assert min(worst) < MOST_MS, unit
