"""One attempt at one version: read, parse, chunk, embed, publish."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Generator, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from citewire_kit.errors import FailedPrecondition
from citewire_kit.telemetry import get_logger
from citewire_kit.tracing import get_tracer
from citewire_retriever.headings import heading, named
from citewire_retriever.ingest import metrics
from citewire_retriever.ingest.batches import Batch, batches_of, grouped
from citewire_retriever.ingest.chunker import check_chunks, chunk
from citewire_retriever.ingest.chunks import Chunk, embedding_input, input_hash
from citewire_retriever.ingest.document import ParsedDocument, SheetPosition
from citewire_retriever.ingest.embedder_client import GrpcEmbedder
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.model import (
    Job,
    ModelWindow,
    Publication,
    Published,
    StagedChunk,
    VectorTable,
    VersionToIngest,
)
from citewire_retriever.ingest.sandbox import Sandbox
from citewire_retriever.ingest.settings import WorkerSettings
from citewire_retriever.ingest.spool import spooled
from citewire_retriever.ingest.store import PostgresJobStore
from citewire_retriever.ingest.turn import Turn

log = get_logger(__name__)
_tracer: Final = get_tracer(__name__)
_MAX_TITLE: Final = 500
_BETWEEN_PARTS: Final = "\n\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an attempt."""

    published: Published
    """The result of publishing."""
    chunks: int
    """Chunks of the version."""
    resumed: int
    """Number of them that an earlier attempt had already stored."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """A version that was parsed and chunked but isn't embedded yet."""

    fence: int
    """The attempt number of the claim under which this was done."""
    title: str
    window: ModelWindow
    media_type: str
    pages: int | None
    chunks: list[Chunk]
    """The current part's document; only long tables have several parts."""
    first: int = 0
    """Chunks of the previous parts."""
    tokens: int = 0
    """Chunks of this part and the previous ones."""
    chars: int = 0
    """Code points of text stored so far."""
    texts: int = 0
    """Parts of text stored so far."""
    following: SheetPosition | None = None
    """Where the next part starts; None if this is the last."""
    share: float = 1
    """Approximate share of the file that was read."""

    @property
    def last(self) -> int:
        """Chunks so far."""
        return self.first + len(self.chunks)

    @property
    def total(self) -> int:
        """The version's total number of chunks: an estimate until its last part was read."""
        return round(self.last / self.share)


