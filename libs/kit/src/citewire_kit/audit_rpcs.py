"""The audit trail's events for gRPC calls from other internal services, which no gateway has recorded."""

from collections.abc import Iterator
from functools import cache
from typing import Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from citewire_kit.audit import current_record
from citewire_kit.audit_events import MAX_OBJECTS, Action

NOTED_BEFORE: Final = frozenset({"citewire-gateway", "citewire-worker"})
"""Issuers whose calls follow from an HTTP request or an upload that is already in the trail."""

UNSIGNED: Final = "unsigned"
"""Issuer of an unsigned call, if these are accepted during an upgrade."""

_EMBEDDER, _GENERATOR = "/citewire.embedder.v1.EmbedderService/", "/citewire.generator.v1.GeneratorService/"
_RETRIEVER, _CORPUS = "/citewire.retriever.v1.RetrieverService/", "/citewire.retriever.v1.CorpusService/"

AUDITED_RPCS: Final[dict[str, Action]] = {
    _EMBEDDER + "Embed": Action.MODEL_CALL,
    _EMBEDDER + "EmbedStream": Action.MODEL_CALL,
    _EMBEDDER + "Rerank": Action.MODEL_CALL,
    _EMBEDDER + "SealProvider": Action.PROVIDER_SET,
    _EMBEDDER + "RewrapProvider": Action.PROVIDER_SET,
    _EMBEDDER + "TestProvider": Action.MODEL_CALL,
    _GENERATOR + "Generate": Action.MODEL_CALL,
    _GENERATOR + "Verify": Action.VERIFY,
    _GENERATOR + "Decide": Action.MODEL_CALL,
    _GENERATOR + "Assess": Action.MODEL_CALL,
    _GENERATOR + "JudgeRelevance": Action.MODEL_CALL,
    _GENERATOR + "Rewrite": Action.MODEL_CALL,
    _GENERATOR + "FillTableQuery": Action.MODEL_CALL,
    _GENERATOR + "SuggestQuestions": Action.MODEL_CALL,
    _GENERATOR + "Enrich": Action.MODEL_CALL,
    _GENERATOR + "SealProvider": Action.PROVIDER_SET,
    _GENERATOR + "RewrapProvider": Action.PROVIDER_SET,
    _GENERATOR + "TestProvider": Action.MODEL_CALL,
    _RETRIEVER + "Plan": Action.SEARCH,
    _RETRIEVER + "Search": Action.SEARCH,
    _RETRIEVER + "GetContext": Action.CHUNK_READ,
    _RETRIEVER + "GetChunks": Action.CHUNK_READ,
    _RETRIEVER + "FindDocuments": Action.DOCUMENT_LIST,
    _CORPUS + "UploadDocument": Action.DOCUMENT_CREATE,
    _CORPUS + "PutDocument": Action.DOCUMENT_CREATE,
    _CORPUS + "GetDocument": Action.DOCUMENT_READ,
    _CORPUS + "ListDocuments": Action.DOCUMENT_LIST,
    _CORPUS + "UpdateDocument": Action.DOCUMENT_UPDATE,
    _CORPUS + "DeleteDocument": Action.DOCUMENT_DELETE,
    _CORPUS + "ListErasedDocuments": Action.DOCUMENT_LIST,
    _CORPUS + "EraseOwner": Action.ERASURE_CREATE,
    _CORPUS + "EraseOldDocuments": Action.DOCUMENT_DELETE,
    _CORPUS + "ExportUser": Action.USER_EXPORT,
    _CORPUS + "RetryDocument": Action.DOCUMENT_RETRY,
    _CORPUS + "WatchDocument": Action.DOCUMENT_READ,
    _CORPUS + "DownloadDocument": Action.DOCUMENT_READ,
    _CORPUS + "LocateSpan": Action.DOCUMENT_READ,
    _CORPUS + "ListTables": Action.DOCUMENT_READ,
    _CORPUS + "QueryTable": Action.DOCUMENT_READ,
    _CORPUS + "AnswerFromTables": Action.DOCUMENT_READ,
    _CORPUS + "ListCollections": Action.COLLECTION_LIST,
    _CORPUS + "CreateCollection": Action.COLLECTION_CREATE,
    _CORPUS + "UpdateCollection": Action.COLLECTION_UPDATE,
    _CORPUS + "DeleteCollection": Action.COLLECTION_DELETE,
    _CORPUS + "GetCollectionGrants": Action.COLLECTION_GRANTS,
    _CORPUS + "SetCollectionGrants": Action.COLLECTION_GRANT,
    _CORPUS + "ListSpaces": Action.SPACE_LIST,
    _CORPUS + "PrepareSpace": Action.SPACE_PREPARE,
    _CORPUS + "SwitchSpace": Action.SPACE_SWITCH,
    _CORPUS + "SetCalibration": Action.SPACE_CALIBRATE,
    _CORPUS + "GetStorage": Action.USAGE_READ,
}
"""Actions by the calls' paths. An upload that replaces a document's version is `document.create` too."""

UNAUDITED_RPCS: Final = frozenset(
    {
        # They only describe the server, or measure the caller's own texts.
        _EMBEDDER + "ListModels",
        _EMBEDDER + "CountTokens",
        _GENERATOR + "ListModels",
    }
)

_INSIDE: Final = ("document", "documents", "chunk", "chunks", "results", "scope", "selection")
"""Fields that are searched for documents."""


def vouch(issuer: str) -> None:
    """Records who vouched for the caller of the running call."""
    record = current_record()
    if record is not None:
        record.issuer = issuer


def touch_message(message: object) -> None:
    """Adds the objects of a request or response to the running call's event, if it is recorded."""
    record = current_record()
    if record is None or record.issuer in NOTED_BEFORE or not isinstance(message, Message):
        return
    for name in _objects(message):
        if len(record.objects) > MAX_OBJECTS:
            return
        if name not in record.objects:
            record.objects.append(name)


def _objects(message: Message) -> Iterator[str]:
    for name, kind in _naming_fields(message.DESCRIPTOR):
        value = getattr(message, name)
        if kind == "parts":
            for part in value:
                yield from _objects(part)
        elif kind == "part":
            if message.HasField(name):
                yield from _objects(value)
        elif kind == "documents":
            yield from (f"document:{number}" for number in value)
        elif value:
            yield f"{kind}:{value}"


@cache
def _naming_fields(descriptor: Descriptor) -> tuple[tuple[str, str], ...]:
    """Fields of a message that name objects, and what they hold: listing all of a search's results takes far longer."""
    fields: list[tuple[str, str]] = []
    for field in sorted(descriptor.fields, key=lambda field: field.number):
        if field.name == "document_id":
            fields.append((field.name, "document"))
        elif field.name == "document_ids":
            fields.append((field.name, "documents"))
        elif field.name == "name" and "Collection" in descriptor.name:
            fields.append((field.name, "collection"))
        elif field.name in _INSIDE and field.message_type is not None:
            fields.append((field.name, "parts" if field.is_repeated else "part"))
    return tuple(fields)
