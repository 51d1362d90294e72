"""Who may answer a request, in order: the model that it means, then those that take over."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Protocol

from citewire_generator.registry import Chosen, Registry
from citewire_kit.errors import Unimplemented
from citewire_remote.tenants import SealedProvider

Chain = tuple[Chosen, ...]
"""At least one."""


class Asked(Protocol):
    """What a request says of who is to answer it."""

    @property
    def model(self) -> str:
        """A model of the operator's; "" is the default."""
        ...

    @property
    def provider(self) -> SealedProvider | None:
        """A tenant's own; None: the operator's."""
        ...

    @property
    def fallbacks(self) -> tuple[str | SealedProvider, ...]:
        """Who takes over."""
        ...


class OwnProviders(ABC):
    """Opens tenants' own providers."""

    @abstractmethod
    def lease(self, sealed: SealedProvider) -> AbstractAsyncContextManager[Chosen]:
        """Opens a provider of the current tenant's; it stays open inside the block.

        Raises:
            CitewireError: It isn't the tenant's, or can't be opened here.
        """


class NoOwnProviders(OwnProviders):
    """For processes that keep none."""

    def lease(self, sealed: SealedProvider) -> AbstractAsyncContextManager[Chosen]:
        """See `OwnProviders.lease`."""
        raise Unimplemented("this server takes no providers of its tenants' own", reason="NOT_IMPLEMENTED")


@asynccontextmanager
async def open_chain(registry: Registry, own: OwnProviders, request: Asked) -> AsyncGenerator[Chain]:
    """Opens the chain of a request.

    A tenant's own provider is followed only by what the request names: the operator's chain would cost the operator,
    and show text to whom the tenant didn't choose.

    Raises:
        NotFound: It names a model that isn't offered.
        CitewireError: A provider of the tenant's can't be opened.
    """
    async with AsyncExitStack() as stack:

        async def opened(target: str | SealedProvider) -> Chosen:
            if isinstance(target, str):
                return registry.choose(target)
            return await stack.enter_async_context(own.lease(target))

        chain = [await opened(request.provider or request.model)]
        if request.fallbacks:
            chain += [await opened(target) for target in request.fallbacks]
        elif request.provider is None:
            chain += registry.fallbacks
        yield _distinct(chain)


def _distinct(chain: list[Chosen]) -> Chain:
    found: list[Chosen] = []
    for chosen in chain:
        if not any(chosen.provider is other.provider and chosen.model.name == other.model.name for other in found):
            found.append(chosen)
    return tuple(found)
