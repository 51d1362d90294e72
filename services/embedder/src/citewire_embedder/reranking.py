"""The reranking domain: a query and documents in, the documents' order out. No gRPC here."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from citewire_embedder.providers.remote_calls import trial
from citewire_embedder.providers.reranking import Ranking, RerankInfo, RerankModel
from citewire_kit import metrics as kit_metrics
from citewire_kit.errors import NotFound, Unimplemented
from citewire_kit.genai import measured_call
from citewire_kit.tenant import current_tenant
from citewire_remote.instances import Instances
from citewire_remote.tenants import OpenedProvider, SealedProvider, Vault

PROVIDER = "citewire-local"
"""The provider's name in the metrics of a model that runs here."""

_OPERATION: Final = "rerank"
_TRIAL = ("which of these is about cats", ("Cats sleep for most of the day.", "Trains run on rails."))

Build = Callable[[OpenedProvider], RerankModel]
"""Makes the model of an opened provider."""


@dataclass(frozen=True, slots=True)
class RerankTask:
    """What is to be ranked.

    Attributes:
        query: The question.
        documents: 1-1000 texts, none empty.
        model: The model's name; empty for the default.
        top_n: How many to return; None for all.
        provider: The tenant's own, which ranks instead; None for the operator's model.
        first_scores: The documents' in a first ranking; empty if there was none.
        headings: What stands above each document; empty if nothing is known of any.
    """

    query: str
    documents: tuple[str, ...]
    model: str = ""
    top_n: int | None = None
    provider: SealedProvider | None = None
    first_scores: tuple[float, ...] = ()
    headings: tuple[str, ...] = ()


class Reranker:
    """Ranks with the operator's model, or with a tenant's own.

    Args:
        model: The operator's; None if there is none.
        vault: Opens tenants' own.
        build: Makes the models of tenants' own.
    """

    def __init__(self, model: RerankModel | None, vault: Vault, build: Build) -> None:
        self._model = model
        self._vault = vault
        self._build = build
        self._own = Instances[RerankModel](build, lambda model: model.close(), by_model=True)
        if model is not None and _is_local(model):
            kit_metrics.init_model(
                provider=PROVIDER, model=model.info.name, operation=_OPERATION, token_types=("input",)
            )

    async def rerank(self, task: RerankTask) -> tuple[Ranking, RerankInfo]:
        """Ranks documents; returns the model that did it too.

        Raises:
            CitewireError: The model, or the provider, can't do it, or not now.
            NotFound: There is no such model.
            Unimplemented: This server has no rerank model.
        """
        async with self._lease(task) as model:
            if not _is_local(model):
                return await _ranked(model, task), model.info
            return await _measured(model, task), model.info

    def models(self) -> tuple[RerankInfo, ...]:
        """Lists the operator's models."""
        return () if self._model is None else (self._model.info,)

    async def try_out(self, opened: OpenedProvider) -> int:
        """Makes one small call to a provider; returns 0, as a rerank model has no dimensions.

        Raises:
            CitewireError: What went wrong.
        """
        model = self._build(opened)
        try:
            with trial():
                await model.rerank(*_TRIAL)
        finally:
            await model.close()
        return 0

    async def close(self) -> None:
        """Closes all models."""
        await self._own.close()
        if self._model is not None:
            await self._model.close()

    @asynccontextmanager
    async def _lease(self, task: RerankTask) -> AsyncGenerator[RerankModel]:
        if task.provider is not None:
            tenant = current_tenant()
            async with self._own.lease(tenant, self._vault.open(tenant, task.provider)) as model:
                yield model
            return
        if self._model is None:
            raise Unimplemented("this server has no rerank model", reason="NOT_IMPLEMENTED")
        name = self._model.info.name
        if task.model not in ("", name):
            raise NotFound(
                f"no such rerank model; there is {name}", reason="MODEL_NOT_FOUND", metadata={"models": name}
            )
        yield self._model


def _is_local(model: RerankModel) -> bool:
    return model.info.provider == "local"


async def _ranked(model: RerankModel, task: RerankTask) -> Ranking:
    return await model.rerank(task.query, task.documents, task.top_n, task.first_scores, task.headings)


async def _measured(model: RerankModel, task: RerankTask) -> Ranking:
    """Ranks with a model that runs here, which keeps no books of its own."""
    name = model.info.name
    with measured_call(_OPERATION, provider=PROVIDER, model=name) as span:
        ranking = await _ranked(model, task)
        span.record_counts(texts=len(task.documents))
        span.record_usage(ranking.input_tokens)
    kit_metrics.record_tokens(
        provider=PROVIDER,
        model=name,
        operation=_OPERATION,
        token_type="input",  # noqa: S106 # not a secret
        count=ranking.input_tokens,
    )
    return ranking
