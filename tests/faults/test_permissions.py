"""Random grants, revocations and calls of every method of the retriever reveal nothing that the rules don't allow.

Callers of two organisations share a retriever with one connection, directly and through PgBouncer in transaction mode.
Some of their calls are cancelled, and now and then their tokens name other groups. An answer may only name what
its caller may see under the stored grants.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from citewire.common.v1 import common_pb2
from citewire.retriever.v1 import corpus_pb2 as pb
from citewire.retriever.v1 import retriever_pb2 as rpb
from citewire.retriever.v1 import table_pb2

from citewire_kit.errors import CitewireError
from citewire_kit.tenant import Tenant
from corpus_rows import CorpusRows
from permission_library import CANARY, ORGS, SUBJECTS, Organisation, assert_nothing_leaked
from pgbouncer import pgbouncer, prepare_nothing
from retriever_process import Caller, Retriever, running_retriever
from search_library import DIMENSIONS, SPACE, clustered

if TYPE_CHECKING:
    from databases import Database
    from proof_scale import PrintTable, ProofScale

NAMED = re.compile(r"(?m)^\s*document_ids?: (\d+)$")
ELSEWHERE = {
    "EraseOwner": "erases all that somebody has: tests of erasure",
    "EraseOldDocuments": "erases by age: tests of retention",
    "ExportUser": "gives a user's own, and admins everybody's: tests of exports",
    "ListErasedDocuments": "ids of documents that are gone",
    "PrepareSpace": "names a model",
    "SwitchSpace": "names a model",
    "SetCalibration": "names a model and numbers",
}
"""Excluded calls, and why."""

Answers = list[Any]


class Proof:
    """Draws callers and calls, and checks the answers."""

    def __init__(self, running: Retriever, rows: CorpusRows, choices: random.Random) -> None:
        self.running = running
        self.rows = rows
        self.choices = choices
        self.orgs = [Organisation(name) for name in ORGS]
        self.vectors = clustered(np.random.default_rng(1), 200)
        self.made = 0
        self.steps: Counter[str] = Counter()
        self.cancelled = 0
        self.refused = 0
        self.canaries = 0
        self.moves = 0
        self.reads: dict[str, Callable[[Caller, Organisation], Awaitable[Answers]]] = {
            "GetDocument": self.get,
            "ListDocuments": self.list_documents,
            "WatchDocument": self.watch,
            "DownloadDocument": self.download,
            "LocateSpan": self.locate,
            "ListTables": self.list_tables,
            "QueryTable": self.query_table,
            "AnswerFromTables": self.answer_from_tables,
            "ListCollections": self.list_collections,
            "GetCollectionGrants": self.grants,
            "ListSpaces": self.spaces,
            "GetStorage": self.storage,
            "Plan": self.plan,
            "Search": self.search,
            "GetContext": self.context,
            "GetChunks": self.chunks,
            "FindDocuments": self.find,
        }
        self.writes: dict[str, Callable[[Caller, Organisation], Awaitable[Answers]]] = {
            "SetCollectionGrants": self.grant,
            "UpdateDocument": self.update,
            "DeleteDocument": self.delete,
            "RetryDocument": self.retry,
            "PutDocument": self.put,
            "UploadDocument": self.upload,
            "CreateCollection": self.create_collection,
            "UpdateCollection": self.update_collection,
            "DeleteCollection": self.delete_collection,
        }

    async def step(self) -> None:
        """Makes some reads at once, perhaps cancels one, and makes a change; now and then changes a caller's groups."""
        for org in self.orgs:
            org.refill(self.rows, self.choices, self.vectors)
        if self.choices.random() < 0.3:
            before, since = self.choices.choice(self.orgs).join_and_leave(self.choices)
            self.moves += before.groups != since.groups
        burst = [self.read() for _ in range(self.choices.choice((1, 2, 4)))]
        await asyncio.gather(*burst)
        await self.write()

    async def read(self) -> None:
        """Makes a call that changes nothing; checks that its caller may see the answer."""
        org, tenant, name = (
            self.choices.choice(self.orgs),
            self.choices.randrange(5),
            self.choices.choice([*self.reads]),
        )
        caller = Caller(self.running, org.callers[tenant])
        answers = await self.call(name, self.reads[name](caller, org))
        self.check(name, org, caller.tenant, answers)

    async def write(self) -> None:
        """Makes a call that changes something if the rules allow it."""
        org = self.choices.choice(self.orgs)
        name = self.choices.choice([*self.writes, "SetCollectionGrants", "UpdateDocument", "UpdateDocument"])
        caller = Caller(self.running, self.choices.choice(org.callers))
        before = {document.label for document in org.model.documents.values()}
        answers = await self.call(name, self.writes[name](caller, org))
        async with asyncio.timeout(10):
            while self.running.server.in_flight:  # noqa: ASYNC110 - the server announces no call
                await asyncio.sleep(0.001)
        org.read(self.rows)
        for other in self.orgs:
            if other is not org:
                known = {number: entry.readers for number, entry in other.model.documents.items()}
                other.read(self.rows)
                assert {number: entry.readers for number, entry in other.model.documents.items()} == known
        gone = before - {document.label for document in org.model.documents.values()}
        assert len(gone) <= 1 or name == "DeleteCollection"
        self.check(name, org, caller.tenant, answers)

    async def call(self, name: str, work: Awaitable[Answers]) -> Answers:
        """Awaits a call, or cancels it after some milliseconds."""
        self.steps[name] += 1
        task = asyncio.ensure_future(work)
        if self.choices.random() < 0.1:
            await asyncio.wait([task], timeout=self.choices.random() * 0.01)
            self.cancelled += task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            return []
        except CitewireError as error:
            if error.reason == "INTERNAL":
                raise
            self.refused += 1
            return [error]

    def check(self, name: str, org: Organisation, tenant: Tenant, answers: Answers) -> None:
        """Checks that an answer only has what its caller may see, and an error only what its caller has sent."""
        allowed, visible = org.named(tenant), org.model.visible(tenant).keys()
        for answer in answers:
            text = f"{answer} {answer.metadata}" if isinstance(answer, CitewireError) else str(answer)
            canaries = set(CANARY.findall(text))
            self.canaries += len(canaries)
            if isinstance(answer, CitewireError):
                canaries -= set(org.collections) | self.sent(org)
            assert canaries <= allowed, f"{name} showed {tenant} {canaries - allowed}: {text}"
            if not isinstance(answer, CitewireError):
                assert {int(number) for number in NAMED.findall(text)} <= visible, f"{name} named to {tenant}: {text}"

    def sent(self, org: Organisation) -> set[str]:
        """Returns names that the calls themselves may contain."""
        return {f"canary{org.name}new{number}x" for number in range(self.made + 1)}

    def document(self, org: Organisation) -> int:
        """Returns the id of a document of any organisation."""
        of = org if self.choices.random() < 0.9 else self.choices.choice(self.orgs)
        return self.choices.choice(list(of.model.documents))

    def scope(self, org: Organisation) -> rpb.Scope:
        """Returns a scope: everything, a collection, or some documents."""
        kind = self.choices.randrange(3)
        if kind == 1:
            return rpb.Scope(collection=self.choices.choice(org.collections))
        if kind == 2:
            picked = [self.document(org) for _ in range(3)]
            return rpb.Scope(selection=rpb.DocumentSelection(document_ids=picked))
        return rpb.Scope()

    async def get(self, caller: Caller, org: Organisation) -> Answers:
        return [await caller.get(self.document(org))]

    async def list_documents(self, caller: Caller, org: Organisation) -> Answers:
        collection = self.choices.choice(("", *org.collections))
        request = pb.ListDocumentsRequest(page_size=1000, collection=collection, q=self.choices.choice(("", "canary")))
        return [await caller.unary(self.running.corpus.ListDocuments, request)]

    async def watch(self, caller: Caller, org: Organisation) -> Answers:
        ready = [entry.document_id for entry in org.model.documents.values() if entry.chunk_id]
        request = pb.WatchDocumentRequest(document_id=self.choices.choice(ready))
        return [*await caller.stream(self.running.corpus.WatchDocument, request)]

    async def download(self, caller: Caller, org: Organisation) -> Answers:
        text = self.choices.choice((True, False))
        request = pb.DownloadDocumentRequest(document_id=self.document(org), text=text)
        return [*await caller.stream(self.running.corpus.DownloadDocument, request)]

    async def locate(self, caller: Caller, org: Organisation) -> Answers:
        request = pb.LocateSpanRequest(document_id=self.document(org), char_start=0, char_end=9)
        return [await caller.unary(self.running.corpus.LocateSpan, request)]

    async def list_tables(self, caller: Caller, org: Organisation) -> Answers:
        request = table_pb2.ListTablesRequest(document_id=self.document(org))
        return [await caller.unary(self.running.corpus.ListTables, request)]

    async def answer_from_tables(self, caller: Caller, org: Organisation) -> Answers:
        document_ids = [self.document(org)]
        request = table_pb2.AnswerFromTablesRequest(question="How many rows are there?", document_ids=document_ids)
        return [await caller.unary(self.running.corpus.AnswerFromTables, request)]

    async def query_table(self, caller: Caller, org: Organisation) -> Answers:
        query = table_pb2.TableQuery(columns=["canary"])
        request = table_pb2.QueryTableRequest(document_id=self.document(org), query=query)
        return [await caller.unary(self.running.corpus.QueryTable, request)]

    async def list_collections(self, caller: Caller, _: Organisation) -> Answers:
        return [await caller.unary(self.running.corpus.ListCollections, pb.ListCollectionsRequest())]

    async def grants(self, caller: Caller, org: Organisation) -> Answers:
        request = pb.GetCollectionGrantsRequest(name=self.choices.choice(org.collections))
        return [await caller.unary(self.running.corpus.GetCollectionGrants, request)]

    async def spaces(self, caller: Caller, _: Organisation) -> Answers:
        return [await caller.unary(self.running.corpus.ListSpaces, pb.ListSpacesRequest())]

    async def storage(self, caller: Caller, _: Organisation) -> Answers:
        return [await caller.unary(self.running.corpus.GetStorage, pb.GetStorageRequest())]

    async def plan(self, caller: Caller, org: Organisation) -> Answers:
        strategy = self.choices.choice((rpb.STRATEGY_SEMANTIC, rpb.STRATEGY_LIBRARY))
        request = rpb.PlanRequest(
            scope=self.scope(org), strategy=strategy, query="which beacons are in Canary?", derive_filter=True
        )
        return [await caller.unary(self.running.retriever.Plan, request)]

    async def search(self, caller: Caller, org: Organisation) -> Answers:
        mode = self.choices.choice((rpb.SEARCH_MODE_DENSE, rpb.SEARCH_MODE_LEXICAL, rpb.SEARCH_MODE_HYBRID))
        group = self.choices.choice((rpb.GROUP_BY_CHUNK, rpb.GROUP_BY_DOCUMENT))
        request = rpb.SearchRequest(
            scope=self.scope(org),
            mode=mode,
            query="beacon",
            vector=self.vectors[self.choices.randrange(200)].tobytes(),
            space=common_pb2.EmbeddingSpace(model=SPACE.model, revision=SPACE.revision, dimensions=SPACE.dimensions),
            top_k=self.choices.choice((3, 50)),
            group_by=group,
            recent=self.choices.choice((0, 5)) if mode != rpb.SEARCH_MODE_LEXICAL else None,
            exact=self.choices.choice((True, False)),
        )
        return [await caller.unary(self.running.retriever.Search, request)]

    async def context(self, caller: Caller, org: Organisation) -> Answers:
        request = rpb.GetContextRequest(scope=self.scope(org), max_tokens=10_000)
        return [*await caller.stream(self.running.retriever.GetContext, request)]

    async def chunks(self, caller: Caller, org: Organisation) -> Answers:
        known = [entry.chunk_id for entry in org.model.documents.values() if entry.chunk_id]
        request = rpb.GetChunksRequest(chunk_ids=self.choices.sample(known, 5))
        return [await caller.unary(self.running.retriever.GetChunks, request)]

    async def find(self, caller: Caller, org: Organisation) -> Answers:
        request = rpb.FindDocumentsRequest(document_ids=[self.document(org) for _ in range(5)])
        return [await caller.unary(self.running.retriever.FindDocuments, request)]

    async def grant(self, caller: Caller, org: Organisation) -> Answers:
        name = self.choices.choice(org.collections)
        picked = self.choices.sample(SUBJECTS, self.choices.choice((0, 1, 1, 2)))
        level = self.choices.choice((pb.ACCESS_READ, pb.ACCESS_WRITE, pb.ACCESS_MANAGE))
        may = org.model.access(caller.tenant, name) == "manage"
        request = pb.SetCollectionGrantsRequest(
            name=name, grants=[pb.Grant(subject=subject, access=level) for subject in picked]
        )
        response = await caller.unary(self.running.corpus.SetCollectionGrants, request)
        assert may
        return [response]

    async def update(self, caller: Caller, org: Organisation) -> Answers:
        number = self.document(org)
        may = number in org.model.documents and org.model.may_change(caller.tenant, org.model.documents[number])
        request = pb.UpdateDocumentRequest(document=pb.Document(document_id=number))
        if self.choices.choice((True, False)):
            request.document.readers.extend(self.choices.sample(SUBJECTS, self.choices.choice((0, 1, 2))))
            request.update_mask.paths.append("readers")
        else:
            request.document.collection = self.choices.choice(("", *org.collections))
            request.update_mask.paths.append("collection")
        response = await caller.unary(self.running.corpus.UpdateDocument, request)
        assert may
        return [response]

    async def delete(self, caller: Caller, org: Organisation) -> Answers:
        number = self.document(org)
        may = number in org.model.documents and org.model.may_change(caller.tenant, org.model.documents[number])
        response = await caller.unary(self.running.corpus.DeleteDocument, pb.DeleteDocumentRequest(document_id=number))
        assert may
        return [response]

    async def retry(self, caller: Caller, org: Organisation) -> Answers:
        request = pb.RetryDocumentRequest(document_id=self.document(org))
        return [await caller.unary(self.running.corpus.RetryDocument, request)]

    async def put(self, caller: Caller, org: Organisation) -> Answers:
        collection = self.choices.choice(("", *org.collections))
        may = org.model.access(caller.tenant, collection) in ("write", "manage")
        made = await caller.put(self.new(org), collection=collection, readers=self.choices.sample(SUBJECTS, 1))
        assert may
        return [made]

    async def upload(self, caller: Caller, org: Organisation) -> Answers:
        collection = self.choices.choice(("", *org.collections))
        may = org.model.access(caller.tenant, collection) in ("write", "manage")
        header = pb.UploadHeader(file_name="a.md", title=self.new(org), collection=collection)
        made = await caller.upload(header, b"# Words")
        assert may
        return [made]

    async def create_collection(self, caller: Caller, org: Organisation) -> Answers:
        request = pb.CreateCollectionRequest(name=self.choices.choice(org.collections))
        return [await caller.unary(self.running.corpus.CreateCollection, request)]

    async def update_collection(self, caller: Caller, org: Organisation) -> Answers:
        name = self.choices.choice(org.collections)
        may = org.model.access(caller.tenant, name) == "manage"
        request = pb.UpdateCollectionRequest(name=name, enrich=False)
        response = await caller.unary(self.running.corpus.UpdateCollection, request)
        assert may
        return [response]

    async def delete_collection(self, caller: Caller, org: Organisation) -> Answers:
        name = self.choices.choice(org.collections)
        may = org.model.access(caller.tenant, name) == "manage"
        request = pb.DeleteCollectionRequest(name=name, force=self.choices.random() < 0.2)
        response = await caller.unary(self.running.corpus.DeleteCollection, request)
        assert may
        return [response]

    def new(self, org: Organisation) -> str:
        """Returns a new document's title; it isn't ingested."""
        self.made += 1
        return f"canary{org.name}new{self.made}x"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "pooler",
    ["", pytest.param("pgbouncer", marks=pytest.mark.system(program="pgbouncer", package="pgbouncer"))],
)
async def test_no_call_shows_what_the_grants_dont_allow(
    database: Database,
    proof: ProofScale,
    print_table: PrintTable,
    pooler: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ExitStack() as stack:
        target = database
        if pooler:
            target = stack.enter_context(pgbouncer(database))
            prepare_nothing(monkeypatch)
        rows = stack.enter_context(CorpusRows(database.owner_dsn, dimensions=DIMENSIONS))
        async with running_retriever(target, pool_max_size=1) as running:
            run = Proof(running, rows, proof.random())
            calls = {
                method.name
                for file in (pb.DESCRIPTOR, rpb.DESCRIPTOR)
                for service in file.services_by_name.values()
                for method in service.methods
            }
            assert calls == run.reads.keys() | run.writes.keys() | ELSEWHERE.keys()
            while run.steps.total() < proof.pick(scaled_down=250, full=10_000):
                await run.step()
    assert_nothing_leaked("".join(capfd.readouterr()))
    assert run.canaries > run.steps.total() / 2
    assert run.cancelled
    assert run.moves
    print_table(
        f"{run.steps.total()} calls of ten callers of two organisations, {pooler or 'no pooler'}, seed {proof.seed}",
        ["cancelled", "refused", "changes of groups", "canaries shown, all allowed"],
        [[run.cancelled, run.refused, run.moves, run.canaries]],
    )
