"""A corpus in memory that answers as CorpusService; for contract tests of the gateway."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from citewire.common.v1 import common_pb2, place_pb2
from citewire.retriever.v1 import corpus_pb2, table_pb2
from google.protobuf import duration_pb2

from citewire_kit.errors import CitewireError, FailedPrecondition, InvalidArgument, NotFound, Unavailable, invalid_field
from citewire_kit.tenant import current_tenant


@dataclass
class StoredDocument:
    """A document of the fake corpus."""

    document: corpus_pb2.Document
    content: bytes


class FakeCorpus:
    """Documents in memory, separate for each organisation."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, int], StoredDocument] = {}
        self.headers: list[corpus_pb2.UploadHeader] = []
        self.puts: list[corpus_pb2.PutDocumentRequest] = []
        self.lists: list[corpus_pb2.ListDocumentsRequest] = []
        self.collection_lists: list[corpus_pb2.ListCollectionsRequest] = []
        self.updates: list[corpus_pb2.UpdateDocumentRequest] = []
        self.uploads = 0
        self.fetch_error: CitewireError | None = None
        self.upload_gate: Callable[[], Awaitable[None]] | None = None
        self.progress: list[corpus_pb2.WatchDocumentResponse] = []
        self.cut_download = False
        self.collections: dict[str, int] = {}
        self.grants: dict[str, list[corpus_pb2.Grant]] = {}
        self.enriched: set[str] = set()
        self.storage: corpus_pb2.GetStorageResponse | CitewireError = corpus_pb2.GetStorageResponse()
        self.spaces: list[corpus_pb2.SpaceInfo] = []
        self.prepared: list[common_pb2.EmbeddingSpace] = []
        self.switches: list[corpus_pb2.SwitchSpaceRequest] = []
        self.located: list[corpus_pb2.LocateSpanRequest] = []
        self.places: list[place_pb2.Place] = []
        self.table_queries: list[table_pb2.QueryTableRequest] = []
        self.tables: list[table_pb2.Table] = []
        self.table_answer: table_pb2.TableAnswer | CitewireError = table_pb2.TableAnswer()
        self.erased: dict[tuple[str, int], int] = {}
        """Deleted documents, by organisation and id, and how many seconds ago."""
        self.away: set[str] = set()
        """Organisations whose deleted documents can't be read because their node is unreachable."""
        self._next = 100

    async def upload_document(
        self, request_iterator: AsyncIterator[corpus_pb2.UploadDocumentRequest]
    ) -> corpus_pb2.UploadDocumentResponse:
        self.uploads += 1
        header: corpus_pb2.UploadHeader | None = None
        data = bytearray()
        async for message in request_iterator:
            if message.HasField("header"):
                header = message.header
            else:
                assert len(message.data) <= 4 * 1024 * 1024
                data.extend(message.data)
        assert header is not None
        self.headers.append(header)
        if self.upload_gate is not None:
            await self.upload_gate()
        if header.source_url:
            assert not data
            if self.fetch_error is not None:
                raise self.fetch_error
            data += b"fetched from " + header.source_url.encode()
        document = self._store(
            header.document_id if header.HasField("document_id") else None,
            bytes(data),
            title=header.title or header.file_name,
            file_name=header.file_name,
            media_type=header.media_type,
            type=header.type or "file",
            collection=header.collection,
            tags=header.tags,
            metadata=header.metadata,
            url=header.url or header.source_url,
        )
        return corpus_pb2.UploadDocumentResponse(document=document)

    async def put_document(self, request: corpus_pb2.PutDocumentRequest) -> corpus_pb2.PutDocumentResponse:
        self.puts.append(request)
        document = self._store(
            request.document_id if request.HasField("document_id") else None,
            request.content.encode(),
            title=request.title,
            type=request.type,
            media_type="text/markdown",
            url=request.url,
            collection=request.collection,
            tags=request.tags,
            metadata=request.metadata,
        )
        return corpus_pb2.PutDocumentResponse(document=document)

    async def get_document(self, request: corpus_pb2.GetDocumentRequest) -> corpus_pb2.GetDocumentResponse:
        return corpus_pb2.GetDocumentResponse(document=self._find(request.document_id).document)

    async def list_documents(self, request: corpus_pb2.ListDocumentsRequest) -> corpus_pb2.ListDocumentsResponse:
        self.lists.append(request)
        org = current_tenant().org_id
        documents = [stored.document for (owner, _), stored in self.stored.items() if owner == org]
        if request.after:
            ids = [document.document_id for document in documents]
            if request.after not in ids:
                raise invalid_field("after", "must be the id of a document")
            documents = documents[ids.index(request.after) + 1 :]
        if request.page_token == "next":  # the first page had all
            documents = []
        return corpus_pb2.ListDocumentsResponse(
            documents=documents, next_page_token="next" if len(documents) > 1 else ""
        )

    async def update_document(self, request: corpus_pb2.UpdateDocumentRequest) -> corpus_pb2.UpdateDocumentResponse:
        self.updates.append(request)
        stored = self._find(request.document.document_id).document
        for path in request.update_mask.paths:
            stored.ClearField(path)  # type: ignore[arg-type] # fields of many types
        stored.MergeFrom(request.document)
        return corpus_pb2.UpdateDocumentResponse(document=stored)

    async def delete_document(self, request: corpus_pb2.DeleteDocumentRequest) -> corpus_pb2.DeleteDocumentResponse:
        self._find(request.document_id)
        del self.stored[current_tenant().org_id, request.document_id]
        return corpus_pb2.DeleteDocumentResponse()

    async def list_erased_documents(
        self, request: corpus_pb2.ListErasedDocumentsRequest
    ) -> corpus_pb2.ListErasedDocumentsResponse:
        assert current_tenant().is_at_least("admin")
        org = current_tenant().org_id
        if org in self.away:
            raise Unavailable("its node is away", reason="DATABASE_UNAVAILABLE", retry_after=1)
        for document_id in request.forget_document_ids:
            del self.erased[org, document_id]
        documents = [
            corpus_pb2.ErasedDocument(document_id=document_id, age=duration_pb2.Duration(seconds=age))
            for (owner, document_id), age in sorted(self.erased.items())
            if owner == org and document_id > request.after_document_id
        ]
        return corpus_pb2.ListErasedDocumentsResponse(documents=documents[:2])

    async def retry_document(self, request: corpus_pb2.RetryDocumentRequest) -> corpus_pb2.RetryDocumentResponse:
        return corpus_pb2.RetryDocumentResponse(document=self._find(request.document_id).document)

    async def watch_document(
        self, request: corpus_pb2.WatchDocumentRequest
    ) -> AsyncGenerator[corpus_pb2.WatchDocumentResponse, None]:
        self._find(request.document_id)
        for message in self.progress:
            yield message

    async def download_document(
        self, request: corpus_pb2.DownloadDocumentRequest
    ) -> AsyncGenerator[corpus_pb2.DownloadDocumentResponse, None]:
        stored = self._find(request.document_id)
        if request.HasField("version") and request.version != stored.document.version:
            raise NotFound(f"no such version: {request.version}", reason="VERSION_NOT_FOUND")
        if request.text:
            text = stored.content.decode("utf-8", "replace").encode()
            found_text = corpus_pb2.DownloadHeader(
                media_type="text/plain; charset=utf-8", size_bytes=len(text), version=stored.document.version
            )
            yield corpus_pb2.DownloadDocumentResponse(header=found_text)
            yield corpus_pb2.DownloadDocumentResponse(data=text)
            return
        header = corpus_pb2.DownloadHeader(
            file_name=stored.document.file_name,
            media_type=stored.document.media_type,
            size_bytes=len(stored.content),
            sha256=hashlib.sha256(stored.content).hexdigest(),
            version=stored.document.version,
        )
        yield corpus_pb2.DownloadDocumentResponse(header=header)
        half = len(stored.content) // 2
        yield corpus_pb2.DownloadDocumentResponse(data=stored.content[:half])
        if self.cut_download:
            raise InvalidArgument("cut", reason="INVALID_FIELD")
        yield corpus_pb2.DownloadDocumentResponse(data=stored.content[half:])

    async def locate_span(self, request: corpus_pb2.LocateSpanRequest) -> corpus_pb2.LocateSpanResponse:
        self._find(request.document_id)
        self.located.append(request)
        return corpus_pb2.LocateSpanResponse(places=self.places, version=1)

    async def list_tables(self, request: table_pb2.ListTablesRequest) -> table_pb2.ListTablesResponse:
        self._find(request.document_id)
        return table_pb2.ListTablesResponse(version=request.version or 1, tables=self.tables)

    async def query_table(self, request: table_pb2.QueryTableRequest) -> table_pb2.QueryTableResponse:
        self._find(request.document_id)
        self.table_queries.append(request)
        if isinstance(self.table_answer, CitewireError):
            raise self.table_answer
        return table_pb2.QueryTableResponse(version=1, answer=self.table_answer)

    async def get_storage(self, request: corpus_pb2.GetStorageRequest) -> corpus_pb2.GetStorageResponse:
        del request
        if isinstance(self.storage, CitewireError):
            raise self.storage
        return self.storage

    async def list_spaces(self, request: corpus_pb2.ListSpacesRequest) -> corpus_pb2.ListSpacesResponse:
        return corpus_pb2.ListSpacesResponse(spaces=self.spaces)

    async def prepare_space(self, request: corpus_pb2.PrepareSpaceRequest) -> corpus_pb2.PrepareSpaceResponse:
        self.prepared.append(request.space)
        info = corpus_pb2.SpaceInfo(space=request.space, role=corpus_pb2.SPACE_ROLE_NEXT, documents=10)
        return corpus_pb2.PrepareSpaceResponse(space=info)

    async def switch_space(self, request: corpus_pb2.SwitchSpaceRequest) -> corpus_pb2.SwitchSpaceResponse:
        self.switches.append(request)
        for info in self.spaces:
            if info.space == request.space and (request.force or info.documents_filled == info.documents):
                info.role = corpus_pb2.SPACE_ROLE_LIVE
                return corpus_pb2.SwitchSpaceResponse(space=info)
        raise FailedPrecondition("documents lack vectors in this space", reason="WRONG_STATE")

    async def set_calibration(self, request: corpus_pb2.SetCalibrationRequest) -> corpus_pb2.SetCalibrationResponse:
        for info in self.spaces:
            if info.space == request.space:
                info.ClearField("calibration")
                if request.HasField("calibration"):
                    info.calibration.CopyFrom(request.calibration)
                    info.calibration.measured_at.FromJsonString("2026-01-02T03:04:05Z")
                return corpus_pb2.SetCalibrationResponse(space=info)
        raise NotFound("no such space", reason="SPACE_NOT_FOUND")

    async def list_collections(self, request: corpus_pb2.ListCollectionsRequest) -> corpus_pb2.ListCollectionsResponse:
        self.collection_lists.append(request)
        names = sorted(name for name in self.collections if name > request.after)
        page = names[: request.page_size or None]
        return corpus_pb2.ListCollectionsResponse(
            collections=[self._collection(name) for name in page],
            next_page_token="next" if len(page) < len(names) else "",
        )

    async def create_collection(
        self, request: corpus_pb2.CreateCollectionRequest
    ) -> corpus_pb2.CreateCollectionResponse:
        self.collections[request.name] = 0
        self._switch(request.name, enrich=request.enrich)
        return corpus_pb2.CreateCollectionResponse(collection=self._collection(request.name))

    async def update_collection(
        self, request: corpus_pb2.UpdateCollectionRequest
    ) -> corpus_pb2.UpdateCollectionResponse:
        if request.name not in self.collections:
            raise NotFound("no such collection", reason="COLLECTION_NOT_FOUND")
        name = request.new_name or request.name
        enriched = request.enrich if request.HasField("enrich") else request.name in self.enriched
        self._switch(request.name, enrich=False)
        self._switch(name, enrich=enriched)
        self.collections[name] = self.collections.pop(request.name)
        return corpus_pb2.UpdateCollectionResponse(collection=self._collection(name))

    async def delete_collection(
        self, request: corpus_pb2.DeleteCollectionRequest
    ) -> corpus_pb2.DeleteCollectionResponse:
        if request.name not in self.collections:
            raise NotFound("no such collection", reason="COLLECTION_NOT_FOUND")
        if self.collections[request.name] and not request.force:
            raise FailedPrecondition("the collection has documents", reason="WRONG_STATE")
        return corpus_pb2.DeleteCollectionResponse(documents_deleted=self.collections.pop(request.name))

    async def get_collection_grants(
        self, request: corpus_pb2.GetCollectionGrantsRequest
    ) -> corpus_pb2.GetCollectionGrantsResponse:
        if request.name not in self.collections:
            raise NotFound("no such collection", reason="COLLECTION_NOT_FOUND")
        return corpus_pb2.GetCollectionGrantsResponse(grants=self.grants.get(request.name, []))

    async def set_collection_grants(
        self, request: corpus_pb2.SetCollectionGrantsRequest
    ) -> corpus_pb2.SetCollectionGrantsResponse:
        self.grants[request.name] = list(request.grants)
        return corpus_pb2.SetCollectionGrantsResponse(grants=request.grants)

    def _collection(self, name: str) -> corpus_pb2.Collection:
        return corpus_pb2.Collection(name=name, documents=self.collections[name], enrich=name in self.enriched)

    def _switch(self, name: str, *, enrich: bool) -> None:
        (self.enriched.add if enrich else self.enriched.discard)(name)

    def _store(self, document_id: int | None, content: bytes, **fields: Any) -> corpus_pb2.Document:  # noqa: ANN401 # any type is intended
        version = 1
        if document_id is None:
            document_id, self._next = self._next, self._next + 1
        else:
            version = self._find(document_id).document.version + 1
        document = corpus_pb2.Document(
            document_id=document_id,
            status=corpus_pb2.DOCUMENT_STATUS_PENDING,
            version=version,
            size_bytes=len(content),
            owner=current_tenant().user_id,
            sha256=hashlib.sha256(content).hexdigest(),
            **fields,
        )
        self.stored[current_tenant().org_id, document_id] = StoredDocument(document, content)
        return document

    def _find(self, document_id: int) -> StoredDocument:
        stored = self.stored.get((current_tenant().org_id, document_id))
        if stored is None:
            raise NotFound(
                f"no such document: {document_id}",
                reason="DOCUMENT_NOT_FOUND",
                metadata={"document_ids": str(document_id)},
            )
        return stored
