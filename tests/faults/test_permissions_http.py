"""Random grants, revocations and requests to the gateway's routes reveal nothing that the rules don't allow.

A gateway and a retriever have one connection each, directly and through PgBouncer in transaction mode; the model
echoes its passages. Some callers have API keys and the organisation's groups; others have tokens of an
identity provider, which name their groups. An answer may only name what its caller may see under the stored
grants, also in stored and shared conversations, in replayed answers, in runs that are read again, and in the output
and files of `citewire eval`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from citewire.common.v1 import common_pb2
from citewire.generator.v1 import generator_pb2

from api_keys import bearer, key_for
from citewire_kit.tenant import Tenant
from corpus_rows import CorpusRows
from gateway_fake_servers import running_fakes
from gateway_fakes import completed, delta, started
from gateway_process import Gateway, running_gateway
from permission_library import CANARY, GROUPS, ORGS, PEOPLE, Organisation, assert_nothing_leaked
from permission_model import ModelDocument
from permission_requests import Draws, Request
from pgbouncer import pgbouncer, prepare_nothing
from retriever_process import Retriever, running_retriever
from search_library import DIMENSIONS, SPACE, clustered
from token_issuer import AUDIENCE, TokenIssuer, running_token_issuer

if TYPE_CHECKING:
    from databases import Database
    from proof_scale import PrintTable, ProofScale

ROLES = {"member": "editor"}
ANSWER = re.compile(r'"conversation_id":\s*"([0-9a-f-]{36})",\s*"exchange_id":\s*"([0-9a-f-]{36})"')
OFTEN = 4 * (("POST", "/v1/chat"), ("GET", "/v1/chat/{run_id}/events"))
"""Drawn more often than others, as an answer must be stored before it can be read again."""
ELSEWHERE = {
    "system": "nothing of a tenant's",
    "page": "nothing of a tenant's",
    "keys": "names and digests of keys",
    "admin": "accounts; the audit trail and feedback are asked for here",
    "accounting": "numbers",
    "erasures": "tests of erasure",
    "operator": "plans, numbers and ids of organisations: no caller here is an operator",
    "profiles": "the operator's and the organisation's texts",
    "providers": "addresses and sealed keys",
    "spaces": "names of models",
    "auth": "tests of signing in",
}
"""Tags of excluded routes, and why."""
WITHOUT_CONTENT = {
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/rerank"),
    ("POST", "/v1/verify"),
    ("POST", "/v1/files"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{name}"),
    ("GET", "/anthropic/v1/models"),
    ("GET", "/anthropic/v1/models/{name}"),
    ("POST", "/anthropic/v1/messages/count_tokens"),
}
"""They read no stored data of others."""
WITH_TOKENS = ("alice", "carl")
"""Their tokens name their groups; the others have API keys and the organisation's groups."""


