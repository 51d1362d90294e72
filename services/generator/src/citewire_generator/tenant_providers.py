"""Chat providers of tenants: opened for the caller, kept between calls, and tested before they are sealed."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager

from citewire.common.v1.common_pb2 import ProviderRef

from citewire_generator.engine import Engine, Work
from citewire_generator.model import Message, ModelInfo, Role
from citewire_generator.providers.base import ChatProvider, ChatTask, Delta, End
from citewire_generator.providers.factory import load_adapter
from citewire_generator.registry import ChatModel
from citewire_generator.tokens import estimate_messages
from citewire_ledger import Purpose
from citewire_remote.tenant_providers import TenantClients, TenantProvider, Vault

TEST_TOKENS = 16
_QUESTION = (Message(Role.USER, "Reply with the word OK."),)

BuildProvider = Callable[[TenantProvider, ModelInfo], ChatProvider]
"""Creates the client of a tenant provider; the egress policy guards its connections."""

DescribeModel = Callable[[str, str], ModelInfo]
"""Returns the description of a provider's model."""


class TenantChatProviders:
    """Opens and tests tenants' providers.

    Args:
        vault: Opens sealed providers.
        build: Creates clients.
        describe: Describes models.
        engine: Makes the test calls, without retries.
    """

    def __init__(self, vault: Vault, build: BuildProvider, describe: DescribeModel, engine: Engine) -> None:
        self._describe = describe
        self._engine = engine
        self._clients = TenantClients[ChatProvider](
            vault,
            lambda provider: build(provider, describe(provider.provider, provider.model)),
            lambda client: client.close(),
            load=lambda provider: load_adapter(provider.provider),
        )

    @asynccontextmanager
    async def lease(self, provider: ProviderRef | TenantProvider) -> AsyncGenerator[ChatModel]:
        """Opens one of the current tenant's providers for the duration of the block.

        Raises:
            CitewireError: It isn't the tenant's, or can't be opened here.
        """
        opened = self._clients.open(provider) if isinstance(provider, ProviderRef) else provider
        async with self._clients.lease(opened) as client:
            yield ChatModel(client, self._describe(opened.provider, opened.model), own=True)

    async def test_provider(self, provider: TenantProvider) -> None:
        """Generates a few tokens.

        Raises:
            CitewireError: The call failed.
        """
        async with self.lease(provider) as chat_model, aclosing(self._engine.run(_TestCall(chat_model))) as events:
            async for _ in events:
                pass

    async def close(self) -> None:
        """Closes all clients."""
        await self._clients.close()


class _TestCall(Work):
    """A test task: a few tokens from one model."""

    purpose = Purpose.PROVIDER_TEST

    def __init__(self, chat_model: ChatModel) -> None:
        self.chain = (chat_model,)

    def stream(self, chat_model: ChatModel) -> AsyncGenerator[Delta | End, None]:
        return chat_model.provider.stream(
            ChatTask(model=chat_model.model.name, messages=_QUESTION, max_completion_tokens=TEST_TOKENS)
        )

    def prompt_tokens(self) -> int:
        return estimate_messages(_QUESTION)

    def max_output_tokens(self, chat_model: ChatModel) -> int:
        del chat_model
        return TEST_TOKENS
