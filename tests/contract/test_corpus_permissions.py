"""Grants and readers over gRPC: hidden documents look nonexistent, and refused changes name the missing access."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pytest
from citewire.retriever.v1 import corpus_pb2 as pb
from citewire.retriever.v1 import retriever_pb2
from google.protobuf.struct_pb2 import Struct

from citewire_kit.errors import AlreadyExists, CitewireError, InvalidArgument, NotFound, PermissionDenied
from citewire_kit.tenant import Tenant
from retriever_process import Caller, Retriever, running_retriever

if TYPE_CHECKING:
    from databases import Database


@dataclass(frozen=True, slots=True)
class People:
    """Callers of one organisation."""

    running: Retriever
    admin: Caller
    hr: Caller
    """An editor in the group `hr`."""
    reader: Caller
    """A reader in the group `hr`."""
    outsider: Caller
    """An editor in no group."""

    async def grant(self, caller: Caller, name: str, **granted: int) -> list[tuple[str, int]]:
        """Replaces a collection's grants; `_` stands for `:`."""
        grants = [pb.Grant(subject=subject.replace("_", ":"), access=access) for subject, access in granted.items()]  # pyright: ignore[reportArgumentType] # numbers that don't exist are sent, too
        request = pb.SetCollectionGrantsRequest(name=name, grants=grants)
        response = await caller.unary(self.running.corpus.SetCollectionGrants, request)
        return [(grant.subject, grant.access) for grant in response.grants]

    async def titles(self, caller: Caller) -> set[str]:
        """The titles in a caller's list."""
        listed = await caller.unary(self.running.corpus.ListDocuments, pb.ListDocumentsRequest())
        return {document.title for document in listed.documents}


@pytest.fixture
async def people(database: Database) -> AsyncIterator[People]:
    async with running_retriever(database) as running:
        callers = [
            Caller(running, Tenant("acme", user, "pro", (role,), groups=groups))
            for user, role, groups in (
                ("dora", "admin", ()),
                ("anna", "editor", ("hr",)),
                ("rita", "reader", ("hr",)),
                ("bob", "editor", ()),
            )
        ]
        yield People(running, *callers)


def update_request(document_id: int, **fields: Any) -> pb.UpdateDocumentRequest:  # noqa: ANN401 # fields of any kind
    request = pb.UpdateDocumentRequest(document=pb.Document(document_id=document_id, **fields))
    request.update_mask.paths.extend(fields)
    return request


def struct(**fields: object) -> Struct:
    made = Struct()
    made.update(cast("Any", fields))
    return made


async def refusal(call: Awaitable[object]) -> CitewireError:
    with pytest.raises(CitewireError) as refused:
        await call
    return refused.value


async def test_hidden_documents_look_nonexistent(people: People) -> None:
    document = await people.admin.put("Salaries", collection="Payroll")
    assert await people.titles(people.outsider) == {"Salaries"}
    assert await people.grant(people.admin, "Payroll", group_hr=pb.ACCESS_READ) == [("group:hr", pb.ACCESS_READ)]
    corpus, retriever = people.running.corpus, people.running.retriever

    def calls(document_id: int, collection: str) -> list[Awaitable[object]]:
        who = people.outsider
        scope = retriever_pb2.Scope(selection=retriever_pb2.DocumentSelection(document_ids=[document_id]))
        return [
            who.get(document_id),
            who.unary(corpus.UpdateDocument, update_request(document_id, title="Mine")),
            who.unary(corpus.DeleteDocument, pb.DeleteDocumentRequest(document_id=document_id)),
            who.unary(corpus.RetryDocument, pb.RetryDocumentRequest(document_id=document_id)),
            who.put("Mine", document_id=document_id),
            who.upload(pb.UploadHeader(file_name="a.md", document_id=document_id), b"# Words"),
            who.stream(corpus.WatchDocument, pb.WatchDocumentRequest(document_id=document_id)),
            who.stream(corpus.DownloadDocument, pb.DownloadDocumentRequest(document_id=document_id)),
            who.stream(corpus.DownloadDocument, pb.DownloadDocumentRequest(document_id=document_id, text=True)),
            who.unary(retriever.Plan, retriever_pb2.PlanRequest(scope=scope)),
            who.unary(corpus.UpdateCollection, pb.UpdateCollectionRequest(name=collection, new_name="Open")),
            who.unary(corpus.DeleteCollection, pb.DeleteCollectionRequest(name=collection, force=True)),
            who.unary(corpus.GetCollectionGrants, pb.GetCollectionGrantsRequest(name=collection)),
            people.grant(who, collection, user_bob=pb.ACCESS_MANAGE),
        ]

    unknown = document.document_id + 1
    hidden = [await refusal(call) for call in calls(document.document_id, "Payroll")]
    never = [await refusal(call) for call in calls(unknown, "Nothing")]
    for seen, expected in zip(hidden, never, strict=True):
        assert isinstance(seen, NotFound)
        assert seen.reason == expected.reason
        named = str(seen).replace(str(document.document_id), "ID").replace("Payroll", "NAME")
        assert named == str(expected).replace(str(unknown), "ID").replace("Nothing", "NAME")
    assert await people.titles(people.outsider) == set()
    listed = await people.outsider.unary(corpus.ListCollections, pb.ListCollectionsRequest())
    assert list(listed.collections) == []
    # Where a name must be new, it can't be hidden that the name is taken.
    taken = people.outsider.unary(corpus.CreateCollection, pb.CreateCollectionRequest(name="Payroll"))
    assert isinstance(await refusal(taken), AlreadyExists)
    assert isinstance(await refusal(people.outsider.put("Mine", collection="Payroll")), NotFound)
    assert await people.titles(people.reader) == {"Salaries"}


