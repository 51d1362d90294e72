"""What the OpenAPI document says beyond what FastAPI finds out: bodies, streams, errors, the key."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from citewire_gateway.web import compatible, examples
from citewire_gateway.web.api_schemas import SCHEMAS
from citewire_gateway.web.openai_schemas import CompletionRequest, EmbeddingsRequest, RerankBody
from citewire_gateway.web.schemas import (
    BudgetBody,
    CalibrationBody,
    ChatRequest,
    CollectionBody,
    ConversationPatch,
    DocumentBody,
    DocumentPatch,
    ProfileBody,
    ProviderBody,
    ProviderRulesBody,
    SearchBody,
    SelfRagRequest,
    SimpleRequest,
)

Docs = dict[str, Any]

_REF = "#/components/schemas/"
_BODIES: tuple[type[BaseModel], ...] = (
    ChatRequest,
    SimpleRequest,
    SelfRagRequest,
    CompletionRequest,
    EmbeddingsRequest,
    RerankBody,
    SearchBody,
    DocumentBody,
    DocumentPatch,
    CollectionBody,
    ConversationPatch,
    ProfileBody,
    ProviderBody,
    ProviderRulesBody,
    BudgetBody,
    CalibrationBody,
)
_OPEN_PATHS = frozenset({"/livez", "/readyz"})
_KEY_PARAMETER: Docs = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "description": "The same key with the same request is done once and answered the same, for 24 hours; with another "
    "request it is a 409.",
}


def install(app: FastAPI) -> None:
    """Makes `app.openapi()` give the whole document."""

    def openapi() -> Docs:
        if app.openapi_schema is None:
            app.openapi_schema = _build(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign] # FastAPI's documented way


def chat_docs() -> Docs:
    """`POST /v1/chat`."""
    stream = _stream(
        "The native dialect: each event as `event: TYPE`, `id: SEQUENCE`, `data: JSON`, and `done` last. Which events "
        "are shown is the profile's; ignore those that you don't know. A fault is `error`, then `done`. Lines that "
        "begin with a colon are heartbeats.",
        "ChatEvent",
        examples.CHAT_STREAM,
    )
    answer = {"application/json": {"schema": {"$ref": f"{_REF}ChatAnswer"}, "example": examples.CHAT_ANSWER}}
    return _docs(
        {"description": "A stream, or with `stream: false` one JSON body.", "content": {**stream, **answer}},
        body=ChatRequest,
        key=True,
        missing=True,
        conflicts=True,
        unavailable=True,
        more=(402,),
    )


def simple_stream_docs() -> Docs:
    """`POST /api/chat/`."""
    stream = _stream(
        "Frames of data only: `token` many, then `done` with the sources. A fault is `error`, and no `done`.",
        "SimpleFrame",
        examples.SIMPLE_STREAM,
    )
    return _docs(
        {"description": "A stream.", "content": stream}, body=SimpleRequest, missing=True, unavailable=True, more=(402,)
    )


def simple_query_docs() -> Docs:
    """`POST /api/chat/query`."""
    content = {"application/json": {"schema": {"$ref": f"{_REF}SimpleAnswer"}, "example": examples.SIMPLE_ANSWER}}
    return _docs(
        {"description": "The answer.", "content": content},
        body=SimpleRequest,
        missing=True,
        unavailable=True,
        more=(402,),
    )


def self_rag_docs() -> Docs:
    """`POST /api/rag-chat/stream`."""
    stream = _stream(
        "Frames of an event and its data: `decision` first, `retrieval` if it is needed, `content` many, `assessment`, "
        "then `done`. A fault is `error`, and nothing follows it.",
        "SelfRagFrame",
        examples.SELF_RAG_STREAM,
    )
    return _docs({"description": "A stream.", "content": stream}, body=SelfRagRequest, unavailable=True, more=(402,))


def completions_docs() -> Docs:
    """`POST /v1/chat/completions`."""
    stream = _stream(
        "`chat.completion.chunk` objects, then `[DONE]`. Markers stay visible, and a list of sources follows the text; "
        "the last delta has `annotations`. A fault is an `error` object, and no `[DONE]`.",
        "CompletionChunk",
        compatible.COMPLETION_STREAM,
    )
    answer = {"application/json": {"schema": {"type": "object"}, "example": compatible.COMPLETION}}
    return _docs(
        {"description": "A stream, or without `stream` one `chat.completion`.", "content": {**stream, **answer}},
        body=CompletionRequest,
        key=True,
        missing=True,
        conflicts=True,
        unavailable=True,
        more=(402,),
    )


def models_docs(*, one: bool = False) -> Docs:
    """`GET /v1/models` and below."""
    if one:
        return json_docs("The profile.", compatible.MODEL, missing=True)
    return json_docs("The profiles.", {"object": "list", "data": [compatible.MODEL]})


def embeddings_docs() -> Docs:
    """`POST /v1/embeddings`."""
    answer = {"description": "The vectors.", **_json(compatible.EMBEDDINGS)}
    return _docs(answer, body=EmbeddingsRequest, missing=True, unavailable=True, more=(402,))


def rerank_docs() -> Docs:
    """`POST /v1/rerank`."""
    answer = {"description": "Indices and scores, best first.", **_json(compatible.RERANKED)}
    return _docs(answer, body=RerankBody, missing=True, unavailable=True, more=(402,))


def search_docs() -> Docs:
    """`POST /v1/search`."""
    content = {"application/json": {"schema": {"$ref": f"{_REF}SearchResults"}, "example": examples.SEARCH}}
    return _docs(
        {"description": "The best matches, best first.", "content": content},
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
    docs = _docs(
        {"description": "Stored; processing has begun.", **_json(examples.DOCUMENT, "Document")},
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
            "multipart/form-data": {"schema": {"$ref": f"{_REF}DocumentForm"}},
            "application/json": {"schema": {"$ref": f"{_REF}{DocumentBody.__name__}"}},
        },
    }
    return docs


def document_docs(status: int = 200) -> Docs:
    """One document."""
    return _docs(
        {"description": "The document.", **_json(examples.DOCUMENT, "Document")},
        status=status,
        missing=True,
        conflicts=status == 202,
    )


def documents_docs() -> Docs:
    """The list of documents."""
    return json_docs("Documents, newest first.", {"documents": [examples.DOCUMENT], "next_page_token": ""})


def patch_docs() -> Docs:
    """`PATCH /v1/documents/{id}`."""
    return _docs(
        {"description": "The document.", **_json(examples.DOCUMENT, "Document")}, body=DocumentPatch, missing=True
    )


def content_docs() -> Docs:
    """A version's original."""
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return _docs({"description": "The original bytes.", "content": content}, missing=True)


