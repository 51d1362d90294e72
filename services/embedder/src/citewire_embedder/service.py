"""The embedder's domain: texts in, vectors out."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
from citewire.common.v1.common_pb2 import EmbeddingSpace, ProviderRef

from citewire_embedder.admission import Admission
from citewire_embedder.batches import EmbedBatch, EmbedResult, TokenCounts, check_lengths
from citewire_embedder.cache import CachedVector, VectorCache
from citewire_embedder.providers.base import EmbeddingModel, ModelInfo, Purpose, TokenisedText, Vectors
from citewire_embedder.providers.remote_calls import provider_test
from citewire_embedder.scheduler import BatchLimits, Scheduler
from citewire_kit import metrics as kit_metrics
from citewire_kit.errors import (
    CitewireError,
    FieldViolation,
    InvalidArgument,
    NotFound,
    StartupError,
    Unavailable,
    Unimplemented,
)
from citewire_kit.genai import measured_call
from citewire_remote.tenant_providers import TenantClients, TenantProvider

PROVIDER = "citewire-local"
"""Provider name in the metrics of local models."""

_OPERATION: Final = "embeddings"
_PROBE_SECONDS = 1.0
_TEST_TEXT = "A short text that tests the model."


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Limits of the service; all are settings."""

    query_tokens: int
    """Maximum tokens of waiting and running queries."""
    document_tokens: int
    """The same for documents."""
    cache_entries: int
    """Number of cached query vectors."""
    batch: BatchLimits
    """Size of a batch of the model."""
    stream_ahead: int = 2
    """Concurrent batches of one EmbedStream."""


