"""The writing side: documents, their content and progress, collections."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import PurePosixPath
from typing import TypeVar

from citewire.retriever.v1.corpus_pb2 import (
    DOCUMENT_STATUS_FAILED,
    DOCUMENT_STATUS_READY,
    Collection,
    Document,
    ErasedDocument,
    GetStorageResponse,
    Grant,
    LocateSpanResponse,
    WatchDocumentResponse,
)
from citewire.retriever.v1.table_pb2 import (
    AnswerFromTablesResponse,
    ListTablesResponse,
    QueryTableResponse,
    TableQuery,
)

from citewire_kit.errors import InvalidArgument, NotFound, PermissionDenied, invalid_field
from citewire_kit.fair import FairShares
from citewire_kit.pace import no_free_slot
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Role, Tenant
from citewire_kit.user_rows import UserRow
from citewire_retriever import paging
from citewire_retriever.errors import documents_not_found
from citewire_retriever.model import Changes, DocumentCursor, DocumentQuery, NewContent, Original
from citewire_retriever.service.backlogs import Backlogs
from citewire_retriever.service.locating import Locator
from citewire_retriever.service.metadata import check_metadata
from citewire_retriever.service.receiving import Receiver
from citewire_retriever.service.spool import Memory, too_large
from citewire_retriever.service.tables import TableReader
from citewire_retriever.store.collections import PostgresCollections
from citewire_retriever.store.content import PostgresContent, Stored
from citewire_retriever.store.documents import PostgresDocuments
from citewire_retriever.store.storage import PostgresStorage
from citewire_retriever.store.watch import PostgresProgressFeed

log = get_logger(__name__)
_State = TypeVar("_State", WatchDocumentResponse, Stored)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the writing side, explained in `RetrieverSettings`."""

    text_max_bytes: int
    max_uploads: int
    watch_poll_seconds: float = 2.0


