"""The reranking domain: a query and documents in, the documents' order out."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from citewire.embedder.v1.embedder_pb2 import RerankRequest

from citewire_embedder.providers.base import ModelInfo, Ranking, RerankModel
from citewire_embedder.providers.remote_calls import provider_test
from citewire_kit import deadline
from citewire_kit import metrics as kit_metrics
from citewire_kit.errors import NotFound, Unimplemented
from citewire_kit.genai import measured_call
from citewire_remote.tenant_providers import TenantClients, TenantProvider

PROVIDER = "citewire-local"
"""Provider name in the metrics of a local model."""

_OPERATION: Final = "rerank"
_TEST = ("which of these is about cats", ("Cats sleep for most of the day.", "Trains run on rails."))


class Reranker:
    """Ranks with the operator's model, or with a tenant provider.

    Args:
        model: The operator's model; None if there is none.
        tenant_models: Opens the models of tenant providers.
    """

    def __init__(self, model: RerankModel | None, tenant_models: TenantClients[RerankModel]) -> None:
        self._model = model
        self._tenant_models = tenant_models
        if model is not None and _is_local(model):
            kit_metrics.init_model(
                provider=PROVIDER, model=model.info.space.model, operation=_OPERATION, token_types=("input",)
            )

    async def rerank(self, request: RerankRequest, org_id: str) -> tuple[Ranking, ModelInfo]:
        """Ranks documents; also returns the model that ranked them.

        Args:
            request: Already checked.
            org_id: The organisation that the documents belong to.

        Raises:
            CitewireError: The model or the provider failed.
            NotFound: There is no such model.
            Unimplemented: This server has no rerank model.
        """
        async with self._lease(request) as model:
            if not _is_local(model):
                return await _rank(model, request, org_id), model.info
            # A provider's calls are measured where they are made; a local model is measured here.
            name = model.info.space.model
            with measured_call(_OPERATION, provider=PROVIDER, model=name) as span:
                ranking = await _rank(model, request, org_id)
                span.record_counts(texts=len(request.documents))
                span.record_usage(ranking.input_tokens)
            kit_metrics.record_tokens(
                provider=PROVIDER,
                model=name,
                operation=_OPERATION,
                token_type="input",  # noqa: S106 # not a secret
                count=ranking.input_tokens,
            )
            return ranking, model.info

    def models(self) -> tuple[ModelInfo, ...]:
        """Lists the operator's models."""
        return () if self._model is None else (self._model.info,)

    async def test_provider(self, provider: TenantProvider) -> None:
        """Makes one small call to a tenant provider.

        Raises:
            CitewireError: The call failed.
        """
        with provider_test():
            async with self._tenant_models.lease(provider) as model:
                await model.rerank(*_TEST)

    async def close(self) -> None:
        """Closes all models."""
        await self._tenant_models.close()
        if self._model is not None:
            await self._model.close()

    @asynccontextmanager
    async def _lease(self, request: RerankRequest) -> AsyncGenerator[RerankModel]:
        if request.HasField("provider"):
            async with self._tenant_models.lease(request.provider) as model:
                yield model
            return
        if self._model is None:
            raise Unimplemented("this server has no rerank model", reason="NOT_IMPLEMENTED")
        name = self._model.info.space.model
        if request.model not in ("", name):
            raise NotFound(
                f"there is no such rerank model; this server offers {name}",
                reason="MODEL_NOT_FOUND",
                metadata={"models": name},
            )
        yield self._model


def _is_local(model: RerankModel) -> bool:
    return model.info.provider == "local"


def _seconds_of(request: RerankRequest) -> float | None:
    """The request's budget, if it has one, but no more than the call's remaining time."""
    if not request.HasField("budget"):
        return None
    seconds, left = request.budget.ToTimedelta().total_seconds(), deadline.remaining()
    return seconds if left is None else max(0.0, min(seconds, left))


async def _rank(model: RerankModel, request: RerankRequest, org_id: str) -> Ranking:
    return await model.rerank(
        request.query,
        request.documents,
        request.top_n if request.HasField("top_n") else None,
        request.first_scores,
        request.headings,
        seconds=_seconds_of(request),
        org_id=org_id,
    )