def text_docs() -> Docs:
    """A version's text."""
    content: Docs = {"text/plain": {"schema": {"type": "string"}, "example": "Revenue grew by 12 %, to 4.2 million …"}}
    return _docs({"description": "The text.", "content": content}, conflicts=True, missing=True)


def events_docs() -> Docs:
    """A document's progress."""
    stream = _stream(
        "`progress` many, the present state first; `done` last.", "ProgressEvent", examples.PROGRESS_STREAM
    )
    return _docs({"description": "A stream.", "content": stream}, missing=True)


def collections_docs() -> Docs:
    """The list of collections."""
    return json_docs("Collections by name.", {"collections": [examples.COLLECTION], "next_page_token": ""})


def spaces_docs() -> Docs:
    """The embedding spaces."""
    return json_docs("The organisation's embedding spaces, the live one first.", {"spaces": [examples.SPACE]})


def calibration_docs() -> Docs:
    """`PUT /v1/spaces/calibration`."""
    return _docs(
        {"description": "The space, with what counts now.", **_json(examples.SPACE)},
        body=CalibrationBody,
        missing=True,
        conflicts=True,
        more=(403,),
    )


def collection_body_docs(status: int) -> Docs:
    """Creating and renaming a collection."""
    return _docs(
        {"description": "The collection.", **_json(examples.COLLECTION)},
        body=CollectionBody,
        status=status,
        conflicts=True,
        missing=status == 200,
    )


def conversations_docs() -> Docs:
    """The list of conversations."""
    body = {"conversations": [examples.CONVERSATION], "next_page_token": ""}
    return json_docs("The caller's conversations, latest first.", body)


def conversation_docs() -> Docs:
    """A conversation with its messages."""
    body = {**examples.CONVERSATION, "messages": examples.MESSAGES, "next_page_token": ""}
    return json_docs("The conversation.", body, missing=True)


def export_docs() -> Docs:
    """`GET /v1/conversations/{id}/export`."""
    docs = json_docs("The conversation.", examples.CONVERSATION | {"messages": examples.MESSAGES}, missing=True)
    content: Docs = {"schema": {"type": "string"}, "example": "# A title\n\n## A question\n\nAn answer.\n"}
    docs["responses"][200]["content"]["text/markdown"] = content
    return docs


def rename_docs() -> Docs:
    """`PATCH /v1/conversations/{id}`."""
    return _docs(
        {"description": "The conversation.", **_json(examples.CONVERSATION)}, body=ConversationPatch, missing=True
    )


