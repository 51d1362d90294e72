"""What this process knows of a provider's model: from the catalogue, or from the operator."""

from citewire_generator.model import ModelInfo
from citewire_remote.catalogue import Catalogue

DEFAULT_WINDOW = 32_768
"""Window of a model that nobody says anything about: most models of today have this much or more."""

OLLAMA_WINDOW = 4096
"""Window that an Ollama server gives to a model where nobody asks for more; a longer prompt loses its beginning."""


def describe_model(catalogue: Catalogue, provider: str, name: str, window: int | None = None) -> ModelInfo:
    """Describes a model.

    Args:
        catalogue: What is known.
        provider: The provider's kind.
        name: The model, as the provider names it.
        window: Its window in tokens where the operator says so: that counts, whatever the catalogue says.
    """
    known = catalogue.find(provider, name)
    found = window or (known.context_window if known else 0)
    fallback = OLLAMA_WINDOW if provider == "ollama" else DEFAULT_WINDOW
    return ModelInfo(
        provider,
        name,
        context_window=found or fallback,
        max_completion_tokens=known.max_completion_tokens if known else 0,
        window_guessed=not found,
        price=known.price if known else None,
    )
