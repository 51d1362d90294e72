"""Messages of CorpusService: requests are checked and read; most answers are messages already."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any, Final

from citewire.retriever.v1 import corpus_pb2 as pb
from citewire.retriever.v1.table_pb2 import ListTablesRequest, QueryTableRequest

from citewire_kit.enums import enum_text
from citewire_kit.errors import FieldViolation, InvalidArgument, Violations
from citewire_kit.tenant import is_token
from citewire_retriever.converters.checks import (
    MAX_COLLECTION,
    check_collection,
    check_file_name,
    check_id,
    check_metadata,
    check_page_size,
    check_readers,
    check_subject,
    check_tags,
    check_text,
    check_title,
    check_type,
    check_url,
    is_storable,
    read_moment,
    read_validity,
    readers_of_acl,
)
from citewire_retriever.filters import filter_from_proto
from citewire_retriever.model import MAX_ERASED, VALIDITY, Changes, DocumentQuery, JsonObject, NewContent, Original

_MAX_MEDIA_TYPE: Final = 255
_MAX_DAYS: Final = 36_500
_NAME: Final = "must be 1-128 characters of A-Z a-z 0-9 _ . : @ -"
_MAX_REQUEST_ID: Final = 128
_MAX_VERSION: Final = (1 << 31) - 1
MAX_SPAN: Final = 8000
"""Maximum length in code points of a span to locate."""
_MAX_SEARCHED: Final = 200
_MAX_GRANTS: Final = 1000
_CHECKS: Final[Mapping[str, Callable[[Violations, str, Any], Any]]] = {
    "title": partial(check_title, needed=True),
    "url": check_url,
    "tags": check_tags,
    "metadata": check_metadata,
    "collection": check_collection,
    "readers": check_readers,
    "file_name": check_file_name,
}
"""How each field that an update may change is checked, besides the validity."""
_OWN_RULES: Final = frozenset({"title", "metadata", "readers", "file_name"})
"""Those that new content may lack, or take from elsewhere; the others are checked alike in it."""
_CHANGEABLE: Final = (*_CHECKS, *VALIDITY)


def upload_from_proto(message: pb.UploadDocumentRequest) -> NewContent:
    """Reads an upload's first message.

    Raises:
        InvalidArgument: It isn't a header, or fields are invalid.
    """
    if message.WhichOneof("part") != "header":
        raise _invalid("header", "must come first, before any data")
    header = message.header
    violations = Violations()
    content = NewContent(
        type=check_type(violations, "type", header.type),
        file_name=check_file_name(violations, "file_name", header.file_name, needed=not header.source_url),
        media_type=check_text(violations, "media_type", header.media_type, longest=_MAX_MEDIA_TYPE),
        title=check_title(violations, "title", header.title),
        source_url=check_url(violations, "source_url", header.source_url),
        **_described(violations, header),
    )
    violations.raise_if_any()
    return content


async def data_from_proto(messages: AsyncIterator[pb.UploadDocumentRequest]) -> AsyncGenerator[bytes, None]:
    """Reads an upload's other messages. Raises `InvalidArgument` for a second header."""
    async for message in messages:
        if message.WhichOneof("part") != "data":
            raise _invalid("header", "must come once")
        yield message.data


async def no_data_from_proto(messages: AsyncIterator[pb.UploadDocumentRequest]) -> None:
    """Reads to the end of an upload with a URL. Raises `InvalidArgument` if there is data."""
    async for _ in messages:
        raise _invalid("source_url", "must be empty if data follows")


def text_from_proto(message: pb.PutDocumentRequest) -> tuple[NewContent, str]:
    """Reads a text with its description."""
    violations = Violations()
    violations.require(is_storable(message.content), "content", "must not contain NUL characters")
    content = NewContent(
        type=check_type(violations, "type", message.type, needed=True),
        file_name="",
        media_type=check_text(violations, "media_type", message.media_type, longest=_MAX_MEDIA_TYPE) or "text/markdown",
        title=check_title(violations, "title", message.title, needed=True),
        **_described(violations, message),
    )
    violations.raise_if_any()
    return content, message.content


def required_id(document_id: int, field: str = "document_id") -> int:
    """Reads a required document id."""
    violations = Violations()
    check_id(violations, field, document_id)
    violations.raise_if_any()
    return document_id


