"""The generator's engine with scripted providers, and a record of its calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from citewire.common.v1.common_pb2 import PROVIDER_TYPE_CHAT, ProviderRef
from citewire.generator.v1 import generator_pb2 as pb
from prometheus_client import REGISTRY

from citewire_generator.engine import CallLimits, Engine
from citewire_generator.model import Event
from citewire_generator.providers.base import ChatProvider
from citewire_generator.registry import ChatModel, Registry
from citewire_generator.service import Generator
from citewire_kit.errors import (
    CitewireError,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    ResourceExhausted,
    Unavailable,
)
from citewire_ledger import MemoryLedger
from citewire_remote.breaker import BreakerPolicy, Breakers
from citewire_remote.retry import RetryPolicy
from generator_calls import make_passage, make_request

PASSAGES = tuple(make_passage(n, n, f"{n} " + "word " * 100, title=f"P{n}", token_count=110) for n in range(1, 9))
FAST = CallLimits(RetryPolicy(attempts=3, first_seconds=0.001, most_seconds=0.001), first_token_seconds=0.3)

DOWN = Unavailable("down", reason="PROVIDER_UNAVAILABLE")
BROKEN = Unavailable("broken", reason="PROVIDER_STREAM_BROKEN")
KEY = FailedPrecondition("key", reason="PROVIDER_AUTH")
REJECTED = FailedPrecondition("no", reason="PROVIDER_REJECTED")
LIMITED = ResourceExhausted("slow", reason="PROVIDER_RATE_LIMITED", retry_after=60.0)
LATE = DeadlineExceeded("late", reason="PROVIDER_TIMEOUT")
LONG = InvalidArgument("long", reason="CONTEXT_TOO_LONG")
SPENT = ResourceExhausted("spent", reason="BUDGET_EXCEEDED")


def answer(name: str) -> list[str]:
    return [f"{name} ", "says so."]


class EngineHarness:
    """A generator with some providers; the first is the default, the others are fallbacks."""

    def __init__(
        self, *providers: ChatProvider, limits: CallLimits = FAST, breaker: BreakerPolicy | None = None
    ) -> None:
        self.ledger = MemoryLedger()
        self.tenant_providers = TenantProviders()
        registry = Registry(
            providers, [provider.models[0].name for provider in providers[1:]], self.tenant_providers.lease
        )
        engine = Engine(self.ledger, Breakers(breaker), limits)
        self.generator = Generator(registry, engine)
        self.events: list[Event] = []

    async def ask(self, **fields: Any) -> list[Event]:  # noqa: ANN401 # any type is intended
        fields.setdefault("passages", PASSAGES[:2])
        self.events = []
        async for event in self.generator.generate(*make_request("What is said?", **fields)):
            self.events.append(event)
        return self.events

    async def fails(self, **fields: Any) -> CitewireError:  # noqa: ANN401 # any type is intended
        with pytest.raises(CitewireError) as caught:
            await self.ask(**fields)
        return caught.value

    @property
    def text(self) -> str:
        return "".join(text for event in self.events if isinstance(event, pb.TextDelta) for text in event.texts)

    @property
    def notices(self) -> list[str]:
        return [event.name for event in self.events if isinstance(event, pb.Notice)]

    @property
    def completed(self) -> pb.Completed:
        last = self.events[-1]
        assert isinstance(last, pb.Completed)
        return last

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Provider and result of each call: its error, or how it ended otherwise."""
        return [(row.new.provider, row.reason or row.outcome) for row in self.ledger.rows]


class TenantProviders:
    """A tenant's providers by the name of their model; leases are counted."""

    def __init__(self) -> None:
        self.providers: dict[str, ChatProvider] = {}
        self.leased = 0

    @asynccontextmanager
    async def lease(self, sealed: ProviderRef) -> AsyncGenerator[ChatModel]:
        provider = self.providers[sealed.model]
        self.leased += 1
        try:
            yield ChatModel(provider, provider.models[0], own=True)
        finally:
            self.leased -= 1


def sealed(model: str) -> ProviderRef:
    return ProviderRef(
        type=PROVIDER_TYPE_CHAT, provider="openai-compatible", model=model, sealed_api_base=b"base", sealed_key=b"key"
    )


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0
