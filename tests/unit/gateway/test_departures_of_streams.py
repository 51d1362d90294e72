"""Work that is stopped because its client left: its errors are handled."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from starlette.types import Message

from citewire_http.server import Drain
from citewire_http.streams import EventStream, StreamDialect
from citewire_http.supervision import StreamControl, StreamRules
from citewire_kit.errors import CitewireError, NotFound
from citewire_kit.tenant import Tenant


class PlainDialect(StreamDialect[str]):
    """Writes texts as they are."""

    name = "native"

    def encode(self, event: str) -> bytes:
        return event.encode()

    def failed(self, error: CitewireError) -> bytes:
        return error.reason.encode()


@pytest.mark.parametrize("error", [NotFound("it is gone", reason="CONVERSATION_NOT_FOUND"), ValueError("ours")])
async def test_errors_of_work_that_is_being_stopped_are_handled(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    left = asyncio.Event()

    async def run(_: StreamControl) -> AsyncGenerator[str, None]:
        yield "word"
        left.set()
        try:
            await asyncio.sleep(60)
        finally:
            raise error

    async def receive() -> Message:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(_: Message) -> None:
        await asyncio.sleep(0)

    rules = StreamRules(Drain(), hold_seconds=1, heartbeat_seconds=15)
    stream = EventStream(run, dialect=PlainDialect(), tenant=Tenant("acme", "anna", "free"), rules=rules)
    await stream({"type": "http"}, receive, send)
    del stream
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
    assert ("stream_failed" in capsys.readouterr().out) == isinstance(error, ValueError)
