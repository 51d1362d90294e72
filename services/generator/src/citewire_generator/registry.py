"""The providers and models of this process, and which of them a request means."""

from collections.abc import Sequence
from dataclasses import dataclass

from citewire_generator.model import ModelInfo
from citewire_generator.providers.base import ChatProvider
from citewire_kit.errors import NotFound


@dataclass(frozen=True, slots=True)
class Chosen:
    """The provider and the model that answer a request."""

    provider: ChatProvider
    model: ModelInfo
    own: bool = False
    """Whether it is a tenant's own: with the tenant's key, at the tenant's cost."""

    @property
    def title(self) -> str:
        """The model as a request could name it."""
        return f"{self.model.provider}/{self.model.name}"


class Registry:
    """Finds models by name.

    Args:
        providers: The default first.
        fallbacks: Names of the models that take over where a request names no chain of its own, in this order.

    Raises:
        NotFound: A fallback isn't one of the providers' models.
    """

    def __init__(self, providers: Sequence[ChatProvider], fallbacks: Sequence[str] = ()) -> None:
        if not providers:
            raise ValueError("a registry needs a provider")
        self._providers = tuple(providers)
        self.fallbacks = tuple(self.choose(name) for name in fallbacks)
        """Who takes over where a request doesn't say."""

    @property
    def providers(self) -> tuple[ChatProvider, ...]:
        """All providers, the default first."""
        return self._providers

    @property
    def default(self) -> Chosen:
        """What answers where a request names no model."""
        provider = self._providers[0]
        return Chosen(provider, provider.models[0])

    def models(self) -> list[ModelInfo]:
        """All models, the default first."""
        return [model for provider in self._providers for model in provider.models]

    def choose(self, name: str) -> Chosen:
        """Finds the model that a request names: `model`, `provider/model`, or "" for the default.

        Raises:
            NotFound: There is no such model; the error lists those that there are.
        """
        if not name:
            return self.default
        for provider in self._providers:
            for model in provider.models:
                if name in {model.name, f"{provider.name}/{model.name}"}:
                    return Chosen(provider, model)
        known = ", ".join(f"{model.provider}/{model.name}" for model in self.models())
        raise NotFound(
            f"there is no such model; this server offers: {known}", reason="MODEL_NOT_FOUND", metadata={"models": known}
        )
