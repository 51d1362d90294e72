"""Builds the generator from its settings, and closes it in reverse."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

from citewire.generator.v1.generator_pb2_grpc import add_GeneratorServiceServicer_to_server

from citewire_generator.calls import OPERATION
from citewire_generator.engine import Engine
from citewire_generator.model import ModelInfo
from citewire_generator.providers.base import ChatProvider
from citewire_generator.providers.extractive import Extractive
from citewire_generator.providers.factory import build_chat_provider
from citewire_generator.reflection.enrichment import Enricher
from citewire_generator.reflection.service import Reflector
from citewire_generator.registry import Lease, Registry, describe_model
from citewire_generator.service import Generator
from citewire_generator.servicer import DIALECT, SERVICE_NAME, GeneratorServicer
from citewire_generator.settings import GeneratorSettings
from citewire_generator.tenant_providers import TenantChatProviders
from citewire_kit.caller_limits import open_caller_limits
from citewire_kit.errors import NotFound, StartupError
from citewire_kit.metrics import init_model, init_streams
from citewire_kit.server import GrpcServer
from citewire_kit.telemetry import get_logger, start_metrics_server
from citewire_ledger import Ledger
from citewire_remote.breaker import Breakers
from citewire_remote.catalogue import Catalogue, load_catalogue
from citewire_remote.egress import guarded_connector
from citewire_remote.retry import RetryPolicy
from citewire_remote.tenant_providers import TenantProvider, Vault

log = get_logger(__name__)


async def start(
    stack: AsyncExitStack,
    settings: GeneratorSettings,
    providers: Sequence[ChatProvider] | None = None,
    ledger: Ledger | None = None,
) -> GrpcServer:
    """Starts the metrics server and the gRPC server; it serves at once, whether or not its providers answer.

    Args:
        stack: Receives everything that must be closed.
        settings: The process's settings.
        providers: Offer these instead of the configured ones (tests).
        ledger: Record calls here instead of in the configured ledger (tests).

    Raises:
        StartupError: An address is in use, or a fallback isn't one of the models.
    """
    metrics_server = start_metrics_server(settings)
    stack.callback(metrics_server.close)
    catalogue = load_catalogue(settings.catalogue)
    if ledger is None:
        remote = bool(settings.configured()) if providers is None else any(provider.remote for provider in providers)
        ledger = await stack.enter_async_context(settings.ledger("generator", calls_providers=remote))
    vault = settings.vault()
    tenant_providers = _tenant_providers(settings, vault, catalogue, ledger)
    stack.push_async_callback(tenant_providers.close)
    if providers is None:
        providers = _providers(stack, settings, catalogue)
    registry = _registry(providers, settings, tenant_providers.lease)
    init_streams([DIALECT])
    for model in registry.models():
        init_model(provider=model.provider, model=model.name, operation=OPERATION)
    engine = Engine(ledger, Breakers(settings.breaker_policy()), settings.call_limits())
    generator = Generator(registry, engine, settings.max_completion_tokens)
    reflector = Reflector(registry, engine, settings.judge_seconds)
    enricher = Enricher(registry, engine, seconds=settings.enrich_seconds, text_tokens=settings.enrich_tokens)
    server = GrpcServer(
        settings,
        service="generator",
        max_concurrent=settings.max_concurrent,
        stream_window=settings.stream_window,
        callers=open_caller_limits(stack, settings, spends=True),
    )
    servicer = GeneratorServicer(generator, reflector, enricher, vault, tenant_providers)
    server.add(add_GeneratorServiceServicer_to_server, servicer, SERVICE_NAME)
    await server.start()
    default = registry.default
    log.info(
        "provider_ready",
        provider=default.provider.name,
        model=default.model.name,
        remote=default.model.remote,
        models=len(registry.models()),
        fallbacks=[fallback.title for fallback in registry.fallbacks],
    )
    server.set_serving(True)
    return server


def _registry(providers: Sequence[ChatProvider], settings: GeneratorSettings, lease: Lease) -> Registry:
    try:
        return Registry(providers, settings.fallback_names(), lease)
    except NotFound as exc:
        raise StartupError(f"{settings.env_name('fallbacks')}: {exc.message}") from exc


def _providers(stack: AsyncExitStack, settings: GeneratorSettings, catalogue: Catalogue) -> list[ChatProvider]:
    """Builds the providers, the default first."""
    limits = settings.time_limits()
    providers: list[ChatProvider] = []
    for configured in settings.configured():
        models = tuple(
            describe_model(catalogue, configured.kind, name, configured.context_window) for name in configured.models
        )
        remote = build_chat_provider(
            configured.kind, api_base=configured.api_base, api_key=configured.api_key, models=models, limits=limits
        )
        stack.push_async_callback(remote.close)
        providers.append(remote)
    providers.insert(0 if settings.provider == "extractive" else len(providers), Extractive())
    return providers


def _tenant_providers(
    settings: GeneratorSettings, vault: Vault, catalogue: Catalogue, ledger: Ledger
) -> TenantChatProviders:
    policy, limits = settings.egress_policy(), settings.time_limits()

    def build(provider: TenantProvider, model: ModelInfo) -> ChatProvider:
        return build_chat_provider(
            provider.provider,
            api_base=provider.api_base,
            api_key=provider.api_key,
            models=(model,),
            limits=limits,
            connector=guarded_connector(policy),
        )

    # A test call isn't retried, because the person who saves a provider is waiting.
    test_engine = Engine(ledger, limits=replace(settings.call_limits(), retry=RetryPolicy(attempts=1)))
    return TenantChatProviders(vault, build, partial(describe_model, catalogue), test_engine)
