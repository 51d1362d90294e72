"""What the OpenAPI document says of the library: documents, collections, embedding spaces, searching."""

from citewire_gateway.api import examples
from citewire_gateway.api.operation_docs import REF, Docs, event_stream, json_content, json_docs, operation_docs
from citewire_gateway.api.schemas import CalibrationBody, CollectionBody, DocumentBody, DocumentPatch, SearchBody


def search_docs() -> Docs:
    """`POST /v1/search`."""
    return operation_docs(
        {"description": "The best matches, best first.", **json_content(examples.SEARCH, "SearchResults")},
        body=SearchBody,
        missing=True,
        unavailable=True,
        more=(402,),
    )


def chunk_docs() -> Docs:
    """`GET /v1/chunks/{id}`."""
    return json_docs("The chunk, with its place in its document.", examples.CHUNK, missing=True)


def upload_docs() -> Docs:
    """`POST /v1/documents` and `PUT /v1/documents/{id}`."""
    docs = operation_docs(
        {"description": "Stored; processing has begun.", **json_content(examples.DOCUMENT, "Document")},
        status=202,
        key=True,
        missing=True,
        conflicts=True,
        unavailable=True,
        more=(413, 415),
    )
    docs["openapi_extra"]["requestBody"] = {
        "required": True,
        "content": {
            "multipart/form-data": {"schema": {"$ref": f"{REF}DocumentForm"}},
            "application/json": {"schema": {"$ref": f"{REF}{DocumentBody.__name__}"}},
        },
    }
    return docs


def document_docs(status: int = 200) -> Docs:
    """One document."""
    return operation_docs(
        {"description": "The document.", **json_content(examples.DOCUMENT, "Document")},
        status=status,
        missing=True,
        conflicts=status == 202,
    )


def documents_docs() -> Docs:
    """The list of documents."""
    return json_docs("Documents, newest first.", {"documents": [examples.DOCUMENT], "next_page_token": ""})


def patch_docs() -> Docs:
    """`PATCH /v1/documents/{id}`."""
    return operation_docs(
        {"description": "The document.", **json_content(examples.DOCUMENT, "Document")},
        body=DocumentPatch,
        missing=True,
    )


def content_docs() -> Docs:
    """A version's original."""
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return operation_docs({"description": "The original bytes.", "content": content}, missing=True)


def text_docs() -> Docs:
    """A version's text."""
    content: Docs = {"text/plain": {"schema": {"type": "string"}, "example": "Revenue grew by 12 %, to 4.2 million …"}}
    return operation_docs({"description": "The text.", "content": content}, conflicts=True, missing=True)


def events_docs() -> Docs:
    """A document's progress."""
    stream = event_stream(
        "`progress` many, the present state first; `done` last.", "ProgressEvent", examples.PROGRESS_STREAM
    )
    return operation_docs({"description": "A stream.", "content": stream}, missing=True)


def collections_docs() -> Docs:
    """The list of collections."""
    return json_docs("Collections by name.", {"collections": [examples.COLLECTION], "next_page_token": ""})


def collection_body_docs(status: int) -> Docs:
    """Creating and renaming a collection."""
    return operation_docs(
        {"description": "The collection.", **json_content(examples.COLLECTION)},
        body=CollectionBody,
        status=status,
        conflicts=True,
        missing=status == 200,
    )


def spaces_docs() -> Docs:
    """The embedding spaces."""
    return json_docs("The organisation's embedding spaces, the live one first.", {"spaces": [examples.SPACE]})


def calibration_docs() -> Docs:
    """`PUT /v1/spaces/calibration`."""
    return operation_docs(
        {"description": "The space, with what counts now.", **json_content(examples.SPACE)},
        body=CalibrationBody,
        missing=True,
        conflicts=True,
        more=(403,),
    )
