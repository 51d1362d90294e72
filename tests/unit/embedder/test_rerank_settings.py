"""Which rerank model the settings name."""

from __future__ import annotations

import pytest

from citewire_embedder.settings import EmbedderSettings


def settings(**values: str) -> EmbedderSettings:
    return EmbedderSettings.model_validate({"auth": "off", **values})


def test_the_local_model_is_the_default() -> None:
    result = settings()
    assert result.rerank_provider == "local"
    assert result.rerank_spec() is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"rerank_provider": "none"}, None),
        (
            {"rerank_provider": "cohere", "rerank_api_key": " key "},
            ("cohere", "rerank-v3.5", "", "key"),
        ),
        (
            {"rerank_provider": "jina", "rerank_api_key": "key", "rerank_model": "jina-reranker-v3"},
            ("jina", "jina-reranker-v3", "", "key"),
        ),
        (
            {
                "rerank_provider": "openai-compatible",
                "rerank_api_base": "http://tei:8080/rerank",
                "rerank_model": "bge-reranker-v2-m3",
            },
            ("openai-compatible", "bge-reranker-v2-m3", "http://tei:8080/v1", ""),
        ),
    ],
)
def test_remote_models(values: dict[str, str], expected: tuple[str, str, str, str] | None) -> None:
    spec = settings(**values).rerank_spec()
    assert (spec and (spec.kind, spec.model, spec.api_base, spec.api_key)) == expected
    assert spec is None or not spec.own


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"rerank_provider": "cohere"}, "CITEWIRE_EMBEDDER_RERANK_API_KEY"),
        ({"rerank_provider": "jina", "rerank_api_key": " "}, "CITEWIRE_EMBEDDER_RERANK_API_KEY"),
        ({"rerank_provider": "openai-compatible", "rerank_model": "m"}, "CITEWIRE_EMBEDDER_RERANK_API_BASE"),
        ({"rerank_provider": "openai-compatible", "rerank_api_base": "http://tei"}, "CITEWIRE_EMBEDDER_RERANK_MODEL"),
        ({"rerank_api_base": "ftp://tei"}, "http"),
        ({"rerank_provider": "voyage"}, "rerank_provider"),
    ],
)
def test_missing_settings_are_named(values: dict[str, str], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        settings(**values)
