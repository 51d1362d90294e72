from __future__ import annotations

import pytest
from pydantic import ValidationError

from citewire_embedder.settings import EmbedderSettings


def settings(**values: object) -> EmbedderSettings:
    return EmbedderSettings.model_validate(values)


@pytest.mark.parametrize(
    ("values", "default", "models"),
    [
        ({}, "", []),
        ({"openai_api_key": "sk"}, "text-embedding-3-small", ["text-embedding-3-small"]),
        ({"openai_api_key": "sk", "provider": "local"}, "", ["text-embedding-3-small"]),
        ({"ollama_api_base": "http://gpu:11434"}, "", ["nomic-embed-text"]),
        ({"ollama_api_base": "http://gpu:11434", "provider": "ollama"}, "nomic-embed-text", ["nomic-embed-text"]),
        ({"api_base": "http://tei", "remote_model": "bge", "provider": "openai-compatible"}, "bge", ["bge"]),
    ],
    ids=["local", "openai", "openai-beside", "ollama-beside", "ollama", "compatible"],
)
def test_the_default_model(values: dict[str, object], default: str, models: list[str]) -> None:
    made = settings(**values)
    assert made.default_model() == default
    assert [spec.model for spec in made.remote()] == models


def test_addresses_are_normalised_and_keys_hidden() -> None:
    made = settings(ollama_api_base="http://gpu:11434", api_base="http://tei/v1/embeddings", remote_model="bge")
    assert [spec.api_base for spec in made.remote()] == ["http://gpu:11434/v1", "http://tei/v1"]
    assert "sk-secret" not in repr(settings(openai_api_key="sk-secret").remote())


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"provider": "openai"}, "CITEWIRE_EMBEDDER_OPENAI_API_KEY"),
        ({"provider": "ollama"}, "CITEWIRE_EMBEDDER_OLLAMA_API_BASE"),
        ({"provider": "openai-compatible", "api_base": "http://tei"}, "CITEWIRE_EMBEDDER_REMOTE_MODEL"),
        ({"api_base": "http://tei"}, "CITEWIRE_EMBEDDER_REMOTE_MODEL"),
        ({"ollama_api_base": "gpu"}, "http or https"),
    ],
    ids=["key", "base", "model", "model-too", "url"],
)
def test_missing_settings_are_named(values: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        settings(**values)