def check_version(
    violations: Violations,
    request: pb.DownloadDocumentRequest | pb.LocateSpanRequest | ListTablesRequest | QueryTableRequest,
) -> tuple[int, int | None]:
    """Checks and returns a document's id, and the requested version, if any."""
    document_id = check_id(violations, "document_id", request.document_id)
    version = request.version if request.HasField("version") else None
    violations.require((version or 0) <= _MAX_VERSION, "version", f"must be at most {_MAX_VERSION}")
    return document_id, version


def download_from_proto(request: pb.DownloadDocumentRequest) -> tuple[int, int | None]:
    """Reads a document's id and the requested version, if any."""
    violations = Violations()
    document_id, version = check_version(violations, request)
    violations.raise_if_any()
    return document_id, version


def span_from_proto(request: pb.LocateSpanRequest) -> tuple[int, int | None, int, int]:
    """Reads a document's id, the requested version, if any, and a span of its text."""
    violations = Violations()
    document_id, version = check_version(violations, request)
    length = request.char_end - request.char_start
    end = f"must be after char_start, by at most {MAX_SPAN:,}, and at most {_MAX_VERSION}"
    violations.require(0 < length <= MAX_SPAN and request.char_end <= _MAX_VERSION, "char_end", end)
    violations.raise_if_any()
    return document_id, version, request.char_start, request.char_end


def required_name(name: str, field: str = "name") -> str:
    """Reads a required collection name."""
    violations = Violations()
    check_collection(violations, field, name, needed=True)
    violations.raise_if_any()
    return name


def collection_update_from_proto(message: pb.UpdateCollectionRequest) -> tuple[str, str | None, bool | None]:
    """Reads a collection's name, its new name, and whether its documents are enriched; None for no change."""
    enrich = message.enrich if message.HasField("enrich") else None
    new_name = message.new_name or None
    if new_name is not None or enrich is None:
        new_name = required_name(message.new_name, "new_name")
    return required_name(message.name), new_name, enrich


def page_size_from_proto(page_size: int) -> int:
    """Reads a page size, or the default."""
    violations = Violations()
    size = check_page_size(violations, page_size)
    violations.raise_if_any()
    return size


def query_from_proto(message: pb.ListDocumentsRequest) -> DocumentQuery:
    """Reads the filters of a list of documents."""
    violations = Violations()
    violations.require(message.status in pb.DocumentStatus.values(), "status", "isn't a known status")
    check_collection(violations, "collection", message.collection)
    check_type(violations, "type", message.type)
    check_text(violations, "tag", message.tag, longest=64)
    check_text(violations, "q", message.q, longest=_MAX_SEARCHED)
    validity = read_validity(violations, message)
    violations.raise_if_any()
    return DocumentQuery(
        collection=message.collection,
        type=message.type,
        status=enum_text(pb.DocumentStatus, message.status) if message.status else "",
        tag=message.tag,
        filter=filter_from_proto("filter", message.filter) if message.HasField("filter") else None,
        validity=validity,
        text=message.q,
    )


def name_part_from_proto(message: pb.ListCollectionsRequest) -> str:
    """Reads the search text for names of collections, and checks the page token."""
    violations = Violations()
    check_text(violations, "after", message.after, longest=MAX_COLLECTION)
    part = check_text(violations, "q", message.q, longest=_MAX_SEARCHED)
    violations.raise_if_any()
    return part


def changes_from_proto(message: pb.UpdateDocumentRequest) -> tuple[int, Changes]:
    """Reads the changes of a document."""
    violations = Violations()
    document, paths = message.document, set(message.update_mask.paths)
    check_id(violations, "document.document_id", document.document_id)
    violations.require(bool(paths), "update_mask", f"is required: at least one of {', '.join(_CHANGEABLE)}")
    for path in sorted(paths - set(_CHANGEABLE)):
        violations.add("update_mask", f"{path[:64]!r} can't be changed: only {', '.join(_CHANGEABLE)}")
    given: dict[str, Any] = {
        name: check(violations, f"document.{name}", getattr(document, name))
        for name, check in _CHECKS.items()
        if name in paths
    }
    readers = _acl(violations, "document.metadata", given.get("metadata"))
    if readers is not None:
        given.setdefault("readers", readers)
    changes = Changes(
        **given,
        validity={bound: read_moment(violations, document, bound, "document.") for bound in VALIDITY if bound in paths},
    )
    violations.raise_if_any()
    return document.document_id, changes


