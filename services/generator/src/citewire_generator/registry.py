"""The models of this process, and their selection for a request."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from citewire.common.v1.common_pb2 import ProviderRef

from citewire_generator.model import ModelInfo
from citewire_generator.providers.base import ChatProvider
from citewire_kit.errors import NotFound, Unimplemented
from citewire_remote.catalogue import Catalogue

DEFAULT_WINDOW = 32_768
"""Window of a model that nobody says anything about: most models of today have this much or more."""
OLLAMA_WINDOW = 4096
"""Window that an Ollama server gives to a model where nobody asks for more; a longer prompt loses its beginning."""


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model, and the provider that runs it."""

    provider: ChatProvider
    model: ModelInfo
    own: bool = False
    """Whether it is a tenant provider's: with the tenant's key, at the tenant's cost."""

    @property
    def title(self) -> str:
        """The model as a request could name it."""
        return f"{self.model.provider}/{self.model.name}"


Chain = tuple[ChatModel, ...]
"""The models that may answer a request, in order; at least one."""

Lease = Callable[[ProviderRef], AbstractAsyncContextManager[ChatModel]]
"""Opens a provider of the current tenant; it stays open inside the block. Raises CitewireError if it can't be."""


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """Which model a request names, and which take over."""

    model: str = ""
    """One of the operator's; "" is the default."""
    provider: ProviderRef | None = None
    """A tenant provider; None: the operator's."""
    fallbacks: Sequence[str | ProviderRef] = ()
    """Empty: the operator's chain, or nobody where `provider` is set."""


class Registry:
    """Finds models by name.

    Args:
        providers: The default first.
        fallbacks: Names of the models that take over where a request names no chain of its own, in this order.
        lease: Opens tenant providers; None: this process takes none.

    Raises:
        NotFound: A fallback isn't one of the providers' models.
    """

    def __init__(
        self, providers: Sequence[ChatProvider], fallbacks: Sequence[str] = (), lease: Lease | None = None
    ) -> None:
        if not providers:
            raise ValueError("a registry needs a provider")
        self._providers = tuple(providers)
        self._lease = lease
        self.fallbacks = tuple(self.find(name) for name in fallbacks)
        """The models that take over where a request names none."""

    @property
    def default(self) -> ChatModel:
        """What answers where a request names no model."""
        provider = self._providers[0]
        return ChatModel(provider, provider.models[0])

    def models(self) -> list[ModelInfo]:
        """All models, the default first."""
        return [model for provider in self._providers for model in provider.models]

    def find(self, name: str) -> ChatModel:
        """Finds the model that a request names: `model`, `provider/model`, or "" for the default.

        Raises:
            NotFound: There is no such model; the error lists those that there are.
        """
        if not name:
            return self.default
        for provider in self._providers:
            for model in provider.models:
                if name in {model.name, f"{provider.name}/{model.name}"}:
                    return ChatModel(provider, model)
        known = ", ".join(f"{model.provider}/{model.name}" for model in self.models())
        raise NotFound(
            f"there is no such model; this server offers: {known}", reason="MODEL_NOT_FOUND", metadata={"models": known}
        )

    @asynccontextmanager
    async def open_chain(self, route: ModelRoute) -> AsyncGenerator[Chain]:
        """Opens the models of a route, each once.

        A tenant provider is followed only by what the request names: the operator's chain would cost the operator, and
        show text to providers that the tenant didn't choose.

        Raises:
            NotFound: It names a model that isn't offered.
            CitewireError: A tenant provider can't be opened.
        """
        async with AsyncExitStack() as stack:
            targets = [route.provider or route.model, *route.fallbacks]
            models = [await self._open(stack, target) for target in targets]
            if not route.fallbacks and route.provider is None:
                models += self.fallbacks
            unique: dict[tuple[int, str], ChatModel] = {}
            for model in models:
                unique.setdefault((id(model.provider), model.model.name), model)
            yield tuple(unique.values())

    async def _open(self, stack: AsyncExitStack, target: str | ProviderRef) -> ChatModel:
        if isinstance(target, str):
            return self.find(target)
        if self._lease is None:
            raise Unimplemented("this server doesn't take tenant providers", reason="NOT_IMPLEMENTED")
        return await stack.enter_async_context(self._lease(target))


def describe_model(catalogue: Catalogue, provider: str, name: str, window: int | None = None) -> ModelInfo:
    """Describes a model.

    Args:
        catalogue: What is known.
        provider: The provider's kind.
        name: The model, as the provider names it.
        window: Its window in tokens where the operator says so: that counts, whatever the catalogue says.
    """
    known = catalogue.find(provider, name)
    stated = window or (known.context_window if known else 0)
    return ModelInfo(
        provider,
        name,
        context_window=stated or (OLLAMA_WINDOW if provider == "ollama" else DEFAULT_WINDOW),
        max_completion_tokens=known.max_completion_tokens if known else 0,
        window_guessed=not stated,
        price=known.price if known else None,
    )
