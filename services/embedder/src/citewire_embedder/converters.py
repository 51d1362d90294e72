"""Proto to domain and back; the only place that knows both. Requests are validated here, and only here."""

from collections.abc import Sequence
from math import isfinite

import numpy as np
from citewire.common.v1.common_pb2 import EmbeddingSpace as EmbeddingSpaceMessage
from citewire.embedder.v1 import embedder_pb2 as pb

from citewire_embedder.model import EmbedBatch, EmbedResult, TokenCounts
from citewire_embedder.providers.base import EmbeddingSpace, ModelInfo, Purpose
from citewire_embedder.providers.reranking import Ranking, RerankInfo
from citewire_embedder.reranking import RerankTask
from citewire_kit.enums import EnumMap
from citewire_kit.errors import Violations
from citewire_remote.converters import from_report, from_sealed, to_ref, to_sealed, to_spec
from citewire_remote.kinds import ProviderType
from citewire_remote.tenants import ProviderSpec, SealedProvider, TrialReport

MAX_INPUTS = 256
MAX_INPUT_BYTES = 1 << 20
MAX_QUERY_BYTES = 32 << 10
MAX_DOCUMENTS = 1000

_TYPES = (ProviderType.EMBEDDING, ProviderType.RERANK)
_PURPOSES = EnumMap(Purpose, pb.Purpose, unspecified=Purpose.DOCUMENT)
_TRUNCATES = {
    pb.OVERFLOW_UNSPECIFIED: False,
    pb.OVERFLOW_REJECT: False,
    pb.OVERFLOW_TRUNCATE: True,
}


def to_batch(request: pb.EmbedRequest, org_id: str, *, prefix: str = "") -> EmbedBatch:
    """Reads an Embed request.

    Args:
        request: The request.
        org_id: The caller's organisation.
        prefix: Path of the request in its message, for the names of fields: `batch.` in EmbedStream.

    Raises:
        InvalidArgument: Fields are out of range; all of them are named.
    """
    violations = Violations()
    inputs = tuple(request.inputs)
    _check_inputs(violations, inputs, f"{prefix}inputs")
    for index, text in enumerate(inputs[:MAX_INPUTS]):
        violations.require(bool(text), f"{prefix}inputs[{index}]", "must not be empty")
    purpose = _PURPOSES.from_proto(request.purpose)
    violations.require(purpose is not None, f"{prefix}purpose", "isn't a known purpose")
    violations.require(request.overflow in _TRUNCATES, f"{prefix}overflow", "isn't a known way")
    provider = _provider(violations, request, prefix)
    violations.raise_if_any()
    return EmbedBatch(
        texts=inputs,
        purpose=purpose or Purpose.DOCUMENT,  # None was refused above
        org_id=org_id,
        model=request.model,
        dimensions=request.dimensions if request.HasField("dimensions") else None,
        truncate=_TRUNCATES[request.overflow],
        provider=provider,
    )


def to_texts(request: pb.CountTokensRequest) -> tuple[tuple[str, ...], SealedProvider | None]:
    """Reads the texts of a CountTokens request, and the tenant's own provider if it names one.

    Raises:
        InvalidArgument: Fields are out of range; all of them are named.
    """
    violations = Violations()
    inputs = tuple(request.inputs)
    _check_inputs(violations, inputs, "inputs")
    provider = _provider(violations, request)
    violations.raise_if_any()
    return inputs, provider


def to_rerank(request: pb.RerankRequest) -> RerankTask:
    """Reads a Rerank request.

    Raises:
        InvalidArgument: Fields are out of range; all of them are named.
    """
    violations = Violations()
    documents = tuple(request.documents)
    size = len(request.query.encode())
    violations.require(0 < size <= MAX_QUERY_BYTES, "query", f"must be 1 to {MAX_QUERY_BYTES} bytes of UTF-8")
    violations.require(1 <= len(documents) <= MAX_DOCUMENTS, "documents", f"must be 1 to {MAX_DOCUMENTS} texts")
    for index, text in enumerate(documents[:MAX_DOCUMENTS]):
        violations.require(bool(text), f"documents[{index}]", "must not be empty")
    violations.require(not request.HasField("top_n") or request.top_n >= 1, "top_n", "must be at least 1")
    first = tuple(request.first_scores)
    violations.require(len(first) in (0, len(documents)), "first_scores", "must be as many as documents, or none")
    violations.require(all(map(isfinite, first)), "first_scores", "must be finite")
    headings = tuple(request.headings)
    violations.require(len(headings) in (0, len(documents)), "headings", "must be as many as documents, or none")
    provider = None
    if request.HasField("provider"):
        provider = to_sealed(violations, request.provider, "provider", (ProviderType.RERANK,))
    violations.raise_if_any()
    return RerankTask(
        query=request.query,
        documents=documents,
        model=request.model,
        top_n=request.top_n if request.HasField("top_n") else None,
        provider=provider,
        first_scores=first,
        headings=headings,
    )


