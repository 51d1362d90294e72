"""Backfill: looks through organisations for live versions that lack vectors or terms, and makes them slice by slice."""

from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

from citewire_kit.errors import CitewireError, FailedPrecondition, Unavailable
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant, use_tenant
from citewire_retriever.headings import heading
from citewire_retriever.ingest import metrics
from citewire_retriever.ingest.backfill.rate import TokenRate
from citewire_retriever.ingest.backfill.scales import SpaceScales
from citewire_retriever.ingest.backfill.store import IncompleteVersion, PostgresBackfillStore, TargetSpaces
from citewire_retriever.ingest.batches import grouped
from citewire_retriever.ingest.chunks import embedding_input
from citewire_retriever.ingest.embedder_client import GrpcEmbedder
from citewire_retriever.ingest.model import Job, ModelWindow, StoredChunk, VectorTable
from citewire_retriever.ingest.settings import WorkerSettings
from citewire_retriever.ingest.store import PostgresJobStore
from citewire_retriever.ingest.turn import Turn
from citewire_retriever.model import Space

log = get_logger(__name__)

_SLICE_BATCHES: Final = 4
"""Batches per attempt; then the job is queued again, so that an upload that arrived meanwhile goes first."""
_TERMS_AT_ONCE: Final = 1000
"""Chunks per attempt whose terms are computed."""
_SOON_SECONDS: Final = 5.0
"""Delay before an organisation is checked again if not everything could be queued."""