class HttpProof:
    """Draws callers and requests, and checks the answers."""

    def __init__(
        self, gateway: Gateway, retriever: Retriever, issuer: TokenIssuer, rows: CorpusRows, choices: random.Random
    ) -> None:
        self.gateway, self.retriever, self.issuer, self.rows, self.choices = gateway, retriever, issuer, rows, choices
        self.orgs = [Organisation(name) for name in ORGS]
        self.draws = Draws(self.orgs, choices)
        self.vectors = clustered(np.random.default_rng(1), 200)
        self.keys: dict[tuple[str, str], dict[str, str]] = {}
        self.answered: dict[tuple[str, str], list[Request]] = {}
        self.steps: Counter[tuple[str, str]] = Counter()
        self.statuses: Counter[int] = Counter()
        self.cancelled = self.canaries = self.withheld = self.moves = self.resumed = self.evaluated = self.measured = 0

    async def people(self, database: Database) -> None:
        """Creates the callers: some with keys, others with tokens that name their groups."""
        for org in self.orgs:
            self.keys[org.name, "root"] = bearer((await key_for(database, org.name, "root"))["key"])
            for group in GROUPS:
                await self.administer(org, "POST", "/v1/admin/groups", {"name": group})
            for place, (user, (role,), _) in enumerate(PEOPLE):
                body = {"user": user, "role": ROLES.get(role, role)}
                await self.administer(org, "POST", "/v1/admin/users", body)
                if user not in WITH_TOKENS:
                    made = await self.administer(org, "POST", "/v1/keys", {"user": user})
                    self.keys[org.name, user] = bearer(made["key"])
                await self.enter_groups(org, replace(org.callers[place], groups=()), org.callers[place])

    async def administer(self, org: Organisation, method: str, path: str, body: Any = None) -> Any:  # noqa: ANN401 # values of any kind are meant
        """Makes a request as the organisation's owner, which must succeed."""
        response = await self.gateway.http.request(method, path, json=body, headers=self.keys[org.name, "root"])
        assert response.status_code < 300, response.text
        return response.json() if response.content else None

    async def enter_groups(self, org: Organisation, before: Tenant, since: Tenant) -> None:
        """Puts a caller into other groups: in the next token, or as the organisation's administrators do."""
        user = since.user_id
        if user in WITH_TOKENS:
            token = self.issuer.token(sub=user, tenant=org.name, groups=list(since.groups))
            self.keys[org.name, user] = bearer(token)
            return
        for group in set(before.groups) ^ set(since.groups):
            method = "PUT" if group in since.groups else "DELETE"
            await self.administer(org, method, f"/v1/admin/groups/{quote(group)}/members/{user}")

    async def step(self) -> None:
        """Makes some reads at once and a change; now and then changes a caller's groups."""
        for org in self.orgs:
            org.refill(self.rows, self.choices, self.vectors)
        if self.choices.random() < 0.3:
            org = self.choices.choice(self.orgs)
            before, since = org.join_and_leave(self.choices)
            await self.enter_groups(org, before, since)
            self.moves += before.groups != since.groups
        await asyncio.gather(*(self.ask(self.draws.reads) for _ in range(self.choices.choice((1, 2, 4)))))
        runs = len(self.draws.runs)
        if self.choices.random() < 0.15 and self.answered:
            await self.replay()
        else:
            grants = ("PUT", "/v1/collections/{name}/grants"), ("PATCH", "/v1/documents/{document_id}")
            await self.ask(
                self.draws.writes if self.choices.random() < 0.7 else {name: self.draws.writes[name] for name in grants}
            )
        for org_name, number, run in self.draws.runs[runs:]:
            self.steps["READ AGAIN", "/v1/chat"] += 1
            org = next(org for org in self.orgs if org.name == org_name)
            await self.send(org, number, Request("GET", f"/v1/chat/{run}/events"))
        async with asyncio.timeout(10):
            while self.retriever.server.in_flight:  # noqa: ASYNC110 - the server announces no call
                await asyncio.sleep(0.001)
        for org in self.orgs:
            org.read(self.rows)

    async def ask(self, routes: dict[tuple[str, str], Callable[[Organisation], Request]]) -> None:
        """Makes a request as a random caller, and may cancel it."""
        org, user = self.choices.choice(self.orgs), self.choices.randrange(len(PEOPLE))
        route = self.choices.choice([*routes, *(often for often in OFTEN if often in routes)])
        self.steps[route] += 1
        self.draws.sender = (org.name, user)
        await self.send(org, user, routes[route](org))

    async def replay(self) -> None:
        """Sends an answered request again."""
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
        if (run := response.headers.get("citewire-run")) and request.method == "POST":
            self.draws.runs.append((org.name, number, run))
        self.resumed += (
            request.path.startswith("/v1/chat/") and request.method == "GET" and "event: token" in response.text
        )
        # With one connection each, a slow machine may find none free in time.
        assert response.status_code < 500 or response.status_code == 503, f"{request}: {response.text}"
        assert response.status_code != 429, response.text
        if request.key and response.status_code < 300:
            self.answered.setdefault((org.name, user), []).append(request)
        if request.method != "GET" and request.path != "/v1/search":  # no other request is running
            org.read(self.rows)
            named, visible = named | org.named(caller), visible | org.model.visible(caller)
        self.check(org, named, visible, request, response)

    async def evaluate(self, folder: Path) -> None:
        """Runs `citewire eval` as a random caller, on a set of documents that it sees (or else all), or on feedback.

        The first caller sees some documents, so that at least one evaluation measures something. Checks that its
        output and files only have what the caller may see.
        """
        candidates = [
            (org, number, collection)
            for org in self.orgs
            for number in range(len(PEOPLE))
            for collection in org.collections
            if self.evaluated or readable_documents(org, number, collection)
        ]
        org, number, collection = self.choices.choice(candidates)
        caller, place, feedback = org.callers[number], folder / str(self.evaluated), self.evaluated % 2
        self.evaluated += 1
        seen = readable_documents(org, number, collection)
        judged = "".join(f"q1\t{entry.document_id}\t1\n" for entry in seen or org.model.documents.values())
        (place / "qrels").mkdir(parents=True)
        (place / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
        (place / "queries.jsonl").write_text('{"_id": "q1", "text": "which beacons are there?"}\n')
        source = ["--collection", collection, str(place)]
        if feedback:
            source = ["--from", "feedback", "--export", str(place / "exported")]
        options = ["--mode", "lexical", "--profile", "documents", "--save", str(place / "run.json")]
        key = self.keys[org.name, PEOPLE[number][0]]["Authorization"].removeprefix("Bearer ")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "citewire_cli", "eval", *source, *options),
            env={**os.environ, "CITEWIRE_URL": self.gateway.url, "CITEWIRE_API_KEY": key},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed = (await process.communicate())[0].decode()
        assert (caller.is_at_least("admin") if feedback else seen) or process.returncode != 0, printed
        self.measured += process.returncode == 0
        shown = CANARY.findall(printed.replace(collection, "")) + [
            name for path in place.rglob("*") if path.is_file() for name in CANARY.findall(path.read_text())
        ]
        self.canaries += len(shown)
        assert set(shown) <= org.named(caller), (
            f"citewire eval showed {caller} {set(shown) - org.named(caller)}: {printed}"
        )

    def check(
        self,
        org: Organisation,
        named: set[str],
        visible: Mapping[int, ModelDocument],
        request: Request,
        response: httpx.Response,
    ) -> None:
        """Checks that an answer only has what its caller may see, or what the caller itself has sent."""
        text, where = response.text, f"{request}: {response.status_code} {response.text[:2000]}"
        shown = set(CANARY.findall(text))
        self.canaries += len(shown)
        if request.path == "/v1/admin/audit":  # including what was deleted: admins see everything of their organisation
            assert all(canary.startswith(f"canary{org.name}") for canary in shown), where
            return
        shown -= set(CANARY.findall(json.dumps([request.path, request.params, request.body])))
        assert shown <= named, f"showed {shown - named}: {where}"
        chunks = {entry.chunk_id for entry in visible.values()}
        if response.status_code < 400:
            for field, number in numbers_of(text):
                seen = chunks if field.startswith(("chunk", "duplicate")) else visible.keys()
                assert number in seen, f"{field} {number}: {where}"
        self.withheld += text.count('"withheld":true')
        self.draws.answers += ANSWER.findall(text)
        for conversation in re.findall(r'"conversation_id":\s*"([0-9a-f-]{36})"', text):
            if conversation not in self.draws.conversations:
                self.draws.conversations.append(conversation)


