"""Random grants and revocations over the gateway's routes: nothing that the rules don't allow comes out of it.

A gateway before a retriever with one connection; the model echoes the passages that it is given. What an answer names
must be what its caller may see by the grants that are stored, also in stored conversations, in shared ones and in
replayed answers.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from citewire.common.v1 import common_pb2
from citewire.generator.v1 import generator_pb2

from api_keys import bearer, key_for
from corpus_rows import CorpusRows
from gateway_fake_servers import running_fakes
from gateway_fakes import completed, delta, started
from gateway_process import Gateway, running_gateway
from permission_library import CANARY, ORGS, PEOPLE, SUBJECTS, Organisation, assert_nothing_leaked
from permission_model import ModelDocument
from retriever_process import Retriever, running_retriever
from search_library import DIMENSIONS, SPACE, clustered

if TYPE_CHECKING:
    from databases import Database
    from proof_scale import PrintTable, ProofScale

ANSWER = re.compile(r'"conversation_id":\s*"([0-9a-f-]{36})",\s*"exchange_id":\s*"([0-9a-f-]{36})"')
RATING = "/v1/conversations/{conversation_id}/answers/{exchange_id}/feedback"
ROLES = {"member": "editor"}
ELSEWHERE = {
    "system": "nothing of a tenant's",
    "page": "nothing of a tenant's",
    "keys": "names and digests of keys",
    "admin": "accounts; the audit trail and feedback are asked for here",
    "accounting": "numbers",
    "erasures": "tests of erasure",
    "profiles": "the operator's and the organisation's texts",
    "providers": "addresses and sealed keys",
    "spaces": "names of models",
    "auth": "tests of signing in",
}
"""Tags of routes that are left out, and why."""
WITHOUT_CONTENT = {
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/rerank"),
    ("POST", "/v1/verify"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{name}"),
    # The caller's own run, written by a chat that is drawn here; test_http_runs hides a document from its reader.
    ("GET", "/v1/chat/{run_id}/events"),
    ("GET", "/v1/chat/{chat_id}/stream"),
    ("POST", "/v1/chat/{run_id}/cancel"),
}
"""They read nothing of others that is stored."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a caller, which may be sent again."""

    method: str
    path: str
    body: Any = None
    params: dict[str, Any] | None = None
    key: str = ""

    def headers(self) -> dict[str, str]:
        return {"Idempotency-Key": self.key} if self.key else {}


