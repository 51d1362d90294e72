"""Builds rerank models: the operator's from the settings, and tenants' own."""

import httpx2

from citewire_embedder.providers.base import EmbeddingModel, Precision
from citewire_embedder.providers.late_interaction import LateInteraction
from citewire_embedder.providers.local import LocalModel
from citewire_embedder.providers.openvino_session import available_cpus, bf16_supported
from citewire_embedder.providers.remote_calls import CallLimits, ModelSpec, open_http
from citewire_embedder.providers.remote_rerank import RemoteReranker
from citewire_embedder.providers.reranking import RerankModel
from citewire_embedder.rerank_settings import RerankProvider
from citewire_embedder.settings import EmbedderSettings
from citewire_kit.telemetry import get_logger
from citewire_ledger import Ledger
from citewire_remote.breaker import Breakers
from citewire_remote.catalogue import load_catalogue
from citewire_remote.egress import guarded_client
from citewire_remote.tenants import OpenedProvider

log = get_logger(__name__)


class Rerankers:
    """Builds rerank models.

    Args:
        settings: The process's.
        ledger: Keeps a row of each call to a provider.
    """

    def __init__(self, settings: EmbedderSettings, ledger: Ledger) -> None:
        self._settings = settings
        self._catalogue = load_catalogue(settings.catalogue)
        self._ledger = ledger
        self._breakers = Breakers(settings.breaker_policy())

    def operators(self, model: EmbeddingModel) -> RerankModel | None:
        """Builds the operator's.

        Args:
            model: The embedding model that is computed here.

        Returns:
            None if the settings want none, or that model has no token vectors to compare.
        """
        settings, limits = self._settings, self._settings.rerank_limits()
        spec = settings.rerank_spec()
        if spec is not None:
            return self._remote(spec, open_http(limits), limits)
        if settings.rerank_provider is not RerankProvider.LOCAL or not isinstance(model, LocalModel):
            return None
        name = model.info.space.model
        if model.directory.encoder is None:
            log.warning("no_local_reranker", model=name, why="its weights are a finished ONNX graph")
            return None
        return LateInteraction(
            name,
            model.directory,
            precision=_precision(settings),
            threads=settings.threads or available_cpus(),
            most_tokens=settings.rerank_tokens,
        )

    def own(self, opened: OpenedProvider) -> RerankModel:
        """Builds a tenant's: its connections go only where tenants' may."""
        limits = self._settings.rerank_limits()
        http = guarded_client(self._settings.egress_policy(), timeout=limits.timeout())
        spec = ModelSpec(opened.provider, opened.model, opened.api_base, opened.api_key, own=True)
        return self._remote(spec, http, limits)

    def _remote(self, spec: ModelSpec, http: httpx2.AsyncClient, limits: CallLimits) -> RerankModel:
        return RemoteReranker(spec, self._catalogue, http, ledger=self._ledger, breakers=self._breakers, limits=limits)


def _precision(settings: EmbedderSettings) -> Precision:
    if settings.rerank_precision is not None:
        return settings.rerank_precision
    faster = settings.precision is Precision.FP32 and bf16_supported()
    return Precision.BF16 if faster else settings.precision