def grants_from_proto(message: pb.SetCollectionGrantsRequest) -> tuple[str, list[tuple[str, str]]]:
    """Reads a collection's name and its new grants, with one access per subject."""
    violations = Violations()
    check_collection(violations, "name", message.name, needed=True)
    violations.require(len(message.grants) <= _MAX_GRANTS, "grants", f"must be at most {_MAX_GRANTS}")
    granted: dict[str, str] = {}
    for number, grant in enumerate(message.grants[:_MAX_GRANTS]):
        field = f"grants[{number}]"
        check_subject(violations, f"{field}.subject", grant.subject)
        violations.require(grant.subject not in granted, f"{field}.subject", "already has a grant")
        known = grant.access != pb.ACCESS_UNSPECIFIED and grant.access in pb.Access.values()
        violations.require(known, f"{field}.access", "must be read, write or manage")
        granted[grant.subject] = enum_text(pb.Access, grant.access) if known else ""
    violations.raise_if_any()
    return message.name, list(granted.items())


def original_to_proto(original: Original) -> pb.DownloadHeader:
    """Writes a download's header."""
    return pb.DownloadHeader(
        file_name=original.file_name,
        media_type=original.media_type,
        size_bytes=original.size_bytes,
        sha256=original.sha256.hex(),
        version=original.version,
    )


def _described(violations: Violations, message: pb.UploadHeader | pb.PutDocumentRequest) -> dict[str, Any]:
    """Reads the fields of new content that both messages have, with the same rules."""
    metadata = check_metadata(violations, "metadata", message.metadata) if message.HasField("metadata") else None
    return {
        "document_id": _optional_id(violations, message),
        "metadata": metadata,
        "request_id": check_text(violations, "request_id", message.request_id, longest=_MAX_REQUEST_ID),
        "readers": _readers(violations, message, metadata),
        **{bound: read_moment(violations, message, bound) for bound in VALIDITY},
        **{
            name: check(violations, name, getattr(message, name))
            for name, check in _CHECKS.items()
            if name not in _OWN_RULES
        },
    }


def _readers(
    violations: Violations, message: pb.UploadHeader | pb.PutDocumentRequest, metadata: JsonObject | None
) -> tuple[str, ...] | None:
    """Reads new content's readers: those in the request, else those of its source, else no restriction."""
    if message.readers:
        return check_readers(violations, "readers", message.readers)
    return _acl(violations, "metadata", metadata)


def _acl(violations: Violations, field: str, metadata: JsonObject | None) -> tuple[str, ...] | None:
    acl = (metadata or {}).get("acl")
    return None if acl is None else readers_of_acl(violations, f"{field}.acl", acl)


def _optional_id(violations: Violations, message: pb.UploadHeader | pb.PutDocumentRequest) -> int | None:
    if not message.HasField("document_id"):
        return None
    return check_id(violations, "document_id", message.document_id)


def _invalid(field: str, message: str) -> InvalidArgument:
    return InvalidArgument(f"{field} {message}", reason="INVALID_FIELD", violations=[FieldViolation(field, message)])


def erased_from_proto(message: pb.ListErasedDocumentsRequest) -> list[int]:
    """Reads the deleted documents to forget."""
    violations = Violations()
    ids = message.forget_document_ids
    violations.require(len(ids) <= MAX_ERASED, "forget_document_ids", f"must be at most {MAX_ERASED} ids")
    for number, document_id in enumerate(ids[:MAX_ERASED]):
        check_id(violations, f"forget_document_ids[{number}]", document_id)
    violations.raise_if_any()
    return list(ids)


def owner_from_proto(message: pb.EraseOwnerRequest) -> tuple[str, str, str]:
    """Reads the user whose documents to erase, the successor, and the replacement for the name."""
    violations = Violations()
    violations.require(not message.user_id or is_token(message.user_id), "user_id", _NAME)
    violations.require(is_token(message.name), "name", _NAME)
    violations.require(not message.successor or is_token(message.successor), "successor", _NAME)
    violations.require(not message.successor or bool(message.user_id), "successor", "can't be given without user_id")
    violations.raise_if_any()
    return message.user_id, message.successor, message.name


def user_from_proto(message: pb.ExportUserRequest) -> str:
    """Reads the user of an export."""
    if not is_token(message.user_id):
        raise _invalid("user_id", _NAME)
    return message.user_id


def days_from_proto(message: pb.EraseOldDocumentsRequest) -> int:
    """Reads the retention period in days."""
    if not 1 <= message.days <= _MAX_DAYS:
        raise _invalid("days", f"must be 1 to {_MAX_DAYS}")
    return message.days
