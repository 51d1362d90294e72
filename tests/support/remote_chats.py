"""Chat providers of each kind, with a test's own upstream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from citewire_generator.model import ModelInfo
from citewire_generator.providers.base import ChatProvider
from citewire_generator.providers.factory import build_chat_provider
from citewire_remote.stall_timeout import TimeLimits
from raw_upstream import Exchange, RawUpstream

KEY = "sk-canary-0123456789"


@asynccontextmanager
async def chat_with(
    kind: str, behave: Callable[[Exchange], Awaitable[None]], key: str = KEY, limits: TimeLimits | None = None
) -> AsyncGenerator[tuple[ChatProvider, RawUpstream]]:
    upstream = RawUpstream(behave)
    async with upstream.running() as base:
        limits = limits or TimeLimits(connect=1, first_token=2, between_tokens=2, whole=4)
        made = build_chat_provider(kind, api_base=base, api_key=key, models=(ModelInfo(kind, "m"),), limits=limits)
        try:
            yield made, upstream
        finally:
            await made.close()