def profile_docs() -> Docs:
    """`GET /v1/profiles/{name}`."""
    return json_docs("The profile.", examples.PROFILES["profiles"][0], missing=True)


def profile_body_docs() -> Docs:
    """`PUT /v1/profiles/{name}`."""
    example = examples.PROFILES["profiles"][-1] | {"name": "support", "version": 1, "base": "grounded"}
    return _docs(
        {"description": "The profile, as it is kept.", **_json(example)}, body=ProfileBody, conflicts=True, more=(403,)
    )


def profiles_docs() -> Docs:
    """The list of profiles."""
    return json_docs("The profiles that a chat may name.", examples.PROFILES)


def providers_docs() -> Docs:
    """The list of own providers."""
    return json_docs("The caller's and the organisation's.", {"require_own": False, "providers": [examples.PROVIDER]})


def rules_docs() -> Docs:
    """`PATCH /v1/providers`."""
    return _docs(
        {"description": "What counts from now on.", **_json({"require_own": True})}, body=ProviderRulesBody, more=(403,)
    )


def provider_docs() -> Docs:
    """One own provider."""
    return json_docs("The provider, without key and address.", examples.PROVIDER, missing=True)


def provider_body_docs() -> Docs:
    """`PUT /v1/providers/{type}`."""
    return _docs(
        {"description": "Saved; `test` says what the provider said.", **_json(examples.PROVIDER)},
        body=ProviderBody,
        conflicts=True,
        unavailable=True,
        more=(403,),
    )


def deleted_docs(*, more: tuple[int, ...] = ()) -> Docs:
    """An answer without a body."""
    return _docs({"description": "It is gone."}, status=204, missing=True, more=more)


def body_docs(
    description: str, example: Docs, body: type[BaseModel], *, conflicts: bool = False, more: tuple[int, ...] = ()
) -> Docs:
    """An answer in JSON to a body in JSON."""
    return _docs({"description": description, **_json(example)}, body=body, conflicts=conflicts, more=more)


def json_docs(
    description: str,
    example: Docs,
    *,
    missing: bool = False,
    conflicts: bool = False,
    unavailable: bool = False,
    more: tuple[int, ...] = (),
) -> Docs:
    """An answer in JSON, shown by example."""
    return _docs(
        {"description": description, **_json(example)},
        missing=missing,
        conflicts=conflicts,
        unavailable=unavailable,
        more=more,
    )


def _docs(
    response: Docs,
    *,
    body: type[BaseModel] | None = None,
    status: int = 200,
    key: bool = False,
    missing: bool = False,
    conflicts: bool = False,
    unavailable: bool = False,
    more: tuple[int, ...] = (),
) -> Docs:
    """Arguments of a route decorator."""
    statuses = {401, 422, *more}
    statuses |= {400, 413, 415} if body is not None else set()
    statuses |= {404} if missing else set()
    statuses |= {409} if conflicts else set()
    statuses |= {503} if unavailable else set()
    responses: dict[int, Docs] = {status: response} | {code: _problem(code) for code in sorted(statuses)}
    extra: Docs = {}
    if body is not None:
        schema = {"$ref": f"{_REF}{body.__name__}"}
        extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if key:
        extra["parameters"] = [_KEY_PARAMETER]
    return {"responses": responses, "openapi_extra": extra}


def _json(example: Docs, schema: str | None = None) -> Docs:
    shape: Docs = {"$ref": f"{_REF}{schema}"} if schema else {"type": "object"}
    return {"content": {"application/json": {"schema": shape, "example": example}}}


def _stream(description: str, schema: str, example: str) -> Docs:
    # OpenAPI 3.1 has no word for a stream's items: the schema is that of each frame's data.
    return {
        "text/event-stream": {
            "schema": {"type": "string", "description": description, "x-event-schema": {"$ref": f"{_REF}{schema}"}},
            "example": example,
        }
    }


def _problem(status: int) -> Docs:
    schema = {"$ref": f"{_REF}Problem"}
    return {"description": examples.PROBLEM_TITLES[status], "content": {"application/problem+json": {"schema": schema}}}


def _build(app: FastAPI) -> Docs:
    schema = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=examples.TAGS,
    )
    _, definitions = models_json_schema([(model, "validation") for model in _BODIES], ref_template=f"{_REF}{{model}}")
    components: Docs = schema.setdefault("components", {})
    found: Docs = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's own error body, which nobody gets here
        found.pop(name, None)
    found.update(definitions["$defs"])
    found.update(SCHEMAS)
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "description": "`cw_…`"}}
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            operation["security"] = [] if path in _OPEN_PATHS else [{"key": []}]
    return schema
