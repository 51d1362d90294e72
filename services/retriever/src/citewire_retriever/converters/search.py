"""Messages of RetrieverService: proto ↔ domain."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from citewire.common.v1 import common_pb2, place_pb2
from citewire.retriever.v1 import calibration_pb2
from citewire.retriever.v1 import retriever_pb2 as pb
from google.protobuf.struct_pb2 import Struct

from citewire_kit.errors import FieldViolation, InvalidArgument, Violations
from citewire_retriever.converters.checks import (
    check_collection,
    check_id,
    check_space,
    check_type,
    to_struct,
    to_timestamp,
)
from citewire_retriever.converters.filters import to_filter
from citewire_retriever.model import (
    Calibration,
    Chunk,
    ContextPath,
    Plan,
    Scope,
    ScopeCounts,
    SearchMode,
    SearchOutcome,
    SearchQuery,
    Space,
    Strategy,
)

MAX_SELECTION: Final = 10_000
MAX_TOP_K: Final = 200
MAX_RECENT: Final = 50
MAX_CHUNK_IDS: Final = 200
MAX_QUERY_BYTES: Final = 32 * 1024
_DEFAULT_TOP_K: Final = 10
_METADATA_BYTES: Final = 4 * 1024 * 1024
"""Of documents' metadata in one message; gRPC's messages hold 16 MiB."""
_CHUNKS_A_MESSAGE: Final = 500
"""Of one item in long context."""

_STRATEGIES: Final[dict[int, Strategy]] = {
    pb.STRATEGY_UNSPECIFIED: "semantic",
    pb.STRATEGY_SEMANTIC: "semantic",
    pb.STRATEGY_LIBRARY: "library",
}
_MODES: Final[dict[int, SearchMode]] = {
    pb.SEARCH_MODE_UNSPECIFIED: "dense",
    pb.SEARCH_MODE_DENSE: "dense",
    pb.SEARCH_MODE_LEXICAL: "lexical",
    pb.SEARCH_MODE_HYBRID: "hybrid",
}
_PATHS: Final[dict[ContextPath, pb.ContextPath]] = {
    "focused": pb.CONTEXT_PATH_FOCUSED,
    "long_context": pb.CONTEXT_PATH_LONG_CONTEXT,
    "long_context_trim": pb.CONTEXT_PATH_LONG_CONTEXT_TRIM,
    "long_context_fallback": pb.CONTEXT_PATH_LONG_CONTEXT_FALLBACK,
    "semantic": pb.CONTEXT_PATH_SEMANTIC,
}


def to_scope(message: pb.Scope) -> Scope:
    """Reads a scope. Raises `InvalidArgument` that names each wrong field."""
    violations = Violations()
    violations.require(
        message.level in (pb.SCOPE_LEVEL_UNSPECIFIED, pb.SCOPE_LEVEL_ORG, pb.SCOPE_LEVEL_USER),
        "scope.level",
        "must be ORG or USER",
    )
    document_ids: tuple[int, ...] | None = None
    if message.HasField("selection"):
        document_ids = tuple(dict.fromkeys(message.selection.document_ids))
        violations.require(
            len(message.selection.document_ids) <= MAX_SELECTION,
            "scope.selection.document_ids",
            f"must be at most {MAX_SELECTION}",
        )
    check_collection(violations, "scope.collection", message.collection)
    for number, kind in enumerate(message.types):
        check_type(violations, f"scope.types[{number}]", kind, needed=True)
    violations.raise_if_any()
    return Scope(
        own=message.level == pb.SCOPE_LEVEL_USER,
        document_ids=document_ids,
        collection=message.collection,
        types=tuple(dict.fromkeys(message.types)),
        filter=to_filter("scope.filter", message.filter) if message.HasField("filter") else None,
    )


def to_plan_request(message: pb.PlanRequest) -> tuple[Scope, Strategy, int | None]:
    """Reads scope, strategy and budget."""
    violations = Violations()
    violations.require(message.strategy in _STRATEGIES, "strategy", "must be SEMANTIC or LIBRARY")
    max_tokens = message.max_tokens if message.HasField("max_tokens") else None
    violations.require(max_tokens != 0, "max_tokens", "must be at least 1")
    violations.raise_if_any()
    return to_scope(message.scope), _STRATEGIES[message.strategy], max_tokens


def to_context_request(message: pb.GetContextRequest) -> tuple[Scope, int]:
    """Reads scope and budget."""
    violations = Violations()
    violations.require(message.max_tokens > 0, "max_tokens", "is required: at least 1")
    violations.raise_if_any()
    return to_scope(message.scope), message.max_tokens


def to_search_query(message: pb.SearchRequest) -> SearchQuery:
    """Reads a search.

    Raises:
        InvalidArgument: Fields are out of range, or the vector isn't one of its space (reason `INVALID_VECTOR`).
    """
    violations = Violations()
    violations.require(message.mode in _MODES, "mode", "must be DENSE, LEXICAL or HYBRID")
    mode = _MODES.get(message.mode, "dense")
    violations.require(
        message.group_by in (pb.GROUP_BY_UNSPECIFIED, pb.GROUP_BY_CHUNK, pb.GROUP_BY_DOCUMENT),
        "group_by",
        "must be CHUNK or DOCUMENT",
    )
    top_k = message.top_k if message.HasField("top_k") else _DEFAULT_TOP_K
    violations.require(1 <= top_k <= MAX_TOP_K, "top_k", f"must be between 1 and {MAX_TOP_K}")
    recent = message.recent if message.HasField("recent") else 0
    violations.require(recent <= MAX_RECENT, "recent", f"must be between 0 and {MAX_RECENT}")
    min_score = message.min_score if message.HasField("min_score") else None
    violations.require(min_score is None or 0 <= min_score <= 1, "min_score", "must be between 0 and 1")
    diversity = message.diversity if message.HasField("diversity") else 0.0
    violations.require(0 <= diversity <= 1, "diversity", "must be between 0 and 1")
    dense_weight = message.dense_weight if message.HasField("dense_weight") else None
    violations.require(dense_weight is None or 0 <= dense_weight <= 1, "dense_weight", "must be between 0 and 1")
    space = None if mode == "lexical" else Space(message.space.model, message.space.revision, message.space.dimensions)
    if space is None:
        violations.require(recent == 0, "recent", "must be 0 for LEXICAL")
        violations.require(diversity == 0, "diversity", "must be 0 for LEXICAL, which has no vectors")
    else:
        violations.require(message.HasField("space"), "space", "is required with a vector")
        violations.require(bool(message.vector), "vector", "is required for DENSE and HYBRID")
        if message.HasField("space"):
            check_space(violations, "space", space)
    if mode != "dense":
        violations.require(bool(message.query.strip()), "query", "is required for LEXICAL and HYBRID")
        longest = f"must be at most {MAX_QUERY_BYTES} bytes"
        violations.require(len(message.query.encode()) <= MAX_QUERY_BYTES, "query", longest)
    violations.raise_if_any()
    if space is not None:
        _check_vector(message.vector, space.dimensions)
    return SearchQuery(
        scope=to_scope(message.scope),
        vector=b"" if space is None else message.vector,
        space=space,
        text=message.query,
        mode=mode,
        top_k=top_k,
        min_score=min_score,
        min_score_calibrated=message.min_score_calibrated,
        by_document=message.group_by == pb.GROUP_BY_DOCUMENT,
        recent=recent,
        exact=message.exact,
        diversity=diversity,
        fuse_by_rank=message.fuse_by_rank,
        keep_duplicates=message.keep_duplicates,
        dense_weight=dense_weight,
    )


def to_chunk_ids(message: pb.GetChunksRequest) -> list[int]:
    """Reads the ids, each once, in their order."""
    violations = Violations()
    violations.require(1 <= len(message.chunk_ids) <= MAX_CHUNK_IDS, "chunk_ids", f"must be 1–{MAX_CHUNK_IDS} ids")
    for number, chunk_id in enumerate(message.chunk_ids[:MAX_CHUNK_IDS]):
        check_id(violations, f"chunk_ids[{number}]", chunk_id)
    violations.raise_if_any()
    return list(dict.fromkeys(message.chunk_ids))


def from_plan(plan: Plan) -> pb.PlanResponse:
    """Writes a plan."""
    return pb.PlanResponse(
        path=_PATHS[plan.path],
        reason=plan.reason,
        counts=_counts(plan.counts),
        space=None if plan.space is None else from_space(plan.space),
        calibration=None if plan.calibration is None else from_calibration(plan.calibration),
    )


def from_context(part: Sequence[Chunk] | ScopeCounts) -> Iterator[pb.GetContextResponse]:
    """Writes an item, a very large one in several messages, or the counts that end the stream."""
    if isinstance(part, ScopeCounts):
        yield pb.GetContextResponse(counts=_counts(part))
        return
    for start in range(0, len(part), _CHUNKS_A_MESSAGE):
        yield pb.GetContextResponse(chunks=from_chunks(part[start : start + _CHUNKS_A_MESSAGE]).chunks)


def from_outcome(outcome: SearchOutcome) -> pb.SearchResponse:
    """Writes what a search found."""
    response = pb.SearchResponse(
        exact=outcome.exact,
        space=None if outcome.space is None else from_space(outcome.space),
        calibration=None if outcome.calibration is None else from_calibration(outcome.calibration),
    )
    for hit, chunk in zip(outcome.hits, _written([hit.chunk for hit in outcome.hits]), strict=True):
        # Added in place: a result that is made first is copied into the response, with its chunk and the chunk's text.
        response.results.add(
            chunk=chunk,
            rank_score=hit.score,
            score=hit.similarity,
            lexical_score=hit.lexical_score,
            recent=hit.recent,
            duplicate_chunk_ids=hit.duplicate_ids,
        )
    return response


def from_chunks(chunks: Sequence[Chunk]) -> pb.GetChunksResponse:
    """Writes chunks."""
    return pb.GetChunksResponse(chunks=_written(chunks))


def _written(chunks: Sequence[Chunk]) -> list[pb.Chunk]:
    """Writes chunks; metadata goes along as long as all of it together leaves room in the message."""
    written: list[pb.Chunk] = []
    structs: dict[int, Struct] = {}
    room = _METADATA_BYTES
    for chunk in chunks:
        message = _chunk(chunk)
        if chunk.metadata:
            struct = structs.get(chunk.document_id)
            if struct is None:
                struct = structs[chunk.document_id] = to_struct(chunk.metadata)
            room -= struct.ByteSize()
            if room >= 0:
                message.metadata.CopyFrom(struct)
        written.append(message)
    return written


def _counts(counts: ScopeCounts) -> pb.ScopeCounts:
    return pb.ScopeCounts(
        items=counts.items,
        kept=counts.kept,
        trimmed=counts.trimmed,
        without_embedding=counts.without_embedding,
        not_ready=counts.not_ready,
        chunks=counts.chunks,
    )


def _chunk(chunk: Chunk) -> pb.Chunk:
    return pb.Chunk(
        chunk_id=chunk.chunk_id,
        document_id=chunk.document_id,
        version=chunk.version,
        chunk_index=chunk.chunk_index,
        text=chunk.text,
        token_count=chunk.token_count,
        content_hash=chunk.content_hash.hex(),
        section=chunk.section,
        place=place_pb2.Place(**chunk.place),
        char_start=chunk.char_start,
        char_end=chunk.char_end,
        title=chunk.title,
        file_name=chunk.file_name,
        url=chunk.url,
        type=chunk.type,
        created_at=to_timestamp(chunk.created_at),
        live=chunk.live,
        verbatim=chunk.verbatim,
    )


def from_space(space: Space) -> common_pb2.EmbeddingSpace:
    """Writes an embedding space."""
    return common_pb2.EmbeddingSpace(model=space.model, revision=space.revision, dimensions=space.dimensions)


def from_calibration(calibration: Calibration, *, report: bool = False) -> calibration_pb2.Calibration:
    """Writes what scores mean, with the report if it is wanted."""
    return calibration_pb2.Calibration(
        relevance_threshold=calibration.relevance_threshold,
        answerable_threshold=calibration.answerable_threshold,
        dense_weight=calibration.dense_weight,
        measured_at=None if calibration.measured_at is None else to_timestamp(calibration.measured_at),
        report=to_struct(calibration.report) if report else None,
    )


def _check_vector(raw: bytes, dimensions: int) -> None:
    if len(raw) != 4 * dimensions:
        raise _invalid_vector(f"must be {4 * dimensions} bytes for {dimensions} dimensions, it is {len(raw)}")
    vector = np.frombuffer(raw, dtype="<f4")
    if not np.isfinite(vector).all():
        raise _invalid_vector("must hold finite values only")
    if not vector.any():
        raise _invalid_vector("must not be all zero: it has no direction")


def _invalid_vector(message: str) -> InvalidArgument:
    return InvalidArgument(f"vector {message}", reason="INVALID_VECTOR", violations=[FieldViolation("vector", message)])
