"""A handler that runs until it is stopped, and readers of its calls' results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from google.protobuf.wrappers_pb2 import StringValue
from prometheus_client import REGISTRY

from citewire_kit.streams import track_stream
from citewire_kit.tenant import current_tenant
from echo_service import text


def stream_metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"citewire_streams_{name}", labels) or 0.0


async def read_all(answers: AsyncGenerator[StringValue]) -> None:
    async with asyncio.timeout(5), aclosing(answers):
        async for _ in answers:
            pass


class EndlessHandler:
    """Sends a message every few milliseconds until it is stopped, and records how it ended."""

    def __init__(self, *, pause: float = 0.01) -> None:
        self.pause = pause
        self.started = asyncio.Event()
        self.ended = asyncio.Event()
        self.tenant_at_end = ""

    async def stream(self, _request: object) -> AsyncGenerator[StringValue]:
        with track_stream("grpc"):
            self.started.set()
            try:
                while True:
                    yield text("tick")
                    await asyncio.sleep(self.pause)
            finally:
                # The context is the call's own, also at the end: settling there has its tenant.
                self.tenant_at_end = current_tenant().org_id
                self.ended.set()

    async def hold(self, _request: object) -> StringValue:
        self.started.set()
        try:
            await asyncio.sleep(60)
        finally:
            self.tenant_at_end = current_tenant().org_id
            self.ended.set()
        return text("")

    async def upload(self, requests: AsyncIterator[StringValue]) -> StringValue:
        try:
            self.started.set()
            async for _ in requests:
                pass
        finally:
            self.tenant_at_end = current_tenant().org_id
            self.ended.set()
        return text("stored")
