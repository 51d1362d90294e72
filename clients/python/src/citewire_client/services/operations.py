"""The calls of Citewire's services. Generated from the contracts by `make proto`."""

from collections.abc import AsyncIterable, Iterable
from typing import Any, ClassVar

import grpc
from citewire.embedder.v1 import embedder_pb2, embedder_pb2_grpc
from citewire.generator.v1 import generator_pb2, generator_pb2_grpc
from citewire.retriever.v1 import corpus_pb2, corpus_pb2_grpc, retriever_pb2, retriever_pb2_grpc, table_pb2

from citewire_client.services.aio import AsyncServiceClient, AsyncStream
from citewire_client.services.blocking import ServiceClient, Stream
from citewire_client.services.callers import Caller


class AsyncEmbedderClient(AsyncServiceClient):
    """Embeds texts in one embedding space.

    All methods raise `CitewireError`.
    """

    SERVICE: ClassVar[str] = "embedder"

    def _make_stub(self, channel: grpc.aio.Channel) -> object:
        return embedder_pb2_grpc.EmbedderServiceStub(channel)

    async def embed(
        self,
        request: embedder_pb2.EmbedRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> embedder_pb2.EmbedResponse:
        """Embeds up to 256 inputs. RESOURCE_EXHAUSTED with RetryInfo, at once, when the queue is full."""
        return await self._reply("Embed", request, self._how(timeout, caller, request_id))

    def embed_stream(
        self,
        requests: AsyncIterable[embedder_pb2.EmbedStreamRequest],
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> AsyncStream[embedder_pb2.EmbedStreamResponse]:
        """Embeds any number of batches, for bulk ingest: one response per request, in order, with back-pressure."""
        return self._replies_to_many("EmbedStream", requests, lambda: self._how(timeout, caller, request_id))

    async def rerank(
        self,
        request: embedder_pb2.RerankRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> embedder_pb2.RerankResponse:
        """Scores documents against a query with a rerank model, best first."""
        return await self._reply("Rerank", request, self._how(timeout, caller, request_id))

    async def count_tokens(
        self,
        request: embedder_pb2.CountTokensRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> embedder_pb2.CountTokensResponse:
        """Counts the tokens of up to 256 inputs for the model."""
        return await self._reply("CountTokens", request, self._how(timeout, caller, request_id))

    async def list_models(
        self,
        request: embedder_pb2.ListModelsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> embedder_pb2.ListModelsResponse:
        """Lists the models that this server offers."""
        return await self._reply("ListModels", request, self._how(timeout, caller, request_id))

    async def seal_provider(
        self,
        request: embedder_pb2.SealProviderRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> embedder_pb2.SealProviderResponse:
        """Seals a tenant's embedding or rerank provider, after a test call to it."""
        return await self._reply("SealProvider", request, self._how(timeout, caller, request_id))

    async def rewrap_provider(
        self,
        request: embedder_pb2.RewrapProviderRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> embedder_pb2.RewrapProviderResponse:
        """Seals a tenant's provider again under the newest master key."""
        return await self._reply("RewrapProvider", request, self._how(timeout, caller, request_id))

    async def test_provider(
        self,
        request: embedder_pb2.TestProviderRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> embedder_pb2.TestProviderResponse:
        """Tests a sealed tenant provider with one small call."""
        return await self._reply("TestProvider", request, self._how(timeout, caller, request_id))


class EmbedderClient(ServiceClient):
    """Embeds texts in one embedding space.

    All methods raise `CitewireError`.
    """

    SERVICE: ClassVar[str] = "embedder"

    def _make_stub(self, channel: Any) -> object:
        return embedder_pb2_grpc.EmbedderServiceStub(channel)

    def embed(
        self,
        request: embedder_pb2.EmbedRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> embedder_pb2.EmbedResponse:
        """Embeds up to 256 inputs. RESOURCE_EXHAUSTED with RetryInfo, at once, when the queue is full."""
        return self._reply("Embed", request, self._how(timeout, caller, request_id))

    def embed_stream(
        self,
        requests: Iterable[embedder_pb2.EmbedStreamRequest],
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> Stream[embedder_pb2.EmbedStreamResponse]:
        """Embeds any number of batches, for bulk ingest: one response per request, in order, with back-pressure."""
        return self._replies_to_many("EmbedStream", requests, lambda: self._how(timeout, caller, request_id))

    def rerank(
        self,
        request: embedder_pb2.RerankRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> embedder_pb2.RerankResponse:
        """Scores documents against a query with a rerank model, best first."""
        return self._reply("Rerank", request, self._how(timeout, caller, request_id))

    def count_tokens(
        self,
        request: embedder_pb2.CountTokensRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> embedder_pb2.CountTokensResponse:
        """Counts the tokens of up to 256 inputs for the model."""
        return self._reply("CountTokens", request, self._how(timeout, caller, request_id))

    def list_models(
        self,
        request: embedder_pb2.ListModelsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> embedder_pb2.ListModelsResponse:
        """Lists the models that this server offers."""
        return self._reply("ListModels", request, self._how(timeout, caller, request_id))

    def seal_provider(
        self,
        request: embedder_pb2.SealProviderRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> embedder_pb2.SealProviderResponse:
        """Seals a tenant's embedding or rerank provider, after a test call to it."""
        return self._reply("SealProvider", request, self._how(timeout, caller, request_id))

    def rewrap_provider(
        self,
        request: embedder_pb2.RewrapProviderRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> embedder_pb2.RewrapProviderResponse:
        """Seals a tenant's provider again under the newest master key."""
        return self._reply("RewrapProvider", request, self._how(timeout, caller, request_id))

    def test_provider(
        self,
        request: embedder_pb2.TestProviderRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> embedder_pb2.TestProviderResponse:
        """Tests a sealed tenant provider with one small call."""
        return self._reply("TestProvider", request, self._how(timeout, caller, request_id))


class AsyncRetrieverClient(AsyncServiceClient):
    """Finds the chunks for a question. The caller's organisation always comes from the tenant metadata.

    All methods raise `CitewireError`.
    """

    SERVICE: ClassVar[str] = "retriever"

    def _make_stub(self, channel: grpc.aio.Channel) -> object:
        return retriever_pb2_grpc.RetrieverServiceStub(channel)

    async def plan(
        self,
        request: retriever_pb2.PlanRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> retriever_pb2.PlanResponse:
        """Chooses the context path of a question over a scope, with the reason, in one round trip."""
        return await self._reply("Plan", request, self._how(timeout, caller, request_id))

    async def search(
        self,
        request: retriever_pb2.SearchRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> retriever_pb2.SearchResponse:
        """Searches the scope. NOT_FOUND if document_ids contains ids outside the caller's scope, which the error names, or if the
        collection doesn't exist.
        """
        return await self._reply("Search", request, self._how(timeout, caller, request_id))

    def get_context(
        self,
        request: retriever_pb2.GetContextRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> AsyncStream[retriever_pb2.GetContextResponse]:
        """Streams the scope's items as long context, most recent first, as many as fit a token budget by their stored counts."""
        return self._replies("GetContext", request, lambda: self._how(timeout, caller, request_id))

    async def get_chunks(
        self,
        request: retriever_pb2.GetChunksRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> retriever_pb2.GetChunksResponse:
        """Gets chunks by id, including those of superseded versions while these are kept."""
        return await self._reply("GetChunks", request, self._how(timeout, caller, request_id))

    async def find_documents(
        self,
        request: retriever_pb2.FindDocumentsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> retriever_pb2.FindDocumentsResponse:
        """Returns which of these documents the caller may see; answers that cite the others are withheld."""
        return await self._reply("FindDocuments", request, self._how(timeout, caller, request_id))


class RetrieverClient(ServiceClient):
    """Finds the chunks for a question. The caller's organisation always comes from the tenant metadata.

    All methods raise `CitewireError`.
    """

    SERVICE: ClassVar[str] = "retriever"

    def _make_stub(self, channel: Any) -> object:
        return retriever_pb2_grpc.RetrieverServiceStub(channel)

    def plan(
        self,
        request: retriever_pb2.PlanRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> retriever_pb2.PlanResponse:
        """Chooses the context path of a question over a scope, with the reason, in one round trip."""
        return self._reply("Plan", request, self._how(timeout, caller, request_id))

    def search(
        self,
        request: retriever_pb2.SearchRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> retriever_pb2.SearchResponse:
        """Searches the scope. NOT_FOUND if document_ids contains ids outside the caller's scope, which the error names, or if the
        collection doesn't exist.
        """
        return self._reply("Search", request, self._how(timeout, caller, request_id))

    def get_context(
        self,
        request: retriever_pb2.GetContextRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> Stream[retriever_pb2.GetContextResponse]:
        """Streams the scope's items as long context, most recent first, as many as fit a token budget by their stored counts."""
        return self._replies("GetContext", request, lambda: self._how(timeout, caller, request_id))

    def get_chunks(
        self,
        request: retriever_pb2.GetChunksRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> retriever_pb2.GetChunksResponse:
        """Gets chunks by id, including those of superseded versions while these are kept."""
        return self._reply("GetChunks", request, self._how(timeout, caller, request_id))

    def find_documents(
        self,
        request: retriever_pb2.FindDocumentsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> retriever_pb2.FindDocumentsResponse:
        """Returns which of these documents the caller may see; answers that cite the others are withheld."""
        return self._reply("FindDocuments", request, self._how(timeout, caller, request_id))


class AsyncCorpusClient(AsyncServiceClient):
    """Stores documents. What a successful response confirms is durable; ingest then runs in the worker, and can be watched.

    All methods raise `CitewireError`.
    """

    SERVICE: ClassVar[str] = "retriever"

    def _make_stub(self, channel: grpc.aio.Channel) -> object:
        return corpus_pb2_grpc.CorpusServiceStub(channel)

    async def upload_document(
        self,
        requests: AsyncIterable[corpus_pb2.UploadDocumentRequest],
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.UploadDocumentResponse:
        """Stores a file as a new document, or as a new version of one: header first, then the bytes."""
        return await self._reply_to_many("UploadDocument", requests, self._how(timeout, caller, request_id))

    async def put_document(
        self,
        request: corpus_pb2.PutDocumentRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.PutDocumentResponse:
        """Stores typed text (article, repository, capture) as a new document, or as a new version of one."""
        return await self._reply("PutDocument", request, self._how(timeout, caller, request_id))

    async def get_document(
        self,
        request: corpus_pb2.GetDocumentRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.GetDocumentResponse:
        """Gets a document."""
        return await self._reply("GetDocument", request, self._how(timeout, caller, request_id))

    async def list_documents(
        self,
        request: corpus_pb2.ListDocumentsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.ListDocumentsResponse:
        """Lists documents, newest first, page by page (AIP-158)."""
        return await self._reply("ListDocuments", request, self._how(timeout, caller, request_id))

    async def update_document(
        self,
        request: corpus_pb2.UpdateDocumentRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.UpdateDocumentResponse:
        """Changes the fields in the mask; the text isn't ingested again unless the title changes."""
        return await self._reply("UpdateDocument", request, self._how(timeout, caller, request_id))

    async def delete_document(
        self,
        request: corpus_pb2.DeleteDocumentRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.DeleteDocumentResponse:
        """Deletes a document with all its versions, and cancels its ingest."""
        return await self._reply("DeleteDocument", request, self._how(timeout, caller, request_id))

    async def list_erased_documents(
        self,
        request: corpus_pb2.ListErasedDocumentsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.ListErasedDocumentsResponse:
        """Lists deleted documents, for clients that store quotes of them, and forgets those that the client has processed.
        PERMISSION_DENIED unless the caller is owner or admin.
        """
        return await self._reply("ListErasedDocuments", request, self._how(timeout, caller, request_id))

    async def erase_owner(
        self,
        request: corpus_pb2.EraseOwnerRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.EraseOwnerResponse:
        """Erases a part of a user's or the organisation's data; call it again until it is done. PERMISSION_DENIED
        unless the caller is owner or admin, and owner to erase the organisation.
        """
        return await self._reply("EraseOwner", request, self._how(timeout, caller, request_id))

    async def erase_old_documents(
        self,
        request: corpus_pb2.EraseOldDocumentsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.EraseOldDocumentsResponse:
        """Erases some of the organisation's documents that are old enough, counted from their last version or their end of
        validity; call it again until it is done. PERMISSION_DENIED unless the caller is owner or admin.
        """
        return await self._reply("EraseOldDocuments", request, self._how(timeout, caller, request_id))

    def export_user(
        self,
        request: corpus_pb2.ExportUserRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> AsyncStream[corpus_pb2.ExportUserResponse]:
        """Streams every row that names a user: documents with their versions and jobs, counts of stored bytes, and grants, but no
        text and no originals. PERMISSION_DENIED unless the user is the caller, or the caller is owner or admin; callers get
        only what they may see.
        """
        return self._replies("ExportUser", request, lambda: self._how(timeout, caller, request_id))

    async def retry_document(
        self,
        request: corpus_pb2.RetryDocumentRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.RetryDocumentResponse:
        """Ingests a failed version again, or repeats a failed enrichment of a ready one. FAILED_PRECONDITION, reason WRONG_STATE,
        if neither has failed.
        """
        return await self._reply("RetryDocument", request, self._how(timeout, caller, request_id))

    def watch_document(
        self,
        request: corpus_pb2.WatchDocumentRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> AsyncStream[corpus_pb2.WatchDocumentResponse]:
        """Streams progress, starting with the current state, until the latest version is ready or failed, or the document is
        deleted.
        """
        return self._replies("WatchDocument", request, lambda: self._how(timeout, caller, request_id))

    def download_document(
        self,
        request: corpus_pb2.DownloadDocumentRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> AsyncStream[corpus_pb2.DownloadDocumentResponse]:
        """Streams a version's original bytes: header first."""
        return self._replies("DownloadDocument", request, lambda: self._how(timeout, caller, request_id))

    async def locate_span(
        self,
        request: corpus_pb2.LocateSpanRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.LocateSpanResponse:
        """Locates a part of a version's stored text in its original. FAILED_PRECONDITION, reason WRONG_STATE, if the
        version isn't ready.
        """
        return await self._reply("LocateSpan", request, self._how(timeout, caller, request_id))

    async def list_tables(
        self,
        request: table_pb2.ListTablesRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> table_pb2.ListTablesResponse:
        """Lists the tables of a version: those in workbooks (XLSX, XLS, ODS), CSV, TSV, HTML, Markdown, DOCX and ODT.
        FAILED_PRECONDITION and RESOURCE_EXHAUSTED as in QueryTable.
        """
        return await self._reply("ListTables", request, self._how(timeout, caller, request_id))

    async def query_table(
        self,
        request: table_pb2.QueryTableRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> table_pb2.QueryTableResponse:
        """Computes an exact result from one table of a version, or fails. INVALID_ARGUMENT, naming the field, if the query doesn't
        fit the tables; FAILED_PRECONDITION, reason TABLE_NOT_COMPUTED, if there is no exact result, for example because the
        table is too large, has formulas without values, or the server was installed without the extra `tables`;
        RESOURCE_EXHAUSTED if too many queries are running.
        """
        return await self._reply("QueryTable", request, self._how(timeout, caller, request_id))

    async def answer_from_tables(
        self,
        request: table_pb2.AnswerFromTablesRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> table_pb2.AnswerFromTablesResponse:
        """Turns a plain question in English or German into a query, and answers it if it fits exactly one table of the documents.
        Calls no model.
        """
        return await self._reply("AnswerFromTables", request, self._how(timeout, caller, request_id))

    async def list_collections(
        self,
        request: corpus_pb2.ListCollectionsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.ListCollectionsResponse:
        """Lists collections by name, page by page."""
        return await self._reply("ListCollections", request, self._how(timeout, caller, request_id))

    async def create_collection(
        self,
        request: corpus_pb2.CreateCollectionRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.CreateCollectionResponse:
        """Creates a collection. Uploads also create the one they name."""
        return await self._reply("CreateCollection", request, self._how(timeout, caller, request_id))

    async def update_collection(
        self,
        request: corpus_pb2.UpdateCollectionRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.UpdateCollectionResponse:
        """Renames a collection, or changes whether its documents are enriched."""
        return await self._reply("UpdateCollection", request, self._how(timeout, caller, request_id))

    async def delete_collection(
        self,
        request: corpus_pb2.DeleteCollectionRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.DeleteCollectionResponse:
        """Deletes an empty collection, or with force one with all its documents."""
        return await self._reply("DeleteCollection", request, self._how(timeout, caller, request_id))

    async def get_collection_grants(
        self,
        request: corpus_pb2.GetCollectionGrantsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.GetCollectionGrantsResponse:
        """Gets the grants of a collection. PERMISSION_DENIED unless the caller may manage it."""
        return await self._reply("GetCollectionGrants", request, self._how(timeout, caller, request_id))

    async def set_collection_grants(
        self,
        request: corpus_pb2.SetCollectionGrantsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.SetCollectionGrantsResponse:
        """Replaces the grants of a collection, effective from the next call. PERMISSION_DENIED unless the caller may manage it."""
        return await self._reply("SetCollectionGrants", request, self._how(timeout, caller, request_id))

    async def list_spaces(
        self,
        request: corpus_pb2.ListSpacesRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.ListSpacesResponse:
        """Lists embedding spaces and how far each is filled for the caller's organisation."""
        return await self._reply("ListSpaces", request, self._how(timeout, caller, request_id))

    async def prepare_space(
        self,
        request: corpus_pb2.PrepareSpaceRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.PrepareSpaceResponse:
        """Starts filling another space beside the live one. PERMISSION_DENIED unless the caller is owner or admin."""
        return await self._reply("PrepareSpace", request, self._how(timeout, caller, request_id))

    async def switch_space(
        self,
        request: corpus_pb2.SwitchSpaceRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.SwitchSpaceResponse:
        """Makes a filled space the live one, or switches back to the previous one; the formerly live space is still served.
        PERMISSION_DENIED unless the caller is owner or admin.
        """
        return await self._reply("SwitchSpace", request, self._how(timeout, caller, request_id))

    async def set_calibration(
        self,
        request: corpus_pb2.SetCalibrationRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.SetCalibrationResponse:
        """Stores measured thresholds of a space. PERMISSION_DENIED unless the caller is owner or admin."""
        return await self._reply("SetCalibration", request, self._how(timeout, caller, request_id))

    async def get_storage(
        self,
        request: corpus_pb2.GetStorageRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.GetStorageResponse:
        """Returns how many bytes the caller and its organisation have stored, and their limits."""
        return await self._reply("GetStorage", request, self._how(timeout, caller, request_id))


class CorpusClient(ServiceClient):
    """Stores documents. What a successful response confirms is durable; ingest then runs in the worker, and can be watched.

    All methods raise `CitewireError`.
    """

    SERVICE: ClassVar[str] = "retriever"

    def _make_stub(self, channel: Any) -> object:
        return corpus_pb2_grpc.CorpusServiceStub(channel)

    def upload_document(
        self,
        requests: Iterable[corpus_pb2.UploadDocumentRequest],
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.UploadDocumentResponse:
        """Stores a file as a new document, or as a new version of one: header first, then the bytes."""
        return self._reply_to_many("UploadDocument", requests, self._how(timeout, caller, request_id))

    def put_document(
        self,
        request: corpus_pb2.PutDocumentRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.PutDocumentResponse:
        """Stores typed text (article, repository, capture) as a new document, or as a new version of one."""
        return self._reply("PutDocument", request, self._how(timeout, caller, request_id))

    def get_document(
        self,
        request: corpus_pb2.GetDocumentRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.GetDocumentResponse:
        """Gets a document."""
        return self._reply("GetDocument", request, self._how(timeout, caller, request_id))

    def list_documents(
        self,
        request: corpus_pb2.ListDocumentsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.ListDocumentsResponse:
        """Lists documents, newest first, page by page (AIP-158)."""
        return self._reply("ListDocuments", request, self._how(timeout, caller, request_id))

    def update_document(
        self,
        request: corpus_pb2.UpdateDocumentRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.UpdateDocumentResponse:
        """Changes the fields in the mask; the text isn't ingested again unless the title changes."""
        return self._reply("UpdateDocument", request, self._how(timeout, caller, request_id))

    def delete_document(
        self,
        request: corpus_pb2.DeleteDocumentRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.DeleteDocumentResponse:
        """Deletes a document with all its versions, and cancels its ingest."""
        return self._reply("DeleteDocument", request, self._how(timeout, caller, request_id))

    def list_erased_documents(
        self,
        request: corpus_pb2.ListErasedDocumentsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.ListErasedDocumentsResponse:
        """Lists deleted documents, for clients that store quotes of them, and forgets those that the client has processed.
        PERMISSION_DENIED unless the caller is owner or admin.
        """
        return self._reply("ListErasedDocuments", request, self._how(timeout, caller, request_id))

    def erase_owner(
        self,
        request: corpus_pb2.EraseOwnerRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.EraseOwnerResponse:
        """Erases a part of a user's or the organisation's data; call it again until it is done. PERMISSION_DENIED
        unless the caller is owner or admin, and owner to erase the organisation.
        """
        return self._reply("EraseOwner", request, self._how(timeout, caller, request_id))

    def erase_old_documents(
        self,
        request: corpus_pb2.EraseOldDocumentsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.EraseOldDocumentsResponse:
        """Erases some of the organisation's documents that are old enough, counted from their last version or their end of
        validity; call it again until it is done. PERMISSION_DENIED unless the caller is owner or admin.
        """
        return self._reply("EraseOldDocuments", request, self._how(timeout, caller, request_id))

    def export_user(
        self,
        request: corpus_pb2.ExportUserRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> Stream[corpus_pb2.ExportUserResponse]:
        """Streams every row that names a user: documents with their versions and jobs, counts of stored bytes, and grants, but no
        text and no originals. PERMISSION_DENIED unless the user is the caller, or the caller is owner or admin; callers get
        only what they may see.
        """
        return self._replies("ExportUser", request, lambda: self._how(timeout, caller, request_id))

    def retry_document(
        self,
        request: corpus_pb2.RetryDocumentRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.RetryDocumentResponse:
        """Ingests a failed version again, or repeats a failed enrichment of a ready one. FAILED_PRECONDITION, reason WRONG_STATE,
        if neither has failed.
        """
        return self._reply("RetryDocument", request, self._how(timeout, caller, request_id))

    def watch_document(
        self,
        request: corpus_pb2.WatchDocumentRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> Stream[corpus_pb2.WatchDocumentResponse]:
        """Streams progress, starting with the current state, until the latest version is ready or failed, or the document is
        deleted.
        """
        return self._replies("WatchDocument", request, lambda: self._how(timeout, caller, request_id))

    def download_document(
        self,
        request: corpus_pb2.DownloadDocumentRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> Stream[corpus_pb2.DownloadDocumentResponse]:
        """Streams a version's original bytes: header first."""
        return self._replies("DownloadDocument", request, lambda: self._how(timeout, caller, request_id))

    def locate_span(
        self,
        request: corpus_pb2.LocateSpanRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.LocateSpanResponse:
        """Locates a part of a version's stored text in its original. FAILED_PRECONDITION, reason WRONG_STATE, if the
        version isn't ready.
        """
        return self._reply("LocateSpan", request, self._how(timeout, caller, request_id))

    def list_tables(
        self,
        request: table_pb2.ListTablesRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> table_pb2.ListTablesResponse:
        """Lists the tables of a version: those in workbooks (XLSX, XLS, ODS), CSV, TSV, HTML, Markdown, DOCX and ODT.
        FAILED_PRECONDITION and RESOURCE_EXHAUSTED as in QueryTable.
        """
        return self._reply("ListTables", request, self._how(timeout, caller, request_id))

    def query_table(
        self,
        request: table_pb2.QueryTableRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> table_pb2.QueryTableResponse:
        """Computes an exact result from one table of a version, or fails. INVALID_ARGUMENT, naming the field, if the query doesn't
        fit the tables; FAILED_PRECONDITION, reason TABLE_NOT_COMPUTED, if there is no exact result, for example because the
        table is too large, has formulas without values, or the server was installed without the extra `tables`;
        RESOURCE_EXHAUSTED if too many queries are running.
        """
        return self._reply("QueryTable", request, self._how(timeout, caller, request_id))

    def answer_from_tables(
        self,
        request: table_pb2.AnswerFromTablesRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> table_pb2.AnswerFromTablesResponse:
        """Turns a plain question in English or German into a query, and answers it if it fits exactly one table of the documents.
        Calls no model.
        """
        return self._reply("AnswerFromTables", request, self._how(timeout, caller, request_id))

    def list_collections(
        self,
        request: corpus_pb2.ListCollectionsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.ListCollectionsResponse:
        """Lists collections by name, page by page."""
        return self._reply("ListCollections", request, self._how(timeout, caller, request_id))

    def create_collection(
        self,
        request: corpus_pb2.CreateCollectionRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.CreateCollectionResponse:
        """Creates a collection. Uploads also create the one they name."""
        return self._reply("CreateCollection", request, self._how(timeout, caller, request_id))

    def update_collection(
        self,
        request: corpus_pb2.UpdateCollectionRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.UpdateCollectionResponse:
        """Renames a collection, or changes whether its documents are enriched."""
        return self._reply("UpdateCollection", request, self._how(timeout, caller, request_id))

    def delete_collection(
        self,
        request: corpus_pb2.DeleteCollectionRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.DeleteCollectionResponse:
        """Deletes an empty collection, or with force one with all its documents."""
        return self._reply("DeleteCollection", request, self._how(timeout, caller, request_id))

    def get_collection_grants(
        self,
        request: corpus_pb2.GetCollectionGrantsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.GetCollectionGrantsResponse:
        """Gets the grants of a collection. PERMISSION_DENIED unless the caller may manage it."""
        return self._reply("GetCollectionGrants", request, self._how(timeout, caller, request_id))

    def set_collection_grants(
        self,
        request: corpus_pb2.SetCollectionGrantsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.SetCollectionGrantsResponse:
        """Replaces the grants of a collection, effective from the next call. PERMISSION_DENIED unless the caller may manage it."""
        return self._reply("SetCollectionGrants", request, self._how(timeout, caller, request_id))

    def list_spaces(
        self,
        request: corpus_pb2.ListSpacesRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.ListSpacesResponse:
        """Lists embedding spaces and how far each is filled for the caller's organisation."""
        return self._reply("ListSpaces", request, self._how(timeout, caller, request_id))

    def prepare_space(
        self,
        request: corpus_pb2.PrepareSpaceRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.PrepareSpaceResponse:
        """Starts filling another space beside the live one. PERMISSION_DENIED unless the caller is owner or admin."""
        return self._reply("PrepareSpace", request, self._how(timeout, caller, request_id))

    def switch_space(
        self,
        request: corpus_pb2.SwitchSpaceRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.SwitchSpaceResponse:
        """Makes a filled space the live one, or switches back to the previous one; the formerly live space is still served.
        PERMISSION_DENIED unless the caller is owner or admin.
        """
        return self._reply("SwitchSpace", request, self._how(timeout, caller, request_id))

    def set_calibration(
        self,
        request: corpus_pb2.SetCalibrationRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.SetCalibrationResponse:
        """Stores measured thresholds of a space. PERMISSION_DENIED unless the caller is owner or admin."""
        return self._reply("SetCalibration", request, self._how(timeout, caller, request_id))

    def get_storage(
        self,
        request: corpus_pb2.GetStorageRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> corpus_pb2.GetStorageResponse:
        """Returns how many bytes the caller and its organisation have stored, and their limits."""
        return self._reply("GetStorage", request, self._how(timeout, caller, request_id))


class AsyncGeneratorClient(AsyncServiceClient):
    """Writes answers from passages with a large language model, or by quoting (extractive).

    All methods raise `CitewireError`.
    """

    SERVICE: ClassVar[str] = "generator"
    STREAMS_TOKENS: ClassVar[bool] = True

    def _make_stub(self, channel: grpc.aio.Channel) -> object:
        return generator_pb2_grpc.GeneratorServiceStub(channel)

    def generate(
        self,
        request: generator_pb2.GenerateRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> AsyncStream[generator_pb2.GenerateResponse]:
        """Streams an answer: Started first, deltas and notices between, exactly one Completed last. A failure is a gRPC
        status, never an event; an end without Completed is a failure. Cancelling the call stops the provider.
        """
        return self._replies("Generate", request, lambda: self._how(timeout, caller, request_id))

    async def verify(
        self,
        request: generator_pb2.VerifyRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.VerifyResponse:
        """Verifies an answer written by any system, with the same verdicts, quotes and offsets as Generate. Calls no model and
        costs nothing.
        """
        return await self._reply("Verify", request, self._how(timeout, caller, request_id))

    async def decide(
        self,
        request: generator_pb2.DecideRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.DecideResponse:
        """Decides whether a question needs retrieval."""
        return await self._reply("Decide", request, self._how(timeout, caller, request_id))

    async def assess(
        self,
        request: generator_pb2.AssessRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.AssessResponse:
        """Assesses whether an answer is supported by its passages, and how useful it is."""
        return await self._reply("Assess", request, self._how(timeout, caller, request_id))

    async def judge_relevance(
        self,
        request: generator_pb2.JudgeRelevanceRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.JudgeRelevanceResponse:
        """Judges which passages are relevant to a question."""
        return await self._reply("JudgeRelevance", request, self._how(timeout, caller, request_id))

    async def rewrite(
        self,
        request: generator_pb2.RewriteRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.RewriteResponse:
        """Rewrites a question: condenses a follow-up with its history, or writes a hypothetical answer (HyDE)."""
        return await self._reply("Rewrite", request, self._how(timeout, caller, request_id))

    async def fill_table_query(
        self,
        request: generator_pb2.FillTableQueryRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.FillTableQueryResponse:
        """Has a model turn a question into a query of one of several tables."""
        return await self._reply("FillTableQuery", request, self._how(timeout, caller, request_id))

    async def suggest_questions(
        self,
        request: generator_pb2.SuggestQuestionsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.SuggestQuestionsResponse:
        """Suggests questions that the passages answer: a model writes them, or else rules build them from the passages' topics."""
        return await self._reply("SuggestQuestions", request, self._how(timeout, caller, request_id))

    async def enrich(
        self,
        request: generator_pb2.EnrichRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.EnrichResponse:
        """Has a model describe a document, for ingest: a summary, the kind of thing it is about, its category, tags."""
        return await self._reply("Enrich", request, self._how(timeout, caller, request_id))

    async def list_models(
        self,
        request: generator_pb2.ListModelsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.ListModelsResponse:
        """Lists the models that this server offers."""
        return await self._reply("ListModels", request, self._how(timeout, caller, request_id))

    async def seal_provider(
        self,
        request: generator_pb2.SealProviderRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.SealProviderResponse:
        """Seals a tenant's chat provider, after a test call to it."""
        return await self._reply("SealProvider", request, self._how(timeout, caller, request_id))

    async def rewrap_provider(
        self,
        request: generator_pb2.RewrapProviderRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.RewrapProviderResponse:
        """Seals a tenant provider again under the newest master key."""
        return await self._reply("RewrapProvider", request, self._how(timeout, caller, request_id))

    async def test_provider(
        self,
        request: generator_pb2.TestProviderRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.TestProviderResponse:
        """Tests a sealed tenant provider with one small call."""
        return await self._reply("TestProvider", request, self._how(timeout, caller, request_id))


class GeneratorClient(ServiceClient):
    """Writes answers from passages with a large language model, or by quoting (extractive).

    All methods raise `CitewireError`.
    """

    SERVICE: ClassVar[str] = "generator"
    STREAMS_TOKENS: ClassVar[bool] = True

    def _make_stub(self, channel: Any) -> object:
        return generator_pb2_grpc.GeneratorServiceStub(channel)

    def generate(
        self,
        request: generator_pb2.GenerateRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> Stream[generator_pb2.GenerateResponse]:
        """Streams an answer: Started first, deltas and notices between, exactly one Completed last. A failure is a gRPC
        status, never an event; an end without Completed is a failure. Cancelling the call stops the provider.
        """
        return self._replies("Generate", request, lambda: self._how(timeout, caller, request_id))

    def verify(
        self,
        request: generator_pb2.VerifyRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.VerifyResponse:
        """Verifies an answer written by any system, with the same verdicts, quotes and offsets as Generate. Calls no model and
        costs nothing.
        """
        return self._reply("Verify", request, self._how(timeout, caller, request_id))

    def decide(
        self,
        request: generator_pb2.DecideRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.DecideResponse:
        """Decides whether a question needs retrieval."""
        return self._reply("Decide", request, self._how(timeout, caller, request_id))

    def assess(
        self,
        request: generator_pb2.AssessRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.AssessResponse:
        """Assesses whether an answer is supported by its passages, and how useful it is."""
        return self._reply("Assess", request, self._how(timeout, caller, request_id))

    def judge_relevance(
        self,
        request: generator_pb2.JudgeRelevanceRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.JudgeRelevanceResponse:
        """Judges which passages are relevant to a question."""
        return self._reply("JudgeRelevance", request, self._how(timeout, caller, request_id))

    def rewrite(
        self,
        request: generator_pb2.RewriteRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.RewriteResponse:
        """Rewrites a question: condenses a follow-up with its history, or writes a hypothetical answer (HyDE)."""
        return self._reply("Rewrite", request, self._how(timeout, caller, request_id))

    def fill_table_query(
        self,
        request: generator_pb2.FillTableQueryRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.FillTableQueryResponse:
        """Has a model turn a question into a query of one of several tables."""
        return self._reply("FillTableQuery", request, self._how(timeout, caller, request_id))

    def suggest_questions(
        self,
        request: generator_pb2.SuggestQuestionsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.SuggestQuestionsResponse:
        """Suggests questions that the passages answer: a model writes them, or else rules build them from the passages' topics."""
        return self._reply("SuggestQuestions", request, self._how(timeout, caller, request_id))

    def enrich(
        self,
        request: generator_pb2.EnrichRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.EnrichResponse:
        """Has a model describe a document, for ingest: a summary, the kind of thing it is about, its category, tags."""
        return self._reply("Enrich", request, self._how(timeout, caller, request_id))

    def list_models(
        self,
        request: generator_pb2.ListModelsRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.ListModelsResponse:
        """Lists the models that this server offers."""
        return self._reply("ListModels", request, self._how(timeout, caller, request_id))

    def seal_provider(
        self,
        request: generator_pb2.SealProviderRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.SealProviderResponse:
        """Seals a tenant's chat provider, after a test call to it."""
        return self._reply("SealProvider", request, self._how(timeout, caller, request_id))

    def rewrap_provider(
        self,
        request: generator_pb2.RewrapProviderRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.RewrapProviderResponse:
        """Seals a tenant provider again under the newest master key."""
        return self._reply("RewrapProvider", request, self._how(timeout, caller, request_id))

    def test_provider(
        self,
        request: generator_pb2.TestProviderRequest,
        *,
        timeout: float | None = None,
        caller: Caller | None = None,
        request_id: str = "",
    ) -> generator_pb2.TestProviderResponse:
        """Tests a sealed tenant provider with one small call."""
        return self._reply("TestProvider", request, self._how(timeout, caller, request_id))
