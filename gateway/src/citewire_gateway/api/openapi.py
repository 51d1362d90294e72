"""Additions to FastAPI's OpenAPI document: tags, streams, forms and keys."""

from collections.abc import Mapping, Sequence

from fastapi import APIRouter, FastAPI

from citewire_accounts.api.dependencies import authenticate
from citewire_accounts.api.operators import authenticate_operator
from citewire_accounts.people.cookies import SESSION_COOKIE
from citewire_dialects.schemas.anthropic import MESSAGE_EVENTS
from citewire_dialects.schemas.chat import CHAT_EVENTS
from citewire_dialects.schemas.library import PROGRESS_EVENTS, AddressBody, DocumentBody, DocumentForm
from citewire_dialects.schemas.openai_answers import COMPLETION_STREAM
from citewire_dialects.schemas.response_answers import RESPONSE_EVENTS
from citewire_dialects.schemas.vector_stores import FileForm
from citewire_dialects.self_rag import SELF_RAG_EVENTS
from citewire_dialects.simple import SIMPLE_STREAM
from citewire_dialects.ui_message import UI_STREAM
from citewire_http.api import openapi
from citewire_http.api.openapi import Events

_TAGS = [
    {"name": "chat", "description": "Questions, answered from documents with citations."},
    {"name": "compatible", "description": "Routes for clients of OpenAI, Anthropic, Cohere and Jina."},
    {"name": "search", "description": "Chunks and documents by similarity; the exact place of a citation."},
    {"name": "documents", "description": "Documents. Success means durable; processing follows."},
    {"name": "collections", "description": "Named groups of documents."},
    {"name": "spaces", "description": "Embedding models, and how many documents have vectors of them."},
    {"name": "conversations", "description": "Each user's questions and answers."},
    {"name": "profiles", "description": "Profiles: the built-in ones, and an organisation's own."},
    {"name": "providers", "description": "Tenants' own model providers; keys are sealed and never returned."},
    {"name": "keys", "description": "API keys: their scopes, expiry and rotation."},
    {"name": "erasures", "description": "Erasure of users and organisations with all their data."},
    {"name": "auth", "description": "Sign-in with a browser at an identity provider, and sign-out."},
    {"name": "accounting", "description": "Usage and budgets."},
    {"name": "admin", "description": "Your organisation's audit trail."},
    {"name": "operator", "description": "All organisations of the server, for its operators."},
    {"name": "system", "description": "Health."},
]
_STREAMS: Mapping[str, tuple[Events, bool]] = {
    "ChatEvent": (CHAT_EVENTS, True),
    "UiMessagePart": (UI_STREAM, False),
    "SimpleFrame": (SIMPLE_STREAM, False),
    "SelfRagFrame": (SELF_RAG_EVENTS, False),
    "CompletionFrame": (COMPLETION_STREAM, False),
    "MessageEvent": (MESSAGE_EVENTS, False),
    "ResponseFrame": (RESPONSE_EVENTS, False),
    "ProgressEvent": (PROGRESS_EVENTS, True),
}
_MEMBER = {
    "key": {"type": "http", "scheme": "bearer", "description": "`cw_…`, or a token of a known identity provider"},
    "session": {"type": "apiKey", "in": "cookie", "name": SESSION_COOKIE, "description": "After `/v1/auth/login`"},
}
_OPERATOR = {"operator": {"type": "http", "scheme": "bearer", "description": "`cwo_…`, an operator's key"}}


def install(app: FastAPI, routers: Sequence[APIRouter]) -> None:
    """Makes `app.openapi()` return the complete document of the routers."""
    callers = ((authenticate, _MEMBER), (authenticate_operator, _OPERATOR))
    described = openapi.Description(_TAGS, _STREAMS, (DocumentForm, DocumentBody, AddressBody, FileForm), callers)
    openapi.install(app, routers, described)