class Backfill:
    """See the module. The only state between two jobs is the rate."""

    def __init__(
        self,
        store: PostgresBackfillStore,
        jobs: PostgresJobStore,
        embedder: GrpcEmbedder,
        rate: TokenRate,
        settings: WorkerSettings,
    ) -> None:
        self._store = store
        self._scales = SpaceScales(store, embedder)
        self._jobs = jobs
        self._embedder = embedder
        self._rate = rate
        self._settings = settings

    def wait_seconds(self) -> float:
        """Seconds until the rate allows another slice."""
        return self._rate.wait_seconds()

    async def survey(self) -> bool:
        """Checks an organisation that is due, and queues versions that lack vectors or should be enriched.

        Returns:
            False if none was due.

        Raises:
            CitewireError: The database can't be reached.
        """
        org_id = await self._store.take_due(self._settings.backfill_seconds)
        if org_id is None:
            return False
        with use_tenant(Tenant(org_id, "backfill", "free")):
            targets = await self._store.target_spaces(org_id)
            spaces = [] if targets.live is None else [(targets.live, await self._jobs.ensure_space(targets.live))]
            if targets.following is not None:
                spaces += [(targets.following, table) for table in await self._following_table(org_id, targets)]
            further = await self._further_tables(org_id, targets)
        most = self._settings.backfill_documents
        queued = await self._store.queue(
            org_id, [table for _, table in spaces], further, most=most, again=self._settings.backfill_again_seconds
        )
        to_enrich = await self._store.queue_enrichment(org_id, most=most)
        if missing := await self._store.queue_missing(org_id, most=most):
            log.warning("uploads_queued_again", org_id=org_id, documents=missing)
        if queued or to_enrich:
            metrics.BACKFILL_QUEUED.inc(queued)
            log.info("backfill_queued", org_id=org_id, documents=queued, to_enrich=to_enrich)
            await self._store.come_back(org_id, min(_SOON_SECONDS, self._settings.backfill_seconds))
        if await self._store.is_waiting(org_id):
            return True  # missing vectors come first, and other organisations don't wait for a model
        with use_tenant(Tenant(org_id, "backfill", "free")):
            for space, table in spaces:
                await self._scales.refresh(org_id, table, space, partial(self._window, space, targets))
        return True

    async def embed(self, job: Job, turn: Turn) -> None:
        """Computes a version's missing terms and some of its missing vectors; queues the job again if more remain.

        A failure in one space doesn't affect the others.

        Raises:
            LeaseLostError: The job isn't ours any more, or the version isn't live.
            CitewireError: A model isn't available.
        """
        version = await self._store.incomplete_version(job)
        if version is None:
            await self._store.end(job, ())
            return
        if await self._store.add_terms(job, version.title, _TERMS_AT_ONCE, turn) == _TERMS_AT_ONCE:
            await self._jobs.retry(job, delay_seconds=0, uncount=True)
            return
        left = self._settings.batch_chunks * _SLICE_BATCHES
        further: list[VectorTable] = []
        errors: list[CitewireError] = []
        for target in self._targets(version.targets):
            try:
                left -= await self._fill_target(job, turn, version, target, left, further)
            except CitewireError as error:
                errors.append(error)
            if left <= 0:
                await self._jobs.retry(job, delay_seconds=0, uncount=True)
                return
        if errors:
            raise errors[0]
        await self._store.end(job, further)

    async def give_up(self, job: Job) -> None:
        """Ends a job without success. The version is queued again later."""
        await self._store.give_up(job)

    def _targets(self, targets: TargetSpaces) -> list[Space | str]:
        """Spaces, and names of further models: the live space first, because searches depend on it."""
        spaces = [space for space in (targets.live, targets.following) if space is not None]
        return [*spaces, *(() if targets.only_own else self._settings.further_models())]

    async def _fill_target(
        self,
        job: Job,
        turn: Turn,
        version: IncompleteVersion,
        target: Space | str,
        most: int,
        further: list[VectorTable],
    ) -> int:
        """Embeds a limited number of a version's chunks in one space; returns how many.

        A further space that is now complete is added to `further`.
        """
        targets = version.targets
        if isinstance(target, str):
            window = await self._embedder.window(target)
            if window.space in (targets.live, targets.following):
                return 0
            table = await self._jobs.ensure_space(window.space)
            done = await self._fill(job, turn, version.title, window, table, most)
            if done < most:
                further.append(table)
            return done
        table = await self._jobs.ensure_space(target)
        if not await self._jobs.unembedded(job, table, 1):
            return 0
        window = await self._window(target, targets)
        return await self._fill(job, turn, version.title, window, table, most)

    async def _fill(self, job: Job, turn: Turn, title: str, window: ModelWindow, table: VectorTable, most: int) -> int:
        done = 0
        while done < most:
            batch = min(self._settings.batch_chunks, most - done)
            chunks = await self._jobs.unembedded(job, table, batch)
            if not chunks:
                break
            await self._embed(job, turn, title, window, table, chunks)
            done += len(chunks)
        return done

    async def _embed(
        self, job: Job, turn: Turn, title: str, window: ModelWindow, table: VectorTable, chunks: Sequence[StoredChunk]
    ) -> None:
        texts = [embedding_input(heading(title, each.section), each.text) for each in chunks]
        first = 0
        # Chunks made for another model may be longer than this one's window: then their beginning is embedded.
        async with aclosing(self._embedder.embed(window, grouped(texts), truncate=True)) as answers:
            async for vectors in answers:
                group = chunks[first : first + len(vectors)]
                await self._jobs.add_vectors(job, table, [each.chunk_id for each in group], vectors)
                tokens = sum(each.tokens for each in group)
                self._rate.spend(tokens)
                turn.embedded(tokens)
                metrics.BACKFILL_CHUNKS.inc(len(group))
                first += len(group)

    async def _window(self, space: Space, targets: TargetSpaces) -> ModelWindow:
        """The model of a space, the tenant's own or the operator's. Raises `FailedPrecondition` if there is none."""
        if targets.own is not None:
            window = await self._embedder.window("", targets.own)
            if window.space == space:
                return window
        if targets.only_own:
            raise FailedPrecondition(
                "the organisation uses only its own providers, and none offers the space's model",
                reason="PROVIDER_MISSING",
            )
        window = await self._embedder.window(space.model)
        if window.space != space:
            raise FailedPrecondition(
                "the embedder serves another revision of the space's model", reason="SPACE_MISMATCH"
            )
        return window

    async def _following_table(self, org_id: str, targets: TargetSpaces) -> list[VectorTable]:
        """The table of the space that is being prepared, once a model serves it."""
        if targets.following is None:
            return []
        try:
            window = await self._window(targets.following, targets)
        except CitewireError as error:
            _note_unserved("next_space_not_served", org_id, targets.following.model, error)
            return []
        return [await self._jobs.ensure_space(window.space)]

    async def _further_tables(self, org_id: str, targets: TargetSpaces) -> list[VectorTable]:
        tables: list[VectorTable] = []
        for model in () if targets.only_own else self._settings.further_models():
            try:
                window = await self._embedder.window(model)
            except CitewireError as error:
                _note_unserved("further_model_not_served", org_id, model, error)
                continue
            if window.space not in (targets.live, targets.following):
                tables.append(await self._jobs.ensure_space(window.space))
        return tables


def _note_unserved(event: str, org_id: str, model: str, error: CitewireError) -> None:
    """Logs why a model's vectors wait. An unreachable embedder is retried soon, so this isn't a warning."""
    note = log.info if isinstance(error, Unavailable) else log.warning
    note(event, org_id=org_id, model=model, error=str(error))