class HttpProof:
    """Draws callers and requests, and compares what comes back."""

    def __init__(self, gateway: Gateway, retriever: Retriever, rows: CorpusRows, choices: random.Random) -> None:
        self.gateway, self.retriever, self.rows, self.choices = gateway, retriever, rows, choices
        self.orgs = [Organisation(name) for name in ORGS]
        self.vectors = clustered(np.random.default_rng(1), 200)
        self.keys: dict[tuple[str, str], dict[str, str]] = {}
        self.conversations: list[str] = []
        self.answers: list[tuple[str, str]] = []
        """Conversation and exchange of each."""
        self.answered: dict[tuple[str, str], list[Request]] = {}
        self.made = 0
        self.replaced = set[int]()
        """Documents with a version that nobody ingests: their progress never ends."""
        self.steps: Counter[tuple[str, str]] = Counter()
        self.statuses: Counter[int] = Counter()
        self.cancelled = self.canaries = self.withheld = 0
        self.reads: dict[tuple[str, str], Callable[[Organisation], Request]] = {
            ("GET", "/v1/documents"): self.list_documents,
            ("GET", "/v1/documents/{document_id}"): lambda org: self.document(org, "GET"),
            ("GET", "/v1/documents/{document_id}/content"): lambda org: self.document(org, "GET", "/content"),
            ("GET", "/v1/documents/{document_id}/text"): lambda org: self.document(org, "GET", "/text"),
            ("GET", "/v1/documents/{document_id}/locate"): self.locate,
            ("GET", "/v1/documents/{document_id}/events"): self.events,
            ("GET", "/v1/chunks/{chunk_id}"): self.chunk,
            ("GET", "/v1/collections"): lambda _: Request("GET", "/v1/collections"),
            ("GET", "/v1/collections/{name}/grants"): lambda org: self.collection(org, "GET", "/grants"),
            ("POST", "/v1/search"): self.search,
            ("GET", "/v1/conversations"): lambda _: self.listed_conversations(),
            ("GET", "/v1/conversations/{conversation_id}"): lambda _: self.conversation("GET"),
            ("GET", "/v1/conversations/{conversation_id}/export"): lambda _: self.export(),
            ("GET", "/v1/conversations/{conversation_id}/sharing"): lambda _: self.conversation("GET", "/sharing"),
            ("GET", "/v1/feedback"): lambda _: Request("GET", "/v1/feedback", params={"page_size": 200}),
            ("GET", "/v1/admin/audit"): lambda _: Request("GET", "/v1/admin/audit", params={"page_size": 200}),
        }
        self.writes: dict[tuple[str, str], Callable[[Organisation], Request]] = {
            ("POST", "/v1/chat"): self.chat,
            ("POST", "/v1/chat/completions"): self.completion,
            ("POST", "/api/rag-chat"): lambda org: self.rag_chat(org, "/api/rag-chat"),
            ("POST", "/api/rag-chat/stream"): lambda org: self.rag_chat(org, "/api/rag-chat/stream"),
            ("POST", "/api/chat/"): lambda _: Request("POST", "/api/chat/", {"question": "which beacons?"}),
            ("POST", "/api/chat/query"): lambda _: Request("POST", "/api/chat/query", {"question": "which beacons?"}),
            ("PUT", "/v1/conversations/{conversation_id}/sharing"): lambda _: self.share(),
            ("PUT", RATING): lambda _: self.rate("PUT", {"rating": "up"}),
            ("DELETE", RATING): lambda _: self.rate("DELETE"),
            ("PATCH", "/v1/conversations/{conversation_id}"): lambda _: self.conversation("PATCH", body={"title": "T"}),
            ("DELETE", "/v1/conversations/{conversation_id}"): lambda _: self.conversation("DELETE"),
            ("POST", "/v1/documents"): self.put,
            ("PUT", "/v1/documents/{document_id}"): self.replace,
            ("PATCH", "/v1/documents/{document_id}"): self.update,
            ("DELETE", "/v1/documents/{document_id}"): lambda org: self.document(org, "DELETE"),
            ("POST", "/v1/documents/{document_id}:retry"): lambda org: self.document(org, "POST", ":retry"),
            ("POST", "/v1/collections"): lambda org: Request(
                "POST", "/v1/collections", {"name": self.choices.choice(org.collections)}
            ),
            ("PATCH", "/v1/collections/{name}"): lambda org: self.collection(org, "PATCH", body={"enrich": False}),
            ("DELETE", "/v1/collections/{name}"): lambda org: self.collection(org, "DELETE"),
            ("PUT", "/v1/collections/{name}/grants"): self.grant,
        }

    async def people(self, database: Database) -> None:
        """Makes the callers, with keys that act for their groups."""
        for org in self.orgs:
            root = bearer((await key_for(database, org.name, "root"))["key"])

            async def make(method: str, path: str, body: Any = None, by: dict[str, str] = root) -> Any:  # noqa: ANN401 # values of any kind are meant
                response = await self.gateway.http.request(method, path, json=body, headers=by)
                assert response.status_code < 300, response.text
                return response.json() if response.content else None

            for group in sorted({group for *_, groups in PEOPLE for group in groups}):
                await make("POST", "/v1/admin/groups", {"name": group})
            for user, (role,), groups in PEOPLE:
                await make("POST", "/v1/admin/users", {"user": user, "role": ROLES.get(role, role)})
                for group in groups:
                    await make("PUT", f"/v1/admin/groups/{quote(group)}/members/{user}")
                made = await make("POST", "/v1/keys", {"user": user})
                self.keys[org.name, user] = bearer(made["key"])

    async def step(self) -> None:
        """Some reads at once, and a change."""
        for org in self.orgs:
            org.refill(self.rows, self.choices, self.vectors)
        await asyncio.gather(*(self.ask(self.reads) for _ in range(self.choices.choice((1, 2, 4)))))
        if self.choices.random() < 0.15 and self.answered:
            await self.replay()
        else:
            grants = {("PUT", "/v1/collections/{name}/grants"), ("PATCH", "/v1/documents/{document_id}")}
            await self.ask(self.writes if self.choices.random() < 0.7 else {name: self.writes[name] for name in grants})
        async with asyncio.timeout(10):
            while self.retriever.server.in_flight:  # noqa: ASYNC110 - the server announces no call
                await asyncio.sleep(0.001)
        for org in self.orgs:
            org.read(self.rows)

    async def ask(self, routes: dict[tuple[str, str], Callable[[Organisation], Request]]) -> None:
        """A request of somebody, which may be cancelled."""
        org, user = self.choices.choice(self.orgs), self.choices.randrange(len(PEOPLE))
        route = self.choices.choice([*routes])
        self.steps[route] += 1
        await self.send(org, user, routes[route](org))

    async def replay(self) -> None:
        """A request that was answered before is sent again."""
        org_name, user = self.choices.choice([*self.answered])
        request = self.choices.choice(self.answered[org_name, user])
        self.steps["REPLAY", request.path] += 1
        number = next(place for place, (name, *_) in enumerate(PEOPLE) if name == user)
        await self.send(next(org for org in self.orgs if org.name == org_name), number, request)

    async def send(self, org: Organisation, number: int, request: Request) -> None:
        user, caller = PEOPLE[number][0], org.callers[number]
        named, visible = org.named(caller), org.model.visible(caller)
        sending = self.gateway.http.request(
            request.method,
            request.path,
            json=request.body,
            params=request.params,
            headers=self.keys[org.name, user] | request.headers(),
        )
        task = asyncio.ensure_future(sending)
        if self.choices.random() < 0.1:
            await asyncio.wait([task], timeout=self.choices.random() * 0.03)
            self.cancelled += task.cancel()
        try:
            response = await task
        except asyncio.CancelledError:
            return
        self.statuses[response.status_code] += 1
        # With one connection each, a machine that is far behind may find none free in time.
        assert response.status_code < 500 or response.status_code == 503, f"{request}: {response.text}"
        assert response.status_code != 429, response.text
        if request.key and response.status_code < 300:
            self.answered.setdefault((org.name, user), []).append(request)
        if request.method != "GET" and request.path != "/v1/search":  # no other request is under way
            org.read(self.rows)
            named, visible = named | org.named(caller), visible | org.model.visible(caller)
        self.check(org, named, visible, request, response)

    def check(
        self,
        org: Organisation,
        named: set[str],
        visible: Mapping[int, ModelDocument],
        request: Request,
        response: httpx.Response,
    ) -> None:
        """What was told must be allowed, or what the caller itself has sent."""
        text, where = response.text, f"{request}: {response.status_code} {response.text[:2000]}"
        told = set(CANARY.findall(text))
        self.canaries += len(told)
        if request.path == "/v1/admin/audit":  # also of what is gone: admins see all of their organisation
            assert all(canary.startswith(f"canary{org.name}") for canary in told), where
            return
        told -= set(CANARY.findall(json.dumps([request.path, request.params, request.body])))
        assert told <= named, f"told of {told - named}: {where}"
        chunks = {entry.chunk_id for entry in visible.values()}
        if response.status_code < 400:
            for field, number in numbers_of(text):
                seen = chunks if field.startswith(("chunk", "duplicate")) else visible.keys()
                assert number in seen, f"{field} {number}: {where}"
        self.withheld += text.count('"withheld":true')
        for conversation in re.findall(r'"conversation_id":\s*"([0-9a-f-]{36})"', text):
            if conversation not in self.conversations:
                self.conversations.append(conversation)

        self.answers += ANSWER.findall(text)

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
        if self.conversations and self.choices.random() < 0.3:
            body["conversation_id"] = self.choices.choice(self.conversations)
        key = "" if stream or self.choices.random() < 0.5 else str(uuid.UUID(int=self.choices.getrandbits(128)))
        dialect = self.choices.choice((None, "ui-message")) if stream else None
        return Request("POST", "/v1/chat", body, {"dialect": dialect} if dialect else None, key)

    def completion(self, _: Organisation) -> Request:
        messages = [{"role": "user", "content": "which beacons are there?"}]
        body = {"model": "documents", "messages": messages, "stream": self.choices.random() < 0.5}
        return Request("POST", "/v1/chat/completions", body)

    def rag_chat(self, org: Organisation, path: str) -> Request:
        collection = self.choices.choice((None, *org.collections))
        return Request("POST", path, {"messages": [{"role": "user", "content": "beacons?"}], "collection": collection})

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


