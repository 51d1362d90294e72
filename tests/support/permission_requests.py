"""Requests of random callers to every route that may reveal content, for the proof of permissions over HTTP."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from permission_library import PEOPLE, SUBJECTS, Organisation

RATING = "/v1/conversations/{conversation_id}/answers/{exchange_id}/feedback"


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a caller, which may be sent again."""

    method: str
    path: str
    body: Any = None
    params: dict[str, Any] | None = None
    key: str = ""
    after: str = ""

    def headers(self) -> dict[str, str]:
        given = {"Idempotency-Key": self.key, "Last-Event-ID": self.after}
        return {name: value for name, value in given.items() if value}


class Draws:
    """Draws random requests, based on earlier responses."""

    def __init__(self, orgs: list[Organisation], choices: random.Random) -> None:
        self.orgs, self.choices = orgs, choices
        self.sender: tuple[str, int] = ("", 0)
        """The caller of the next request: the organisation, and the index among its users."""
        self.conversations: list[str] = []
        self.answers: list[tuple[str, str]] = []
        """Conversation and exchange of each."""
        self.runs: list[tuple[str, int, str]] = []
        """Chats, and who asked them."""
        self.made = 0
        self.replaced = set[int]()
        """Documents with a version that isn't ingested: their progress never ends."""
        self.reads: dict[tuple[str, str], Callable[[Organisation], Request]] = {
            ("GET", "/v1/documents"): self.list_documents,
            ("GET", "/v1/documents/{document_id}"): lambda org: self.document(org, "GET"),
            ("GET", "/v1/documents/{document_id}/content"): lambda org: self.document(org, "GET", "/content"),
            ("GET", "/v1/documents/{document_id}/text"): lambda org: self.document(org, "GET", "/text"),
            ("GET", "/v1/documents/{document_id}/locate"): self.locate,
            ("GET", "/v1/documents/{document_id}/tables"): lambda org: self.document(org, "GET", "/tables"),
            ("POST", "/v1/documents/{document_id}/tables:query"): lambda org: self.document(
                org, "POST", "/tables:query", {"columns": ["canary"]}
            ),
            ("GET", "/v1/documents/{document_id}/events"): self.events,
            ("GET", "/v1/chunks/{chunk_id}"): self.chunk,
            ("GET", "/v1/collections"): lambda _: Request("GET", "/v1/collections"),
            ("GET", "/v1/collections/{name}/grants"): lambda org: self.collection(org, "GET", "/grants"),
            ("POST", "/v1/search"): self.search,
            ("GET", "/v1/conversations"): lambda _: self.listed_conversations(),
            ("GET", "/v1/conversations/{conversation_id}"): lambda _: self.conversation("GET"),
            ("GET", "/v1/conversations/{conversation_id}/export"): lambda _: self.export(),
            ("GET", "/v1/conversations/{conversation_id}/sharing"): lambda _: self.conversation("GET", "/sharing"),
            ("GET", "/v1/chat/{run_id}/events"): lambda _: self.run_events(),
            ("GET", "/v1/chat/{chat_id}/stream"): lambda _: self.run_stream(),
            ("GET", "/v1/responses/{response_id}"): lambda _: self.stored_response("GET"),
            ("GET", "/v1/responses/{response_id}/input_items"): lambda _: self.stored_response("GET", "/input_items"),
            ("GET", "/v1/vector_stores"): lambda _: Request("GET", "/v1/vector_stores", params={"limit": 100}),
            ("GET", "/v1/vector_stores/{name}"): lambda org: self.store(org, "GET"),
            ("GET", "/v1/vector_stores/{name}/files"): lambda org: self.store(org, "GET", "/files"),
            ("GET", "/v1/vector_stores/{name}/files/{file_id}"): lambda org: self.store(
                org, "GET", f"/files/{self.number(org)}"
            ),
            ("POST", "/v1/vector_stores/{name}/search"): lambda org: self.store(
                org, "POST", "/search", {"query": "beacon"}
            ),
            ("GET", "/v1/files"): lambda _: Request("GET", "/v1/files"),
            ("GET", "/v1/files/{file_id}"): lambda org: self.file(org, "GET"),
            ("GET", "/v1/files/{file_id}/content"): lambda org: self.file(org, "GET", "/content"),
            ("GET", "/v1/feedback"): lambda _: Request("GET", "/v1/feedback", params={"page_size": 200}),
            ("GET", "/v1/admin/audit"): lambda _: Request("GET", "/v1/admin/audit", params={"page_size": 200}),
        }
        self.writes: dict[tuple[str, str], Callable[[Organisation], Request]] = {
            ("POST", "/v1/chat"): self.chat,
            ("POST", "/v1/chat/completions"): self.completion,
            ("POST", "/anthropic/v1/messages"): self.message,
            ("POST", "/v1/responses"): self.response,
            ("POST", "/v1/vector_stores"): lambda org: Request(
                "POST", "/v1/vector_stores", {"name": self.choices.choice(org.collections)}
            ),
            ("DELETE", "/v1/vector_stores/{name}"): lambda org: self.store(org, "DELETE"),
            ("POST", "/v1/vector_stores/{name}/files"): lambda org: self.store(
                org, "POST", "/files", {"file_id": str(self.number(org))}
            ),
            ("DELETE", "/v1/vector_stores/{name}/files/{file_id}"): lambda org: self.store(
                org, "DELETE", f"/files/{self.number(org)}"
            ),
            ("DELETE", "/v1/files/{file_id}"): lambda org: self.file(org, "DELETE"),
            ("DELETE", "/v1/responses/{response_id}"): lambda _: self.stored_response("DELETE"),
            ("POST", "/v1/responses/{response_id}/cancel"): lambda _: self.stored_response("POST", "/cancel"),
            ("POST", "/api/rag-chat"): lambda org: self.rag_chat(org, "/api/rag-chat"),
            ("POST", "/api/rag-chat/stream"): lambda org: self.rag_chat(org, "/api/rag-chat/stream"),
            ("POST", "/api/chat/"): lambda _: Request("POST", "/api/chat/", {"question": "which beacons?"}),
            ("POST", "/api/chat/query"): lambda _: Request("POST", "/api/chat/query", {"question": "which beacons?"}),
            ("POST", "/v1/chat/{run_id}/cancel"): lambda _: Request("POST", f"/v1/chat/{self.run_id()}/cancel"),
            ("PUT", "/v1/conversations/{conversation_id}/sharing"): lambda _: self.share(),
            ("PUT", RATING): lambda _: self.rate("PUT", {"rating": "up"}),
            ("DELETE", RATING): lambda _: self.rate("DELETE"),
            ("PATCH", "/v1/conversations/{conversation_id}"): lambda _: self.conversation("PATCH", body={"title": "T"}),
            ("DELETE", "/v1/conversations/{conversation_id}"): lambda _: self.conversation("DELETE"),
            ("POST", "/v1/documents"): self.put,
            ("POST", "/v1/documents:batch"): self.batch,
            ("PUT", "/v1/documents/{document_id}"): self.replace,
            ("PATCH", "/v1/documents/{document_id}"): self.update,
            ("DELETE", "/v1/documents/{document_id}"): self.delete,
            ("POST", "/v1/documents/{document_id}:retry"): self.retry,
            ("POST", "/v1/collections"): lambda org: Request(
                "POST", "/v1/collections", {"name": self.choices.choice(org.collections)}
            ),
            ("PATCH", "/v1/collections/{name}"): lambda org: self.collection(org, "PATCH", body={"enrich": False}),
            ("DELETE", "/v1/collections/{name}"): lambda org: self.collection(org, "DELETE"),
            ("PUT", "/v1/collections/{name}/grants"): self.grant,
        }

    def list_documents(self, org: Organisation) -> Request:
        params = {"page_size": 200, "q": self.choices.choice(("", "canary"))}
        collection = self.choices.choice(("", *org.collections))
        return Request("GET", "/v1/documents", params=params | ({"collection": collection} if collection else {}))

    def number(self, org: Organisation) -> int:
        """An id of any organisation's document."""
        of = org if self.choices.random() < 0.9 else self.choices.choice(self.orgs)
        return self.choices.choice(list(of.model.documents))

    def document(self, org: Organisation, method: str, rest: str = "", body: Any = None) -> Request:  # noqa: ANN401 # a body as JSON
        return Request(method, f"/v1/documents/{self.number(org)}{rest}", body)

    def locate(self, org: Organisation) -> Request:
        return Request("GET", f"/v1/documents/{self.number(org)}/locate", params={"char_start": 0, "char_end": 9})

    def events(self, org: Organisation) -> Request:
        ready = {entry.document_id for entry in org.model.documents.values() if entry.chunk_id} - self.replaced
        return Request("GET", f"/v1/documents/{self.choices.choice(sorted(ready))}/events")

    def chunk(self, org: Organisation) -> Request:
        known = [entry.chunk_id for entry in org.model.documents.values() if entry.chunk_id]
        return Request("GET", f"/v1/chunks/{self.choices.choice(known)}")

    def collection(self, org: Organisation, method: str, rest: str = "", body: Any = None) -> Request:  # noqa: ANN401 # a body as JSON
        return Request(method, f"/v1/collections/{self.choices.choice(org.collections)}{rest}", body)

    def store(self, org: Organisation, method: str, rest: str = "", body: Any = None) -> Request:  # noqa: ANN401 # a body as JSON
        return Request(method, f"/v1/vector_stores/{self.choices.choice(org.collections)}{rest}", body)

    def file(self, org: Organisation, method: str, rest: str = "") -> Request:
        return Request(method, f"/v1/files/{self.number(org)}{rest}")

    def scope(self, org: Organisation) -> dict[str, Any]:
        kind = self.choices.randrange(3)
        if kind == 1:
            return {"collection": self.choices.choice(org.collections)}
        return {"document_ids": [self.number(org) for _ in range(3)]} if kind == 2 else {}

    def search(self, org: Organisation) -> Request:
        body = {
            "query": "beacon",
            "mode": self.choices.choice(("dense", "lexical", "hybrid")),
            "top_k": self.choices.choice((3, 50)),
            "group_by": self.choices.choice((None, "document")),
            "rerank": self.choices.random() < 0.2,
            **self.scope(org),
        }
        return Request("POST", "/v1/search", body)

    def chat(self, org: Organisation) -> Request:
        stream = self.choices.random() < 0.5
        body: dict[str, Any] = {"question": "which beacons are there?", "stream": stream, **self.scope(org)}
        body |= self.choices.choice(({}, {"grace_seconds": 5}, {"detach": True}))
        if self.conversations and self.choices.random() < 0.3:
            body["conversation_id"] = self.choices.choice(self.conversations)
        key = "" if stream or self.choices.random() < 0.5 else str(uuid.UUID(int=self.choices.getrandbits(128)))
        dialect = self.choices.choice((None, "ui-message")) if stream else None
        return Request("POST", "/v1/chat", body, {"dialect": dialect} if dialect else None, key)

    def completion(self, _: Organisation) -> Request:
        messages = [{"role": "user", "content": "which beacons are there?"}]
        body = {"model": "documents", "messages": messages, "stream": self.choices.random() < 0.5}
        return Request("POST", "/v1/chat/completions", body)

    def message(self, org: Organisation) -> Request:
        body = self.completion(org).body | {"max_tokens": 100}
        return Request("POST", "/anthropic/v1/messages", body)

    def response(self, org: Organisation) -> Request:
        body: dict[str, Any] = {"model": "documents", "input": "which beacons are there?"}
        body["stream"] = self.choices.random() < 0.5
        if self.choices.random() < 0.5:
            body["tools"] = [{"type": "file_search", "vector_store_ids": [self.choices.choice(org.collections)]}]
            body["include"] = ["file_search_call.results"]
        if self.answers and self.choices.random() < 0.3:
            body["previous_response_id"] = self.response_id()
        return Request("POST", "/v1/responses", body)

    def stored_response(self, method: str, rest: str = "") -> Request:
        return Request(method, f"/v1/responses/{self.response_id()}{rest}")

    def response_id(self) -> str:
        """The id of any answer given, to any caller over any API."""
        _, exchange = self.choices.choice(self.answers or [(str(uuid.UUID(int=1)),) * 2])
        return f"resp_{uuid.UUID(exchange).hex}"

    def rag_chat(self, org: Organisation, path: str) -> Request:
        collection = self.choices.choice((None, *org.collections))
        return Request("POST", path, {"messages": [{"role": "user", "content": "beacons?"}], "collection": collection})

    def run_id(self) -> str:
        """One of the last chats, mostly one of the caller's own."""
        own = [run for org, place, run in self.runs if (org, place) == self.sender]
        runs = own if own and self.choices.random() < 0.7 else [run for *_, run in self.runs]
        return self.choices.choice(runs[-5:] or [str(uuid.UUID(int=1))])

    def run_events(self) -> Request:
        dialect = self.choices.choice((None, "ui-message"))
        after = self.choices.choice(("", "", "0", "2", "9"))
        path = f"/v1/chat/{self.run_id()}/events"
        return Request("GET", path, params={"dialect": dialect} if dialect else None, after=after)

    def run_stream(self) -> Request:
        number = self.choices.choice(self.conversations[-20:] or [str(uuid.UUID(int=1))])
        return Request("GET", f"/v1/chat/{number}/stream")

    def listed_conversations(self) -> Request:
        return Request("GET", "/v1/conversations", params={"shared": self.choices.choice(("true", "false"))})

    def conversation(self, method: str, rest: str = "", body: Any = None) -> Request:  # noqa: ANN401 # a body as JSON
        number = self.choices.choice(self.conversations or [str(uuid.UUID(int=1))])
        return Request(method, f"/v1/conversations/{number}{rest}", body)

    def rate(self, method: str, body: Any = None) -> Request:  # noqa: ANN401 # a body as JSON
        conversation, exchange = self.choices.choice(self.answers or [(str(uuid.UUID(int=1)),) * 2])
        return Request(method, f"/v1/conversations/{conversation}/answers/{exchange}/feedback", body)

    def export(self) -> Request:
        format = self.choices.choice(("json", "markdown"))
        return Request("GET", self.conversation("GET", "/export").path, params={"format": format})

    def share(self) -> Request:
        users = self.choices.sample([name for name, *_ in PEOPLE], 2)
        body = {"users": users, "groups": ["hr"], "organisation": self.choices.choice((True, False))}
        return self.conversation("PUT", "/sharing", body)

    def put(self, org: Organisation) -> Request:
        body = self.article(org)
        key = str(uuid.UUID(int=self.choices.getrandbits(128))) if self.choices.random() < 0.5 else ""
        return Request("POST", "/v1/documents", body, key=key)

    def replace(self, org: Organisation) -> Request:
        document = self.choices.choice([*org.model.documents.values()])
        self.replaced.add(document.document_id)
        body = self.article(org) | {"title": document.label}
        return Request("PUT", f"/v1/documents/{document.document_id}", body)

    def delete(self, org: Organisation) -> Request:
        return self.document(org, "DELETE")

    def retry(self, org: Organisation) -> Request:
        return self.document(org, "POST", ":retry")

    def batch(self, org: Organisation) -> Request:
        ways = {
            "create": self.put,
            "replace": self.replace,
            "update": self.update,
            "delete": self.delete,
            "retry": self.retry,
        }
        operations: list[dict[str, Any]] = []
        for name in self.choices.choices([*ways], k=self.choices.choice((1, 3))):
            request = ways[name](org)
            operation = {"op": name, "document": request.body, "key": request.key}
            operation["id"] = int(re.split("[/:]", request.path)[3]) if name != "create" else None
            operations.append({field: value for field, value in operation.items() if value})
        return Request("POST", "/v1/documents:batch", {"operations": operations})

    def article(self, org: Organisation) -> dict[str, Any]:
        self.made += 1
        readers = self.choices.sample(SUBJECTS, self.choices.choice((0, 1)))
        fields = {"collection": self.choices.choice((None, *org.collections)), "readers": readers}
        return {"type": "article", "title": f"canary{org.name}new{self.made}x", "content": "# Words", **fields}

    def update(self, org: Organisation) -> Request:
        if self.choices.random() < 0.5:
            return self.document(org, "PATCH", body={"collection": self.choices.choice((None, *org.collections))})
        readers = self.choices.sample(SUBJECTS, self.choices.choice((0, 1, 2)))
        return self.document(org, "PATCH", body={"readers": readers})

    def grant(self, org: Organisation) -> Request:
        picked = self.choices.sample(SUBJECTS, self.choices.choice((0, 1, 1, 2)))
        access = self.choices.choice(("read", "write", "manage"))
        body = {"grants": [{"subject": subject, "access": access} for subject in picked]}
        return self.collection(org, "PUT", "/grants", body)
