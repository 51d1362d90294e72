"""Schemas and examples of what the API sends, for its OpenAPI document."""

from typing import Any

from citewire_gateway.profiles import PROFILES as ALL_PROFILES
from citewire_gateway.profiles import describe

Docs = dict[str, Any]

TAGS = [
    {"name": "chat", "description": "Questions, answered from documents with citations."},
    {"name": "search", "description": "Chunks and documents by similarity; the exact place of a citation."},
    {"name": "documents", "description": "What is asked about. Answered means durable; processing follows."},
    {"name": "collections", "description": "Named groups of documents."},
    {"name": "conversations", "description": "What was asked and answered, each user's own."},
    {"name": "providers", "description": "Models that a tenant brings; keys are sealed and never come back."},
    {"name": "system", "description": "Health."},
]

PROBLEM_TITLES = {
    400: "The body can't be read (reason `INVALID_JSON`), or a provider is missing (`PROVIDER_MISSING`, with `types`).",
    401: "An API key is missing, unknown or revoked.",
    403: "The caller's role doesn't allow it.",
    404: "Something that the request names doesn't exist in the caller's scope.",
    409: "It conflicts with the present state.",
    413: "The body is larger than the limit.",
    415: "The media type isn't one that this takes.",
    422: "A field is out of range; `errors` names each.",
    503: "A part is unavailable or full; `Retry-After` says when to try again.",
}

PROVIDER: Docs = {
    "type": "chat",
    "scope": "user",
    "provider": "openai",
    "model": "gpt-4.1-mini",
    "has_key": True,
    "has_api_base": False,
    "test": {"tried": True, "ok": True, "text": "The provider answered.", "status": 200},
    "fallbacks": [{"model": "extractive"}],
    "updated_at": "2026-01-01T12:00:00Z",
}
CITATION: Docs = {
    "index": 1,
    "chunk_id": 1042,
    "document_id": 7,
    "version": 1,
    "title": "Annual report",
    "file_name": "report.pdf",
    "ref": "report.pdf § Results",
    "snippet": "Revenue grew by 12 %, to 4.2 million …",
    "score": 0.742,
    "section": "Results",
    "page_number": 3,
}
USAGE: Docs = {"embedding_tokens": 9, "prompt_tokens": 812, "completion_tokens": 44}
SOURCE: Docs = {"document_id": 7, "filename": "report.pdf", "page": 3, "content": "Revenue grew by 12 %, …"}

