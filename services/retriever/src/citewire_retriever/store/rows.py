"""The queries in `sql/`, and their results as messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, LiteralString, cast

from citewire.common.v1.place_pb2 import Place
from citewire.retriever.v1.calibration_pb2 import Calibration
from citewire.retriever.v1.corpus_pb2 import (
    ENRICHMENT_STATE_DONE,
    ENRICHMENT_STATE_FAILED,
    ENRICHMENT_STATE_PENDING,
    Access,
    Document,
    DocumentStatus,
    Enrichment,
    EnrichmentError,
    EnrichmentSource,
    IngestProgress,
    IngestStage,
    WatchDocumentResponse,
)
from citewire.retriever.v1.retriever_pb2 import Chunk, TextPlace

from citewire_kit.enums import enum_number
from citewire_kit.queries import load_queries
from citewire_retriever.headings import heading
from citewire_retriever.model import Candidate, Changes, NewContent


def queries(name: str) -> Mapping[str, LiteralString]:
    """Loads the named queries of `sql/<name>.sql`."""
    return load_queries("citewire_retriever.store", f"sql/{name}.sql")


def document_progress(row: dict[str, Any]) -> WatchDocumentResponse:
    """Reads a row of `select_document`."""
    error = {"code": row.pop("error_code"), "message": row.pop("error_message")}
    stage, done, total, attempt = (row.pop(name) for name in ("stage", "done", "total", "attempt"))
    row["status"] = enum_number(DocumentStatus, row["status"])
    row["enrichment"] = _enrichment(row)
    row["access"] = enum_number(Access, row["access"])
    number = enum_number(IngestStage, stage) if stage else IngestStage.INGEST_STAGE_UNSPECIFIED
    progress = IngestProgress(stage=number, done=done, total=total) if stage else None
    return WatchDocumentResponse(
        document=Document(**row, error=error if error["code"] else None, progress=progress),
        stage=number,
        done=done,
        total=total,
        attempt=attempt,
    )


def _enrichment(row: dict[str, Any]) -> Enrichment | None:
    """Removes a document's enrichment from its row and returns it; None if there is none and won't be."""
    names = ("enrichment_state", "enriched_fields", "enriched_by", "enrichment_code", "enrichment_message")
    job, fields, source, code, message = (row.pop(name) for name in names)
    if job is None and not fields:
        return None
    state = {"done": ENRICHMENT_STATE_DONE, "failed": ENRICHMENT_STATE_FAILED, None: ENRICHMENT_STATE_DONE}
    return Enrichment(
        state=state.get(job, ENRICHMENT_STATE_PENDING),
        fields=fields,
        source=enum_number(EnrichmentSource, source) if source else EnrichmentSource.ENRICHMENT_SOURCE_UNSPECIFIED,
        error=EnrichmentError(code=code, message=message) if code else None,
    )


def values_of(record: NewContent | Changes) -> dict[str, Any]:
    """Returns the fields by name, as parameters of statements."""
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    lists = {name: list(cast("tuple[Any, ...]", value)) for name, value in values.items() if isinstance(value, tuple)}
    return values | lists


def chunk(row: Sequence[Any]) -> Chunk:
    """Reads the columns of `chunk_columns`, which come first in a row and have the names of fields."""
    values = dict(zip(CHUNK_COLUMNS, row, strict=False))
    title, section, metadata, places = values["title"], values["section"], values["metadata"], values["places"]
    name = values["file_name"] or title
    values["content_hash"] = values["content_hash"].hex()
    values["metadata"] = metadata or None
    values["places"] = _places(places) if places else None
    return Chunk(
        **values,
        entity_type=_label(metadata, "entity_type"),
        category=_label(metadata, "category"),
        heading=heading(title, section),
        label=f"{name} § {section}" if section else name,
    )


def _places(parts: Sequence[tuple[int, dict[str, Any]]]) -> list[TextPlace]:
    """The places of a chunk's parts, without the boxes of recognised lines, which LocateSpan returns."""
    results: list[TextPlace] = []
    for start, values in parts:
        place = Place(**{name: value for name, value in values.items() if name != "boxes"})
        if not results or results[-1].place != place:
            results.append(TextPlace(start=start, place=place))
    return results


def _label(metadata: Mapping[str, Any], key: str) -> str:
    """A member of the metadata if it is a text, as it may be anything."""
    value = metadata.get(key)
    return value if isinstance(value, str) else ""


def calibration(row: Sequence[Any]) -> Calibration | None:
    """Reads the measuring time, the thresholds and the weight; None if nothing is stored."""
    if row[0] is None:
        return None
    return Calibration(
        measured_at=row[0],
        relevance_threshold=row[1],
        answerable_threshold=row[2],
        dense_weight=row[3],
        off_topic_threshold=row[4],
    )


@dataclass(frozen=True, slots=True)
class Shape:
    """The values that a search reads of each chunk; `columns` come first in a row."""

    columns: LiteralString
    """In SQL."""
    sources: LiteralString
    """The joins that the columns need, to rows n with a chunk_id."""
    count: int
    """Number of these columns; those added by a query follow."""
    whole: bool
    """Whether they contain the whole chunk or only its key."""

    def read(
        self, row: Sequence[Any], distance: float | None, lexical_score: float | None = None, *, recent: bool = False
    ) -> Candidate:
        """Reads a row, with the distance and score added by the query."""
        score = None if distance is None else min(1.0, max(0.0, 1.0 - distance))
        if not self.whole:
            return Candidate(row[0], row[1], row[2], score, recent, lexical_score, chars_per_token=row[3])
        return Candidate(row[0], row[1], row[_HASH], score, recent, lexical_score, chunk=chunk(row))


_SEARCH: Final = queries("search")
CHUNK_COLUMNS: Final = tuple(column.split()[-1].rpartition(".")[2] for column in _SEARCH["chunk_columns"].split(","))
"""Names of the columns of a whole chunk."""
_HASH: Final = CHUNK_COLUMNS.index("content_hash")
WHOLE: Final = Shape(_SEARCH["chunk_columns"], _SEARCH["chunk_sources"], len(CHUNK_COLUMNS), whole=True)
KEYS: Final = Shape(_SEARCH["key_columns"], _SEARCH["key_sources"], 4, whole=False)
