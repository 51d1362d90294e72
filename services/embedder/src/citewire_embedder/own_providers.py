"""Tenants' own embedding and rerank providers: opened for the caller, kept warm, tried out before they are sealed."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from citewire_embedder.providers.base import EmbeddingModel, EmbeddingSpace, Purpose
from citewire_embedder.providers.remote_calls import trial
from citewire_kit.errors import DeadlineExceeded, StartupError, Unavailable, Unimplemented
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import current_tenant
from citewire_remote.instances import Instances
from citewire_remote.kinds import ProviderType
from citewire_remote.tenants import OpenedProvider, ProviderSpec, SealedProvider, TrialReport, TryOut, Vault

log = get_logger(__name__)

TRIAL_SECONDS = 20.0
"""Longest test call: a model that has to be loaded first takes long, and a person waits for the answer."""

_TEXT = "A short text to try the model with."

Build = Callable[[OpenedProvider], EmbeddingModel]
"""Makes the model of an opened provider. Its connections go only where tenants' may."""


class OwnProviders:
    """Opens, tries out and seals.

    Args:
        vault: Seals and opens.
        build: Makes embedding models.
        try_rerank: Makes the test call of a rerank provider; None if this process offers none.
    """

    def __init__(self, vault: Vault, build: Build, try_rerank: TryOut | None = None) -> None:
        self._vault = vault
        self._try_rerank = try_rerank
        self._models = Instances[_Loaded](
            lambda opened: _Loaded(build(opened)), lambda loaded: loaded.model.close(), by_model=True
        )

    @asynccontextmanager
    async def lease(self, sealed: SealedProvider) -> AsyncGenerator[EmbeddingModel]:
        """Opens the current tenant's embedding provider; its model is ready, and stays so inside the block.

        Raises:
            CitewireError: It isn't the tenant's, can't be opened here, or doesn't answer.
        """
        async with self._lease(self._vault.open(current_tenant(), sealed)) as model:
            yield model

    def open(self, sealed: SealedProvider) -> OpenedProvider:
        """See `Vault.open`; of the current tenant."""
        return self._vault.open(current_tenant(), sealed)

    async def seal(
        self, spec: ProviderSpec, *, test: bool
    ) -> tuple[SealedProvider, TrialReport, EmbeddingSpace | None]:
        """Seals a provider of the current tenant's, after a test call if that is wanted.

        Returns:
            What to keep, how the test call went, and the space of an embedding provider, if the call worked.

        Raises:
            CitewireError: As `Vault.seal`.
        """
        trial = _Trial(self._try_embedding if spec.type is ProviderType.EMBEDDING else self._try_reranking)
        sealed, report = await self._vault.seal(current_tenant(), spec, trial if test else None)
        return sealed, report, trial.space

    def rewrap(self, sealed: SealedProvider) -> tuple[SealedProvider, bool]:
        """See `Vault.rewrap`; of the current tenant."""
        return self._vault.rewrap(current_tenant(), sealed)

    async def close(self) -> None:
        """Closes all models."""
        await self._models.close()

    @asynccontextmanager
    async def _lease(self, opened: OpenedProvider) -> AsyncGenerator[EmbeddingModel]:
        async with self._models.lease(current_tenant(), opened) as loaded:
            yield await loaded.ready()

    async def _try_embedding(self, opened: OpenedProvider) -> EmbeddingSpace | None:
        with trial():
            async with self._lease(opened) as model:
                texts = await model.tokenise([_TEXT], Purpose.DOCUMENT)
                await model.embed(texts)
                return model.info.space

    async def _try_reranking(self, opened: OpenedProvider) -> EmbeddingSpace | None:
        if self._try_rerank is None:
            raise Unimplemented("rerank providers aren't available yet", reason="NOT_IMPLEMENTED")
        await self._try_rerank(opened)
        return None


class _Loaded:
    """A model that its first caller loads."""

    def __init__(self, model: EmbeddingModel) -> None:
        self.model = model
        self._lock = asyncio.Lock()
        self._is_ready = False

    async def ready(self) -> EmbeddingModel:
        async with self._lock:
            if not self._is_ready:
                try:
                    await self.model.load()
                except StartupError as exc:
                    log.warning("own_model_not_loaded", error=type(exc).__name__)
                    raise Unavailable("the embedding provider can't be used", reason="PROVIDER_UNAVAILABLE") from exc
                self._is_ready = True
        return self.model


class _Trial:
    """A test call under its time limit, that remembers the space."""

    def __init__(self, call: Callable[[OpenedProvider], Awaitable[EmbeddingSpace | None]]) -> None:
        self._call = call
        self.space: EmbeddingSpace | None = None

    async def __call__(self, opened: OpenedProvider) -> int:
        scope = asyncio.timeout(TRIAL_SECONDS)
        try:
            async with scope:
                self.space = await self._call(opened)
        except TimeoutError:
            if not scope.expired():
                raise
            raise DeadlineExceeded(
                f"the provider didn't answer in {TRIAL_SECONDS:g} s", reason="PROVIDER_TIMEOUT"
            ) from None
        return self.space.dimensions if self.space else 0