async def test_a_refused_change_names_the_missing_access(people: People) -> None:
    corpus = people.running.corpus
    document = await people.admin.put("Salaries", collection="Payroll")
    await people.grant(people.admin, "Payroll", group_hr=pb.ACCESS_READ, user_bob=pb.ACCESS_WRITE)
    for caller in (people.hr, people.reader):
        assert (await caller.get(document.document_id)).access == pb.ACCESS_READ
        for call, needed in (
            (caller.unary(corpus.UpdateDocument, update_request(document.document_id, title="Mine")), "write"),
            (caller.unary(corpus.DeleteDocument, pb.DeleteDocumentRequest(document_id=document.document_id)), "write"),
            (caller.unary(corpus.RetryDocument, pb.RetryDocumentRequest(document_id=document.document_id)), "write"),
            (caller.put("Mine", document_id=document.document_id), "write"),
            (caller.put("Mine", collection="Payroll"), "write"),
            (caller.unary(corpus.UpdateCollection, pb.UpdateCollectionRequest(name="Payroll", enrich=True)), "manage"),
            (caller.unary(corpus.DeleteCollection, pb.DeleteCollectionRequest(name="Payroll", force=True)), "manage"),
            (caller.unary(corpus.GetCollectionGrants, pb.GetCollectionGrantsRequest(name="Payroll")), "manage"),
            (people.grant(caller, "Payroll", user_anna=pb.ACCESS_MANAGE), "manage"),
        ):
            refused = await refusal(call)
            assert isinstance(refused, PermissionDenied), refused
            assert refused.metadata == {"needed": needed}
    # A user with the role of a reader may change nothing, whatever the grants.
    await people.grant(people.admin, "Payroll", user_rita=pb.ACCESS_MANAGE, user_bob=pb.ACCESS_WRITE)
    for call in (
        people.reader.put("Mine"),
        people.reader.put("Mine", collection="Payroll"),
        people.reader.put("Mine", collection="New"),
        people.reader.unary(corpus.CreateCollection, pb.CreateCollectionRequest(name="New")),
        people.reader.unary(corpus.DeleteDocument, pb.DeleteDocumentRequest(document_id=document.document_id)),
    ):
        assert isinstance(await refusal(call), PermissionDenied)
    # A user with write access can add a document, but can't move it to a collection that they may only read.
    mine = await people.outsider.put("Mine", collection="Payroll")
    await people.admin.put("Plans", collection="Board")
    await people.grant(people.admin, "Board", user_bob=pb.ACCESS_READ)
    moved = people.outsider.unary(corpus.UpdateDocument, update_request(mine.document_id, collection="Board"))
    assert isinstance(await refusal(moved), PermissionDenied)
    assert (await people.outsider.get(mine.document_id)).collection == "Payroll"
    # Nor may they hide a document from themselves.
    theirs = people.outsider.unary(corpus.UpdateDocument, update_request(document.document_id, readers=["group:hr"]))
    assert isinstance(await refusal(theirs), PermissionDenied)
    await people.outsider.unary(corpus.DeleteDocument, pb.DeleteDocumentRequest(document_id=document.document_id))


async def test_a_sources_acl_becomes_the_readers(people: People) -> None:
    corpus = people.running.corpus
    acl = {"users": ["zoe"], "groups": ["hr", "a, b"], "everyone": False}
    closed = await people.admin.put("Closed", metadata=struct(acl=acl))
    assert list(closed.readers) == ["group:a, b", "group:hr", "user:zoe"]
    await people.admin.put("Open", metadata=struct(acl={"everyone": True}))
    named = await people.admin.upload(
        pb.UploadHeader(file_name="a.md", title="Named", metadata=struct(acl=acl), readers=["user:bob"]), b"# Words"
    )
    assert list(named.readers) == ["user:bob"]
    assert await people.titles(people.hr) == {"Closed", "Open"}
    assert await people.titles(people.outsider) == {"Open", "Named"}
    # A new version or new metadata without an ACL leaves the readers unchanged; an ACL replaces them.
    again = await people.admin.put("Closed", document_id=closed.document_id, metadata=struct(a=1))
    assert len(again.readers) == 3
    update = update_request(closed.document_id, metadata=struct(b=2))
    assert len((await people.admin.unary(corpus.UpdateDocument, update)).document.readers) == 3
    update = update_request(closed.document_id, metadata=struct(acl={"users": ["bob"]}))
    assert list((await people.admin.unary(corpus.UpdateDocument, update)).document.readers) == ["user:bob"]
    assert await people.titles(people.hr) == {"Open"}
    update = update_request(closed.document_id, readers=[])
    assert list((await people.admin.unary(corpus.UpdateDocument, update)).document.readers) == []
    assert await people.titles(people.hr) == {"Closed", "Open"}


