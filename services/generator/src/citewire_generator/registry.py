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
"""Window assumed for an unknown model: most current models have at least this much."""
OLLAMA_WINDOW = 4096
"""Default window of an Ollama server's models; a longer prompt loses its beginning."""


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model and the provider that runs it."""

    provider: ChatProvider
    model: ModelInfo
    own: bool = False
    """Whether it belongs to a tenant provider: with the tenant's key, at the tenant's cost."""

    @property
    def title(self) -> str:
        """The model's name in requests."""
        return f"{self.model.provider}/{self.model.name}"


Chain = tuple[ChatModel, ...]
"""The models that may answer a request, in order; at least one."""

Lease = Callable[[ProviderRef], AbstractAsyncContextManager[ChatModel]]
"""Opens one of the current tenant's providers for the duration of the block. Raises CitewireError."""


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """The model that a request selects, and its fallbacks."""

    model: str = ""
    """One of the operator's models; "" for the default."""
    provider: ProviderRef | None = None
    """A tenant provider; None for the operator's."""
    fallbacks: Sequence[str | ProviderRef] = ()
    """Empty for the operator's chain, or for none if `provider` is set."""


class Registry:
    """Finds models by name.

    Args:
        providers: The default first.
        fallbacks: Names of the models that take over, in this order, if a request has no chain of its own.
        lease: Opens tenant providers; None if this process supports none.

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
        """The default fallbacks."""

    @property
    def default(self) -> ChatModel:
        """The default model."""
        provider = self._providers[0]
        return ChatModel(provider, provider.models[0])

    def models(self) -> list[ModelInfo]:
        """All models, the default first."""
        return [model for provider in self._providers for model in provider.models]

    def find(self, name: str) -> ChatModel:
        """Finds the model that a request selects: `model`, `provider/model`, or "" for the default.

        Raises:
            NotFound: There is no such model; the error lists the existing ones.
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

        A tenant provider's fallbacks are only those in the request: the operator's chain would cost the operator, and
        send text to providers that the tenant didn't choose.

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
            raise Unimplemented("this server doesn't support tenant providers", reason="NOT_IMPLEMENTED")
        return await stack.enter_async_context(self._lease(target))


def describe_model(catalogue: Catalogue, provider: str, name: str, window: int | None = None) -> ModelInfo:
    """Describes a model.

    Args:
        catalogue: The catalogue of models.
        provider: The provider's kind.
        name: The provider's name for the model.
        window: Its window in tokens, if set by the operator, which overrides the catalogue.
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
