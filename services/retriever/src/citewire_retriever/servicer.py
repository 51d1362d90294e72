# ruff: noqa: N802, D102 - the RPCs are named and described in the protos
"""The retriever's gRPC interface: converts, calls the domain, converts back. Kit's interceptors handle errors."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, TypeAlias, cast

import grpc
from citewire.retriever.v1 import corpus_pb2, retriever_pb2, table_pb2
from citewire.retriever.v1.corpus_pb2_grpc import CorpusServiceServicer
from citewire.retriever.v1.retriever_pb2_grpc import RetrieverServiceServicer

from citewire_kit.errors import InvalidArgument
from citewire_kit.genai import model_span
from citewire_kit.tenant import current_tenant
from citewire_retriever.converters import documents as convert
from citewire_retriever.converters import search as convert_search
from citewire_retriever.converters import spaces as convert_spaces
from citewire_retriever.converters import tables as convert_tables
from citewire_retriever.service.corpus import CorpusService
from citewire_retriever.service.retrieval import RetrievalService
from citewire_retriever.service.spaces import SpaceService

RETRIEVER = "citewire.retriever.v1.RetrieverService"
CORPUS = "citewire.retriever.v1.CorpusService"

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"  # generic only in the type stubs


class RetrieverServicer(RetrieverServiceServicer):
    """Serves `citewire.retriever.v1.RetrieverService`; the RPCs are described in its proto."""

    def __init__(self, service: RetrievalService) -> None:
        self._service = service

    async def Plan(self, request: retriever_pb2.PlanRequest, context: Context) -> retriever_pb2.PlanResponse:
        scope, strategy, max_tokens, query, zone = convert_search.plan_from_proto(request)
        return await self._service.plan(current_tenant(), scope, strategy, max_tokens, query, zone)

    async def Search(self, request: retriever_pb2.SearchRequest, context: Context) -> retriever_pb2.SearchResponse:
        query = convert_search.search_from_proto(request)
        with model_span("retrieval") as span:
            span.record_search(request.query, query.top_k)
            response = await self._service.search(current_tenant(), query)
            span.record_counts(
                retrieval_mode=query.mode,
                retrieval_wanted=query.top_k,
                retrieval_passages=len(response.results),
                retrieval_exact=response.exact,
            )
            span.record_documents((result.chunk.document_id, result.score) for result in response.results)
        convert_search.limit_metadata(result.chunk for result in response.results)
        return response

    async def GetContext(
        self, request: retriever_pb2.GetContextRequest, context: Context
    ) -> AsyncGenerator[retriever_pb2.GetContextResponse]:
        scope, max_tokens = convert_search.context_from_proto(request)
        context_items = self._service.context(current_tenant(), scope, max_tokens)
        async with aclosing(context_items):
            async for part in context_items:
                for message in convert_search.context_to_proto(part):
                    yield message

    async def GetChunks(
        self, request: retriever_pb2.GetChunksRequest, context: Context
    ) -> retriever_pb2.GetChunksResponse:
        chunks = await self._service.chunks(current_tenant(), convert_search.chunk_ids_from_proto(request))
        convert_search.limit_metadata(chunks)
        return retriever_pb2.GetChunksResponse(chunks=chunks)

    async def FindDocuments(
        self, request: retriever_pb2.FindDocumentsRequest, context: Context
    ) -> retriever_pb2.FindDocumentsResponse:
        ids = convert_search.document_ids_from_proto(request)
        return retriever_pb2.FindDocumentsResponse(document_ids=await self._service.visible(current_tenant(), ids))


class CorpusServicer(CorpusServiceServicer):
    """Serves `citewire.retriever.v1.CorpusService`; the RPCs are described in its proto."""

    def __init__(self, service: CorpusService, spaces: SpaceService) -> None:
        self._service = service
        self._spaces = spaces

    async def UploadDocument(
        self, request_iterator: AsyncIterator[corpus_pb2.UploadDocumentRequest], context: Context
    ) -> corpus_pb2.UploadDocumentResponse:
        messages = aiter(request_iterator)
        first = await anext(messages, None)
        if first is None:
            raise InvalidArgument("the upload is empty", reason="EMPTY_UPLOAD")
        content = convert.upload_from_proto(first)
        if content.source_url:
            await convert.no_data_from_proto(messages)
        async with aclosing(convert.data_from_proto(messages)) as data:
            document = await self._service.upload(current_tenant(), content, data)
        return corpus_pb2.UploadDocumentResponse(document=document)

    async def PutDocument(
        self, request: corpus_pb2.PutDocumentRequest, context: Context
    ) -> corpus_pb2.PutDocumentResponse:
        content, text = convert.text_from_proto(request)
        document = await self._service.put(current_tenant(), content, text)
        return corpus_pb2.PutDocumentResponse(document=document)

    async def GetDocument(
        self, request: corpus_pb2.GetDocumentRequest, context: Context
    ) -> corpus_pb2.GetDocumentResponse:
        document = await self._service.get(current_tenant(), convert.required_id(request.document_id))
        return corpus_pb2.GetDocumentResponse(document=document)

    async def ListDocuments(
        self, request: corpus_pb2.ListDocumentsRequest, context: Context
    ) -> corpus_pb2.ListDocumentsResponse:
        documents, token = await self._service.page(
            current_tenant(),
            convert.query_from_proto(request),
            convert.page_size_from_proto(request.page_size),
            request.page_token,
            convert.required_id(request.after, "after") if request.after else 0,
        )
        return corpus_pb2.ListDocumentsResponse(documents=documents, next_page_token=token)

    async def UpdateDocument(
        self, request: corpus_pb2.UpdateDocumentRequest, context: Context
    ) -> corpus_pb2.UpdateDocumentResponse:
        document_id, changes = convert.changes_from_proto(request)
        document = await self._service.update(current_tenant(), document_id, changes)
        return corpus_pb2.UpdateDocumentResponse(document=document)

    async def DeleteDocument(
        self, request: corpus_pb2.DeleteDocumentRequest, context: Context
    ) -> corpus_pb2.DeleteDocumentResponse:
        await self._service.delete(current_tenant(), convert.required_id(request.document_id))
        return corpus_pb2.DeleteDocumentResponse()

    async def ListErasedDocuments(
        self, request: corpus_pb2.ListErasedDocumentsRequest, context: Context
    ) -> corpus_pb2.ListErasedDocumentsResponse:
        forget = convert.erased_from_proto(request)
        documents = await self._service.erased(current_tenant(), forget, request.after_document_id)
        return corpus_pb2.ListErasedDocumentsResponse(documents=documents)

    async def EraseOwner(
        self, request: corpus_pb2.EraseOwnerRequest, context: Context
    ) -> corpus_pb2.EraseOwnerResponse:
        documents, done = await self._service.erase_owner(current_tenant(), *convert.owner_from_proto(request))
        return corpus_pb2.EraseOwnerResponse(documents=documents, done=done)

    async def EraseOldDocuments(
        self, request: corpus_pb2.EraseOldDocumentsRequest, context: Context
    ) -> corpus_pb2.EraseOldDocumentsResponse:
        days = convert.days_from_proto(request)
        documents, done = await self._service.erase_old(current_tenant(), days, expired=request.expired)
        return corpus_pb2.EraseOldDocumentsResponse(documents=documents, done=done)

    async def ExportUser(
        self, request: corpus_pb2.ExportUserRequest, context: Context
    ) -> AsyncGenerator[corpus_pb2.ExportUserResponse]:
        rows = self._service.export_user(current_tenant(), convert.user_from_proto(request))
        async with aclosing(rows):
            async for kind, record in rows:
                yield corpus_pb2.ExportUserResponse(kind=kind, record=json.dumps(record, ensure_ascii=False))

    async def RetryDocument(
        self, request: corpus_pb2.RetryDocumentRequest, context: Context
    ) -> corpus_pb2.RetryDocumentResponse:
        document = await self._service.retry(current_tenant(), convert.required_id(request.document_id))
        return corpus_pb2.RetryDocumentResponse(document=document)

    async def WatchDocument(
        self, request: corpus_pb2.WatchDocumentRequest, context: Context
    ) -> AsyncGenerator[corpus_pb2.WatchDocumentResponse]:
        changes = self._service.watch(current_tenant(), convert.required_id(request.document_id))
        async with aclosing(changes):
            async for change in changes:
                yield change

    async def DownloadDocument(
        self, request: corpus_pb2.DownloadDocumentRequest, context: Context
    ) -> AsyncGenerator[corpus_pb2.DownloadDocumentResponse]:
        tenant = current_tenant()
        find = self._service.find_text if request.text else self._service.find_original
        original = await find(tenant, *convert.download_from_proto(request))
        yield corpus_pb2.DownloadDocumentResponse(header=convert.original_to_proto(original))
        parts = cast("AsyncGenerator[bytes, None]", self._service.read(tenant, original))
        async with aclosing(parts):
            async for part in parts:
                yield corpus_pb2.DownloadDocumentResponse(data=part)

    async def LocateSpan(
        self, request: corpus_pb2.LocateSpanRequest, context: Context
    ) -> corpus_pb2.LocateSpanResponse:
        return await self._service.locate(current_tenant(), *convert.span_from_proto(request))

    async def ListTables(self, request: table_pb2.ListTablesRequest, context: Context) -> table_pb2.ListTablesResponse:
        return await self._service.list_tables(current_tenant(), *convert_tables.tables_from_proto(request))

    async def QueryTable(self, request: table_pb2.QueryTableRequest, context: Context) -> table_pb2.QueryTableResponse:
        return await self._service.query_table(current_tenant(), *convert_tables.table_query_from_proto(request))

    async def AnswerFromTables(
        self, request: table_pb2.AnswerFromTablesRequest, context: Context
    ) -> table_pb2.AnswerFromTablesResponse:
        question, document_ids, today = convert_tables.table_question_from_proto(request)
        if request.HasField("query"):
            return await self._service.answer_table_query(current_tenant(), question, document_ids[0], request.query)
        return await self._service.answer_from_tables(
            current_tenant(), question, document_ids, today, describe=request.describe
        )

    async def ListCollections(
        self, request: corpus_pb2.ListCollectionsRequest, context: Context
    ) -> corpus_pb2.ListCollectionsResponse:
        collections, token = await self._service.collections(
            current_tenant(),
            convert.name_part_from_proto(request),
            convert.page_size_from_proto(request.page_size),
            request.page_token,
            request.after,
        )
        return corpus_pb2.ListCollectionsResponse(collections=collections, next_page_token=token)

    async def CreateCollection(
        self, request: corpus_pb2.CreateCollectionRequest, context: Context
    ) -> corpus_pb2.CreateCollectionResponse:
        name = convert.required_name(request.name)
        collection = await self._service.create_collection(current_tenant(), name, enrich=request.enrich)
        return corpus_pb2.CreateCollectionResponse(collection=collection)

    async def UpdateCollection(
        self, request: corpus_pb2.UpdateCollectionRequest, context: Context
    ) -> corpus_pb2.UpdateCollectionResponse:
        collection = await self._service.update_collection(
            current_tenant(), *convert.collection_update_from_proto(request)
        )
        return corpus_pb2.UpdateCollectionResponse(collection=collection)

    async def DeleteCollection(
        self, request: corpus_pb2.DeleteCollectionRequest, context: Context
    ) -> corpus_pb2.DeleteCollectionResponse:
        deleted = await self._service.delete_collection(
            current_tenant(), convert.required_name(request.name), force=request.force
        )
        return corpus_pb2.DeleteCollectionResponse(documents_deleted=deleted)

    async def GetStorage(
        self, request: corpus_pb2.GetStorageRequest, context: Context
    ) -> corpus_pb2.GetStorageResponse:
        return await self._service.storage(current_tenant())

    async def GetCollectionGrants(
        self, request: corpus_pb2.GetCollectionGrantsRequest, context: Context
    ) -> corpus_pb2.GetCollectionGrantsResponse:
        grants = await self._service.grants(current_tenant(), convert.required_name(request.name))
        return corpus_pb2.GetCollectionGrantsResponse(grants=grants)

    async def SetCollectionGrants(
        self, request: corpus_pb2.SetCollectionGrantsRequest, context: Context
    ) -> corpus_pb2.SetCollectionGrantsResponse:
        grants = await self._service.set_grants(current_tenant(), *convert.grants_from_proto(request))
        return corpus_pb2.SetCollectionGrantsResponse(grants=grants)

    async def ListSpaces(
        self, request: corpus_pb2.ListSpacesRequest, context: Context
    ) -> corpus_pb2.ListSpacesResponse:
        spaces = await self._spaces.spaces(current_tenant())
        return corpus_pb2.ListSpacesResponse(spaces=spaces)

    async def PrepareSpace(
        self, request: corpus_pb2.PrepareSpaceRequest, context: Context
    ) -> corpus_pb2.PrepareSpaceResponse:
        info = await self._spaces.prepare(current_tenant(), convert_spaces.required_space(request.space))
        return corpus_pb2.PrepareSpaceResponse(space=info)

    async def SwitchSpace(
        self, request: corpus_pb2.SwitchSpaceRequest, context: Context
    ) -> corpus_pb2.SwitchSpaceResponse:
        space = convert_spaces.required_space(request.space)
        info = await self._spaces.switch(current_tenant(), space, force=request.force)
        return corpus_pb2.SwitchSpaceResponse(space=info)

    async def SetCalibration(
        self, request: corpus_pb2.SetCalibrationRequest, context: Context
    ) -> corpus_pb2.SetCalibrationResponse:
        space, calibration = convert_spaces.calibration_from_proto(request)
        info = await self._spaces.calibrate(current_tenant(), space, calibration)
        return corpus_pb2.SetCalibrationResponse(space=info)