CHAT_STREAM = (
    'event: conversation\nid: 1\ndata: {"conversation_id": "01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11"}\n\n'
    'event: citations\nid: 2\ndata: {"citations": [{"index": 1, "chunk_id": 1042, "document_id": 7, "version": 1, '
    '"title": "Annual report", "file_name": "report.pdf", "ref": "report.pdf § Results", '
    '"snippet": "Revenue grew by 12 % …", "score": 0.742, "section": "Results", "page_number": 3}]}\n\n'
    'event: token\nid: 3\ndata: {"text": "Revenue grew"}\n\n'
    'event: token\nid: 4\ndata: {"text": " by 12 %."}\n\n'
    'event: usage\nid: 5\ndata: {"embedding_tokens": 9, "prompt_tokens": 812, "completion_tokens": 44}\n\n'
    "event: done\nid: 6\ndata: {}\n\n"
)
SIMPLE_STREAM = (
    'data: {"token": "Revenue grew"}\n\ndata: {"token": " by 12 %."}\n\n'
    'data: {"done": true, "sources": [{"document_id": 7, "filename": "report.pdf", "page": 3, '
    '"content": "Revenue grew by 12 %, …"}]}\n\n'
)
CHAT_ANSWER: Docs = {
    "conversation_id": "01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11",
    "exchange_id": "01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e12",
    "profile": "documents",
    "answer": "Revenue grew by 12 %.",
    "citations": [CITATION],
    "usage": USAGE,
    "not_found": False,
    "finish_reason": "stop",
    "provider": "extractive",
    "model": "extractive",
    "steps": [],
}
SIMPLE_ANSWER: Docs = {"answer": "Revenue grew by 12 %.", "sources": [SOURCE]}
SEARCH: Docs = {
    "results": [
        {
            "chunk_id": 1042,
            "document_id": 7,
            "version": 1,
            "chunk_index": 3,
            "content": "Revenue grew by 12 %, …",
            "score": 0.742,
            "similarity": 0.742,
            "title": "Annual report",
            "file_name": "report.pdf",
            "section": "Results",
            "page_number": 3,
        }
    ],
    "mode": "dense",
    "usage": {"embedding_tokens": 4},
}
CHUNK: Docs = {
    "chunk_id": 1042,
    "document_id": 7,
    "version": 1,
    "live": True,
    "chunk_index": 3,
    "content": "Revenue grew by 12 %, …",
    "token_count": 118,
    "content_hash": "9f86d081…",
    "char_start": 2210,
    "char_end": 2764,
    "title": "Annual report",
    "file_name": "report.pdf",
    "ref": "report.pdf § Results",
    "type": "file",
    "section": "Results",
    "page_number": 3,
}
DOCUMENT: Docs = {
    "id": 7,
    "title": "Annual report",
    "file_name": "report.pdf",
    "type": "file",
    "status": "ready",
    "version": 1,
    "live_version": 1,
    "chunks": 42,
    "pages": 12,
    "media_type": "application/pdf",
    "size_bytes": 183220,
    "tokens": 5210,
    "collection": "reports",
    "tags": ["2025"],
    "metadata": {},
    "owner": "local",
    "sha256": "9f86d081…",
    "created_at": "2026-01-15T09:30:00Z",
    "updated_at": "2026-01-15T09:30:04Z",
}
PROGRESS: Docs = {
    "document": {**DOCUMENT, "status": "processing", "live_version": None},
    "stage": "embed",
    "done": 12,
    "total": 42,
    "attempt": 1,
    "deleted": False,
}
PROGRESS_STREAM = (
    'event: progress\nid: 1\ndata: {"document": {"id": 7, "status": "processing", …}, "stage": "embed", "done": 12, '
    '"total": 42, "attempt": 1, "deleted": false}\n\nevent: done\nid: 2\ndata: {}\n\n'
)
COLLECTION: Docs = {"name": "reports", "documents": 3, "created_at": "2026-01-15T09:30:00Z"}
CONVERSATION: Docs = {
    "id": "01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11",
    "title": "How much did revenue grow?",
    "profile": "documents",
    "created_at": "2026-01-15T09:31:00Z",
    "updated_at": "2026-01-15T09:31:02Z",
}
MESSAGES: list[Docs] = [
    {"role": "user", "content": "How much did revenue grow?", "created_at": "2026-01-15T09:31:00Z"},
    {
        "role": "assistant",
        "content": "Revenue grew by 12 %.",
        "created_at": "2026-01-15T09:31:02Z",
        "state": "complete",
        "citations": [CITATION],
        "cited": [],
        "usage": USAGE,
        "steps": [],
        "provider": "extractive",
        "model": "extractive",
        "finish_reason": "stop",
        "not_found": False,
    },
]
PROFILES: Docs = {"profiles": [describe(profile) for profile in ALL_PROFILES.values()]}


def _object(properties: Docs, *, optional: tuple[str, ...] = (), description: str = "") -> Docs:
    shape: Docs = {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }
    return shape | ({"description": description} if description else {})


_TEXT: Docs = {"type": "string"}
_COUNT: Docs = {"type": "integer", "minimum": 0}
_ID: Docs = {"type": "integer", "minimum": 1, "maximum": 2**53 - 1}
_SCORE: Docs = {"type": ["number", "null"], "minimum": 0, "maximum": 1, "description": "Cosine similarity."}
_PLACE: Docs = {
    "url": _TEXT,
    "section": _TEXT,
    "page_number": _ID,
    "row_number": {**_ID, "description": "Line of the sheet, header = 1."},
    "start_line": _ID,
    "end_line": _ID,
}


def _array(name: str) -> Docs:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}}


def _event(name: str, data: Docs) -> Docs:
    return _object({"event": {"const": name}, "id": _COUNT, "data": data})


