"""Messages of RetrieverService: requests are checked and read; answers are messages already."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Any, Final

import numpy as np
from citewire.retriever.v1 import retriever_pb2 as pb

from citewire_kit.errors import FieldViolation, InvalidArgument, Violations
from citewire_kit.time_zones import find_time_zone
from citewire_retriever.converters.checks import check_collection, check_id, check_space, check_type, read_validity
from citewire_retriever.filters import filter_from_proto
from citewire_retriever.model import (
    SEARCH_MODES,
    STRATEGIES,
    Scope,
    SearchMode,
    SearchQuery,
    Strategy,
    space_from_proto,
)

MAX_SELECTION: Final = 10_000
MAX_TOP_K: Final = 200
MAX_RECENT: Final = 50
MAX_CHUNK_IDS: Final = 200
MAX_DOCUMENTS_FOUND: Final = 1000
MAX_QUERY_BYTES: Final = 32 * 1024
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "top_k": (1, MAX_TOP_K),
    "recent": (0, MAX_RECENT),
    "min_score": (0, 1),
    "diversity": (0, 1),
    "dense_weight": (0, 1),
    "max_per_document": (1, MAX_TOP_K),
}
"""Least and most of the numbers that a search may set; the defaults are those of `SearchQuery`."""
_SWITCHES: Final = ("min_score_calibrated", "exact", "fuse_by_rank", "keep_duplicates")
_METADATA_BYTES: Final = 4 * 1024 * 1024
"""Maximum bytes of metadata in one message; gRPC's messages have up to 16 MiB."""
_CHUNKS_A_MESSAGE: Final = 500
"""Maximum bytes of metadata of one item in long context."""


def scope_from_proto(message: pb.Scope) -> Scope:
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
    validity = read_validity(violations, message, "scope.")
    violations.raise_if_any()
    return Scope(
        own=message.level == pb.SCOPE_LEVEL_USER,
        document_ids=document_ids,
        collection=message.collection,
        types=tuple(dict.fromkeys(message.types)),
        filter=filter_from_proto("scope.filter", message.filter) if message.HasField("filter") else None,
        validity=validity,
    )


def plan_from_proto(message: pb.PlanRequest) -> tuple[Scope, Strategy, int | None, str, tzinfo]:
    """Reads scope, strategy, budget, the question if filters are derived from it, and its time zone."""
    violations = Violations()
    strategy = STRATEGIES.from_proto(message.strategy)
    violations.require(strategy is not None, "strategy", "must be SEMANTIC or LIBRARY")
    max_tokens = message.max_tokens if message.HasField("max_tokens") else None
    violations.require(max_tokens != 0, "max_tokens", "must be at least 1")
    if message.derive_filter:
        violations.require(bool(message.query.strip()), "query", "is required with derive_filter")
    zone = find_time_zone(message.time_zone)
    violations.require(zone is not None, "time_zone", "must be an IANA name such as Europe/Berlin")
    violations.raise_if_any()
    query = message.query[:MAX_QUERY_BYTES] if message.derive_filter else ""
    return scope_from_proto(message.scope), strategy or Strategy.SEMANTIC, max_tokens, query, zone or UTC


def context_from_proto(message: pb.GetContextRequest) -> tuple[Scope, int]:
    """Reads scope and budget."""
    violations = Violations()
    violations.require(message.max_tokens > 0, "max_tokens", "is required: at least 1")
    violations.raise_if_any()
    return scope_from_proto(message.scope), message.max_tokens


