"""The composition root: builds everything that `serve` needs, and closes it in reverse."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import fields
from functools import partial
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.types import ASGIApp

from citewire_accounts.api.routes import (
    accounting,
    admin,
    auth,
    erasures,
    exports,
    groups,
    keys,
    limits,
    operator,
    providers,
    retention,
)
from citewire_accounts.api.routes import feedback as accounts_feedback
from citewire_accounts.app import Application, build_accounts, make_local_tenant
from citewire_dialects.anthropic_messages import MessagesAnswer, MessagesStream, anthropic_members
from citewire_dialects.native import JsonAnswer, NativeDialect, native_members
from citewire_dialects.ollama import ollama_members
from citewire_dialects.openai_chat import OpenAiAnswer, OpenAiStream, openai_members
from citewire_dialects.openai_responses import ResponsesAnswer, ResponsesStream
from citewire_dialects.run_codec import EVENT_CODEC
from citewire_dialects.self_rag import SelfRagDialect, SelfRagJsonAnswer
from citewire_dialects.simple import SimpleDialect
from citewire_dialects.ui_message import UiMessageDialect
from citewire_gateway.api import openapi
from citewire_gateway.api.answer_details import answer_details
from citewire_gateway.api.audited import audited
from citewire_gateway.api.dependencies import Services
from citewire_gateway.api.request_limits import body_limit, is_upload, time_budget
from citewire_gateway.api.routes import (
    anthropic,
    batch,
    chat,
    collections,
    conversations,
    documents,
    feedback,
    openai,
    page,
    profiles,
    responses,
    runs,
    search,
    system,
    tables,
    vector_stores,
)
from citewire_gateway.api.routes.documents import ProgressDialect
from citewire_gateway.chat.erasing import QuoteEraser
from citewire_gateway.chat.pipeline import ChatPipeline
from citewire_gateway.chat.reading import ConversationReader
from citewire_gateway.chat.store import ChatStore
from citewire_gateway.clients.embedder import Embedder, ProviderSealer
from citewire_gateway.clients.generator import Generator
from citewire_gateway.clients.retriever import CorpusClient, Retriever
from citewire_gateway.metrics import CALL_WAIT_SECONDS
from citewire_gateway.profiles.store import Profiles, ProfileStore
from citewire_gateway.settings import GatewaySettings
from citewire_http import middleware
from citewire_http.api import docs_page, problems
from citewire_http.background import BackgroundTasks, run_sweeper
from citewire_http.idempotency import IdempotencyStore
from citewire_http.runs.live import LiveRuns
from citewire_http.runs.reading import RunReader
from citewire_http.runs.store import RunStore
from citewire_http.server import Drain
from citewire_http.supervision import StreamRules
from citewire_http.upload_slots import UploadSlots
from citewire_kit import metrics
from citewire_kit.arrivals import Arrivals
from citewire_kit.audit import NO_TRAIL
from citewire_kit.audit_store import open_trail
from citewire_kit.channel import open_channel
from citewire_kit.client import init_client
from citewire_kit.fair_calls import FairCalls
from citewire_kit.limit_store import open_limit_store
from citewire_kit.plan_limits import Measure
from citewire_kit.postgres import is_alive, open_pool
from citewire_kit.service_health import Health, ServiceHealth
from citewire_kit.tasks import end

SERVICES = (
    "citewire.embedder.v1.EmbedderService",
    "citewire.retriever.v1.RetrieverService",
    "citewire.retriever.v1.CorpusService",
    "citewire.generator.v1.GeneratorService",
)
ROUTES = (
    chat,
    runs,
    openai,
    responses,
    anthropic,
    search,
    documents,
    tables,
    batch,
    erasures,
    exports,
    collections,
    vector_stores,
    conversations,
    feedback,
    accounts_feedback,
    profiles,
    providers,
    keys,
    auth,
    accounting,
    admin,
    retention,
    groups,
    limits,
    operator,
    system,
    docs_page,
    page,
)
DIALECTS = (
    NativeDialect.name,
    SimpleDialect.name,
    SelfRagDialect.name,
    SelfRagJsonAnswer.name,
    UiMessageDialect.name,
    OpenAiStream.name,
    OpenAiAnswer.name,
    ResponsesStream.name,
    ResponsesAnswer.name,
    MessagesStream.name,
    MessagesAnswer.name,
    JsonAnswer.name,
    ProgressDialect.name,
)
_DESCRIPTION = "Cited answers over your own documents."


async def build_services(settings: GatewaySettings, stack: AsyncExitStack, drain: Drain) -> Services:
    """Opens pool and channels and assembles everything; the stack closes it.

    Raises:
        StartupError: The connection string is malformed.
    """
    trail = NO_TRAIL
    if settings.audit != "off":
        opening = open_trail(settings.dsn, process="gateway", required=settings.audit == "required")
        trail = await stack.enter_async_context(opening)
    pool = await open_pool(settings.dsn, max_size=settings.pool_max, name="citewire-gateway")
    stack.push_async_callback(pool.close)
    health = await open_pool(settings.dsn, max_size=1, name="citewire-gateway-health")
    stack.push_async_callback(health.close)
    tls, signer = settings.tls(), settings.signer()
    embedder_channel = open_channel(settings.embedder_target, tls=tls, signer=signer)
    retriever_channel = open_channel(settings.retriever_target, tls=tls, signer=signer)
    generator_channel = open_channel(settings.generator_target, tls=tls, signer=signer)
    stream_channel = open_channel(settings.generator_target, streams=True, tls=tls, signer=signer)
    for channel in (embedder_channel, retriever_channel, generator_channel, stream_channel):
        stack.push_async_callback(channel.close, None)
    calls = FairCalls(
        settings.max_calls,
        CALL_WAIT_SECONDS.observe,
        shared=settings.max_shared_calls,
        most_waiting=settings.max_waiting_calls,
    )
    embedder = Embedder(
        embedder_channel,
        calls,
        embed_seconds=settings.embed_seconds,
        request_seconds=settings.request_seconds,
    )
    retriever = Retriever(
        retriever_channel,
        calls,
        plan_seconds=settings.plan_seconds,
        search_seconds=settings.search_seconds,
        tables_seconds=settings.tables_seconds,
        request_seconds=settings.request_seconds,
    )
    generator = Generator(
        generator_channel,
        stream_channel,
        calls,
        chat_seconds=settings.chat_seconds,
        suggest_seconds=settings.suggest_seconds,
        judge_seconds=settings.judge_seconds,
    )
    chats, background = ChatStore(pool), BackgroundTasks()
    stack.push_async_callback(background.settled)  # before the pool closes: ended chats are still being written
    corpus = CorpusClient(
        retriever_channel, calls, seconds=settings.request_seconds, transfer_seconds=settings.transfer_seconds
    )
    reader = ConversationReader(chats, retriever)
    settle_seconds = settings.chat_seconds + settings.orphan_seconds
    eraser = QuoteEraser(pool, corpus, settle_seconds)
    application = Application(
        stream_rules=StreamRules(drain, settings.hold_seconds, settings.heartbeat_seconds),
        limit_store=open_limit_store(stack, settings),
        sealer=ProviderSealer(embedder_channel, generator_channel, seconds=settings.provider_test_seconds),
        live_space=retriever.live_space,
        erase_documents=corpus.erase,
        erase_old_documents=eraser.erase_old,
        export_messages=reader.export,
        export_documents=corpus.export_user,
        stored_bytes=corpus.storage,
        settle_seconds=settle_seconds,
        other_origins=settings.allowed_origins() if settings.cors_credentials else (),
    )
    run_store = RunStore(pool)
    live_runs = LiveRuns(EVENT_CODEC, run_store, settings.run_lease_seconds)
    stack.push_async_callback(end, asyncio.create_task(live_runs.watch(), name="runs"))
    accounts, rounds = await build_accounts(settings, pool, trail, application, stack)
    pipeline = ChatPipeline(
        embedder=embedder,
        retriever=retriever,
        generator=generator,
        records=chats,
        limiter=accounts.limiter,
        background=background,
        runs=live_runs,
        lease_seconds=settle_seconds,
        keep_seconds=settings.run_events_seconds,
        keep_for_key_seconds=settings.idempotency_hours * 3600,
        details_json=lambda run, usage, done: answer_details(run, usage, done=done).stored(),
        models=settings.profile_models(),
        cost_of=accounts.accounts.cost_of,
        rerank_seconds=settings.rerank_seconds,
    )
    rounds = {**rounds, "chats": chats.sweep, "runs": run_store.sweep, "answers": eraser.sweep}
    make_local = make_local_tenant(accounts.identity) if settings.auth == "off" else None
    sweeper = run_sweeper(rounds, seconds=settings.sweeper_seconds, prepare=make_local)
    stack.push_async_callback(end, asyncio.create_task(sweeper, name="sweeper"))
    return Services(
        **{field.name: getattr(accounts, field.name) for field in fields(accounts)},
        settings=settings,
        trail=trail,
        chats=chats,
        reader=reader,
        eraser=eraser,
        idempotency=IdempotencyStore(pool, background, keep_seconds=settings.idempotency_hours * 3600),
        profiles=Profiles(ProfileStore(pool)),
        run_store=run_store,
        runs=RunReader(EVENT_CODEC, run_store, reader.guard),
        live_runs=live_runs,
        pipeline=pipeline,
        embedder=embedder,
        retriever=retriever,
        generator=generator,
        corpus=corpus,
        health=Health(
            {
                "database": partial(is_alive, health),
                "embedder": ServiceHealth(embedder_channel).serving,
                "retriever": ServiceHealth(retriever_channel).serving,
                "generator": ServiceHealth(stream_channel).serving,
            }
        ),
        drain=drain,
        uploads=UploadSlots(settings.max_uploads, is_upload),
    )


def build_app(services: Services, api: FastAPI | None = None) -> ASGIApp:
    """Builds the application: the API and the middleware around it.

    Args:
        services: What its routes use.
        api: Of `build_api`, for these services alone; None: a new one.
    """
    settings = services.settings
    app = build_api() if api is None else api
    app.state.services = services
    _init_metrics()
    return middleware.wrap(
        app,
        problem_response=problems.problem_response,
        seconds=time_budget(settings),
        body_limit=body_limit(settings),
        arrivals=Arrivals(settings.arrival_seconds),
        admit=services.uploads.admit,
        local_only=settings.auth == "off",
        cross_origin=middleware.cross_origin_rules(settings),
        trail=services.trail,
        audited=audited,
    )


def build_api() -> FastAPI:
    """Builds the API: routes, errors and the OpenAPI document, which need no services."""
    app = FastAPI(
        title="Citewire",
        version=version("citewire-gateway"),
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        default_response_class=JSONResponse,  # Python's JSON encoder; fast paths are in the routes
        # Our middleware creates the request's span and metrics; FastAPI's own would be a second root span.
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
    )
    for module in ROUTES:
        app.include_router(module.router)
    members = (openai_members, anthropic_members, ollama_members, native_members)
    problems.install(app, lambda at, error: {k: v for members_of in members for k, v in members_of(at, error).items()})
    openapi.install(app, [module.router for module in ROUTES])
    _build_routes(app)
    return app


def _build_routes(app: FastAPI) -> None:
    """Builds the included routes' handlers, which FastAPI would do in the first request: a pause of 150 to 500 ms."""
    for route in app.routes:
        route.matches({"type": "http", "method": "GET", "path": "/", "headers": []})


def _init_metrics() -> None:
    """Creates all series before the first request."""
    init_client(SERVICES)
    metrics.init_streams(DIALECTS)
    metrics.init_limits(*(measure for measure in Measure if measure is not Measure.STORED_BYTES))
    metrics.LIMITED.labels("failed-keys", "address", "none")
    metrics.LIMIT_STORE_UP.set(1)
    metrics.init_http(
        (method, route.path, (200, 401, 404, 422, 500, 503))
        for module in ROUTES
        for route in module.router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    )
