"""The composition root: builds everything that `serve` needs, and closes it in reverse."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from functools import partial
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.types import ASGIApp

from citewire_gateway.api import openapi, problems
from citewire_gateway.api.dialects.answer import JsonAnswer
from citewire_gateway.api.dialects.native import NativeDialect
from citewire_gateway.api.dialects.openai_chat import OpenAiAnswer, OpenAiStream
from citewire_gateway.api.dialects.self_rag import SelfRagDialect
from citewire_gateway.api.dialects.simple import SimpleDialect
from citewire_gateway.api.dialects.ui_message import UiMessageDialect
from citewire_gateway.api.progress import ProgressFrames
from citewire_gateway.api.routes import (
    budgets,
    chat,
    collections,
    conversations,
    documents,
    openai,
    profiles,
    providers,
    search,
    spaces,
    system,
    usage,
)
from citewire_gateway.api.streams import StreamRules
from citewire_gateway.background import Aftermath
from citewire_gateway.chat.pipeline import ChatPipeline
from citewire_gateway.chat.store import ChatStore
from citewire_gateway.clients.corpus import CorpusClient
from citewire_gateway.clients.health import ServiceHealth
from citewire_gateway.clients.sealers import GrpcSealer
from citewire_gateway.clients.services import GrpcEmbedder, GrpcGenerator, GrpcRetriever, Timeouts
from citewire_gateway.http import middleware
from citewire_gateway.http.drain import Drain
from citewire_gateway.http.health import Health
from citewire_gateway.http.idempotency import IdempotencyStore
from citewire_gateway.http.limits import body_limit, time_budget
from citewire_gateway.http.local_only import LocalOnly
from citewire_gateway.http.uploads import UploadSlots
from citewire_gateway.profiles.resolver import Profiles
from citewire_gateway.profiles.store import ProfileStore
from citewire_gateway.services import Services
from citewire_gateway.settings import GatewaySettings
from citewire_gateway.sweeper import keep_house
from citewire_gateway.tenants.accounts_store import AccountStore
from citewire_gateway.tenants.authenticator import Authenticator
from citewire_gateway.tenants.identity_store import IdentityStore
from citewire_gateway.tenants.provider_resolver import ProviderResolver
from citewire_gateway.tenants.provider_service import OwnProviders
from citewire_gateway.tenants.provider_store import ProviderStore
from citewire_kit import metrics
from citewire_kit.channel import open_channel
from citewire_kit.client import init_client
from citewire_kit.postgres import is_alive, open_pool
from citewire_kit.tasks import end
from citewire_kit.telemetry import get_logger

SERVICES = (
    "citewire.embedder.v1.EmbedderService",
    "citewire.retriever.v1.RetrieverService",
    "citewire.retriever.v1.CorpusService",
    "citewire.generator.v1.GeneratorService",
)
ROUTES = (
    chat,
    openai,
    search,
    documents,
    collections,
    spaces,
    conversations,
    profiles,
    providers,
    usage,
    budgets,
    system,
)
DIALECTS = (
    NativeDialect.name,
    SimpleDialect.name,
    SelfRagDialect.name,
    UiMessageDialect.name,
    OpenAiStream.name,
    OpenAiAnswer.name,
    JsonAnswer.name,
    ProgressFrames.name,
)
_DESCRIPTION = "Cited answers over your own documents."

log = get_logger(__name__)


async def build_services(settings: GatewaySettings, stack: AsyncExitStack, drain: Drain) -> Services:
    """Opens pool and channels and puts everything together; the stack closes it.

    Raises:
        StartupError: The connection string is malformed.
    """
    pool = await open_pool(settings.dsn, max_size=settings.pool_max, name="citewire-gateway")
    stack.push_async_callback(pool.close)
    health = await open_pool(settings.dsn, max_size=1, name="citewire-gateway-health")
    stack.push_async_callback(health.close)
    tls = settings.tls()
    embedding = open_channel(settings.embedder_target, tls=tls)
    retrieving = open_channel(settings.retriever_target, tls=tls)
    generating = open_channel(settings.generator_target, tls=tls)
    streaming = open_channel(settings.generator_target, streams=True, tls=tls)
    for channel in (embedding, retrieving, generating, streaming):
        stack.push_async_callback(channel.close, None)
    timeouts = Timeouts(
        embed=settings.embed_seconds,
        plan=settings.plan_seconds,
        search=settings.search_seconds,
        rerank=settings.rerank_seconds,
        suggest=settings.suggest_seconds,
        judge=settings.judge_seconds,
        chat=settings.chat_seconds,
        request=settings.request_seconds,
    )
    embedder, retriever = GrpcEmbedder(embedding, timeouts), GrpcRetriever(retrieving, timeouts)
    chats, aftermath = ChatStore(pool), Aftermath()
    stack.push_async_callback(aftermath.settled)  # before the pool goes: what has ended is still being written
    stored, accounts = ProviderStore(pool), AccountStore(pool)
    pipeline = ChatPipeline(
        embedder=embedder,
        retriever=retriever,
        generator=GrpcGenerator(generating, streaming, timeouts),
        records=chats,
        aftermath=aftermath,
        lease_seconds=settings.chat_seconds + settings.orphan_seconds,
        models=settings.profile_models(),
        costs=accounts,
    )
    identity, off = IdentityStore(pool), settings.auth == "off"
    authenticator = Authenticator(identity, off=off)
    stack.push_async_callback(authenticator.flush)
    _keep_house(stack, keep_house(chats, authenticator, identity, seconds=settings.housekeeping_seconds, local=off))
    return Services(
        settings=settings,
        authenticator=authenticator,
        chats=chats,
        accounts=accounts,
        idempotency=IdempotencyStore(pool, aftermath, keep_seconds=settings.idempotency_hours * 3600),
        providers=ProviderResolver(stored, settings.offered_types()),
        own_providers=OwnProviders(
            stored, GrpcSealer(embedding, generating, seconds=settings.provider_test_seconds), retriever
        ),
        profiles=Profiles(ProfileStore(pool)),
        pipeline=pipeline,
        embedder=embedder,
        retriever=retriever,
        corpus=CorpusClient(retrieving, seconds=settings.request_seconds, transfer_seconds=settings.transfer_seconds),
        health=Health(
            {
                "database": partial(is_alive, health),
                "embedder": ServiceHealth(embedding).serving,
                "retriever": ServiceHealth(retrieving).serving,
                "generator": ServiceHealth(streaming).serving,
            }
        ),
        drain=drain,
        stream_rules=StreamRules(drain, settings.hold_seconds, settings.heartbeat_seconds),
        uploads=UploadSlots(settings.max_uploads),
    )


def build_app(services: Services) -> ASGIApp:
    """Builds the application: the API and the middleware around it."""
    settings = services.settings
    app = build_api()
    app.state.services = services
    _init_metrics()
    inner = LocalOnly(app) if settings.auth == "off" else app
    return middleware.wrap(inner, seconds=time_budget(settings), body_limit=body_limit(settings))


def build_api() -> FastAPI:
    """Builds the API: routes, errors and its document, which need no services."""
    app = FastAPI(
        title="Citewire",
        version=version("citewire-gateway"),
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # Our middleware makes the request's span and metrics; FastAPI's own would be a second root beside it.
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
    )
    for module in ROUTES:
        app.include_router(module.router)
    problems.install(app)
    openapi.install(app)
    return app


def _keep_house(stack: AsyncExitStack, work: Coroutine[None, None, None]) -> None:
    stack.push_async_callback(end, asyncio.create_task(work, name="housekeeping"))


def _init_metrics() -> None:
    """Makes all series exist before the first request."""
    init_client(SERVICES)
    metrics.init_streams(DIALECTS)
    metrics.init_http(
        (method, route.path, (200, 401, 404, 422, 500, 503))
        for module in ROUTES
        for route in module.router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    )
