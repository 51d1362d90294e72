"""Checks the requests of the embedder, and converts between its messages and its domain."""

from collections.abc import Sequence
from math import isfinite
from typing import Final

import numpy as np
from citewire.embedder.v1 import embedder_pb2 as pb

from citewire_embedder.batches import EmbedBatch, EmbedResult, TokenCounts
from citewire_embedder.providers.base import ModelInfo, Purpose, Ranking
from citewire_kit.enums import EnumMap
from citewire_kit.errors import Violations
from citewire_remote.converters import ref_from_proto
from citewire_remote.kinds import ProviderType

MAX_INPUTS: Final = 256
MAX_INPUT_BYTES: Final = 1 << 20
MAX_QUERY_BYTES: Final = 32 << 10
MAX_DOCUMENTS: Final = 1000
MAX_BUDGET_SECONDS: Final = 3600

PROVIDER_TYPES: Final = (ProviderType.EMBEDDING, ProviderType.RERANK)
_PURPOSES = EnumMap(Purpose, pb.Purpose, unspecified=Purpose.DOCUMENT)
_TRUNCATES = {pb.OVERFLOW_UNSPECIFIED: False, pb.OVERFLOW_REJECT: False, pb.OVERFLOW_TRUNCATE: True}


def batch_from_proto(request: pb.EmbedRequest, org_id: str, *, prefix: str = "") -> EmbedBatch:
    """Reads an Embed request.

    Args:
        request: The request.
        org_id: The caller's organisation.
        prefix: Path of the request in its message, for the names of fields: `batch.` in EmbedStream.

    Raises:
        InvalidArgument: Names every field that is out of range.
    """
    violations = Violations()
    _check_inputs(violations, request.inputs, f"{prefix}inputs")
    for index, text in enumerate(request.inputs[:MAX_INPUTS]):
        violations.require(bool(text), f"{prefix}inputs[{index}]", "must not be empty")
    purpose = _PURPOSES.from_proto(request.purpose)
    violations.require(purpose is not None, f"{prefix}purpose", "isn't a known purpose")
    violations.require(request.overflow in _TRUNCATES, f"{prefix}overflow", "isn't a known value")
    if request.HasField("provider"):
        ref_from_proto(violations, request.provider, f"{prefix}provider", (ProviderType.EMBEDDING,))
    violations.raise_if_any()
    return EmbedBatch(
        texts=tuple(request.inputs),
        purpose=purpose or Purpose.DOCUMENT,  # None was refused above
        org_id=org_id,
        model=request.model,
        dimensions=request.dimensions if request.HasField("dimensions") else None,
        truncate=_TRUNCATES[request.overflow],
        provider=request.provider if request.HasField("provider") else None,
    )


def check_count_tokens(request: pb.CountTokensRequest) -> None:
    """Checks a CountTokens request.

    Raises:
        InvalidArgument: Names every field that is out of range.
    """
    violations = Violations()
    _check_inputs(violations, request.inputs, "inputs")
    if request.HasField("provider"):
        ref_from_proto(violations, request.provider, "provider", (ProviderType.EMBEDDING,))
    violations.raise_if_any()


def check_rerank(request: pb.RerankRequest) -> None:
    """Checks a Rerank request.

    Raises:
        InvalidArgument: Names every field that is out of range.
    """
    violations = Violations()
    documents, size = len(request.documents), len(request.query.encode())
    violations.require(0 < size <= MAX_QUERY_BYTES, "query", f"must be 1 to {MAX_QUERY_BYTES} bytes of UTF-8")
    violations.require(1 <= documents <= MAX_DOCUMENTS, "documents", f"must be 1 to {MAX_DOCUMENTS} texts")
    for index, text in enumerate(request.documents[:MAX_DOCUMENTS]):
        violations.require(bool(text), f"documents[{index}]", "must not be empty")
    violations.require(not request.HasField("top_n") or request.top_n >= 1, "top_n", "must be at least 1")
    for name in ("first_scores", "headings"):
        violations.require(len(getattr(request, name)) in (0, documents), name, "must be as many as documents, or none")
    violations.require(all(map(isfinite, request.first_scores)), "first_scores", "must be finite")
    if request.HasField("budget"):
        seconds = request.budget.seconds + request.budget.nanos / 1e9
        violations.require(0 < seconds <= MAX_BUDGET_SECONDS, "budget", "must be above 0 and at most 1 hour")
    if request.HasField("provider"):
        ref_from_proto(violations, request.provider, "provider", (ProviderType.RERANK,))
    violations.raise_if_any()


def ranking_to_proto(ranking: Ranking, model: ModelInfo) -> pb.RerankResponse:
    """Converts a ranking."""
    return pb.RerankResponse(
        results=[pb.RerankResult(index=ranked.index, score=ranked.score) for ranked in ranking.ranked],
        model=model.space.model,
        usage=pb.EmbeddingUsage(input_tokens=ranking.input_tokens),
        scored=ranking.scored,
    )


def result_to_proto(result: EmbedResult) -> pb.EmbedResponse:
    """Converts a result: vectors as little-endian float32, row after row."""
    return pb.EmbedResponse(
        vectors=result.vectors.astype(np.dtype("<f4"), copy=False).tobytes(),
        space=result.space,
        usage=pb.EmbeddingUsage(input_tokens=result.input_tokens),
        token_counts=result.token_counts,
        truncated=result.truncated,
    )


def counts_to_proto(counts: TokenCounts) -> pb.CountTokensResponse:
    """Converts token counts."""
    return pb.CountTokensResponse(
        counts=counts.counts,
        special_tokens=counts.model.extra_tokens,
        max_input_tokens=counts.model.max_input_tokens,
        space=counts.model.space,
    )


def models_to_proto(embedding: Sequence[ModelInfo], rerank: Sequence[ModelInfo] = ()) -> pb.ListModelsResponse:
    """Converts the models; the first one of each capability is the default."""
    return pb.ListModelsResponse(
        models=[
            pb.Model(
                space=model.space,
                max_input_tokens=model.max_input_tokens,
                is_default=index == 0,
                provider=model.provider,
                capability=capability,
                precision=model.precision,
            )
            for capability, models in ((pb.CAPABILITY_EMBED, embedding), (pb.CAPABILITY_RERANK, rerank))
            for index, model in enumerate(models)
        ]
    )


def _check_inputs(violations: Violations, inputs: Sequence[str], field: str) -> None:
    violations.require(1 <= len(inputs) <= MAX_INPUTS, field, f"must be 1 to {MAX_INPUTS} texts")
    size = sum(len(text.encode()) for text in inputs)
    violations.require(size <= MAX_INPUT_BYTES, field, f"must be at most {MAX_INPUT_BYTES} bytes of UTF-8 in all")
