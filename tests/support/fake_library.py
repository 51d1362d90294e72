"""The documents' part of the HTTP API, in memory, on a `FakeGateway`: uploads with keys, progress, failures."""

from __future__ import annotations

import email.parser
import email.policy
import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from fake_gateway import FakeGateway, Reply, Request, reply_json, reply_problem


@dataclass(slots=True)
class StoredDocument:
    """One document; `steps` are its successive states, one per query of its progress."""

    id: int
    file_name: str
    content: bytes
    form: dict[str, str]
    key: str
    steps: list[str] = field(default_factory=list[str])

    def as_json(self, status: str) -> dict[str, object]:
        document: dict[str, object] = {
            "id": self.id,
            "version": 1,
            "status": status,
            "type": "file",
            "file_name": self.file_name,
            "title": self.file_name,
            "sha256": hashlib.sha256(self.content).hexdigest(),
            "metadata": json.loads(self.form.get("metadata", "{}")),
            "collection": self.form.get("collection"),
            "readers": json.loads(self.form.get("readers", "[]")),
            **({"url": self.form["url"]} if self.form.get("url") else {}),
            "chunks": 3 if status == "ready" else 0,
        }
        if status == "failed":
            document["error"] = {"code": "DOCUMENT_EMPTY", "message": "The file is empty."}
        return document


class FakeLibrary:
    """Answers `/v1/documents` and below."""

    def __init__(
        self,
        gateway: FakeGateway,
        states: Callable[[str], list[str]] | None = None,
        after_retry: list[str] | None = None,
    ) -> None:
        self._after_retry = after_retry or ["processing", "ready"]
        self._states = states or _straight_to_ready
        self._lock = threading.Lock()
        self._keys: dict[str, int] = {}
        self.documents: dict[int, StoredDocument] = {}
        self.retried: list[int] = []
        self.versions = 0
        gateway.on("POST", "/v1/documents", self._post)
        gateway.on("PUT", r"/v1/documents/\d+", self._put)
        gateway.on("GET", "/v1/documents", self._list)
        gateway.on("GET", r"/v1/documents/\d+", self._get)
        gateway.on("PATCH", r"/v1/documents/\d+", self._patch)
        gateway.on("DELETE", r"/v1/documents/\d+", self._delete)
        gateway.on("POST", r"/v1/documents/\d+:retry", self._retry)

    def names(self) -> list[str]:
        return sorted(document.file_name for document in self.documents.values())

    def _post(self, request: Request) -> Reply:
        with self._lock:
            key = request.headers["idempotency-key"]
            if key in self._keys:
                if self._keys[key] not in self.documents:  # like the gateway for a remembered response
                    return reply_problem(404, "No such document", reason="DOCUMENT_NOT_FOUND")
                return reply_json({"id": self._keys[key], "version": 1, "status": "pending"}, 202)
            document = StoredDocument(max(self.documents, default=0) + 1, "", b"", {}, key)
            _read_form(request, document)
            if not document.content:
                problem = [{"field": "file", "message": "must not be empty"}]
                return reply_problem(422, "The file is empty", reason="FILE_EMPTY", errors=problem)
            document.steps = self._states(document.file_name)
            self._keys[key] = document.id
            self.documents[document.id] = document
            return reply_json(document.as_json("pending"), 202)

    def _put(self, request: Request) -> Reply:
        with self._lock:
            document = self.documents[int(request.path.rpartition("/")[2])]
            key = request.headers["idempotency-key"]
            if key in self._keys:
                return reply_json(document.as_json("pending"), 202)
            self._keys[key] = document.id
            _read_form(request, document)
            document.steps = self._states(document.file_name)
            self.versions += 1
            return reply_json(document.as_json("pending"), 202)

    def _get(self, request: Request) -> Reply:
        with self._lock:
            document = self.documents.get(int(request.path.rpartition("/")[2]))
            if document is None:
                return reply_problem(404, "No such document", reason="DOCUMENT_NOT_FOUND")
            return reply_json(document.as_json(document.steps[0]))

    def _list(self, request: Request) -> Reply:
        with self._lock:
            size, offset = int(request.query["page_size"]), int(request.query.get("page_token", "0"))
            expected = [
                document.as_json(document.steps[0])
                for document in self.documents.values()
                if request.query.get("status") in {None, document.steps[0]}
                and request.query.get("collection") in {None, document.form.get("collection")}
            ]
            for document in self.documents.values():
                if request.query.get("status") == "processing" and len(document.steps) > 1:
                    document.steps.pop(0)  # time passes while the client waits
            token = str(offset + size) if offset + size < len(expected) else ""
            return reply_json({"documents": expected[offset : offset + size], "next_page_token": token})

    def _patch(self, request: Request) -> Reply:
        with self._lock:
            document = self.documents.get(int(request.path.rpartition("/")[2]))
            if document is None:
                return reply_problem(404, "No such document", reason="DOCUMENT_NOT_FOUND")
            changes = json.loads(request.body)
            document.file_name = changes.pop("file_name", document.file_name)
            document.form |= {
                name: json.dumps(value) if name == "readers" else value for name, value in changes.items()
            }
            return reply_json(document.as_json(document.steps[0]))

    def _delete(self, request: Request) -> Reply:
        with self._lock:
            if self.documents.pop(int(request.path.rpartition("/")[2]), None) is None:
                return reply_problem(404, "No such document", reason="DOCUMENT_NOT_FOUND")
            return Reply(204)

    def _retry(self, request: Request) -> Reply:
        with self._lock:
            number = int(request.path.removesuffix(":retry").rpartition("/")[2])
            self.retried.append(number)
            self.documents[number].steps = self._after_retry
            return reply_json(self.documents[number].as_json("pending"), 202)


def _straight_to_ready(name: str) -> list[str]:
    del name
    return ["pending", "processing", "ready"]


def _read_form(request: Request, document: StoredDocument) -> None:
    if request.headers["content-type"] == "application/json":  # an address, which the gateway fetches
        body = json.loads(request.body)
        document.form |= {name: json.dumps(value) if name == "tags" else value for name, value in body.items()}
        document.file_name, document.content = body["url"].rpartition("/")[2], body["url"].encode()
        return
    head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + request.body)
    for part in message.iter_parts():
        content = part.get_payload(decode=True)
        assert isinstance(content, bytes)
        name = part.get_param("name", header="content-disposition")
        if name == "file":
            # Like the gateway, which keeps a name without its folders.
            document.file_name, document.content = (part.get_filename() or "").rpartition("/")[2], content
        else:
            document.form[str(name)] = content.decode()
    document.file_name = document.form.get("path", document.file_name)


def tags_of(document: StoredDocument) -> list[str]:
    """The tags that an upload was sent with."""
    return json.loads(document.form.get("tags", "[]"))
