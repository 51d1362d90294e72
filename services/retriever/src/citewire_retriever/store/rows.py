"""The queries in `sql/`, and what they return as domain data: the order of columns here is the order there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, LiteralString

from citewire_kit.postgres import load_queries
from citewire_retriever.model import (
    Calibration,
    Chunk,
    ChunkKey,
    Document,
    IngestError,
    JsonObject,
    Key_co,
    Progress,
    Stage,
    Status,
)


def queries(name: str) -> Mapping[str, LiteralString]:
    """Loads the named queries of `sql/<name>.sql`."""
    return load_queries("citewire_retriever.store", f"sql/{name}.sql")


def document(row: tuple[Any, ...]) -> Document:
    """Reads a row of `select_document`."""
    error_code: str | None = row[11]
    status: Status = row[10]
    metadata: JsonObject = row[8]
    stage: Stage | None = row[22]
    return Document(
        document_id=row[0],
        title=row[1],
        file_name=row[2],
        media_type=row[3],
        type=row[4],
        url=row[5],
        collection=row[6],
        tags=tuple(row[7]),
        metadata=metadata,
        owner=row[9],
        status=status,
        error=None if error_code is None else IngestError(error_code, row[12] or ""),
        version=row[13],
        live_version=row[14],
        chunks=row[15],
        pages=row[16],
        size_bytes=row[17],
        tokens=row[18],
        created_at=utc(row[19]),
        updated_at=utc(row[20]),
        sha256=row[21],
        progress=Progress(stage=stage, done=row[23], total=row[24], attempt=row[25]),
    )


def chunk(row: Sequence[Any]) -> Chunk:
    """Reads the columns of `chunk_columns`, which come first in a row."""
    return Chunk(
        chunk_id=row[0],
        document_id=row[1],
        version=row[2],
        chunk_index=row[3],
        text=row[4],
        token_count=row[5],
        content_hash=row[6],
        section=row[7],
        place=row[8],
        char_start=row[9],
        char_end=row[10],
        title=row[11],
        file_name=row[12],
        url=row[13],
        type=row[14],
        created_at=utc(row[15]),
        live=row[16],
        metadata=row[17],
        verbatim=row[18],
    )


def calibration(row: Sequence[Any]) -> Calibration | None:
    """Reads when it was measured, the thresholds and the weight; None where nothing is stored."""
    if row[0] is None:
        return None
    return Calibration(
        relevance_threshold=row[1], answerable_threshold=row[2], dense_weight=row[3], measured_at=utc(row[0])
    )


@dataclass(frozen=True, slots=True)
class Shape(Generic[Key_co]):
    """What a search reads of each chunk; `columns` come first in a row.

    Attributes:
        columns: In SQL.
        sources: The joins that they need, to rows n with a chunk_id.
        count: How many they are; what a query adds comes after them.
        read: What they are.
    """

    columns: LiteralString
    sources: LiteralString
    count: int
    read: Callable[[Sequence[Any]], Key_co]


def key(row: Sequence[Any]) -> ChunkKey:
    """Reads the columns of `key_columns`, which come first in a row."""
    return ChunkKey(row[0], row[1], row[2])


_SEARCH: Final = queries("search")
WHOLE: Final = Shape(_SEARCH["chunk_columns"], _SEARCH["chunk_sources"], 19, chunk)
KEYS: Final = Shape(_SEARCH["key_columns"], _SEARCH["key_sources"], 3, key)


def similarity(distance: float | None) -> float | None:
    """Turns a cosine distance into a similarity of 0 to 1."""
    return None if distance is None else min(1.0, max(0.0, 1.0 - distance))


def utc(moment: datetime) -> datetime:
    """Returns the moment in UTC, whatever the session's time zone is."""
    return moment.astimezone(UTC)
