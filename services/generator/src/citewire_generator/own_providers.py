"""Tenants' own chat providers: opened for the caller, kept warm, tried out before they are sealed."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager

from citewire_generator.chain import OwnProviders
from citewire_generator.engine import Engine, Work
from citewire_generator.model import Message, ModelInfo, Role
from citewire_generator.providers.base import ChatProvider, ChatTask, Delta, End
from citewire_generator.registry import Chosen
from citewire_generator.tokens import estimate_messages
from citewire_kit.errors import DeadlineExceeded
from citewire_kit.tenant import current_tenant
from citewire_ledger import Purpose
from citewire_remote.instances import Instances
from citewire_remote.tenants import OpenedProvider, ProviderSpec, SealedProvider, TrialReport, Vault

TRIAL_SECONDS = 20.0
"""Longest test call: a model that has to be loaded first takes long, and a person waits for the answer."""

TRIAL_TOKENS = 16
_QUESTION = (Message(Role.USER, "Reply with the word OK."),)

Build = Callable[[OpenedProvider, ModelInfo], ChatProvider]
"""Makes the client of an opened provider. Its connections go only where tenants' may."""

Describe = Callable[[str, str], ModelInfo]
"""Says what is known of a provider's model."""


class TenantProviders(OwnProviders):
    """Opens, tries out and seals.

    Args:
        vault: Seals and opens.
        build: Makes clients.
        describe: Knows models.
        engine: Makes the test calls, without retries.
    """

    def __init__(self, vault: Vault, build: Build, describe: Describe, engine: Engine) -> None:
        self._vault = vault
        self._describe = describe
        self._engine = engine
        self._instances = Instances[ChatProvider](
            lambda opened: build(opened, describe(opened.provider, opened.model)), lambda provider: provider.close()
        )

    @asynccontextmanager
    async def lease(self, sealed: SealedProvider) -> AsyncGenerator[Chosen]:
        """See `OwnProviders.lease`."""
        async with self._lease(self._vault.open(current_tenant(), sealed)) as chosen:
            yield chosen

    async def seal(self, spec: ProviderSpec, *, test: bool) -> tuple[SealedProvider, TrialReport]:
        """Seals a provider of the current tenant's, after a test call if that is wanted.

        Raises:
            CitewireError: As `Vault.seal`.
        """
        return await self._vault.seal(current_tenant(), spec, self._try_out if test else None)

    def rewrap(self, sealed: SealedProvider) -> tuple[SealedProvider, bool]:
        """See `Vault.rewrap`."""
        return self._vault.rewrap(current_tenant(), sealed)

    async def close(self) -> None:
        """Closes all clients."""
        await self._instances.close()

    @asynccontextmanager
    async def _lease(self, opened: OpenedProvider) -> AsyncGenerator[Chosen]:
        async with self._instances.lease(current_tenant(), opened) as provider:
            yield Chosen(provider, self._describe(opened.provider, opened.model), own=True)

    async def _try_out(self, opened: OpenedProvider) -> int:
        async with self._lease(opened) as chosen:
            scope = asyncio.timeout(TRIAL_SECONDS)
            try:
                async with scope, aclosing(self._engine.run(_Trial(chosen))) as events:
                    async for _ in events:
                        pass
            except TimeoutError:
                if not scope.expired():
                    raise
                raise DeadlineExceeded(
                    f"the model provider didn't answer in {TRIAL_SECONDS:g} s", reason="PROVIDER_TIMEOUT"
                ) from None
        return 0


class _Trial(Work):
    """A few tokens from one model."""

    purpose = Purpose.PROVIDER_TEST

    def __init__(self, chosen: Chosen) -> None:
        self.chain = (chosen,)

    def stream(self, chosen: Chosen) -> AsyncGenerator[Delta | End, None]:
        return chosen.provider.stream(
            ChatTask(model=chosen.model.name, messages=_QUESTION, max_completion_tokens=TRIAL_TOKENS)
        )

    def prompt_tokens(self) -> int:
        return estimate_messages(_QUESTION)

    def max_output_tokens(self, chosen: Chosen) -> int:
        del chosen
        return TRIAL_TOKENS