def readable_documents(org: Organisation, number: int, collection: str) -> list[ModelDocument]:
    """The ingested documents that a caller sees in a collection: none, not even its own, if it may not read it."""
    caller = org.callers[number]
    if not org.model.access(caller, collection):
        return []
    return [entry for entry in org.model.visible(caller).values() if entry.collection == collection and entry.chunk_id]


def numbers_of(text: str) -> Iterator[tuple[str, int]]:
    """Returns the ids of documents and chunks in an answer, with their fields."""
    for field, several in re.findall(r'"(documents?_ids?|chunk_ids?|duplicate_chunk_ids)":\s*(\[[\d,\s]*\]|\d+)', text):
        for number in re.findall(r"\d+", several):
            yield field, int(number)


async def echo(request: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
    """Answers with all its passages and their titles; in pieces, so that others can read the answer meanwhile."""
    yield started(*((index + 1, index) for index in range(len(request.passages))))
    for passage in request.passages:
        yield delta(f"{passage} ")
        await asyncio.sleep(0.005)
    yield delta("Nothing more.")
    yield completed(cited_numbers=list(range(1, len(request.passages) + 1)))


def content_routes(document: dict[str, Any]) -> set[tuple[str, str]]:
    """The routes that may reveal content."""
    return {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if not ELSEWHERE.keys() & set(operation.get("tags", ())) and (method.upper(), path) not in WITHOUT_CONTENT
    }


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "pooler",
    ["", pytest.param("pgbouncer", marks=pytest.mark.system(program="pgbouncer", package="pgbouncer"))],
)
async def test_no_route_shows_what_the_grants_dont_allow(
    database: Database,
    proof: ProofScale,
    print_table: PrintTable,
    pooler: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        target = database
        if pooler:
            target = stack.enter_context(pgbouncer(database))
            prepare_nothing(monkeypatch)
        rows = stack.enter_context(CorpusRows(database.owner_dsn, dimensions=DIMENSIONS))
        fakes = await stack.enter_async_context(running_fakes())
        fakes.embedder.space = common_pb2.EmbeddingSpace(
            model=SPACE.model, revision=SPACE.revision, dimensions=DIMENSIONS
        )
        fakes.generator.script = echo
        retriever = await stack.enter_async_context(running_retriever(target, pool_max_size=1))
        issuer = await stack.enter_async_context(running_token_issuer())
        issuers = [{"issuer": issuer.url, "audience": AUDIENCE, "org_claim": "tenant", "orgs": ORGS}]
        gateway = await stack.enter_async_context(
            running_gateway(
                target,
                fakes,
                auth="keys",
                retriever_target=f"127.0.0.1:{retriever.server.port}",
                pool_max=1,
                oidc_issuers=json.dumps(issuers),
            )
        )
        run = HttpProof(gateway, retriever, issuer, rows, proof.random())
        described = (await gateway.http.get("/openapi.json")).json()
        covered = (run.draws.reads.keys() | run.draws.writes.keys()) - {
            ("GET", "/v1/admin/audit"),
            ("GET", "/v1/feedback"),
        }
        assert content_routes(described) == covered
        await run.people(database)
        steps, evaluations = proof.pick(scaled_down=150, full=10_000), proof.pick(scaled_down=2, full=50)
        while run.steps.total() < steps:
            await run.step()
            if run.steps.total() > steps * (run.evaluated + 0.5) / evaluations:
                await run.evaluate(tmp_path)
    assert_nothing_leaked("".join(capfd.readouterr()))
    assert run.canaries > run.steps.total() / 2
    assert run.cancelled
    assert run.moves
    assert run.resumed or not proof.full
    assert run.measured
    print_table(
        f"{run.steps.total()} requests of ten callers of two organisations, {pooler or 'no pooler'}, seed {proof.seed}",
        [
            "cancelled",
            "changes of groups",
            "runs read again",
            "evaluations",
            "canaries shown, all allowed",
            "withheld",
            "statuses",
        ],
        [[run.cancelled, run.moves, run.resumed, run.measured, run.canaries, run.withheld, dict(run.statuses)]],
    )