class Embedder:
    """Embeds texts with the model of this process, with the operator's remote models, or with a tenant provider."""

    def __init__(
        self,
        model: EmbeddingModel,
        limits: ServiceLimits,
        tenant_models: TenantClients[EmbeddingModel] | None = None,
        remote: Sequence[EmbeddingModel] = (),
        default: str = "",
    ) -> None:
        """Creates a service, which becomes ready with `running`.

        Args:
            model: The local model.
            limits: Limits of the service.
            tenant_models: Opens the models of tenant providers; None if this process takes none.
            remote: The operator's remote models. They are loaded on first use, and a failure only affects that caller:
                this process serves without them.
            default: Name of the default model; "" for the local one.

        Raises:
            StartupError: Two models have the same name, or no model has the default's name.
        """
        self._model = model
        self._remote = {remote_model.info.space.model: remote_model for remote_model in remote}
        names = [other.info.space.model for other in (model, *remote)]
        if len(set(names)) != len(names):
            raise StartupError(f"two embedding models have the same name: {', '.join(names)}")
        self._default = default or names[0]
        if self._default not in names:
            raise StartupError(f"there is no embedding model {self._default}; there are: {', '.join(names)}")
        self._tenant_models = tenant_models
        self._limits = limits
        self._scheduler = Scheduler(model, limits.batch)
        rate = self._scheduler.tokens_per_second
        self._admissions = {
            Purpose.QUERY: Admission(Purpose.QUERY, limits.query_tokens, rate),
            Purpose.DOCUMENT: Admission(Purpose.DOCUMENT, limits.document_tokens, rate),
        }
        self._cache = VectorCache(limits.cache_entries)
        self._ready = False
        kit_metrics.init_model(
            provider=PROVIDER, model=model.info.space.model, operation=_OPERATION, token_types=("input",)
        )

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Loads the model, then works inside the block. At its end, waiting jobs fail with `SHUTTING_DOWN`.

        Raises:
            StartupError: The model can't be loaded.
        """
        await self._model.load()
        loop = asyncio.create_task(self._scheduler.run(), name="embedder-scheduler")
        self._ready = True
        try:
            yield
        finally:
            self._ready = False
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)
            for model in (self._model, *self._remote.values()):
                await model.close()

    async def health(self) -> AsyncGenerator[bool]:
        """Yields whether the service is healthy, whenever that changes, inside `running`.

        After a failure the model embeds a tiny text once a second, because clients avoid an unhealthy server, and their
        calls can't show that it has recovered.
        """
        yield True
        while True:
            await self._scheduler.failing.wait()
            yield False
            while self._scheduler.failing.is_set():
                await asyncio.sleep(_PROBE_SECONDS)
                await self._probe()
            yield True

    def models(self) -> tuple[ModelInfo, ...]:
        """Lists the models, the default first."""
        models = [self._model.info, *(model.info for model in self._remote.values())]
        return tuple(sorted(models, key=lambda info: info.space.model != self._default))

    async def embed(self, batch: EmbedBatch) -> EmbedResult:
        """Embeds a batch.

        Raises:
            InvalidArgument: A text is too long (`INPUT_TOO_LONG`), or the model can't shorten its vectors.
            NotFound: There is no such model.
            ResourceExhausted: The queue is full.
            Unavailable: The model isn't ready, or the service ends.
        """
        return await self._embed(batch, wait_for_permits=False)

    async def embed_stream(self, batches: AsyncGenerator[EmbedBatch]) -> AsyncGenerator[EmbedResult]:
        """Embeds batches and yields their results in order; reads the next batch only when there is room for it.

        The generator must be closed: that withdraws what is still queued.

        Raises:
            CitewireError: As `embed`, except for `ResourceExhausted`: the stream waits instead.
        """
        # The place in the queue is taken before a batch is read, which slows the sender down.
        queue: asyncio.Queue[asyncio.Task[EmbedResult] | None] = asyncio.Queue()
        places = asyncio.Semaphore(self._limits.stream_ahead)
        tasks: set[asyncio.Task[EmbedResult]] = set()

        async def read() -> None:
            try:
                async with aclosing(batches):
                    await places.acquire()
                    async for batch in batches:
                        task = asyncio.create_task(self._embed(batch, wait_for_permits=True))
                        tasks.add(task)
                        queue.put_nowait(task)
                        await places.acquire()
            finally:
                queue.put_nowait(None)

        reader = asyncio.create_task(read(), name="embed-stream-reader")
        try:
            while (task := await queue.get()) is not None:
                result = await task
                tasks.discard(task)
                places.release()
                yield result
            await reader
        finally:
            for task in (reader, *tasks):
                task.cancel()
            await asyncio.gather(reader, *tasks, return_exceptions=True)

    async def count_tokens(
        self, texts: Sequence[str], model: str = "", provider: ProviderRef | None = None
    ) -> TokenCounts:
        """Counts tokens for one of the operator's models or the tenant provider's.

        Raises:
            NotFound: There is no such model.
        """
        if provider is not None:
            async with self._lease(provider) as leased:
                return TokenCounts(tuple(await leased.count_tokens(texts)), leased.info)
        embedding_model = self._find(model)
        if embedding_model is not self._model:
            await embedding_model.load()
        return TokenCounts(tuple(await embedding_model.count_tokens(texts)), embedding_model.info)

    async def test_provider(self, provider: TenantProvider) -> EmbeddingSpace:
        """Makes one small call to a tenant provider; returns the space of its vectors.

        Raises:
            CitewireError: The call failed.
        """
        with provider_test():
            async with self._lease(provider) as model:
                await model.embed(await model.tokenise([_TEST_TEXT], Purpose.DOCUMENT))
                return model.info.space

    @asynccontextmanager
    async def _lease(self, provider: ProviderRef | TenantProvider) -> AsyncGenerator[EmbeddingModel]:
        if self._tenant_models is None:
            raise Unimplemented("this server doesn't support tenant providers", reason="NOT_IMPLEMENTED")
        async with self._tenant_models.lease(provider) as model:
            await model.load()
            yield model

    async def _embed_remote(self, batch: EmbedBatch, model: EmbeddingModel, *, cached: bool) -> EmbedResult:
        """Embeds with a remote model, without admission because nothing is computed here."""
        model = _sized(model, batch.dimensions)
        cached_vectors = self._look_up(batch, model) if cached else [None] * len(batch.texts)
        missing = [index for index, entry in enumerate(cached_vectors) if entry is None]
        texts = await model.tokenise([batch.texts[index] for index in missing], batch.purpose)
        counts = [entry.tokens if entry else 0 for entry in cached_vectors]
        for index, text in zip(missing, texts, strict=True):
            counts[index] = text.total
        cut = check_lengths(model.info, counts, truncate=batch.truncate)
        vectors, tokens = _allocate(cached_vectors, model.info), 0
        if missing:
            vectors[missing], tokens = await model.embed_counted(texts)
        if cached:
            self._add_to_cache(batch, model, missing, vectors, counts)
        return EmbedResult(vectors, model.info.space, tokens, tuple(counts), cut)

    async def _embed(self, batch: EmbedBatch, *, wait_for_permits: bool) -> EmbedResult:
        if batch.provider is not None:
            async with self._lease(batch.provider) as model:
                # Nothing is cached: the tenant may withdraw the key at any time.
                return await self._embed_remote(batch, model, cached=False)
        model = self._find(batch.model)
        if model is not self._model:
            await model.load()
            return await self._embed_remote(batch, model, cached=True)
        self._check_ready()
        _sized(model, batch.dimensions)
        admission = self._admissions[batch.purpose]
        cached_vectors = self._look_up(batch, model)
        missing = [index for index, entry in enumerate(cached_vectors) if entry is None]
        if missing and not wait_for_permits:
            admission.check(batch.org_id)
        texts = await self._model.tokenise([batch.texts[index] for index in missing], batch.purpose)
        counts = [entry.tokens if entry else 0 for entry in cached_vectors]
        for index, text in zip(missing, texts, strict=True):
            counts[index] = text.total
        cut = check_lengths(self._model.info, counts, truncate=batch.truncate)
        vectors = _allocate(cached_vectors, model.info)
        tokens = sum(len(text.ids) for text in texts)
        if missing and wait_for_permits:
            async with admission.admit_in_turn(batch.org_id, tokens):
                vectors[missing] = await self._compute(texts, batch)
        elif missing:
            with admission.admit(batch.org_id, tokens):
                vectors[missing] = await self._compute(texts, batch)
        self._add_to_cache(batch, model, missing, vectors, counts)
        return EmbedResult(vectors, model.info.space, tokens, tuple(counts), cut)

    async def _compute(self, texts: Sequence[TokenisedText], batch: EmbedBatch) -> Vectors:
        """Computes texts and records their tokens, even if the caller is cancelled."""
        job = self._scheduler.submit(texts, batch.purpose, batch.org_id)
        model = self._model.info.space.model
        try:
            with measured_call(_OPERATION, provider=PROVIDER, model=model) as span:
                vectors = await job.result()
                span.record_counts(texts=len(texts))
                span.record_dimensions(self._model.info.space.dimensions)
                span.record_usage(job.tokens_read)
            return vectors
        finally:
            self._scheduler.withdraw(job)
            if job.tokens_read:
                kit_metrics.record_tokens(
                    provider=PROVIDER,
                    model=model,
                    operation=_OPERATION,
                    token_type="input",  # noqa: S106 # not a secret
                    count=job.tokens_read,
                )

    async def _probe(self) -> None:
        texts = await self._model.tokenise(["probe"], Purpose.QUERY)
        with contextlib.suppress(CitewireError):
            job = self._scheduler.submit(texts, Purpose.QUERY)
            await job.result()

    def _look_up(self, batch: EmbedBatch, model: EmbeddingModel) -> list[CachedVector | None]:
        if batch.purpose is not Purpose.QUERY:
            return [None] * len(batch.texts)
        return [self._cache.get(batch.org_id, self._key(model, text)) for text in batch.texts]

    def _add_to_cache(
        self,
        batch: EmbedBatch,
        model: EmbeddingModel,
        missing: Sequence[int],
        vectors: Vectors,
        counts: Sequence[int],
    ) -> None:
        if batch.purpose is Purpose.QUERY:
            for index in missing:
                entry = CachedVector(vectors[index].copy(), counts[index])
                self._cache.put(batch.org_id, self._key(model, batch.texts[index]), entry)

    def _key(self, model: EmbeddingModel, text: str) -> str:
        """Returns a text's cache key; for a remote model it begins with the model's name."""
        if model is self._model:
            return text
        space = model.info.space
        return f"\0{space.model}\0{space.dimensions}\0{text}"

    def _check_ready(self) -> None:
        if not self._ready:
            raise Unavailable("the model isn't ready", reason="SERVICE_UNAVAILABLE", retry_after=1.0)

    def _find(self, name: str) -> EmbeddingModel:
        model_name = name or self._default
        embedding_model = self._model if model_name == self._model.info.space.model else self._remote.get(model_name)
        if embedding_model is None:
            names = ", ".join(info.space.model for info in self.models())
            raise NotFound(
                f"there is no such embedding model; this server offers: {names}",
                reason="MODEL_NOT_FOUND",
                metadata={"models": names},
            )
        return embedding_model


def _allocate(cached_vectors: Sequence[CachedVector | None], model: ModelInfo) -> Vectors:
    """Allocates the vectors of a batch, and fills in the cached ones."""
    vectors = np.empty((len(cached_vectors), model.space.dimensions), np.float32)
    for index, entry in enumerate(cached_vectors):
        if entry is not None:
            vectors[index] = entry.vector
    return vectors


def _sized(model: EmbeddingModel, dimensions: int | None) -> EmbeddingModel:
    """Returns the model with vectors of the requested length.

    Raises:
        InvalidArgument: It has none of that length.
    """
    own = model.info.space.dimensions
    if dimensions in (None, own):
        return model
    shorter = model.shortened(dimensions or 0)
    if shorter is None:
        message = f"the model's vectors have {own} dimensions and can't be shortened to {dimensions}"
        raise InvalidArgument(message, reason="INVALID_FIELD", violations=[FieldViolation("dimensions", message)])
    return shorter
