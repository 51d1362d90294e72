"""Builds the worker from its settings, and closes it in reverse. `python -m citewire_retriever worker` calls `main`."""

import asyncio
from contextlib import AsyncExitStack

from citewire_kit import telemetry
from citewire_kit.channel import open_channel
from citewire_kit.health import HealthServicer
from citewire_kit.postgres import open_pool
from citewire_kit.probes import ProbeServer
from citewire_kit.server import run, stop_signal
from citewire_kit.settings import load_settings
from citewire_retriever.ingest.backfill.rate import TokenRate
from citewire_retriever.ingest.backfill.service import Backfill
from citewire_retriever.ingest.backfill.store import PostgresBackfillStore
from citewire_retriever.ingest.confined.locks import hide
from citewire_retriever.ingest.embedder_client import GrpcEmbedder
from citewire_retriever.ingest.enrichment.generator_client import GrpcGenerator
from citewire_retriever.ingest.enrichment.service import Enrichment
from citewire_retriever.ingest.enrichment.store import PostgresEnrichmentStore
from citewire_retriever.ingest.pipeline import Pipeline
from citewire_retriever.ingest.recognition import find_recogniser
from citewire_retriever.ingest.sandbox import Sandbox, SandboxRules
from citewire_retriever.ingest.settings import WorkerSettings
from citewire_retriever.ingest.spool import spool_folder
from citewire_retriever.ingest.store import PostgresJobStore
from citewire_retriever.ingest.worker import Worker


def main() -> None:
    """Runs the worker until SIGTERM or SIGINT."""
    hide()  # its environment and memory hold the database's address; the processes that read files are of its user
    settings = load_settings(WorkerSettings)
    process = telemetry.setup("worker", settings)
    try:
        run(work_until_signal(settings))
    finally:
        process.shutdown()


async def work_until_signal(settings: WorkerSettings) -> None:
    """Works until the process is stopped."""
    stop = stop_signal()
    async with AsyncExitStack() as stack:
        metrics_server = telemetry.start_metrics_server(settings)
        stack.callback(metrics_server.close)
        await work(settings, stop)


async def work(settings: WorkerSettings, stop: asyncio.Event) -> None:
    """Works until `stop` is set."""
    async with AsyncExitStack() as stack:
        probed = HealthServicer()
        probes = ProbeServer(settings, service="worker", servicer=probed)
        await probes.start()
        stack.push_async_callback(probes.stop)
        dsn, direct_dsn = settings.dsn.get_secret_value(), settings.direct()
        # A job holds at most one connection at a time; claims, leases and measurements need some as well.
        most = settings.concurrency + settings.enrich_concurrency + 5
        pool = await open_pool(dsn, direct_dsn=direct_dsn, max_size=most, name="citewire-worker")
        stack.push_async_callback(pool.close)
        tls, signer = settings.tls(), settings.signer()
        channel = open_channel(settings.embedder_target, tls=tls, signer=signer)
        stack.push_async_callback(channel.close)
        generator_channel = open_channel(settings.generator_target, tls=tls, signer=signer)
        stack.push_async_callback(generator_channel.close)
        folder = stack.enter_context(spool_folder(settings.spool_dir))
        rules = SandboxRules(
            seconds=settings.parse_seconds,
            memory_mib=settings.parse_memory_mib,
            cpu_seconds=settings.parse_cpu_seconds,
            cpu_seconds_per_mib=settings.parse_cpu_seconds_per_mib,
            files=settings.parse_jobs,
            limits=settings.parse_limits(),
            recogniser=await find_recogniser(
                settings.ocr_program,
                settings.ocr_languages,
                cpu_seconds=settings.ocr_cpu_seconds,
                most_pages=settings.ocr_pages,
            ),
            confinement=settings.confinement,
        )
        sandbox = await stack.enter_async_context(Sandbox.open(rules, processes=settings.concurrency + 1))
        store = PostgresJobStore(pool, direct_dsn)
        embedder = GrpcEmbedder(channel, batch_seconds=settings.embed_seconds)
        pipeline = Pipeline(store, embedder, sandbox, folder, settings)
        rate = TokenRate(settings.backfill_tokens_per_second)
        backfill = Backfill(PostgresBackfillStore(pool), store, embedder, rate, settings)
        generator = GrpcGenerator(generator_channel, seconds=settings.enrich_seconds)
        enrichment = Enrichment(PostgresEnrichmentStore(pool), generator)
        probed.set_started()
        await Worker(store, pipeline, settings, backfill, enrichment).run(stop)
