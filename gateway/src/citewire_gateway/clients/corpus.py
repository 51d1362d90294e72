"""Documents and collections, over gRPC. What comes back is the JSON that the API shows."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import grpc
from citewire.common.v1 import common_pb2
from citewire.retriever.v1 import corpus_pb2, corpus_pb2_grpc, filter_pb2

from citewire_gateway.clients import documents
from citewire_kit import client
from citewire_kit.errors import Unavailable

DATA_BYTES = 1024 * 1024
"""Bytes of a file in one message."""


@dataclass(frozen=True, slots=True)
class FileFields:
    """What is known of a file before its bytes."""

    file_name: str
    media_type: str = ""
    title: str = ""
    collection: str = ""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] | None = None
    url: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True)
class TextFields:
    """A document as text."""

    type: str
    title: str
    content: str
    url: str = ""
    collection: str = ""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Which documents to list."""

    page_size: int
    page_token: str = ""
    collection: str = ""
    type: str = ""
    status: str = ""
    tag: str = ""
    filter: filter_pb2.Filter | None = None


@dataclass(frozen=True, slots=True)
class Original:
    """A version's original: what it is, and its bytes. Close `data` unless it was read to its end."""

    file_name: str
    media_type: str
    size_bytes: int
    sha256: str
    version: int
    data: AsyncGenerator[bytes, None]


