"""Between the API's JSON and the messages of documents and collections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from citewire.retriever.v1 import calibration_pb2, corpus_pb2
from google.protobuf.field_mask_pb2 import FieldMask

from citewire_gateway.clients.json_values import struct_from_json, struct_to_json

if TYPE_CHECKING:
    from citewire_gateway.clients.corpus import FileFields, TextFields

STATUSES: Mapping[str, corpus_pb2.DocumentStatus] = {
    "pending": corpus_pb2.DOCUMENT_STATUS_PENDING,
    "processing": corpus_pb2.DOCUMENT_STATUS_PROCESSING,
    "ready": corpus_pb2.DOCUMENT_STATUS_READY,
    "failed": corpus_pb2.DOCUMENT_STATUS_FAILED,
}
"""States of a document, as the API names them."""

_THRESHOLDS = ("relevance_threshold", "answerable_threshold", "dense_weight")


def header_message(fields: FileFields, document_id: int | None) -> corpus_pb2.UploadHeader:
    """A file's header as a message."""
    return corpus_pb2.UploadHeader(
        document_id=document_id,
        file_name=fields.file_name,
        media_type=fields.media_type,
        title=fields.title,
        collection=fields.collection,
        tags=fields.tags,
        metadata=None if fields.metadata is None else struct_from_json(fields.metadata),
        url=fields.url,
        type=fields.type,
    )


def put_message(fields: TextFields, document_id: int | None) -> corpus_pb2.PutDocumentRequest:
    """A text document as a message."""
    return corpus_pb2.PutDocumentRequest(
        document_id=document_id,
        type=fields.type,
        title=fields.title,
        content=fields.content,
        url=fields.url,
        collection=fields.collection,
        tags=fields.tags,
        metadata=None if fields.metadata is None else struct_from_json(fields.metadata),
    )


def update_message(document_id: int, changes: Mapping[str, Any]) -> corpus_pb2.UpdateDocumentRequest:
    """Changes as a message: the mask names what is in `changes`; None empties a field."""
    document = corpus_pb2.Document(document_id=document_id)
    for name, value in changes.items():
        if name == "tags":
            document.tags.extend(value or ())
        elif name == "metadata":
            document.metadata.CopyFrom(struct_from_json(value or {}))
        else:
            setattr(document, name, value or "")
    return corpus_pb2.UpdateDocumentRequest(document=document, update_mask=FieldMask(paths=list(changes)))


def document_json(document: corpus_pb2.Document) -> dict[str, Any]:
    """A document as the API shows it; what doesn't apply is left out."""
    shown: dict[str, Any] = {
        "id": document.document_id,
        "title": document.title,
        "file_name": document.file_name,
        "type": document.type,
        "status": _name(corpus_pb2.DocumentStatus.Name(document.status)),
        "version": document.version,
        "live_version": document.live_version or None,
        "chunks": document.chunks,
        "media_type": document.media_type,
        "size_bytes": document.size_bytes,
        "tokens": document.tokens,
        "collection": document.collection or None,
        "tags": list(document.tags),
        "metadata": struct_to_json(document.metadata),
        "owner": document.owner,
        "sha256": document.sha256,
    }
    if document.HasField("error"):
        shown["error"] = {"code": document.error.code, "message": document.error.message}
    if document.HasField("pages"):
        shown["pages"] = document.pages
    if document.url:
        shown["url"] = document.url
    if document.HasField("created_at"):
        shown["created_at"] = document.created_at.ToJsonString()
    if document.HasField("updated_at"):
        shown["updated_at"] = document.updated_at.ToJsonString()
    return shown


def progress_json(message: corpus_pb2.WatchDocumentResponse) -> dict[str, Any]:
    """A document's progress as the API shows it."""
    stage = _name(corpus_pb2.IngestStage.Name(message.stage))
    return {
        "document": document_json(message.document),
        "stage": None if stage == "unspecified" else stage,
        "done": message.done,
        "total": message.total or None,
        "attempt": message.attempt,
        "deleted": message.deleted,
    }


def collection_json(collection: corpus_pb2.Collection) -> dict[str, Any]:
    """A collection as the API shows it."""
    shown: dict[str, Any] = {"name": collection.name, "documents": collection.documents}
    if collection.HasField("created_at"):
        shown["created_at"] = collection.created_at.ToJsonString()
    return shown


def space_json(info: corpus_pb2.SpaceInfo) -> dict[str, Any]:
    """An embedding space as the API shows it."""
    return {
        "model": info.space.model,
        "revision": info.space.revision,
        "dimensions": info.space.dimensions,
        "role": corpus_pb2.SpaceRole.Name(info.role).removeprefix("SPACE_ROLE_").lower(),
        "items": info.documents,
        "with_vectors": info.documents_filled,
        "missing": info.documents - info.documents_filled,
        "given_up": info.documents_failed,
        "chunks": info.chunks,
        "chunks_with_vectors": info.chunks_filled,
        "calibration": _calibration(info.calibration) if info.HasField("calibration") else None,
    }


def calibration_message(calibration: Mapping[str, Any]) -> calibration_pb2.Calibration:
    """What a space's scores mean, as a message; what is absent or null stays unset."""
    thresholds = {name: calibration.get(name) for name in _THRESHOLDS}
    return calibration_pb2.Calibration(**thresholds, report=struct_from_json(calibration.get("report") or {}))


def _calibration(message: calibration_pb2.Calibration) -> dict[str, Any]:
    shown: dict[str, Any] = {name: getattr(message, name) if message.HasField(name) else None for name in _THRESHOLDS}
    measured_at = message.measured_at.ToJsonString() if message.HasField("measured_at") else None
    return shown | {"measured_at": measured_at, "report": struct_to_json(message.report)}


def _name(value: str) -> str:
    for prefix in ("DOCUMENT_STATUS_", "INGEST_STAGE_"):
        value = value.removeprefix(prefix)
    return value.lower()