def from_ranking(ranking: Ranking, model: RerankInfo) -> pb.RerankResponse:
    """Writes an order of documents."""
    return pb.RerankResponse(
        results=[pb.RerankResult(index=one.index, score=one.score) for one in ranking.ranked],
        model=model.name,
        usage=pb.EmbeddingUsage(input_tokens=ranking.input_tokens),
    )


def from_result(result: EmbedResult) -> pb.EmbedResponse:
    """Writes a result: vectors as little-endian float32, row after row."""
    return pb.EmbedResponse(
        vectors=result.vectors.astype(np.dtype("<f4"), copy=False).tobytes(),
        space=from_space(result.space),
        usage=pb.EmbeddingUsage(input_tokens=result.input_tokens),
        token_counts=result.token_counts,
        truncated=result.truncated,
    )


def from_counts(counts: TokenCounts) -> pb.CountTokensResponse:
    """Writes token counts."""
    return pb.CountTokensResponse(
        counts=counts.counts,
        special_tokens=counts.model.extra_tokens,
        max_input_tokens=counts.model.max_input_tokens,
        space=from_space(counts.model.space),
    )


def from_models(models: Sequence[ModelInfo], rerankers: Sequence[RerankInfo] = ()) -> pb.ListModelsResponse:
    """Writes the models; the first one of each capability is the default."""
    return pb.ListModelsResponse(
        models=[
            pb.Model(
                space=from_space(model.space),
                max_input_tokens=model.max_input_tokens,
                is_default=index == 0,
                provider=model.provider,
                capability=pb.CAPABILITY_EMBED,
                precision=model.precision,
            )
            for index, model in enumerate(models)
        ]
        + [
            pb.Model(
                space=EmbeddingSpaceMessage(model=model.name, revision=model.revision),
                max_input_tokens=model.max_input_tokens,
                is_default=index == 0,
                provider=model.provider,
                capability=pb.CAPABILITY_RERANK,
                precision=model.precision,
            )
            for index, model in enumerate(rerankers)
        ]
    )


def to_provider_spec(request: pb.SealProviderRequest) -> ProviderSpec:
    """Reads a SealProvider request.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    return to_spec(request.spec, _TYPES)


def to_provider(request: pb.RewrapProviderRequest) -> SealedProvider:
    """Reads a RewrapProvider request.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    return to_ref(request.ref, _TYPES)


def from_seal(sealed: SealedProvider, report: TrialReport, space: EmbeddingSpace | None) -> pb.SealProviderResponse:
    """Writes a provider that was sealed."""
    return pb.SealProviderResponse(
        ref=from_sealed(sealed), test=from_report(report), space=None if space is None else from_space(space)
    )


def from_rewrap(sealed: SealedProvider, changed: bool) -> pb.RewrapProviderResponse:
    """Writes a provider that was sealed again."""
    return pb.RewrapProviderResponse(ref=from_sealed(sealed), changed=changed)


def from_space(space: EmbeddingSpace) -> EmbeddingSpaceMessage:
    """Writes an embedding space."""
    return EmbeddingSpaceMessage(model=space.model, revision=space.revision, dimensions=space.dimensions)


def _check_inputs(violations: Violations, inputs: Sequence[str], field: str) -> None:
    violations.require(1 <= len(inputs) <= MAX_INPUTS, field, f"must be 1 to {MAX_INPUTS} texts")
    size = sum(len(text.encode()) for text in inputs)
    violations.require(size <= MAX_INPUT_BYTES, field, f"must be at most {MAX_INPUT_BYTES} bytes of UTF-8 in all")


def _provider(
    violations: Violations, request: pb.EmbedRequest | pb.CountTokensRequest, prefix: str = ""
) -> SealedProvider | None:
    if not request.HasField("provider"):
        return None
    return to_sealed(violations, request.provider, f"{prefix}provider", (ProviderType.EMBEDDING,))
