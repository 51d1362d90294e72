"""The queries in `sql/`, and what they return as domain data: the order of columns here is the order there."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, LiteralString

import psycopg
from psycopg import adapt
from psycopg.abc import Transformer

from citewire_kit.postgres import load_queries
from citewire_retriever.model import Calibration, Chunk, Document, IngestError, JsonObject, Progress, Stage, Status


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
        page_number=row[8],
        row_number=row[9],
        start_line=row[10],
        end_line=row[11],
        char_start=row[12],
        char_end=row[13],
        title=row[14],
        file_name=row[15],
        url=row[16],
        type=row[17],
        created_at=utc(row[18]),
        live=row[19],
        metadata=row[20],
        verbatim=row[21],
    )


def calibration(row: Sequence[Any]) -> Calibration | None:
    """Reads when it was measured, the thresholds and the weight; None where nothing is stored."""
    if row[0] is None:
        return None
    return Calibration(
        relevance_threshold=row[1], answerable_threshold=row[2], dense_weight=row[3], measured_at=utc(row[0])
    )


CHUNK_COLUMNS = 22
"""How many columns `chunk_columns` has; what a query adds comes after them."""

_CHUNK_ID, _DOCUMENT_ID, _CONTENT_HASH = 0, 1, 6


class Row:
    """A row that begins with `chunk_columns`, read column by column: few of a hybrid search's rows become results."""

    __slots__ = ("_number", "_result", "_transformer")

    def __init__(self, result: psycopg.pq.abc.PGresult, transformer: Transformer, number: int) -> None:
        self._result = result
        self._transformer = transformer
        self._number = number

    def value(self, column: int) -> bytes | None:
        """Returns a column as the server wrote it, as text."""
        return self._result.get_value(self._number, column)

    def number(self, column: int) -> float | None:
        """Returns a column that is a number."""
        value = self.value(column)
        return None if value is None else float(value)

    def chunk(self) -> Chunk:
        """Returns the chunk."""
        return self._transformer.load_row(self._number, chunk)

    def lazy_chunk(self) -> Chunk:
        """Returns the chunk; but for its ids and hash, it is read when something of it is first asked for."""
        digest = bytes.fromhex((self.value(_CONTENT_HASH) or b"")[2:].decode())
        return _StoredChunk(int(self.value(_CHUNK_ID) or 0), int(self.value(_DOCUMENT_ID) or 0), digest, self.chunk)


def read(cursor: psycopg.AsyncCursor[tuple[Any, ...]]) -> list[Row]:
    """Returns the rows of a cursor whose result is there, as text."""
    result = cursor.pgresult
    if result is None or not result.ntuples:
        return []
    transformer: Transformer = adapt.Transformer.from_context(cursor)
    transformer.set_pgresult(result)
    return [Row(result, transformer, number) for number in range(result.ntuples)]


class _StoredChunk(Chunk):
    """A chunk that is read when it is needed."""

    __slots__ = ("_read",)

    def __init__(self, chunk_id: int, document_id: int, content_hash: bytes, read: Callable[[], Chunk]) -> None:
        put = object.__setattr__  # as frozen dataclasses do
        put(self, "chunk_id", chunk_id)
        put(self, "document_id", document_id)
        put(self, "content_hash", content_hash)
        put(self, "_read", read)

    def __getattr__(self, name: str) -> object:
        # Only called for what isn't there yet.
        if name not in Chunk.__slots__:
            raise AttributeError(name)
        chunk = self._read()
        for each in Chunk.__slots__:
            object.__setattr__(self, each, getattr(chunk, each))
        return getattr(chunk, name)


def similarity(distance: float | None) -> float | None:
    """Turns a cosine distance into a similarity of 0 to 1."""
    return None if distance is None else min(1.0, max(0.0, 1.0 - distance))


def utc(moment: datetime) -> datetime:
    """Returns the moment in UTC, whatever the session's time zone is."""
    return moment.astimezone(UTC)
