"""The HTTP API for `citewire eval`: a library that ranks by shared words, and a chat that quotes from it.

Built on `fake_gateway`, so that the command talks to a real server over a real socket.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from typing import cast

from fake_gateway import FakeGateway, Reply, Request, reply_json, reply_problem

Json = dict[str, object]
SPACE = {"model": "all-MiniLM-L6-v2", "revision": "r1", "dimensions": 384}


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


@dataclass(slots=True)
class StoredDocument:
    """A document; it is one chunk, whose id is its own plus 1,000."""

    number: int
    collection: str
    title: str
    content: str
    metadata: dict[str, str]

    def similarity(self, query: str) -> float:
        expected = words(query)
        return round(len(expected & words(f"{self.title} {self.content}")) / max(1, len(expected)), 6)


@dataclass(slots=True)
class EvalLibrary:
    """The fake gateway's data. A test changes `spoil`, `broken`, `scores` and `shift` to make it misbehave."""

    documents: dict[int, StoredDocument] = field(default_factory=dict[int, StoredDocument])
    keys: dict[str, int] = field(default_factory=dict[str, int])
    broken: dict[str, int] = field(default_factory=dict[str, int])
    """Texts of questions whose search and chat fail, with the status."""
    failed: set[str] = field(default_factory=set[str])
    scores: bool = True
    """Whether answers have `answerable_score`."""
    shift: int = 0
    """Added to the offsets of quotes, so that they are wrong."""
    keeps: bool = True
    """Whether chats become conversations."""
    threshold: float = 0.5
    off_topic: float = -1.0
    """A search is off topic unless its best result has a higher similarity."""
    calibration: Json | None = None
    conversations: set[str] = field(default_factory=set[str])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def attach(self, gateway: FakeGateway) -> None:
        gateway.on("POST", "/v1/documents", self.put)
        gateway.on("GET", "/v1/documents", self.list)
        gateway.on("GET", r"/v1/documents/\d+/text", self.content)
        gateway.on("GET", r"/v1/chunks/\d+", self.chunk)
        gateway.on("POST", "/v1/search", self.search)
        gateway.on("POST", "/v1/chat", self.chat)
        gateway.on("GET", r"/v1/profiles/\w+", self.profile)
        gateway.on("DELETE", r"/v1/conversations/.+", self.forget)
        gateway.on("GET", "/v1/spaces", self.spaces)
        gateway.on("PUT", "/v1/spaces/calibration", self.calibrate)

    def put(self, request: Request) -> Reply:
        body = request.json()
        with self.lock:
            number = self.keys.setdefault(request.headers["idempotency-key"], len(self.keys) + 1)
            if number > len(self.documents):
                metadata = cast("dict[str, str]", body["metadata"])
                collection, title, content = (str(body[name]) for name in ("collection", "title", "content"))
                self.documents[number] = StoredDocument(number, collection, title, content, metadata)
        return reply_json({"id": number, "status": "pending"}, 202)

    def list(self, request: Request) -> Reply:
        status, collection = request.query.get("status"), request.query["collection"]
        with self.lock:
            results = [document for document in self.documents.values() if document.collection == collection]
        if status == "failed":
            results = [element for element in results if element.metadata["eval_id"] in self.failed]
        elif status is not None:
            results = []
        # Two to a page, so that paging is used.
        start = int(request.query.get("page_token") or 0)
        page = [
            {"id": entry.number, "metadata": entry.metadata, "title": entry.title, "file_name": "", "live_version": 1}
            for entry in results[start : start + 2]
        ]
        return reply_json({"documents": page, "next_page_token": str(start + 2) if start + 2 < len(results) else ""})

    def content(self, request: Request) -> Reply:
        number = int(request.path.split("/")[3])
        return Reply(content_type="text/plain; charset=utf-8", chunks=(self.documents[number].content.encode(),))

    def chunk(self, request: Request) -> Reply:
        number = int(request.path.rsplit("/", 1)[1]) - 1000
        return reply_json({"chunk_id": number + 1000, "content": self.documents[number].content, "char_start": 0})

    def search(self, request: Request) -> Reply:
        body = request.json()
        if status := self.broken.get(str(body["query"])):
            return reply_problem(status, "Broken", detail="as the test says")
        result = self._matches(body, str(body["query"]))
        shown: list[Json] = [
            self._result_of(candidate, score) for score, candidate in result[: cast("int", body["top_k"])]
        ]
        off_topic = not result or result[0][0] <= self.off_topic
        answer: Json = {"results": shown, "mode": body["mode"], "off_topic": off_topic}
        if body.get("rerank"):
            answer["rerank"] = {
                "candidates": 40,
                "ranked": min(40, int(cast("float", body.get("rerank_seconds", 3)) * 40)),
            }
        return reply_json(answer)

    def chat(self, request: Request) -> Reply:
        body = request.json()
        question = str(body["question"])
        if status := self.broken.get(question):
            return reply_problem(status, "Broken", detail="as the test says")
        result = self._matches(body, question)[:1]
        score = result[0][0] if result else 0.0
        answer: Json = {"not_found": score < self.threshold, "citations": []}
        if self.scores and result:
            answer["answerable_score"] = score
        if self.keeps:
            with self.lock:
                answer["conversation_id"] = f"c{len(self.conversations) + 1}"
                self.conversations.add(str(answer["conversation_id"]))
        if answer["not_found"]:
            answer["answer"] = "I could not find this information in the uploaded documents."
            return reply_json(answer)
        best = result[0][1]
        quote = best.content.split(". ")[0]
        answer["answer"] = f"{quote} [ref:1]"
        answer["citations"] = [{"index": 1, "chunk_id": best.number + 1000, "document_id": best.number}]
        if "citation" in cast("list[str]", body.get("include", [])):
            at = best.content.index(quote) + self.shift
            place = {"quote_start": at, "quote_end": at + len(quote)}
            place |= {"document_start": at, "document_end": at + len(quote)}
            known = {"chunk_id": best.number + 1000, "document_id": best.number, "version": 1}
            answer["verified"] = [{**known, "quote": quote, **place, "support": 0.9, "verdict": "supported"}]
        return reply_json(answer)

    def profile(self, request: Request) -> Reply:
        name = request.path.rsplit("/", 1)[1]
        if name == "unknown":
            return reply_problem(404, "Not found", detail="there is no profile 'unknown'", reason="PROFILE_NOT_FOUND")
        return reply_json({"name": name, "optional_events": ["step", "citation"] if name == "sources" else []})

    def forget(self, request: Request) -> Reply:
        with self.lock:
            self.conversations.discard(request.path.rsplit("/", 1)[1])
            self.conversations.add("forgotten")
        return Reply(204)

    def spaces(self, _request: Request) -> Reply:
        live = {**SPACE, "role": "live", "calibration": self.calibration}
        return reply_json({"spaces": [live, {**SPACE, "model": "other", "role": "next"}]})

    def calibrate(self, request: Request) -> Reply:
        body = request.json()
        assert body["space"] == SPACE
        self.calibration = {**cast("Json", body["calibration"]), "measured_at": "2026-01-01T00:00:00Z"}
        return reply_json({**SPACE, "calibration": self.calibration})

    def _matches(self, body: Json, query: str) -> list[tuple[float, StoredDocument]]:
        with self.lock:
            within = [document for document in self.documents.values() if document.collection == body["collection"]]
        entries = [entry for entry in within if _fits(entry, cast("Json | None", body.get("filter")))]
        # Numbers depend on which of several simultaneous uploads arrives first; the order of equal scores must not.
        return sorted(
            ((entry.similarity(query), entry) for entry in entries),
            key=lambda pair: (-pair[0], pair[1].metadata["eval_id"]),
        )

    def _result_of(self, candidate: StoredDocument, score: float) -> Json:
        return {
            "chunk_id": candidate.number + 1000,
            "document_id": candidate.number,
            "content": candidate.content,
            "score": score,
            "similarity": score,
        }


def _fits(candidate: StoredDocument, condition: Json | None) -> bool:
    if condition is None:
        return True
    if "not" in condition:
        return not _fits(candidate, cast("Json", condition["not"]))
    if "any" in condition:
        return any(_fits(candidate, member) for member in cast("list[Json]", condition["any"]))
    if condition["field"] == "id":
        return candidate.number in cast("list[int]", condition["value"])
    value = candidate.metadata.get(str(condition["field"]).removeprefix("metadata."))
    expected = condition["value"]
    return value in cast("list[str]", expected) if condition["op"] == "in" else value == expected
