"""Examples of what the API sends, for its OpenAPI document."""

from typing import Any

from citewire_gateway.profiles.builtin import PROFILES as ALL_PROFILES
from citewire_gateway.profiles.builtin import describe

Docs = dict[str, Any]

TAGS = [
    {"name": "chat", "description": "Questions, answered from documents with citations."},
    {"name": "compatible", "description": "What clients of OpenAI, Cohere and Jina call."},
    {"name": "search", "description": "Chunks and documents by similarity; the exact place of a citation."},
    {"name": "documents", "description": "What is asked about. Answered means durable; processing follows."},
    {"name": "collections", "description": "Named groups of documents."},
    {"name": "spaces", "description": "Embedding models whose vectors documents have, and how many."},
    {"name": "conversations", "description": "What was asked and answered, each user's own."},
    {"name": "profiles", "description": "How questions are answered: the server's ways, and an organisation's own."},
    {"name": "providers", "description": "Models that a tenant brings; keys are sealed and never come back."},
    {"name": "accounting", "description": "What was spent, and what may be."},
    {"name": "system", "description": "Health."},
]

PROBLEM_TITLES = {
    400: "The body can't be read (reason `INVALID_JSON`), or a provider is missing (`PROVIDER_MISSING`, with `types`).",
    401: "An API key is missing, unknown or revoked.",
    402: "A budget is spent: `budget`, `limit_usd`, `left_usd` and `resets_at` say which, what is left and until when.",
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
VERIFIED: Docs = {
    "index": 1,
    "sentence": {"start": 0, "end": 21},
    "chunk_id": 1042,
    "document_id": 7,
    "version": 1,
    "page_number": 3,
    "document_start": 2210,
    "document_end": 2253,
    "quote": "Revenue grew by 12 %, to 4.2 million euros.",
    "quote_start": 0,
    "quote_end": 43,
    "support": 0.97,
    "verdict": "supported",
    "sentence_verdict": "supported",
    "mismatches": [],
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
SELF_RAG_STREAM = (
    'event: decision\ndata: {"needs_retrieval": true, "reason": "It asks about saved content."}\n\n'
    'event: retrieval\ndata: {"total": 1, "sources": [{"id": "1042", "index": 1, "content": "Vector search …", '
    '"score": 0.742, "source_type": "article", "title": "Vector search", "url": "https://example.org/vectors", '
    '"owner_login": null, "owner_avatar_url": null, "stargazers_count": null, "language": null, '
    '"description": null}]}\n\n'
    'event: content\ndata: {"delta": "It compares vectors [ref:1]."}\n\n'
    'event: assessment\ndata: {"supported": true, "utility": 0.9}\n\n'
    'event: done\ndata: {"message": "completed"}\n\n'
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
SPACE: Docs = {
    "model": "text-embedding-3-small",
    "revision": "1",
    "dimensions": 1536,
    "role": "next",
    "items": 240,
    "with_vectors": 190,
    "missing": 50,
    "given_up": 0,
    "chunks": 1810,
    "chunks_with_vectors": 1424,
    "calibration": {
        "relevance_threshold": 0.21,
        "answerable_threshold": 0.38,
        "dense_weight": 0.5,
        "measured_at": "2026-01-01T12:00:00Z",
        "report": {"questions": 1200},
    },
}
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
        "verified": [VERIFIED],
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