def search_from_proto(message: pb.SearchRequest) -> SearchQuery:
    """Reads a search.

    Raises:
        InvalidArgument: Fields are out of range, or the vector isn't one of its space (reason `INVALID_VECTOR`).
    """
    violations = Violations()
    mode = SEARCH_MODES.from_proto(message.mode)
    violations.require(mode is not None, "mode", "must be DENSE, LEXICAL or HYBRID")
    mode = mode or SearchMode.DENSE
    violations.require(
        message.group_by in (pb.GROUP_BY_UNSPECIFIED, pb.GROUP_BY_CHUNK, pb.GROUP_BY_DOCUMENT),
        "group_by",
        "must be CHUNK or DOCUMENT",
    )
    numbers: dict[str, Any] = {name: getattr(message, name) for name in _RANGES if message.HasField(name)}
    for name, number in numbers.items():
        least, most = _RANGES[name]
        violations.require(least <= number <= most, name, f"must be between {least} and {most}")
    space = None if mode == "lexical" and not message.vector else space_from_proto(message.space)
    if mode == "lexical":
        violations.require(message.recent == 0, "recent", "must be 0 for LEXICAL")
        violations.require(message.diversity == 0, "diversity", "must be 0 for LEXICAL")
    if space is not None:
        violations.require(message.HasField("space"), "space", "is required with a vector")
        violations.require(bool(message.vector), "vector", "is required for DENSE and HYBRID")
        if message.HasField("space"):
            check_space(violations, "space", space)
    if mode != "dense":
        _check_query(violations, message.query, "for LEXICAL and HYBRID")
    violations.raise_if_any()
    if space is not None:
        _check_vector(message.vector, space.dimensions)
    return SearchQuery(
        scope=scope_from_proto(message.scope),
        vector=b"" if space is None else message.vector,
        space=space,
        text=message.query[:MAX_QUERY_BYTES] if mode == "dense" else message.query,
        mode=mode,
        by_document=message.group_by == pb.GROUP_BY_DOCUMENT,
        **{name: getattr(message, name) for name in _SWITCHES},
        **numbers,
    )


def chunk_ids_from_proto(message: pb.GetChunksRequest) -> list[int]:
    """Reads the ids, each once, in their order."""
    return _ids("chunk_ids", message.chunk_ids, MAX_CHUNK_IDS)


def document_ids_from_proto(message: pb.FindDocumentsRequest) -> list[int]:
    """Reads the ids, each once, in their order."""
    return _ids("document_ids", message.document_ids, MAX_DOCUMENTS_FOUND)


def context_to_proto(part: Sequence[pb.Chunk] | pb.ScopeCounts) -> Iterator[pb.GetContextResponse]:
    """Writes a document, split into several messages if it is very large, or the counts at the end of the stream."""
    if isinstance(part, pb.ScopeCounts):
        yield pb.GetContextResponse(counts=part)
        return
    for start in range(0, len(part), _CHUNKS_A_MESSAGE):
        chunks = part[start : start + _CHUNKS_A_MESSAGE]
        limit_metadata(chunks)
        yield pb.GetContextResponse(chunks=chunks)


def limit_metadata(chunks: Iterable[pb.Chunk]) -> None:
    """Removes metadata if that of all chunks together is too large for the message."""
    room = _METADATA_BYTES
    for chunk in chunks:
        if chunk.HasField("metadata"):
            room -= chunk.metadata.ByteSize()
            if room < 0:
                chunk.ClearField("metadata")


def _check_query(violations: Violations, query: str, when: str) -> None:
    violations.require(bool(query.strip()), "query", f"is required {when}")
    violations.require(len(query.encode()) <= MAX_QUERY_BYTES, "query", f"must be at most {MAX_QUERY_BYTES} bytes")


def _check_vector(raw: bytes, dimensions: int) -> None:
    if len(raw) != 4 * dimensions:
        raise _invalid_vector(f"must be {4 * dimensions} bytes for {dimensions} dimensions, but has {len(raw)}")
    vector = np.frombuffer(raw, dtype="<f4")
    if not np.isfinite(vector).all():
        raise _invalid_vector("must contain only finite values")
    if not vector.any():
        raise _invalid_vector("must not be all zero: it has no direction")


def _invalid_vector(message: str) -> InvalidArgument:
    return InvalidArgument(f"vector {message}", reason="INVALID_VECTOR", violations=[FieldViolation("vector", message)])


def _ids(field: str, ids: Sequence[int], most: int) -> list[int]:
    violations = Violations()
    violations.require(1 <= len(ids) <= most, field, f"must be 1–{most} ids")
    for number, each in enumerate(ids[:most]):
        check_id(violations, f"{field}[{number}]", each)
    violations.raise_if_any()
    return list(dict.fromkeys(ids))
