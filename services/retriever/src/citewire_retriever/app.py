"""Builds the retriever from its settings, and closes it in reverse."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from citewire.retriever.v1.corpus_pb2_grpc import add_CorpusServiceServicer_to_server
from citewire.retriever.v1.retriever_pb2_grpc import add_RetrieverServiceServicer_to_server

from citewire_egress.addresses import EgressPolicy
from citewire_egress.fetch import Fetcher, FetchLimits
from citewire_kit.caller_limits import open_caller_limits
from citewire_kit.deadline import budget
from citewire_kit.errors import CitewireError
from citewire_kit.metrics import init_limits
from citewire_kit.pace import Pace
from citewire_kit.plan_limits import Measure
from citewire_kit.postgres import open_pool
from citewire_kit.server import GrpcServer, run_until_signal
from citewire_kit.tasks import end
from citewire_kit.telemetry import get_logger, start_metrics_server
from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.sandbox import Sandbox, SandboxRules
from citewire_retriever.ingest.spool import spool_folder
from citewire_retriever.service.corpus import CorpusService, Limits
from citewire_retriever.service.locating import Locator
from citewire_retriever.service.query_filters import load_words
from citewire_retriever.service.receiving import Receiver, ReceivingLimits
from citewire_retriever.service.retrieval import RetrievalService
from citewire_retriever.service.spaces import SpaceService
from citewire_retriever.service.tables import TableReader
from citewire_retriever.servicer import CORPUS, RETRIEVER, CorpusServicer, RetrieverServicer
from citewire_retriever.settings import RetrieverSettings
from citewire_retriever.store.collections import PostgresCollections
from citewire_retriever.store.content import PostgresContent
from citewire_retriever.store.documents import PostgresDocuments
from citewire_retriever.store.filter_sql import VISIBLE
from citewire_retriever.store.recall import PostgresRecall
from citewire_retriever.store.sampling import RecallSampler, Sampling
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.store.spaces import PostgresSpaces
from citewire_retriever.store.storage import PostgresStorage
from citewire_retriever.store.watch import PostgresProgressFeed
from citewire_retriever.tuning import SearchTuning

log = get_logger(__name__)

_PING_SECONDS: Final = 1.0
"""Time after which a database that doesn't respond counts as unreachable."""
_READ_FILES: Final = 1000
"""Number of files after which the fork server is replaced."""


async def serve(settings: RetrieverSettings) -> None:
    """Serves until SIGTERM or SIGINT."""
    await run_until_signal(partial(start, settings=settings), settings)


async def start(stack: AsyncExitStack, settings: RetrieverSettings) -> GrpcServer:
    """Starts the server; health reports SERVING while the database responds.

    Args:
        stack: Receives everything that must be closed.
        settings: The process's settings.

    Raises:
        StartupError: An address is in use, or the connection string is malformed.
    """
    metrics_server = start_metrics_server(settings)
    init_limits(Measure.STORED_BYTES)
    stack.callback(metrics_server.close)
    dsn, direct_dsn = settings.dsn.get_secret_value(), settings.direct()
    pool = await open_pool(
        dsn, direct_dsn=direct_dsn, max_size=settings.pool_max_size, name="citewire-retriever", resolved=VISIBLE
    )
    stack.push_async_callback(pool.close)
    health = await open_pool(dsn, direct_dsn=direct_dsn, max_size=1, name="citewire-retriever-health")
    stack.push_async_callback(health.close)
    feed = await stack.enter_async_context(PostgresProgressFeed(direct_dsn))
    sampler = await _start_sampling(stack, settings)
    retrieval = RetrievalService(PostgresSearch(pool, _tuning(settings), sampler, health=health))
    storage = PostgresStorage(pool, None if settings.auth == "off" else settings.limits_by_plan())
    content = PostgresContent(pool, storage, store_seconds=settings.store_seconds)
    corpus = CorpusService(
        PostgresDocuments(pool, storage, store_seconds=settings.store_seconds),
        content,
        PostgresCollections(pool),
        feed,
        storage,
        await _open_locator(stack, settings, content),
        await _open_tables(stack, settings, content),
        _receiver(settings),
        Limits(
            text_max_bytes=settings.text_max_bytes,
            max_uploads=settings.max_uploads,
            watch_poll_seconds=settings.watch_poll_seconds,
        ),
    )
    spaces = SpaceService(PostgresSpaces(pool))
    callers = open_caller_limits(stack, settings, spends=False)
    server = GrpcServer(settings, service="retriever", max_concurrent=settings.max_concurrent, callers=callers)
    server.add(add_RetrieverServiceServicer_to_server, RetrieverServicer(retrieval), RETRIEVER)
    server.add(add_CorpusServiceServicer_to_server, CorpusServicer(corpus, spaces), CORPUS)
    server.set_serving(False)
    await server.start()
    stack.push_async_callback(end, asyncio.create_task(asyncio.to_thread(load_words), name="retriever-words"))
    follower = asyncio.create_task(_follow(retrieval, server, settings.health_seconds), name="retriever-health")
    stack.push_async_callback(end, follower)
    return server