SCHEMAS: Docs = {
    "Problem": _object(
        {
            "type": {"type": "string", "format": "uri"},
            "title": _TEXT,
            "status": {"type": "integer"},
            "detail": _TEXT,
            "reason": {"type": "string", "description": "A stable code in upper case."},
            "errors": {"type": "array", "items": _object({"field": _TEXT, "message": _TEXT})},
            "request_id": _TEXT,
        },
        description="RFC 9457. `reason` is for programs, `detail` for people.",
    ),
    "Citation": _object(
        {
            "index": {**_ID, "description": "The passage's number in the prompt."},
            "chunk_id": _ID,
            "document_id": _ID,
            "version": _ID,
            "title": _TEXT,
            "file_name": _TEXT,
            "ref": _TEXT,
            "snippet": {"type": "string", "maxLength": 200},
            "score": _SCORE,
            **_PLACE,
        },
        optional=tuple(_PLACE),
    ),
    "Usage": _object({"embedding_tokens": _COUNT, "prompt_tokens": _COUNT, "completion_tokens": _COUNT}),
    "Step": _object(
        {"name": _TEXT, "text": _TEXT, "path": _TEXT, "counts": {"type": "object"}, "reason": _TEXT},
        optional=("path", "counts", "reason"),
    ),
    "ChatEvent": {
        "oneOf": [
            _event("conversation", _object({"conversation_id": {"type": "string", "format": "uuid"}})),
            _event("step", {"$ref": "#/components/schemas/Step"}),
            _event("citations", _object({"citations": _array("Citation")})),
            _event("token", _object({"text": _TEXT})),
            _event("usage", {"$ref": "#/components/schemas/Usage"}),
            _event("error", _object({"text": _TEXT, "retryable": {"const": True}}, optional=("retryable",))),
            _event("done", _object({})),
        ]
    },
    "ChatAnswer": _object(
        {
            "conversation_id": {"type": "string", "format": "uuid"},
            "exchange_id": {"type": "string", "format": "uuid"},
            "profile": _TEXT,
            "answer": _TEXT,
            "citations": _array("Citation"),
            "usage": {"$ref": "#/components/schemas/Usage"},
            "not_found": {"type": "boolean"},
            "finish_reason": _TEXT,
            "provider": {"type": ["string", "null"]},
            "model": {"type": ["string", "null"]},
            "steps": _array("Step"),
        },
        optional=("conversation_id",),
    ),
    "SimpleSource": _object(
        {"document_id": _ID, "filename": _TEXT, "page": {"type": ["integer", "null"]}, "content": _TEXT}
    ),
    "SimpleAnswer": _object({"answer": _TEXT, "sources": _array("SimpleSource")}),
    "SimpleFrame": {
        "oneOf": [
            _object({"token": _TEXT}),
            _object({"done": {"const": True}, "sources": _array("SimpleSource")}),
            _object({"error": _TEXT}),
        ]
    },
    "SearchResult": _object(
        {
            "chunk_id": _ID,
            "document_id": _ID,
            "version": _ID,
            "chunk_index": _COUNT,
            "content": _TEXT,
            "score": {"type": "number", "description": "Orders within one mode only."},
            "similarity": _SCORE,
            "lexical_score": {"type": "number"},
            "rerank_score": {"type": "number"},
            "title": _TEXT,
            "file_name": _TEXT,
            **_PLACE,
        },
        optional=("similarity", "lexical_score", "rerank_score", *_PLACE),
    ),
    "SearchResults": _object(
        {
            "results": _array("SearchResult"),
            "mode": {"enum": ["dense", "lexical", "hybrid"]},
            "usage": _object({"embedding_tokens": _COUNT}),
        }
    ),
    "Document": _object(
        {
            "id": _ID,
            "title": _TEXT,
            "file_name": _TEXT,
            "type": {"enum": ["file", "article", "repository", "capture"]},
            "status": {"enum": ["pending", "processing", "ready", "failed"]},
            "error": _object({"code": _TEXT, "message": _TEXT}),
            "version": _ID,
            "live_version": {"type": ["integer", "null"], "description": "The version that is searched now."},
            "chunks": _COUNT,
            "pages": _COUNT,
            "media_type": _TEXT,
            "size_bytes": _COUNT,
            "tokens": _COUNT,
            "url": _TEXT,
            "collection": {"type": ["string", "null"]},
            "tags": {"type": "array", "items": _TEXT},
            "metadata": {"type": "object"},
            "owner": _TEXT,
            "sha256": _TEXT,
            "created_at": {"type": "string", "format": "date-time"},
            "updated_at": {"type": "string", "format": "date-time"},
        },
        optional=("error", "pages", "url", "created_at", "updated_at"),
    ),
    "DocumentForm": _object(
        {
            "file": {"type": "string", "format": "binary", "description": "Up to 256 MiB."},
            "title": {"type": "string", "maxLength": 500},
            "collection": {"type": "string", "maxLength": 128, "description": "Made on first use."},
            "tags": {"type": "string", "description": "Repeatable; a JSON list, or separated by commas."},
            "metadata": {"type": "string", "description": "A JSON object."},
            "url": {"type": "string", "maxLength": 2048},
            "type": {"enum": ["file", "article", "repository", "capture"]},
        },
        optional=("title", "collection", "tags", "metadata", "url", "type"),
    ),
    "ProgressEvent": {
        "oneOf": [
            _event(
                "progress",
                _object(
                    {
                        "document": {"$ref": "#/components/schemas/Document"},
                        "stage": {"enum": ["parse", "chunk", "embed", "publish", None]},
                        "done": _COUNT,
                        "total": {"type": ["integer", "null"]},
                        "attempt": _COUNT,
                        "deleted": {"type": "boolean"},
                    }
                ),
            ),
            _event("error", _object({"text": _TEXT})),
            _event("done", _object({})),
        ]
    },
}
"""Schemas of bodies and events."""
