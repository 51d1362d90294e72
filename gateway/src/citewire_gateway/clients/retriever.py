"""The retriever, as the gateway calls it: search, and documents, collections and embedding spaces."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import aclosing

import grpc
from citewire.common.v1 import common_pb2
from citewire.retriever.v1 import (
    calibration_pb2,
    corpus_pb2,
    corpus_pb2_grpc,
    retriever_pb2,
    retriever_pb2_grpc,
    table_pb2,
)

from citewire_dialects.schemas.tables import http_field
from citewire_kit import client
from citewire_kit.errors import FieldViolation, InvalidArgument, Unavailable, Unimplemented, Violations
from citewire_kit.fair_calls import FairCalls
from citewire_kit.user_rows import UserRow

_MAX_EXACT = 2**53
_MOST_DOCUMENTS = 1000


class Retriever:
    """Finds chunks. All methods raise `CitewireError`."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        calls: FairCalls,
        *,
        plan_seconds: float,
        search_seconds: float,
        tables_seconds: float,
        request_seconds: float,
    ) -> None:
        """Sets the maximum durations of calls; a call never gets more time than its request has left."""
        self._calls = calls
        self._stub = retriever_pb2_grpc.RetrieverServiceStub(channel)
        self._corpus = corpus_pb2_grpc.CorpusServiceStub(channel)
        self._plan_seconds = plan_seconds
        self._search_seconds = search_seconds
        self._tables_seconds = tables_seconds
        self._request_seconds = request_seconds

    async def plan(self, request: retriever_pb2.PlanRequest) -> retriever_pb2.PlanResponse:
        """Decides the context path for a question."""
        return await self._calls.unary(self._stub.Plan, request, timeout=self._plan_seconds)

    async def search(self, request: retriever_pb2.SearchRequest) -> retriever_pb2.SearchResponse:
        """Searches, best first.

        Raises:
            FailedPrecondition: The vector's space isn't served (reason `SPACE_MISMATCH`, the current one in metadata).
            NotFound: The selection contains ids outside the caller's scope; the error names them.
        """
        return await self._calls.unary(self._stub.Search, request, timeout=self._search_seconds)

    async def answer_from_tables(
        self, request: table_pb2.AnswerFromTablesRequest
    ) -> table_pb2.AnswerFromTablesResponse:
        """Computes the answer to a plain question over the only table that fits."""
        return await self._calls.unary(self._corpus.AnswerFromTables, request, timeout=self._tables_seconds)

    async def get_context(
        self, request: retriever_pb2.GetContextRequest
    ) -> AsyncGenerator[retriever_pb2.GetContextResponse, None]:
        """Streams as many whole items as fit, latest first; the last message has the counts, or it raises."""
        complete = False
        stream = client.stream(self._stub.GetContext, request, timeout=self._request_seconds)
        async with self._calls.begun(self._request_seconds), aclosing(stream) as messages:
            async for message in messages:
                complete = complete or message.HasField("counts")
                yield message
        if not complete:
            raise Unavailable(
                "the library's texts were cut off before their end", reason="SERVICE_UNAVAILABLE", retry_after=1.0
            )

    async def live_space(self) -> common_pb2.EmbeddingSpace | None:
        """Returns the live space of the caller's documents; None if nothing has been embedded."""
        plan = await self.plan(retriever_pb2.PlanRequest(strategy=retriever_pb2.STRATEGY_SEMANTIC))
        return plan.space if plan.HasField("space") else None

    async def get_chunks(self, request: retriever_pb2.GetChunksRequest) -> retriever_pb2.GetChunksResponse:
        """Gets chunks by id, in the requested order."""
        return await self._calls.unary(self._stub.GetChunks, request, timeout=self._request_seconds)

    async def find_documents(self, document_ids: Collection[int]) -> set[int]:
        """Returns the existing documents that the caller may see."""
        ids, seen = sorted(document_ids), set[int]()
        for start in range(0, len(ids), _MOST_DOCUMENTS):
            request = retriever_pb2.FindDocumentsRequest(document_ids=ids[start : start + _MOST_DOCUMENTS])
            try:
                response = await self._calls.unary(self._stub.FindDocuments, request, timeout=self._request_seconds)
            except Unimplemented:
                return set(ids)  # a retriever of the previous version, without permissions within an organisation
            seen.update(response.document_ids)
        return seen