class CorpusClient:
    """The retriever service's writing side. All methods raise `CitewireError`."""

    def __init__(self, channel: grpc.aio.Channel, *, seconds: float, transfer_seconds: float) -> None:
        """`seconds` bounds a unary call, `transfer_seconds` an upload, a download or a watch."""
        self._stub = corpus_pb2_grpc.CorpusServiceStub(channel)
        self._seconds = seconds
        self._transfer_seconds = transfer_seconds

    async def upload(
        self, fields: FileFields, data: AsyncIterator[bytes], document_id: int | None, request_id: str = ""
    ) -> dict[str, Any]:
        """Stores a file as a new document, or as a new version of one. Returned means durable.

        The same `request_id` again makes nothing, and returns the document.
        """

        async def requests() -> AsyncGenerator[corpus_pb2.UploadDocumentRequest, None]:
            header = documents.header_message(fields, document_id)
            header.request_id = request_id
            yield corpus_pb2.UploadDocumentRequest(header=header)
            async for part in data:
                yield corpus_pb2.UploadDocumentRequest(data=part)

        response = await client.client_stream(self._stub.UploadDocument, requests(), timeout=self._transfer_seconds)
        return documents.document_json(response.document)

    async def put(self, fields: TextFields, document_id: int | None, request_id: str = "") -> dict[str, Any]:
        """Stores text as a new document, or as a new version of one; as `upload`."""
        request = documents.put_message(fields, document_id)
        request.request_id = request_id
        response = await client.unary(self._stub.PutDocument, request, timeout=self._seconds)
        return documents.document_json(response.document)

    async def get(self, document_id: int) -> dict[str, Any]:
        """Gets a document."""
        request = corpus_pb2.GetDocumentRequest(document_id=document_id)
        response = await client.unary(self._stub.GetDocument, request, timeout=self._seconds)
        return documents.document_json(response.document)

    async def list(self, query: ListQuery) -> dict[str, Any]:
        """Lists documents, newest first."""
        request = corpus_pb2.ListDocumentsRequest(
            page_size=query.page_size,
            page_token=query.page_token,
            collection=query.collection,
            type=query.type,
            tag=query.tag,
            filter=query.filter,
        )
        if query.status:
            request.status = documents.STATUSES[query.status]
        response = await client.unary(self._stub.ListDocuments, request, timeout=self._seconds)
        return {
            "documents": [documents.document_json(one) for one in response.documents],
            "next_page_token": response.next_page_token,
        }

    async def update(self, document_id: int, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Changes the fields that `changes` names."""
        request = documents.update_message(document_id, changes)
        response = await client.unary(self._stub.UpdateDocument, request, timeout=self._seconds)
        return documents.document_json(response.document)

    async def delete(self, document_id: int) -> None:
        """Deletes a document with all its versions."""
        request = corpus_pb2.DeleteDocumentRequest(document_id=document_id)
        await client.unary(self._stub.DeleteDocument, request, timeout=self._seconds)

    async def retry(self, document_id: int) -> dict[str, Any]:
        """Ingests a failed version again."""
        request = corpus_pb2.RetryDocumentRequest(document_id=document_id)
        response = await client.unary(self._stub.RetryDocument, request, timeout=self._seconds)
        return documents.document_json(response.document)

    async def watch(self, document_id: int) -> AsyncGenerator[dict[str, Any], None]:
        """Streams a document's progress until it is ready, failed or deleted."""
        request = corpus_pb2.WatchDocumentRequest(document_id=document_id)
        stream = client.stream(self._stub.WatchDocument, request, timeout=self._transfer_seconds)
        async with aclosing(stream) as messages:
            async for message in messages:
                yield documents.progress_json(message)

    async def download(self, document_id: int, version: int | None, *, text: bool = False) -> Original:
        """Opens a version's original, or the text that was found in it; the live one's if none is named."""
        request = corpus_pb2.DownloadDocumentRequest(document_id=document_id, version=version, text=text)
        stream = client.stream(self._stub.DownloadDocument, request, timeout=self._transfer_seconds)
        first = await anext(stream, None)  # if it raises, the stream has closed itself
        if first is None or first.WhichOneof("part") != "header":
            await stream.aclose()
            raise Unavailable("the document's bytes could not be read", reason="SERVICE_UNAVAILABLE")
        header = first.header
        return Original(
            file_name=header.file_name,
            media_type=header.media_type,
            size_bytes=header.size_bytes,
            sha256=header.sha256,
            version=header.version,
            data=_bytes_of(stream),
        )

    async def list_spaces(self) -> dict[str, Any]:
        """Lists the organisation's embedding spaces, the live one first."""
        response = await client.unary(self._stub.ListSpaces, corpus_pb2.ListSpacesRequest(), timeout=self._seconds)
        return {"spaces": [documents.space_json(one) for one in response.spaces]}

    async def set_calibration(
        self, space: common_pb2.EmbeddingSpace, calibration: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Stores what a space's scores mean, in place of what is stored; None removes it. Returns the space."""
        request = corpus_pb2.SetCalibrationRequest(
            space=space,
            calibration=None if calibration is None else documents.calibration_message(calibration),
        )
        response = await client.unary(self._stub.SetCalibration, request, timeout=self._seconds)
        return documents.space_json(response.space)

    async def list_collections(self, page_size: int, page_token: str) -> dict[str, Any]:
        """Lists collections by name."""
        request = corpus_pb2.ListCollectionsRequest(page_size=page_size, page_token=page_token)
        response = await client.unary(self._stub.ListCollections, request, timeout=self._seconds)
        return {
            "collections": [documents.collection_json(one) for one in response.collections],
            "next_page_token": response.next_page_token,
        }

    async def create_collection(self, name: str) -> dict[str, Any]:
        """Creates a collection."""
        request = corpus_pb2.CreateCollectionRequest(name=name)
        response = await client.unary(self._stub.CreateCollection, request, timeout=self._seconds)
        return documents.collection_json(response.collection)

    async def rename_collection(self, name: str, new_name: str) -> dict[str, Any]:
        """Renames a collection."""
        request = corpus_pb2.UpdateCollectionRequest(name=name, new_name=new_name)
        response = await client.unary(self._stub.UpdateCollection, request, timeout=self._seconds)
        return documents.collection_json(response.collection)

    async def delete_collection(self, name: str, *, force: bool) -> int:
        """Deletes a collection; returns how many documents went with it."""
        request = corpus_pb2.DeleteCollectionRequest(name=name, force=force)
        response = await client.unary(self._stub.DeleteCollection, request, timeout=self._seconds)
        return response.documents_deleted


async def _bytes_of(
    stream: AsyncGenerator[corpus_pb2.DownloadDocumentResponse, None],
) -> AsyncGenerator[bytes, None]:
    async with aclosing(stream) as messages:
        async for message in messages:
            yield message.data
