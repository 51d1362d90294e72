"""Builds the models: the operator's from the settings, and those of tenant providers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2

from citewire_egress.connections import guarded_client
from citewire_embedder.providers.base import EmbeddingModel, Precision, RerankModel
from citewire_embedder.providers.late_interaction import LateInteraction
from citewire_embedder.providers.local import LocalModel
from citewire_embedder.providers.model_directory import find_model, read_directory
from citewire_embedder.providers.openvino_session import available_cpus, bf16_supported
from citewire_embedder.providers.remote_calls import ModelSpec, open_http
from citewire_embedder.providers.remote_rerank import RemoteReranker
from citewire_embedder.settings import EmbedderSettings, RerankProvider
from citewire_kit.telemetry import get_logger
from citewire_ledger import Ledger
from citewire_remote.breaker import Breakers
from citewire_remote.catalogue import load_catalogue
from citewire_remote.tenant_providers import TenantProvider

if TYPE_CHECKING:
    from citewire_embedder.providers.remote_embedding import RemoteModel

log = get_logger(__name__)


def open_model(settings: EmbedderSettings) -> LocalModel:
    """Finds the configured local model and reads its files; a hub model is downloaded.

    Raises:
        StartupError: There is no such model, or it can't be served.
    """
    name, path = find_model(settings.model, cache=settings.model_cache)
    threads = settings.threads or available_cpus()
    log.info("model_found", model=name, precision=settings.precision.value, threads=threads)
    return LocalModel(name, read_directory(path), precision=settings.precision, threads=threads)


class ModelFactory:
    """Builds models behind HTTP APIs, and local rerank models.

    Args:
        settings: The process's settings.
        ledger: Records each call to a provider.
    """

    def __init__(self, settings: EmbedderSettings, ledger: Ledger) -> None:
        self._settings = settings
        self._ledger = ledger
        self._catalogue = load_catalogue(settings.catalogue)
        self._breakers = Breakers(settings.breaker_policy())
        self._egress = settings.egress_policy()

    def remote_models(self) -> list[EmbeddingModel]:
        """Builds the operator's remote embedding models."""
        limits = self._settings.remote_limits()
        return [self._embedding(spec, open_http(limits)) for spec in self._settings.remote()]

    def tenant_model(self, provider: TenantProvider) -> EmbeddingModel:
        """Builds a tenant provider's embedding model; the egress policy guards its connections."""
        timeout = self._settings.remote_limits().timeout()
        return self._embedding(_spec_of(provider), guarded_client(self._egress, timeout=timeout))

    def reranker(self, model: EmbeddingModel) -> RerankModel | None:
        """Builds the operator's rerank model.

        Args:
            model: The local embedding model.

        Returns:
            None if the settings disable it, or the embedding model has no token vectors.
        """
        settings = self._settings
        spec = settings.rerank_spec()
        if spec is not None:
            return self._reranker(spec, open_http(settings.rerank_limits()))
        if settings.rerank_provider is not RerankProvider.LOCAL or not isinstance(model, LocalModel):
            return None
        name = model.info.space.model
        if model.directory.encoder is None:
            log.warning("no_local_reranker", model=name, why="its weights are a finished ONNX graph")
            return None
        precision = settings.rerank_precision or settings.precision
        if settings.rerank_precision is None and precision is Precision.FP32 and bf16_supported():
            precision = Precision.BF16
        threads = settings.threads or available_cpus()
        return LateInteraction(
            name,
            model.directory,
            precision=precision,
            threads=threads,
            most_tokens=settings.rerank_tokens,
            cache_bytes=settings.rerank_cache_bytes,
        )

    def tenant_reranker(self, provider: TenantProvider) -> RerankModel:
        """Builds a tenant provider's rerank model; the egress policy guards its connections."""
        timeout = self._settings.rerank_limits().timeout()
        return self._reranker(_spec_of(provider), guarded_client(self._egress, timeout=timeout))

    def _embedding(self, spec: ModelSpec, http: httpx2.AsyncClient) -> RemoteModel:
        limits = self._settings.remote_limits()
        remote_model = load_remote_model()
        return remote_model(spec, self._catalogue, http, ledger=self._ledger, breakers=self._breakers, limits=limits)

    def _reranker(self, spec: ModelSpec, http: httpx2.AsyncClient) -> RemoteReranker:
        limits = self._settings.rerank_limits()
        return RemoteReranker(spec, self._catalogue, http, ledger=self._ledger, breakers=self._breakers, limits=limits)


def load_remote_model() -> type[RemoteModel]:
    """Imports the remote models' class with their SDK, which takes a second and isn't needed for local models."""
    from citewire_embedder.providers.remote_embedding import RemoteModel

    return RemoteModel


def _spec_of(provider: TenantProvider) -> ModelSpec:
    return ModelSpec(
        provider.provider,
        provider.model,
        provider.api_base,
        provider.api_key,
        own=True,
        dimensions=provider.dimensions,
    )