class CorpusClient:
    """Manages documents, collections and embedding spaces. All methods raise `CitewireError`."""

    def __init__(self, channel: grpc.aio.Channel, calls: FairCalls, *, seconds: float, transfer_seconds: float) -> None:
        """`seconds` limits unary calls, `transfer_seconds` uploads, downloads and watches."""
        self._calls = calls
        self._stub = corpus_pb2_grpc.CorpusServiceStub(channel)
        self._seconds = seconds
        self._transfer_seconds = transfer_seconds

    async def upload(self, header: corpus_pb2.UploadHeader, data: AsyncIterator[bytes]) -> corpus_pb2.Document:
        """Stores a file as a new document, or as a new version of one. On return it is durable.

        Repeated with the same `request_id`, it only returns the document.
        """

        async def requests() -> AsyncGenerator[corpus_pb2.UploadDocumentRequest, None]:
            yield corpus_pb2.UploadDocumentRequest(header=header)
            async for part in data:
                yield corpus_pb2.UploadDocumentRequest(data=part)

        async with self._calls.begun(self._seconds):
            response = await client.client_stream(self._stub.UploadDocument, requests(), timeout=self._transfer_seconds)
        return response.document

    async def fetch(self, header: corpus_pb2.UploadHeader) -> corpus_pb2.Document:
        """Stores the file at the header's `source_url`, like `upload`; errors name the field `url`, as in JSON."""

        async def no_data() -> AsyncGenerator[bytes, None]:
            for piece in ():
                yield piece

        try:
            return await self.upload(header, no_data())
        except InvalidArgument as error:
            error.violations = tuple(
                FieldViolation("url" if wrong.field == "source_url" else wrong.field, wrong.message)
                for wrong in error.violations
            )
            error.message = error.message.replace("source_url: ", "url: ", 1)
            raise

    async def put(self, request: corpus_pb2.PutDocumentRequest) -> corpus_pb2.Document:
        """Stores text as a new document, or as a new version of one, like `upload`."""
        return (await self._calls.unary(self._stub.PutDocument, request, timeout=self._seconds)).document

    async def get(self, document_id: int) -> corpus_pb2.Document:
        """Gets a document."""
        request = corpus_pb2.GetDocumentRequest(document_id=document_id)
        return (await self._calls.unary(self._stub.GetDocument, request, timeout=self._seconds)).document

    async def list(self, request: corpus_pb2.ListDocumentsRequest) -> corpus_pb2.ListDocumentsResponse:
        """Lists documents, newest first."""
        return await self._calls.unary(self._stub.ListDocuments, request, timeout=self._seconds)

    async def update(self, request: corpus_pb2.UpdateDocumentRequest) -> corpus_pb2.Document:
        """Changes a document's description. Raises `InvalidArgument` with the field names of JSON."""
        try:
            return (await self._calls.unary(self._stub.UpdateDocument, request, timeout=self._seconds)).document
        except InvalidArgument as error:
            _raise_renamed(error, lambda field: field.removeprefix("document."))
            raise

    async def delete(self, document_id: int) -> None:
        """Deletes a document with all its versions."""
        request = corpus_pb2.DeleteDocumentRequest(document_id=document_id)
        await self._calls.unary(self._stub.DeleteDocument, request, timeout=self._seconds)

    async def list_erased(self, after: int) -> Sequence[corpus_pb2.ErasedDocument]:
        """Lists a page of deleted documents by id, after the id `after`."""
        request = corpus_pb2.ListErasedDocumentsRequest(after_document_id=after)
        response = await self._calls.unary(self._stub.ListErasedDocuments, request, timeout=self._seconds)
        return response.documents

    async def forget_erased(self, document_ids: Sequence[int]) -> None:
        """Confirms that nothing is stored about deleted documents any more."""
        for start in range(0, len(document_ids), _MOST_DOCUMENTS):
            request = corpus_pb2.ListErasedDocumentsRequest(
                forget_document_ids=document_ids[start : start + _MOST_DOCUMENTS], after_document_id=_MAX_EXACT
            )
            await self._calls.unary(self._stub.ListErasedDocuments, request, timeout=self._seconds)

    async def erase(self, user_id: str, successor: str, *, keep: bool) -> tuple[int, bool]:
        """Erases part of what a user (or with "" the organisation) has stored; with `keep`, gives it to a successor.

        Returns the number of documents, and whether nothing is left.
        """
        request = corpus_pb2.EraseOwnerRequest(user_id=user_id, successor=successor if keep else "", name=successor)
        response = await self._calls.unary(self._stub.EraseOwner, request, timeout=self._transfer_seconds)
        return response.documents, response.done

    async def erase_old(self, days: int, *, expired: bool) -> tuple[int, bool]:
        """Erases documents whose last version or expiry is older; returns their number, and whether none is left."""
        request = corpus_pb2.EraseOldDocumentsRequest(days=days, expired=expired)
        response = await self._calls.unary(self._stub.EraseOldDocuments, request, timeout=self._transfer_seconds)
        return response.documents, response.done

    async def export_user(self, user_id: str) -> AsyncGenerator[UserRow, None]:
        """Yields each of the retriever's rows about a user."""
        request = corpus_pb2.ExportUserRequest(user_id=user_id)
        rows = client.stream(self._stub.ExportUser, request, timeout=self._transfer_seconds)
        async with aclosing(rows):
            async for row in rows:
                yield UserRow(row.kind, json.loads(row.record))

    async def retry(self, document_id: int) -> corpus_pb2.Document:
        """Ingests a failed version again."""
        request = corpus_pb2.RetryDocumentRequest(document_id=document_id)
        return (await self._calls.unary(self._stub.RetryDocument, request, timeout=self._seconds)).document

    def watch(self, document_id: int) -> AsyncGenerator[corpus_pb2.WatchDocumentResponse, None]:
        """Streams a document's progress until it is ready, failed or deleted."""
        request = corpus_pb2.WatchDocumentRequest(document_id=document_id)
        return client.stream(self._stub.WatchDocument, request, timeout=self._transfer_seconds)

    async def download(
        self, document_id: int, version: int | None, *, text: bool = False
    ) -> tuple[corpus_pb2.DownloadHeader, AsyncGenerator[bytes, None]]:
        """Opens a version's original or extracted text, by default that of the live version.

        Returns its description and its bytes, which must be closed unless they are read to the end.
        """
        request = corpus_pb2.DownloadDocumentRequest(document_id=document_id, version=version, text=text)
        stream = client.stream(self._stub.DownloadDocument, request, timeout=self._transfer_seconds)
        first = await anext(stream, None)  # if it raises, the stream has closed itself
        if first is None or first.WhichOneof("part") != "header":
            await stream.aclose()
            raise Unavailable("the document's original could not be read", reason="SERVICE_UNAVAILABLE")
        return first.header, _bytes_of(stream)

    async def locate(self, request: corpus_pb2.LocateSpanRequest) -> corpus_pb2.LocateSpanResponse:
        """Locates a span of a version's text in its original."""
        return await self._calls.unary(self._stub.LocateSpan, request, timeout=self._seconds)

    async def list_tables(self, request: table_pb2.ListTablesRequest) -> table_pb2.ListTablesResponse:
        """Lists a version's tables. As with queries, the retriever sets the time limit for reading the file."""
        return await self._calls.unary(self._stub.ListTables, request, timeout=self._transfer_seconds)

    async def query_table(self, request: table_pb2.QueryTableRequest) -> table_pb2.QueryTableResponse:
        """Queries a table. Raises `InvalidArgument` with the field names of JSON."""
        try:
            return await self._calls.unary(self._stub.QueryTable, request, timeout=self._transfer_seconds)
        except InvalidArgument as error:
            _raise_renamed(error, http_field)
            raise

    async def storage(self) -> corpus_pb2.GetStorageResponse:
        """Returns how many bytes the caller and its organisation have stored, and their limits."""
        return await self._calls.unary(self._stub.GetStorage, corpus_pb2.GetStorageRequest(), timeout=self._seconds)

    async def list_spaces(self) -> Sequence[corpus_pb2.SpaceInfo]:
        """Lists the organisation's embedding spaces, the live one first."""
        response = await self._calls.unary(self._stub.ListSpaces, corpus_pb2.ListSpacesRequest(), timeout=self._seconds)
        return response.spaces

    async def prepare_space(self, space: common_pb2.EmbeddingSpace) -> corpus_pb2.SpaceInfo:
        """Starts filling a space beside the live one. Returns it."""
        request = corpus_pb2.PrepareSpaceRequest(space=space)
        return (await self._calls.unary(self._stub.PrepareSpace, request, timeout=self._seconds)).space

    async def switch_space(self, space: common_pb2.EmbeddingSpace, *, force: bool) -> corpus_pb2.SpaceInfo:
        """Makes a filled space the live one; with `force` even if vectors are missing. Returns it."""
        request = corpus_pb2.SwitchSpaceRequest(space=space, force=force)
        return (await self._calls.unary(self._stub.SwitchSpace, request, timeout=self._seconds)).space

    async def set_calibration(
        self, space: common_pb2.EmbeddingSpace, calibration: calibration_pb2.Calibration | None
    ) -> corpus_pb2.SpaceInfo:
        """Stores a space's calibration, replacing the stored one; None removes it. Returns the space."""
        request = corpus_pb2.SetCalibrationRequest(space=space, calibration=calibration)
        return (await self._calls.unary(self._stub.SetCalibration, request, timeout=self._seconds)).space

    async def list_collections(self, request: corpus_pb2.ListCollectionsRequest) -> corpus_pb2.ListCollectionsResponse:
        """Lists collections by name."""
        return await self._calls.unary(self._stub.ListCollections, request, timeout=self._seconds)

    async def find_collection(self, name: str) -> corpus_pb2.Collection | None:
        """Returns the collection of that name; None if the caller sees none."""
        request = corpus_pb2.ListCollectionsRequest(q=name[:200], page_size=1000)
        while True:
            listed = await self.list_collections(request)
            match = next((entry for entry in listed.collections if entry.name == name), None)
            if match is not None or not listed.next_page_token:
                return match
            request.page_token = listed.next_page_token

    async def create_collection(self, request: corpus_pb2.CreateCollectionRequest) -> corpus_pb2.Collection:
        """Creates a collection."""
        return (await self._calls.unary(self._stub.CreateCollection, request, timeout=self._seconds)).collection

    async def update_collection(self, request: corpus_pb2.UpdateCollectionRequest) -> corpus_pb2.Collection:
        """Renames a collection, or changes whether its documents are enriched."""
        return (await self._calls.unary(self._stub.UpdateCollection, request, timeout=self._seconds)).collection

    async def grants(self, name: str) -> corpus_pb2.GetCollectionGrantsResponse:
        """Returns a collection's grants."""
        request = corpus_pb2.GetCollectionGrantsRequest(name=name)
        return await self._calls.unary(self._stub.GetCollectionGrants, request, timeout=self._seconds)

    async def set_grants(
        self, request: corpus_pb2.SetCollectionGrantsRequest
    ) -> corpus_pb2.SetCollectionGrantsResponse:
        """Replaces a collection's grants."""
        return await self._calls.unary(self._stub.SetCollectionGrants, request, timeout=self._seconds)

    async def delete_collection(self, name: str, *, force: bool) -> int:
        """Deletes a collection; returns how many documents were deleted with it."""
        request = corpus_pb2.DeleteCollectionRequest(name=name, force=force)
        return (await self._calls.unary(self._stub.DeleteCollection, request, timeout=self._seconds)).documents_deleted


def _raise_renamed(error: InvalidArgument, rename: Callable[[str], str]) -> None:
    """Raises an error again with renamed fields, if it has any."""
    wrong = Violations()
    for violation in error.violations:
        wrong.add(rename(violation.field), violation.message)
    wrong.raise_if_any()


async def _bytes_of(
    stream: AsyncGenerator[corpus_pb2.DownloadDocumentResponse, None],
) -> AsyncGenerator[bytes, None]:
    async with aclosing(stream) as messages:
        async for message in messages:
            yield message.data
