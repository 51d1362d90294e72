"""Who may answer a request, in order: the model that it means, then those that take over."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Protocol

from citewire.common.v1.common_pb2 import ProviderRef

from citewire_generator.registry import Chosen, Registry
from citewire_kit.errors import Unimplemented

Chain = tuple[Chosen, ...]
"""At least one."""


class Asked(Protocol):
    """What a request says of who is to answer it."""

    @property
    def model(self) -> str:
        """A model of the operator's; "" is the default."""
        ...

    @property
    def provider(self) -> ProviderRef | None:
        """A tenant provider; None: one of the operator's."""
        ...

    @property
    def fallbacks(self) -> tuple[str | ProviderRef, ...]:
        """Who takes over."""
        ...


LeaseProvider = Callable[[ProviderRef], AbstractAsyncContextManager[Chosen]]
"""Opens one of the current tenant's providers, for as long as the context is entered."""


@asynccontextmanager
async def open_chain(registry: Registry, lease: LeaseProvider | None, request: Asked) -> AsyncGenerator[Chain]:
    """Opens the chain of a request.

    After a tenant provider come only the fallbacks that the request names: the operator's chain would cost the
    operator, and show text to providers that the tenant didn't choose.

    Raises:
        NotFound: It names a model that isn't offered.
        CitewireError: A provider of the tenant's can't be opened.
    """
    async with AsyncExitStack() as stack:

        async def opened(target: str | ProviderRef) -> Chosen:
            if isinstance(target, str):
                return registry.choose(target)
            if lease is None:
                raise Unimplemented("this server doesn't take tenant providers", reason="NOT_IMPLEMENTED")
            return await stack.enter_async_context(lease(target))

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