class CorpusService:
    """See the module."""

    def __init__(
        self,
        documents: PostgresDocuments,
        content: PostgresContent,
        collections: PostgresCollections,
        feed: PostgresProgressFeed,
        storage: PostgresStorage,
        locator: Locator,
        tables: TableReader,
        receiver: Receiver,
        limits: Limits,
    ) -> None:
        """Takes the stores that it works on."""
        self._locator = locator
        self._tables = tables
        self._documents = documents
        self._content = content
        self._collections = collections
        self._feed = feed
        self._storage = storage
        self._receiver = receiver
        self._limits = limits
        self._backlogs = Backlogs()
        self._uploads = FairShares(limits.max_uploads, lambda _: no_free_slot("too many uploads at once"), beyond=True)

    async def upload(self, tenant: Tenant, content: NewContent, data: AsyncIterator[bytes]) -> Document:
        """Stores a file sent in parts, or fetched. When it returns, the file is durable and its ingest queued.

        It returns in its turn (`Backlogs`) if the organisation stores more than is ingested.

        Raises:
            InvalidArgument: It is empty (reason `EMPTY_UPLOAD`); or its first bytes are of an unsupported format
                (`UNSUPPORTED_FORMAT`); or it can't be fetched (`SOURCE_FAILED`, `INVALID_FIELD`).
            ResourceExhausted: It is larger than a limit, or certainly has too much text (reason `TOO_LARGE`); or it
                got no slot, or lost it to an organisation with fewer (`OVERLOADED`); or it would exceed the storage
                limit of its owner or the organisation (`STORAGE_FULL`).
            Aborted: It arrives too slowly (reason `UPLOAD_ABORTED`).
            NotFound: The document that should get a new version doesn't exist.
        """
        document_type = content.type or "file"
        if content.document_id is not None:
            # Checked before receiving up to 256 MiB, and again when they are stored.
            result = await self.get(tenant, content.document_id)
            document_type = content.type or result.type
        check_metadata(document_type, content.metadata)
        self._backlogs.note_present(tenant.org_id)
        with self._uploads.hold_now(tenant.org_id) as slot:
            async with self._receiver.receive(content, data, slot) as (received, spool):
                stored = await self._content.add(tenant, received, spool)
            document = self._stored(tenant, content, stored)
            if stored is not None and stored.behind:
                await self._backlogs.wait(tenant.org_id)
            return document

    async def put(self, tenant: Tenant, content: NewContent, text: str) -> Document:
        """Stores typed text. Raises as `upload`; a text of only white space is empty."""
        check_metadata(content.type, content.metadata)
        self._backlogs.note_present(tenant.org_id)
        if not text.strip():
            raise InvalidArgument("the content is empty", reason="EMPTY_UPLOAD")
        data = text.encode()
        if len(data) > self._limits.text_max_bytes:
            raise too_large(self._limits.text_max_bytes)
        return self._stored(tenant, content, await self._content.add(tenant, content, Memory(data)))

    async def get(self, tenant: Tenant, document_id: int) -> Document:
        """Returns a document. Raises `NotFound`."""
        return _existing(await self._documents.get(tenant, document_id), document_id).document

    async def page(
        self, tenant: Tenant, query: DocumentQuery, page_size: int, page_token: str, after_id: int = 0
    ) -> tuple[list[Document], str]:
        """Returns a page of documents, newest first, and the token of the next one ("" on the last page).

        The first page begins after the document `after_id`; 0 is none.

        Raises:
            InvalidArgument: The token isn't one of this query's (reason `INVALID_PAGE_TOKEN`), or there is no document
                `after_id`.
        """
        bound = paging.fingerprint("documents", tenant.org_id, query)
        after = None
        if after_id and not page_token:
            known = await self._documents.get(tenant, after_id)
            if known is None:
                raise invalid_field("after", "must be the id of a document")
            after = DocumentCursor(known.document.created_at.ToDatetime(UTC), after_id)
        if page_token:
            moment, last_id = paging.decode(page_token, bound)
            after = DocumentCursor(datetime.fromisoformat(str(moment)), int(last_id))
        result = await self._documents.find(tenant, query, after, page_size + 1)
        documents = result[:page_size]
        if len(result) <= page_size:
            return documents, ""
        last = documents[-1]
        return documents, paging.encode(bound, [last.created_at.ToJsonString(), last.document_id])

    async def update(self, tenant: Tenant, document_id: int, changes: Changes) -> Document:
        """Changes a document.

        Raises:
            NotFound: There is none.
            InvalidArgument: The metadata doesn't fit its type, or the file name has another ending.
            ResourceExhausted: A new title copies the version, which may exceed the storage limit (reason
                `STORAGE_FULL`).
        """
        if changes.metadata is not None or changes.file_name is not None:
            document = await self.get(tenant, document_id)
            if changes.metadata is not None:
                check_metadata(document.type, changes.metadata)
            if changes.file_name is not None:
                _check_ending(document.file_name, changes.file_name)
        return _existing(await self._documents.update(tenant, document_id, changes), document_id).document

    async def delete(self, tenant: Tenant, document_id: int) -> None:
        """Deletes a document with all its versions. Raises `NotFound`."""
        if not await self._documents.delete(tenant, document_id):
            raise documents_not_found([document_id])
        log.info("document_deleted", org_id=tenant.org_id, document_id=document_id)

    async def erased(self, tenant: Tenant, forget: Sequence[int], after: int) -> list[ErasedDocument]:
        """Forgets some documents' deletions, and returns the next deleted ones.

        Raises:
            PermissionDenied: The caller is neither owner nor admin.
        """
        _require(tenant, "admin")
        return await self._documents.erased(tenant, forget, after)

    async def erase_owner(self, tenant: Tenant, user_id: str, successor: str, name: str) -> tuple[int, bool]:
        """Erases part of the data stored by a user or, with "", by the organisation.

        Returns how many documents were deleted, or transferred to the successor, and whether nothing is left.

        Raises:
            PermissionDenied: The caller is neither owner nor admin or, for the organisation, not its owner.
        """
        _require(tenant, "admin" if user_id else "owner")
        documents, done = await self._documents.erase_owner(tenant, user_id, successor, name)
        if done:
            log.info("owner_erased", org_id=tenant.org_id, whole_organisation=not user_id)
        return documents, done

    async def erase_old(self, tenant: Tenant, days: int, *, expired: bool = False) -> tuple[int, bool]:
        """Deletes some of the organisation's documents with a last version, or an expiry, this many days ago.

        Returns how many, and whether none is left.

        Raises:
            PermissionDenied: The caller is neither owner nor admin.
        """
        _require(tenant, "admin")
        return await self._documents.erase_old(tenant, days, expired=expired)

    def export_user(self, tenant: Tenant, user_id: str) -> AsyncGenerator[UserRow, None]:
        """Yields every row that names a user, as far as the tenant may see it.

        Raises:
            PermissionDenied: It is another user, and the caller is neither owner nor admin.
        """
        if user_id != tenant.user_id:
            _require(tenant, "admin")
        return self._documents.rows_of_user(tenant, user_id)

    async def retry(self, tenant: Tenant, document_id: int) -> Document:
        """Requeues a failed version or enrichment. Raises `NotFound`, or `FailedPrecondition` if neither failed."""
        return _existing(await self._documents.retry(tenant, document_id), document_id).document

    async def watch(self, tenant: Tenant, document_id: int) -> AsyncGenerator[WatchDocumentResponse, None]:
        """Yields the document's state and its changes until its latest version is ready or failed, or it is deleted.

        Raises:
            NotFound: There was no such document at the start.
        """
        with self._feed.subscribe(tenant, document_id) as changed:
            last = _existing(await self._documents.get(tenant, document_id), document_id)
            yield last
            while last.document.status not in (DOCUMENT_STATUS_READY, DOCUMENT_STATUS_FAILED):
                await changed.wait(self._limits.watch_poll_seconds)
                now = await self._documents.get(tenant, document_id)
                if now is None:
                    yield WatchDocumentResponse(document=last.document, deleted=True)
                    return
                if now != last:
                    last = now
                    yield now

    async def find_original(self, tenant: Tenant, document_id: int, version: int | None) -> Original:
        """Returns the header of a version's bytes; None for the live version, else the latest. Raises `NotFound`."""
        return await self._existing_version(
            tenant, document_id, version, await self._content.find_original(tenant, document_id, version)
        )

    async def find_text(self, tenant: Tenant, document_id: int, version: int | None) -> Original:
        """Returns the header of the text found in a version, chosen as in `find_original`.

        Raises:
            FailedPrecondition: The version isn't ready (reason `WRONG_STATE`).
            NotFound: There is no such version or document.
        """
        return await self._existing_version(
            tenant, document_id, version, await self._content.find_text(tenant, document_id, version)
        )

    async def locate(
        self, tenant: Tenant, document_id: int, version: int | None, start: int, end: int
    ) -> LocateSpanResponse:
        """Locates a span of a version's text in its original. Raises as `find_text` and `Locator.locate`."""
        text = await self.find_text(tenant, document_id, version)
        places = await self._locator.locate(tenant, text, start, end)
        return LocateSpanResponse(places=places, version=text.version)

    async def list_tables(self, tenant: Tenant, document_id: int, version: int | None) -> ListTablesResponse:
        """Lists a version's tables. Raises as `find_original` and `TableReader.query`."""
        return await self._tables.list(tenant, await self.find_original(tenant, document_id, version))

    async def query_table(
        self, tenant: Tenant, document_id: int, version: int | None, query: TableQuery
    ) -> QueryTableResponse:
        """Answers a query over one of a version's tables. Raises as `find_original` and `TableReader.query`."""
        return await self._tables.query(tenant, await self.find_original(tenant, document_id, version), query)

    async def answer_from_tables(
        self, tenant: Tenant, question: str, document_ids: Sequence[int], today: date, *, describe: bool
    ) -> AnswerFromTablesResponse:
        """Answers a plain question over the one table of the documents that it fits; empty if that isn't certain.

        If none fits, it describes on request the tables over which a model might turn the question into a query.

        Raises:
            NotFound: There is no such document for the caller.
        """
        find = partial(self.find_original, tenant, version=None)
        return await self._tables.answer_any(tenant, document_ids, find, question, today, describe=describe)

    async def answer_table_query(
        self, tenant: Tenant, question: str, document_id: int, query: TableQuery
    ) -> AnswerFromTablesResponse:
        """Answers a question by the query that a model made of it; empty if no exact answer can be given.

        Raises:
            NotFound: There is no such document for the caller.
            InvalidArgument: The query doesn't fit its tables.
        """
        original = await self.find_original(tenant, document_id, None)
        return await self._tables.answer_query(tenant, original, question, query)

    async def _existing_version(
        self, tenant: Tenant, document_id: int, version: int | None, original: Original | None
    ) -> Original:
        if original is None:
            await self.get(tenant, document_id)
            raise NotFound(
                f"document {document_id} has no version {version}",
                reason="VERSION_NOT_FOUND",
                metadata={"document_ids": str(document_id), "version": str(version)},
            )
        return original

    def read(self, tenant: Tenant, original: Original) -> AsyncIterator[bytes]:
        """Yields the bytes of what `find_original` or `find_text` returned."""
        return self._content.read(tenant, original) if original.sha256 else self._content.read_text(tenant, original)

    async def collections(
        self, tenant: Tenant, part: str, page_size: int, page_token: str, after: str = ""
    ) -> tuple[list[Collection], str]:
        """Returns a page of collections by name, and the token of the next one ("" on the last page).

        `part`: part of their names, case-insensitive; `after`: the name after which the first page begins.
        """
        bound = paging.fingerprint("collections", tenant.org_id, *([part] if part else []))
        after = str(paging.decode(page_token, bound)[0]) if page_token else after
        result = await self._collections.page(tenant, part, after, page_size + 1)
        collections = result[:page_size]
        token = paging.encode(bound, [collections[-1].name]) if len(result) > page_size else ""
        return collections, token

    async def create_collection(self, tenant: Tenant, name: str, *, enrich: bool) -> Collection:
        """Creates a collection. Raises `AlreadyExists`."""
        return await self._collections.create(tenant, name, enrich=enrich)

    async def update_collection(
        self, tenant: Tenant, name: str, new_name: str | None, enrich: bool | None
    ) -> Collection:
        """Changes a collection's fields that aren't None. Raises `NotFound` or `AlreadyExists`."""
        return await self._collections.update(tenant, name, new_name, enrich)

    async def delete_collection(self, tenant: Tenant, name: str, *, force: bool) -> int:
        """Deletes a collection (with `force` its documents too) and returns how many documents were deleted."""
        return await self._collections.delete(tenant, name, force=force)

    async def storage(self, tenant: Tenant) -> GetStorageResponse:
        """Returns how many bytes the user and the organisation have stored, and their limits."""
        return await self._storage.used(tenant)

    async def grants(self, tenant: Tenant, name: str) -> list[Grant]:
        """Returns a collection's grants. Raises `NotFound` or `PermissionDenied`."""
        return await self._collections.grants(tenant, name)

    async def set_grants(self, tenant: Tenant, name: str, grants: Sequence[tuple[str, str]]) -> list[Grant]:
        """Replaces a collection's grants: subjects and their accesses. Raises `NotFound` or `PermissionDenied`."""
        granted = await self._collections.set_grants(tenant, name, grants)
        log.info("collection_grants_set", org_id=tenant.org_id, grants=len(granted))
        return granted

    def _stored(self, tenant: Tenant, content: NewContent, stored: Stored | None) -> Document:
        document = _existing(stored, content.document_id or 0).document
        log.info(
            "document_stored",
            org_id=tenant.org_id,
            document_id=document.document_id,
            version=document.version,
            size_bytes=document.size_bytes,
        )
        return document


def _require(tenant: Tenant, role: Role) -> None:
    if not tenant.is_at_least(role):
        who = "owners" if role == "owner" else "owners and admins"
        raise PermissionDenied(f"only {who} of the organisation may do this", reason="PERMISSION_DENIED")


def _existing(state: _State | None, document_id: int) -> _State:
    if state is None:
        raise documents_not_found([document_id])
    return state


def _check_ending(name: str, new_name: str) -> None:
    """Refuses a file name with another ending, as the name decides how the file is read."""
    ending = PurePosixPath(name).suffix
    if PurePosixPath(new_name).suffix.lower() != ending.lower():
        right = f"must end in {ending}, as it does now" if ending else "must have no ending, as it has none now"
        raise invalid_field("document.file_name", f"{right}: upload a file of another format as a new document")
