"""Builds the generator from its settings, and closes it in reverse."""

from collections.abc import Sequence
from contextlib import AsyncExitStack

from citewire.generator.v1.generator_pb2_grpc import add_GeneratorServiceServicer_to_server

from citewire_generator.calls import OPERATION
from citewire_generator.model import ModelInfo
from citewire_generator.providers.base import ChatProvider
from citewire_generator.providers.extractive import Extractive
from citewire_generator.providers.openai_compatible import PROVIDER, OpenAiCompatible, open_session
from citewire_generator.registry import Registry
from citewire_generator.service import Generator
from citewire_generator.servicer import DIALECT, SERVICE_NAME, GeneratorServicer
from citewire_generator.settings import GeneratorSettings
from citewire_kit.metrics import init_model, init_streams
from citewire_kit.server import GrpcServer
from citewire_kit.telemetry import get_logger, start_metrics_server

log = get_logger(__name__)


async def start(
    stack: AsyncExitStack, settings: GeneratorSettings, providers: Sequence[ChatProvider] | None = None
) -> GrpcServer:
    """Starts the metrics server and the gRPC server; it serves at once, whether or not its provider answers.

    Args:
        stack: Takes what must be closed.
        settings: The process's settings.
        providers: Offer these instead of those that the settings name (tests).

    Raises:
        StartupError: An address is taken.
    """
    metrics_server = start_metrics_server(settings)
    stack.callback(metrics_server.close)
    registry = Registry(_providers(stack, settings) if providers is None else providers)
    init_streams([DIALECT])
    for model in registry.models():
        init_model(provider=model.provider, model=model.name, operation=OPERATION)
    generator = Generator(registry, settings.limits())
    server = GrpcServer(
        settings,
        service="generator",
        max_concurrent=settings.max_concurrent,
        stream_window=settings.stream_window,
    )
    server.add(add_GeneratorServiceServicer_to_server, GeneratorServicer(generator), SERVICE_NAME)
    await server.start()
    chosen = registry.default
    log.info("provider_ready", provider=chosen.provider.name, model=chosen.model.name, remote=chosen.model.remote)
    server.set_serving(True)
    return server


def _providers(stack: AsyncExitStack, settings: GeneratorSettings) -> list[ChatProvider]:
    """Builds the providers, the default first."""
    providers: list[ChatProvider] = [Extractive()]
    if settings.provider == PROVIDER:
        limits = settings.time_limits()
        models = tuple(
            ModelInfo(PROVIDER, name, context_window=settings.context_window) for name in settings.model_names()
        )
        key = settings.api_key.get_secret_value().strip() if settings.api_key else None
        remote = OpenAiCompatible(
            open_session(limits), api_base=settings.api_base, api_key=key, models=models, limits=limits
        )
        stack.push_async_callback(remote.close)
        providers.insert(0, remote)
    return providers
