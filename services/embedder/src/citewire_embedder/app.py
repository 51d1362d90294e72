"""Builds the embedder from its settings, and closes it in reverse."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing

from citewire.embedder.v1.embedder_pb2_grpc import add_EmbedderServiceServicer_to_server

from citewire_embedder.models import ModelFactory, load_remote_model, open_model
from citewire_embedder.providers.base import EmbeddingModel, ModelInfo
from citewire_embedder.reranking import Reranker
from citewire_embedder.service import Embedder
from citewire_embedder.servicer import SERVICE_NAME, EmbedderServicer
from citewire_embedder.settings import EmbedderSettings
from citewire_kit.caller_limits import open_caller_limits
from citewire_kit.server import GrpcServer
from citewire_kit.telemetry import get_logger, start_metrics_server
from citewire_ledger import Ledger
from citewire_remote.redaction import quiet_sdks
from citewire_remote.tenant_providers import TenantClients, TenantProvider

log = get_logger(__name__)


async def start(
    stack: AsyncExitStack,
    settings: EmbedderSettings,
    model: EmbeddingModel | None = None,
    build_tenant_model: Callable[[TenantProvider], EmbeddingModel] | None = None,
    ledger: Ledger | None = None,
) -> GrpcServer:
    """Starts the server, then loads the model: health checks report NOT_SERVING until the model has warmed up.

    Args:
        stack: Receives everything that must be closed.
        settings: The process's settings.
        model: Serve this model instead of the configured one (tests).
        build_tenant_model: Builds the embedding models of tenant providers instead of the real ones (tests).
        ledger: Record calls here instead of in the configured ledger (tests).

    Raises:
        StartupError: The address is in use, or the model can't be loaded.
    """
    metrics_server = start_metrics_server(settings)
    stack.callback(metrics_server.close)
    quiet_sdks()
    if model is None:
        model = await asyncio.to_thread(open_model, settings)
    if ledger is None:
        opening = settings.ledger("embedder", calls_providers=bool(settings.remote()))
        ledger = await stack.enter_async_context(opening)
    models, vault = ModelFactory(settings, ledger), settings.vault()
    reranker = Reranker(
        models.reranker(model),
        TenantClients(vault, models.tenant_reranker, lambda tenant_model: tenant_model.close(), by_model=True),
    )
    stack.push_async_callback(reranker.close)
    tenant_models = TenantClients(
        vault,
        build_tenant_model or models.tenant_model,
        lambda tenant_model: tenant_model.close(),
        load=lambda _: load_remote_model(),
        by_model=True,
    )
    stack.push_async_callback(tenant_models.close)
    embedder = Embedder(model, settings.limits(), tenant_models, models.remote_models(), settings.default_model())
    callers = open_caller_limits(stack, settings, spends=True)
    server = GrpcServer(settings, service="embedder", max_concurrent=settings.max_concurrent_rpcs, callers=callers)
    server.add(add_EmbedderServiceServicer_to_server, EmbedderServicer(embedder, vault, reranker), SERVICE_NAME)
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