@pytest.mark.parametrize(
    ("acl", "field"),
    [
        ("hr", "metadata.acl"),
        ([], "metadata.acl"),
        ({"roles": ["x"]}, "metadata.acl"),
        ({}, "metadata.acl"),
        ({"everyone": False}, "metadata.acl"),
        ({"everyone": "yes", "users": ["a"]}, "metadata.acl.everyone"),
        ({"users": "anna"}, "metadata.acl.users"),
        ({"users": ["not a user"]}, "metadata.acl[0]"),
        ({"groups": ["a\nb"]}, "metadata.acl[0]"),
        ({"users": [f"u{number}" for number in range(201)]}, "metadata.acl"),
    ],
)
async def test_an_acl_that_isnt_understood_is_refused(people: People, acl: object, field: str) -> None:
    refused = await refusal(people.admin.put("Closed", metadata=struct(acl=acl)))
    assert isinstance(refused, InvalidArgument)
    assert [violation.field for violation in refused.violations] == [field]
    assert await people.titles(people.admin) == set()


async def test_grants_are_checked_and_read_back(people: People) -> None:
    await people.admin.put("Salaries", collection="Payroll")
    for wrong in ("hr", "group:", "user:a b", "role:admin", "everyone:x"):
        grants = [pb.Grant(subject=wrong, access=pb.ACCESS_READ)]
        request = pb.SetCollectionGrantsRequest(name="Payroll", grants=grants)
        refused = await refusal(people.admin.unary(people.running.corpus.SetCollectionGrants, request))
        assert [violation.field for violation in refused.violations] == ["grants[0].subject"]
    refused = await refusal(people.grant(people.admin, "Payroll", group_hr=7, user_a=0))
    assert [violation.field for violation in refused.violations] == ["grants[0].access", "grants[1].access"]
    # An editor may restrict an open collection, and those who are granted `manage` may open it again.
    await people.grant(people.outsider, "Payroll", user_anna=pb.ACCESS_MANAGE, everyone=pb.ACCESS_READ)
    request = pb.GetCollectionGrantsRequest(name="Payroll")
    granted = await people.hr.unary(people.running.corpus.GetCollectionGrants, request)
    assert [(grant.subject, grant.access) for grant in granted.grants] == [
        ("everyone", pb.ACCESS_READ), ("user:anna", pb.ACCESS_MANAGE),
    ]  # fmt: skip
    assert await people.grant(people.hr, "Payroll") == []
    assert await people.titles(people.outsider) == {"Salaries"}


async def test_request_ids_are_separate_for_each_user(people: People) -> None:
    first = await people.hr.put("Salaries", request_id="upload-1", readers=["group:hr"])
    second = await people.outsider.put("Notes", request_id="upload-1")
    assert first.document_id != second.document_id
    assert (await people.hr.put("Salaries", request_id="upload-1")).document_id == first.document_id
    assert await people.titles(people.outsider) == {"Notes"}


async def test_a_watch_ends_when_the_document_is_hidden(people: People) -> None:
    document = await people.admin.put("Salaries", collection="Payroll")
    request = pb.WatchDocumentRequest(document_id=document.document_id)
    watch = asyncio.create_task(people.outsider.stream(people.running.corpus.WatchDocument, request))
    await asyncio.sleep(0.3)
    await people.grant(people.admin, "Payroll", group_hr=pb.ACCESS_READ)
    renamed = update_request(document.document_id, url="https://example.org/secret")
    await people.admin.unary(people.running.corpus.UpdateDocument, renamed)
    async with asyncio.timeout(20):
        responses = await watch
    assert responses[-1].deleted
    assert "secret" not in str(responses)


async def test_hidden_documents_keep_a_collection_from_being_deleted(people: People) -> None:
    corpus = people.running.corpus
    await people.admin.put("Salaries", collection="Mixed", readers=["group:hr"])
    for force in (False, True):
        request = pb.DeleteCollectionRequest(name="Mixed", force=force)
        refused = await refusal(people.outsider.unary(corpus.DeleteCollection, request))
        assert refused.reason == ("PERMISSION_DENIED" if force else "WRONG_STATE")
    assert await people.titles(people.hr) == {"Salaries"}
    request = pb.DeleteCollectionRequest(name="Mixed", force=True)
    assert (await people.admin.unary(corpus.DeleteCollection, request)).documents_deleted == 1
