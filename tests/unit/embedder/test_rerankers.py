"""Which rerank model is built from the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from citewire_embedder import models
from citewire_embedder.providers.base import Precision, RerankModel
from citewire_embedder.providers.late_interaction import LateInteraction
from citewire_embedder.providers.local import LocalModel
from citewire_embedder.providers.model_directory import read_directory
from citewire_embedder.providers.remote_rerank import RemoteReranker
from citewire_embedder.settings import EmbedderSettings
from citewire_ledger import NoLedger
from citewire_remote.kinds import ProviderType
from citewire_remote.tenant_providers import TenantProvider
from fake_embedding import FakeModel
from tiny_models import TinyModel, write_model


async def build(path: Path, **values: str) -> RerankModel | None:
    write_model(path / "tiny", TinyModel())
    directory = read_directory(path / "tiny")
    model = LocalModel("tiny", directory, precision=Precision.FP32, threads=1)
    settings = EmbedderSettings.model_validate({"auth": "off", **values})
    result = models.ModelFactory(settings, NoLedger()).reranker(model)
    await model.close()
    if result is not None:
        await result.close()
    return result


@pytest.mark.parametrize(
    ("has_bf16", "values", "expected"),
    [
        (True, {}, "bf16"),
        (False, {}, "fp32"),
        (True, {"rerank_precision": "fp32"}, "fp32"),
        (True, {"precision": "int8"}, "int8"),
        (False, {"precision": "int8", "rerank_precision": "fp32"}, "fp32"),
    ],
)
async def test_the_local_models_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_bf16: bool, values: dict[str, str], expected: str
) -> None:
    monkeypatch.setattr(models, "bf16_supported", lambda: has_bf16)
    result = await build(tmp_path, **values)
    assert isinstance(result, LateInteraction)
    assert result.info.precision == expected


async def test_a_provider_or_no_reranker(tmp_path: Path) -> None:
    assert await build(tmp_path / "none", rerank_provider="none") is None
    result = await build(tmp_path / "cohere", rerank_provider="cohere", rerank_api_key="key")
    assert isinstance(result, RemoteReranker)
    assert (result.info.space.model, result.info.provider, result.info.max_input_tokens) == (
        "rerank-v3.5",
        "cohere",
        4096,
    )


async def test_a_model_without_token_vectors_makes_no_reranker() -> None:
    settings = EmbedderSettings.model_validate({"auth": "off"})
    assert models.ModelFactory(settings, NoLedger()).reranker(FakeModel()) is None


async def test_a_tenants_own_reranker_uses_the_providers_address() -> None:
    settings = EmbedderSettings.model_validate({"auth": "off"})
    opened = TenantProvider(ProviderType.RERANK, "jina", "jina-reranker-v2-base-multilingual", "", "key")
    model = models.ModelFactory(settings, NoLedger()).tenant_reranker(opened)
    assert (model.info.provider, model.info.max_input_tokens) == ("jina", 1024)
    await model.close()