class Pipeline:
    """Ingests versions. It keeps the chunks of a few versions whose turn ended before they were done."""

    def __init__(
        self, store: PostgresJobStore, embedder: GrpcEmbedder, sandbox: Sandbox, folder: Path, settings: WorkerSettings
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._sandbox = sandbox
        self._folder = folder
        self._settings = settings
        self._cut: OrderedDict[tuple[str, int], _Cut] = OrderedDict()

    async def ingest(self, job: Job, turn: Turn) -> Outcome | None:
        """Makes an attempt, continuing from what earlier ones stored. The live version stays in use if it fails.

        Returns:
            The result; None if its turn ended before it was done.

        Raises:
            IngestError: The version can't be ingested, now or later.
            LeaseLostError: The job is no longer ours.
            CitewireError: Something that it needs is unavailable.
        """
        version = await self._store.begin(job)
        window = await self._window(version)
        resumed = 0
        async with AsyncExitStack() as stack:
            original = _Original(self._store, self._folder, job, version, stack)
            cut = self._remembered(job, version, window) or await self._read(original, window, turn, None)
            table = await self._store.ensure_space(window.space)
            while True:
                with _stage("embed"):
                    done_before, done = await self._embed(job, cut, table, turn)
                resumed += done_before
                if not done:
                    self._remember(job, cut)
                    return None
                if cut.following is None:
                    break
                cut = await self._read(original, window, turn, cut)
        if not cut.last:
            raise IngestError(IngestCode.EMPTY, "The table has no filled cell.")
        with _stage("publish"):
            await self._store.progress(job, "publish", 0, 0)
            published = await self._store.publish(
                job,
                Publication(
                    title=None if version.title_given else cut.title,
                    media_type=cut.media_type,
                    pages=cut.pages,
                    chunks=cut.last,
                    tokens=cut.tokens,
                    table=table,
                    keep_seconds=self._settings.keep_seconds,
                    further=bool(self._settings.further_models()),
                ),
            )
        if published is Published.OTHER_SPACE:
            raise FailedPrecondition("the organisation uses a different embedding space now", reason="SPACE_MISMATCH")
        return Outcome(published, cut.last, resumed)

    def _remember(self, job: Job, cut: _Cut) -> None:
        """Keeps the chunks in case the next turn is this worker's too."""
        self._cut[job.tenant.org_id, job.job_id] = cut
        if len(self._cut) > self._settings.concurrency:
            self._cut.popitem(last=False)

    def _remembered(self, job: Job, version: VersionToIngest, window: ModelWindow) -> _Cut | None:
        """The chunks of the last turn, if no other worker had one since, and title and model are unchanged."""
        cut = self._cut.pop((job.tenant.org_id, job.job_id), None)
        if cut is None or cut.fence != job.fence - 1 or cut.window != window:
            return None
        return None if version.title_given and version.title != cut.title else replace(cut, fence=job.fence)

    async def _read(self, original: "_Original", window: ModelWindow, turn: Turn, before: _Cut | None) -> _Cut:
        """Parses, stores and chunks a version's text; of a long table, the next part."""
        version, job = original.version, original.job
        document = await self._parse(original, turn, before.following if before else None)
        with _stage("chunk"):
            if before is None:
                title = version.title if version.title_given else (document.title or version.title)[:_MAX_TITLE]
                before = _Cut(job.fence, title, window, document.media_type, document.pages, [])
            text = _BETWEEN_PARTS + document.text if before.chars and document.text else document.text
            texts = await self._store.save_text(job, text, first=before.chars, part=before.texts)
            chunks = (
                await self._chunk(document, named(before.title, version.file_name), window) if document.blocks else []
            )
            check_chunks(before.last + len(chunks), self._settings.max_chunks)
            skipped = before.chars + len(text) - len(document.text)
            return replace(
                before,
                chunks=[_moved(each, before.last, skipped) for each in chunks],
                first=before.last,
                tokens=before.tokens + sum(each.token_count for each in chunks),
                chars=before.chars + len(text),
                texts=texts,
                following=document.following,
                share=1 if document.following is None else document.following.offset / max(1, version.size_bytes),
            )

    async def embed_further(self, job: Job, turn: Turn) -> None:
        """Embeds a live version's chunks in the further spaces, except those that an earlier attempt stored.

        An organisation that only lets its own providers see its documents has no further spaces.

        Raises:
            LeaseLostError: The job is no longer ours, or the version isn't live.
            CitewireError: A model is unavailable.
        """
        version = await self._store.live(job)
        tables: list[VectorTable] = []
        if version is not None and not version.only_own:
            for model in self._settings.further_models():
                window = await self._embedder.window(model)
                if window.space != version.space:
                    tables.append(await self._store.ensure_space(window.space))
                    await self._embed_stored(job, turn, version.title, window, tables[-1])
        await self._store.end_embedding(job, tables)

    async def _embed_stored(self, job: Job, turn: Turn, title: str, window: ModelWindow, table: VectorTable) -> None:
        while chunks := await self._store.unembedded(job, table, self._settings.batch_chunks):
            texts = [embedding_input(heading(title, each.section), each.text) for each in chunks]
            done = 0
            async with aclosing(self._embedder.embed(window, grouped(texts), truncate=True)) as answers:
                async for vectors in answers:
                    group = chunks[done : done + len(vectors)]
                    await self._store.add_vectors(job, table, [each.chunk_id for each in group], vectors)
                    turn.embedded(sum(each.tokens for each in group))
                    done += len(group)

    async def _parse(self, original: "_Original", turn: Turn, position: SheetPosition | None) -> ParsedDocument:
        version, job = original.version, original.job

        async def told(pages: int, of: int) -> None:
            await self._store.progress(job, "parse", pages, of)

        with _stage("read"):
            path = await original.path()
            with _stage("parse"):
                document = await self._sandbox.parse(
                    path, version.file_name, version.media_type, turn.read, position, told
                )
            if document.following is None:
                await original.close()
            return document

    async def _window(self, version: VersionToIngest) -> ModelWindow:
        """The model of the organisation's space; for its first document, the tenant's own or the default one."""
        if version.own is not None:
            window = await self._embedder.window("", version.own)
            if version.space in (None, window.space):
                return window
        if version.only_own:
            raise IngestError(IngestCode.PROVIDER, _no_provider(version))
        window = await self._embedder.window(version.space.model if version.space else "")
        if version.space is not None and window.space != version.space:
            raise FailedPrecondition(
                "the embedder serves another revision of the organisation's model", reason="SPACE_MISMATCH"
            )
        return window

    async def _chunk(self, document: ParsedDocument, title: str, window: ModelWindow) -> list[Chunk]:
        async def count(texts: Sequence[str]) -> list[int]:
            return await self._embedder.count(window, texts)

        return await chunk(document, title, self._settings.rules(window.max_tokens), count)

    async def _embed(self, job: Job, cut: _Cut, table: VectorTable, turn: Turn) -> tuple[int, bool]:
        """Embeds and stores the missing chunks until its turn ends.

        Returns how many chunks were already stored, and whether all are stored now.
        """
        chunks = cut.chunks
        most = None if cut.following is None else len(chunks)
        resumed = _same_so_far(await self._store.staged(job, table, cut.first, most), chunks)
        if resumed is None:
            await self._store.clear(job, cut.first)
        first = resumed or 0
        await self._store.progress(job, "embed", cut.first + first, cut.total)
        # A new version is embedded only where it differs from the live one.
        inputs = [input_hash(each) for each in chunks[first:]] if job.version > 1 else []
        live = await self._store.live_inputs(job, inputs) if inputs else {}
        batches = [Batch.of(group, live) for group in batches_of(chunks[first:], self._settings.batch_chunks)]
        step = self._settings.stream_batches
        stop = asyncio.Event()
        for start in range(0, len(batches), step):
            group = batches[start : start + step]
            done = 0
            texts = [batch.texts for batch in group if batch.texts]
            async with aclosing(self._embedder.embed(cut.window, texts, stop=stop)) as answers:
                for batch in group:
                    vectors = await anext(answers, None) if batch.texts else ()
                    if vectors is None:
                        break  # it was told to stop
                    await self._store.stage(job, table, batch.chunks, batch.merged(vectors), cut.total)
                    batch.count(turn)
                    done += 1
                    if not stop.is_set() and start + done < len(batches) and await turn.is_over():
                        stop.set()
                if texts and done == len(group):
                    await anext(answers, None)  # so that the call ends by itself
            if stop.is_set():
                return first, start + done == len(batches)
        return first, True


class _Original:
    """A version's file, kept in the spool folder from the first read until it is closed."""

    def __init__(
        self, store: PostgresJobStore, folder: Path, job: Job, version: VersionToIngest, stack: AsyncExitStack
    ) -> None:
        self.job = job
        self.version = version
        self._store = store
        self._folder = folder
        self._stack = stack
        self._path: Path | None = None

    async def path(self) -> Path:
        """Its path."""
        if self._path is None:
            parts = self._store.read_original(self.job, self.version.size_bytes)
            async with aclosing(parts):
                self._path = await self._stack.enter_async_context(spooled(self._folder, parts, self.version.sha256))
        return self._path

    async def close(self) -> None:
        """Removes it."""
        await self._stack.aclose()
        self._path = None


def _no_provider(version: VersionToIngest) -> str:
    if version.own is None or version.space is None:
        return (
            "Your organisation uses only its own providers, and no embedding provider is configured: set one, then "
            "try again."
        )
    return (
        f"Your organisation uses only its own providers, and its documents are embedded with {version.space.model}, "
        "which the configured embedding provider doesn't offer."
    )


def _same_so_far(staged: list[StagedChunk], chunks: list[Chunk]) -> int | None:
    """Number of these chunks that are already stored; None if the stored ones differ."""
    if len(staged) > len(chunks):
        return None
    for before, now in zip(staged, chunks, strict=False):
        same = (before.index, before.content_hash, before.char_start) == (now.index, now.content_hash, now.char_start)
        if not same or not before.has_vector:
            return None
    return len(staged)


def _moved(each: Chunk, chunks: int, chars: int) -> Chunk:
    """Renumbers a part's chunk for the whole version, after the given numbers of chunks and code points."""
    if not chunks and not chars:
        return each
    return replace(each, index=each.index + chunks, char_start=each.char_start + chars, char_end=each.char_end + chars)


@contextmanager
def _stage(name: str) -> Generator[None]:
    """Measures a stage, as a metric and as a span."""
    start = time.perf_counter()
    with _tracer.start_as_current_span(f"ingest {name}"):
        yield
    metrics.STAGE_SECONDS.labels(name).observe(time.perf_counter() - start)