def _receiver(settings: RetrieverSettings) -> Receiver:
    """Builds the receiver of files, which also fetches uploads by URL."""
    limits = FetchLimits(settings.upload_max_bytes, settings.fetch_seconds)
    return Receiver(
        ReceivingLimits(
            upload_max_bytes=settings.upload_max_bytes,
            max_chars=settings.max_chars,
            upload_pace=Pace(settings.upload_bytes_per_second, settings.upload_grace_seconds),
            spool_dir=settings.spool_dir,
        ),
        Fetcher(EgressPolicy.parse(settings.fetch_allow), limits) if settings.fetch else None,
    )


async def _open_locator(stack: AsyncExitStack, settings: RetrieverSettings, content: PostgresContent) -> Locator:
    """Builds the locator of quotes in originals."""
    processes = settings.locate_processes
    rules = _rules(settings, seconds=settings.locate_seconds, memory_mib=settings.locate_memory_mib)
    sandbox, folder = await _open_sandbox(stack, settings, rules, processes)
    return Locator(content, sandbox, folder, processes=processes, max_bytes=settings.locate_max_bytes)


async def _open_tables(stack: AsyncExitStack, settings: RetrieverSettings, content: PostgresContent) -> TableReader:
    """Builds the service for computing over tables of originals."""
    processes = settings.table_processes
    rules = _rules(settings, seconds=settings.table_seconds, memory_mib=settings.table_memory_mib)
    sandbox, folder = await _open_sandbox(stack, settings, replace(rules, tables=True), processes)
    return TableReader(content, sandbox, folder, processes=processes, max_bytes=settings.table_max_bytes)


async def _open_sandbox(
    stack: AsyncExitStack, settings: RetrieverSettings, rules: SandboxRules, processes: int
) -> tuple[Sandbox, Path]:
    """Builds the reader of originals in sandboxed processes, started on first use, with a folder for them."""
    sandbox = await stack.enter_async_context(Sandbox.open(rules, processes=processes, at_once=False))
    return sandbox, stack.enter_context(spool_folder(settings.spool_dir))


def _rules(settings: RetrieverSettings, *, seconds: float, memory_mib: int) -> SandboxRules:
    return SandboxRules(
        seconds=seconds,
        cpu_seconds=seconds,
        cpu_seconds_per_mib=0.0,
        memory_mib=memory_mib,
        files=_READ_FILES,
        limits=ParseLimits(),
        confinement=settings.confinement,
    )


async def _start_sampling(stack: AsyncExitStack, settings: RetrieverSettings) -> RecallSampler | None:
    """Builds the background measurement of recall, with its own connections; None if it is disabled."""
    if not settings.recall_sample_rate:
        return None
    sampling = Sampling(
        rate=settings.recall_sample_rate,
        at_once=settings.recall_sample_connections,
        waiting=settings.recall_sample_waiting,
        seconds=settings.recall_sample_seconds,
        low=settings.recall_sample_low,
    )
    pool = await open_pool(
        settings.dsn.get_secret_value(),
        direct_dsn=settings.direct(),
        min_size=0,
        max_size=settings.recall_sample_connections,
        name="citewire-retriever-recall",
        resolved=VISIBLE,
    )
    stack.push_async_callback(pool.close)
    recall = PostgresRecall(pool, _tuning(settings), seconds=settings.recall_sample_seconds)
    sampler = RecallSampler(recall.measure, sampling)
    await stack.enter_async_context(sampler.running())
    return sampler


async def _follow(retrieval: RetrievalService, server: GrpcServer, seconds: float) -> None:
    """Updates health according to the database."""
    serving: bool | None = None
    while True:
        try:
            with budget(_PING_SECONDS):
                await retrieval.ping()
            now, why = True, ""
        except CitewireError as exc:
            now, why = False, exc.message
        except Exception:
            log.exception("health_check_failed")
            now, why = False, "the health check failed"
        if now != serving:
            serving = now
            server.set_serving(now)
            log.info("serving") if now else log.warning("not_serving", error=why)
        await asyncio.sleep(seconds)


def _tuning(settings: RetrieverSettings) -> SearchTuning:
    return SearchTuning(
        ef_search_first=settings.ef_search_first,
        ef_search=settings.ef_search,
        ef_search_max=settings.ef_search_max,
        max_scan_tuples=settings.max_scan_tuples,
        exact_chunks=settings.exact_chunks,
        exact_chunks_per_candidate=settings.exact_chunks_per_candidate,
        lexical_scan_chunks=settings.lexical_scan_chunks,
        statistics_seconds=settings.statistics_seconds,
    )