def numbers_of(text: str) -> Iterator[tuple[str, int]]:
    """Ids of documents and chunks in an answer, with the field that names them."""
    for field, several in re.findall(r'"(documents?_ids?|chunk_ids?|duplicate_chunk_ids)":\s*(\[[\d,\s]*\]|\d+)', text):
        for number in re.findall(r"\d+", several):
            yield field, int(number)


async def echo(request: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
    """An answer that quotes all its passages, with their titles."""
    yield started(*((index + 1, index) for index in range(len(request.passages))))
    yield delta(" ".join(f"{passage}" for passage in request.passages) or "Nothing.")
    yield completed(cited_numbers=list(range(1, len(request.passages) + 1)))


def content_routes(document: dict[str, Any]) -> set[tuple[str, str]]:
    """The routes that may reveal content."""
    return {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if not ELSEWHERE.keys() & set(operation.get("tags", ())) and (method.upper(), path) not in WITHOUT_CONTENT
    }


@pytest.mark.timeout(1800)
async def test_no_route_tells_what_the_grants_dont_allow(
    database: Database, proof: ProofScale, print_table: PrintTable, capfd: pytest.CaptureFixture[str]
) -> None:
    async with AsyncExitStack() as stack:
        rows = stack.enter_context(CorpusRows(database.owner_dsn, dimensions=DIMENSIONS))
        fakes = await stack.enter_async_context(running_fakes())
        fakes.embedder.space = common_pb2.EmbeddingSpace(
            model=SPACE.model, revision=SPACE.revision, dimensions=DIMENSIONS
        )
        fakes.generator.script = echo
        retriever = await stack.enter_async_context(running_retriever(database, pool_max_size=1))
        target = f"127.0.0.1:{retriever.server.port}"
        gateway = await stack.enter_async_context(
            running_gateway(database, fakes, auth="keys", retriever_target=target, pool_max=1)
        )
        run = HttpProof(gateway, retriever, rows, proof.random())
        described = (await gateway.http.get("/openapi.json")).json()
        covered = (run.reads.keys() | run.writes.keys()) - {("GET", "/v1/admin/audit"), ("GET", "/v1/feedback")}
        assert content_routes(described) == covered
        await run.people(database)
        while run.steps.total() < proof.pick(scaled_down=150, full=10_000):
            await run.step()
    assert_nothing_leaked("".join(capfd.readouterr()))
    assert run.canaries > run.steps.total() / 2
    assert run.cancelled
    print_table(
        f"{run.steps.total()} requests of ten callers of two organisations, seed {proof.seed}",
        ["cancelled", "canaries told, all allowed", "withheld answers", "statuses"],
        [[run.cancelled, run.canaries, run.withheld, dict(run.statuses)]],
    )
