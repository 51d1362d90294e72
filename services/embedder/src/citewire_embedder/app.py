"""Builds the embedder from its settings, and closes it in reverse."""

import asyncio
from contextlib import AsyncExitStack, aclosing

import httpx2
from citewire.embedder.v1.embedder_pb2_grpc import add_EmbedderServiceServicer_to_server

from citewire_embedder.own_providers import Build, OwnProviders
from citewire_embedder.providers.base import EmbeddingModel, ModelInfo
from citewire_embedder.providers.catalogue import find_model
from citewire_embedder.providers.local import LocalModel
from citewire_embedder.providers.model_directory import read_directory
from citewire_embedder.providers.openvino_session import available_cpus
from citewire_embedder.providers.remote import RemoteModel, RemoteSpec
from citewire_embedder.providers.remote_calls import open_http
from citewire_embedder.rerankers import Rerankers
from citewire_embedder.reranking import Reranker
from citewire_embedder.service import Embedder
from citewire_embedder.servicer import SERVICE_NAME, EmbedderServicer
from citewire_embedder.settings import EmbedderSettings
from citewire_kit.server import GrpcServer
from citewire_kit.telemetry import get_logger, start_metrics_server
from citewire_ledger import Ledger
from citewire_remote.breaker import Breakers
from citewire_remote.catalogue import load_catalogue
from citewire_remote.egress import guarded_client
from citewire_remote.sdk_logs import quiet_sdks
from citewire_remote.tenants import OpenedProvider, Vault

log = get_logger(__name__)


async def start(
    stack: AsyncExitStack,
    settings: EmbedderSettings,
    model: EmbeddingModel | None = None,
    build_own: Build | None = None,
    ledger: Ledger | None = None,
) -> GrpcServer:
    """Starts the server, then loads the model: probes are answered NOT_SERVING until the model has warmed up.

    Args:
        stack: Takes what must be closed.
        settings: The process's settings.
        model: Serve this model instead of the one that the settings name (tests).
        build_own: Makes the models of tenants' own providers, in place of the real ones (tests).
        ledger: Keep calls here instead of where the settings say (tests).

    Raises:
        StartupError: The address is taken, or the model can't be loaded.
    """
    metrics_server = start_metrics_server(settings)
    stack.callback(metrics_server.close)
    quiet_sdks()
    if model is None:
        model = await asyncio.to_thread(open_model, settings)
    if ledger is None:
        opening = settings.ledger("embedder", calls_providers=bool(settings.remote()))
        ledger = await stack.enter_async_context(opening)
    models = RemoteModels(settings, ledger)
    vault, rerankers = Vault(settings.key_source(), settings.egress_policy()), Rerankers(settings, ledger)
    reranker = Reranker(rerankers.operators(model), vault, rerankers.own)
    stack.push_async_callback(reranker.close)
    own = OwnProviders(vault, build_own or models.own, reranker.try_out)
    stack.push_async_callback(own.close)
    embedder = Embedder(model, settings.limits(), own, models.operators(), settings.default_model())
    server = GrpcServer(settings, service="embedder", max_concurrent=settings.max_concurrent_rpcs)
    server.add(add_EmbedderServiceServicer_to_server, EmbedderServicer(embedder, own, reranker), SERVICE_NAME)
    await server.start()
    try:
        await stack.enter_async_context(embedder.running())
    except BaseException:
        await server.drain_and_stop()
        raise
    for info in embedder.models():
        log.info("model_ready", **_described(info))
    server.set_serving(True)
    follower = asyncio.create_task(_follow_health(embedder, server), name="embedder-health")
    stack.callback(follower.cancel)
    return server


def open_model(settings: EmbedderSettings) -> LocalModel:
    """Finds the configured model and reads its files; a hub model is downloaded.

    Raises:
        StartupError: There is no such model, or it can't be served.
    """
    found = find_model(settings.model, cache=settings.model_cache)
    threads = settings.threads or available_cpus()
    log.info("model_found", model=found.name, precision=settings.precision.value, threads=threads)
    return LocalModel(found.name, read_directory(found.path), precision=settings.precision, threads=threads)


class RemoteModels:
    """Builds models behind HTTP APIs.

    Args:
        settings: The process's settings.
        ledger: Keeps a row of each call.
    """

    def __init__(self, settings: EmbedderSettings, ledger: Ledger) -> None:
        self._settings = settings
        self._ledger = ledger
        self._catalogue = load_catalogue(settings.catalogue)
        self._breakers = Breakers(settings.breaker_policy())
        self._limits = settings.remote_limits()
        self._egress = settings.egress_policy()

    def operators(self) -> list[EmbeddingModel]:
        """Builds those that the settings name."""
        return [self._build(spec, open_http(self._limits)) for spec in self._settings.remote()]

    def own(self, opened: OpenedProvider) -> EmbeddingModel:
        """Builds a tenant's: its connections go only where tenants' may."""
        spec = RemoteSpec(
            opened.provider, opened.model, opened.api_base, opened.api_key, own=True, dimensions=opened.dimensions
        )
        return self._build(spec, guarded_client(self._egress, timeout=self._limits.timeout()))

    def _build(self, spec: RemoteSpec, http: httpx2.AsyncClient) -> EmbeddingModel:
        return RemoteModel(
            spec, self._catalogue, http, ledger=self._ledger, breakers=self._breakers, limits=self._limits
        )


async def _follow_health(embedder: Embedder, server: GrpcServer) -> None:
    async with aclosing(embedder.health()) as states:
        async for healthy in states:
            server.set_serving(healthy)


def _described(info: ModelInfo) -> dict[str, str | int]:
    return {
        "provider": info.provider,
        "model": info.space.model,
        "revision": info.space.revision,
        "dimensions": info.space.dimensions,
        "max_input_tokens": info.max_input_tokens,
        "precision": info.precision,
    }
