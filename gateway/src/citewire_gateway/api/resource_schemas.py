"""Schemas of what the API sends, for its OpenAPI document."""

from typing import Any

Docs = dict[str, Any]


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


_MAYBE_TEXT: Docs = {"type": ["string", "null"]}
_MAYBE_ID: Docs = {"type": ["integer", "null"], "minimum": 1}


def _array(name: str) -> Docs:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}}


def _event(name: str, data: Docs) -> Docs:
    return _object({"event": {"const": name}, "id": _COUNT, "data": data})


def _named(name: str, data: Docs) -> Docs:
    return _object({"event": {"const": name}, "data": data})


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
    "Usage": _object(
        {
            "embedding_tokens": _COUNT,
            "prompt_tokens": _COUNT,
            "completion_tokens": _COUNT,
            "path": {"type": "string", "description": "The context path; only in profiles that choose one."},
            "cost_usd": {"type": "number", "description": "Only in profiles that show it."},
        },
        optional=("path", "cost_usd"),
    ),
    "Decision": _object({"needs_retrieval": {"type": "boolean"}, "reason": _TEXT}),
    "Assessment": _object(
        {
            "supported": {"type": "boolean"},
            "utility": _SCORE,
            "fallback": {"const": True, "description": "There only if the answer could not be assessed."},
        },
        optional=("fallback",),
    ),
    "Source": _object(
        {
            "file_name": _TEXT,
            "ref": _TEXT,
            "snippet": {"type": "string", "maxLength": 200},
            "page_number": _MAYBE_ID,
            "row_number": {**_MAYBE_ID, "description": "The row, or else the first line."},
            "document_id": _TEXT,
        },
        description="`sources[N-1]` is `[SOURCE N]`.",
    ),
    "SelfRagSource": _object(
        {
            "id": _TEXT,
            "index": _ID,
            "content": _TEXT,
            "score": {"type": ["number", "null"]},
            "source_type": {"enum": ["article", "repository"]},
            "title": _TEXT,
            "url": _MAYBE_TEXT,
            "owner_login": _MAYBE_TEXT,
            "owner_avatar_url": _MAYBE_TEXT,
            "language": _MAYBE_TEXT,
            "description": _MAYBE_TEXT,
            "stargazers_count": {"type": ["integer", "null"]},
        }
    ),
    "SelfRagFrame": {
        "oneOf": [
            _named("decision", {"$ref": "#/components/schemas/Decision"}),
            _named("retrieval", _object({"total": _COUNT, "sources": _array("SelfRagSource")})),
            _named("content", _object({"delta": _TEXT})),
            _named("assessment", {"$ref": "#/components/schemas/Assessment"}),
            _named("done", _object({"message": {"const": "completed"}})),
            _named("error", _object({"message": _TEXT})),
        ]
    },
    "AnswerSpan": _object(
        {"start": _COUNT, "end": _COUNT},
        description="A sentence of the answer, in Unicode code points; `end` is exclusive.",
    ),
    "CheckedCitation": _object(
        {
            "index": _ID,
            "sentence": {"$ref": "#/components/schemas/AnswerSpan"},
            "chunk_id": _ID,
            "document_id": _ID,
            "version": _ID,
            "page_number": _ID,
            "row_number": _ID,
            "start_line": {**_ID, "description": "The quote's first line."},
            "document_start": {**_COUNT, "description": "Where the quote starts in the version's stored text."},
            "document_end": _COUNT,
            "quote": {**_TEXT, "description": "The passage's own words; empty if nothing in it comes near."},
            "quote_start": {**_COUNT, "description": "Where the quote starts in the chunk, in Unicode code points."},
            "quote_end": _COUNT,
            "support": _SCORE,
            "verdict": {"$ref": "#/components/schemas/Verdict"},
            "sentence_verdict": {"$ref": "#/components/schemas/Verdict"},
            "mismatches": {"type": "array", "items": _TEXT},
        },
        optional=("page_number", "row_number", "start_line", "document_start", "document_end"),
        description="A sentence of the answer and what the passage that it cites says about it.",
    ),
    "Verdict": {"enum": ["supported", "partial", "unsupported"]},
    "UncitedSentence": _object({"sentence": {"$ref": "#/components/schemas/AnswerSpan"}}),
    "Step": _object(
        {"name": _TEXT, "text": _TEXT, "path": _TEXT, "counts": {"type": "object"}, "reason": _TEXT},
        optional=("path", "counts", "reason"),
    ),
    "ChatEvent": {
        "oneOf": [
            _event("conversation", _object({"conversation_id": {"type": "string", "format": "uuid"}})),
            _event("step", {"$ref": "#/components/schemas/Step"}),
            _event("decision", {"$ref": "#/components/schemas/Decision"}),
            _event("citations", _object({"citations": _array("Citation")})),
            _event("token", _object({"text": _TEXT})),
            _event("citation", {"$ref": "#/components/schemas/CheckedCitation"}),
            _event("uncited", {"$ref": "#/components/schemas/UncitedSentence"}),
            _event("sources", _object({"sources": _array("Source")})),
            _event("assessment", {"$ref": "#/components/schemas/Assessment"}),
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
            "answerable_score": {"type": "number", "minimum": 0, "maximum": 1},
            "finish_reason": _TEXT,
            "provider": {"type": ["string", "null"]},
            "model": {"type": ["string", "null"]},
            "steps": _array("Step"),
            "verified": _array("CheckedCitation"),
            "uncited": _array("UncitedSentence"),
            "sources": _array("Source"),
            "decision": {"$ref": "#/components/schemas/Decision"},
            "assessment": {"$ref": "#/components/schemas/Assessment"},
        },
        optional=("conversation_id", "answerable_score", "verified", "uncited", "sources", "decision", "assessment"),
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
    "CompletionChunk": _object(
        {
            "id": _TEXT,
            "object": {"const": "chat.completion.chunk"},
            "created": _COUNT,
            "model": _TEXT,
            "choices": {"type": "array", "items": {"type": "object"}},
            "usage": {"type": ["object", "null"]},
        },
        optional=("usage",),
    ),
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
            "duplicate_chunk_ids": {"type": "array", "items": _ID, "description": "Left out: nearly the same text."},
            "title": _TEXT,
            "file_name": _TEXT,
            **_PLACE,
        },
        optional=("similarity", "lexical_score", "rerank_score", "duplicate_chunk_ids", *_PLACE),
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
