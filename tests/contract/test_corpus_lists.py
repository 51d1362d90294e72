"""CorpusService's lists, filters and collections over a real gRPC server and a real Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import psycopg
import pytest
from citewire.retriever.v1 import corpus_pb2 as pb
from citewire.retriever.v1 import filter_pb2
from google.protobuf.struct_pb2 import NULL_VALUE, ListValue, Struct, Value

from citewire_kit.errors import CitewireError, Code
from citewire_kit.tenant import Tenant
from retriever_process import Caller

MINE = Tenant("acme", "ada", "pro")
THEIRS = Tenant("other", "eve", "pro")


def struct(**values: object) -> Struct:
    made = Struct()
    made.update(cast("dict[str, Any]", values))
    return made


async def list_titles(caller: Caller, **fields: object) -> list[str]:
    request = pb.ListDocumentsRequest(**cast("dict[str, Any]", fields))
    response = await caller.unary(caller.running.corpus.ListDocuments, request)
    return [document.title for document in response.documents]


def compare(field: str, op: filter_pb2.Operator, value: object) -> filter_pb2.Filter:
    return filter_pb2.Filter(comparison=filter_pb2.Comparison(field=field, op=op, value=as_value(value)))


def as_value(value: object) -> Value:
    if isinstance(value, list):
        return Value(list_value=ListValue(values=[as_value(member) for member in cast("list[object]", value)]))
    if isinstance(value, bool):
        return Value(bool_value=value)
    if isinstance(value, int | float):
        return Value(number_value=value)
    return Value(string_value=str(value)) if value is not None else Value(null_value=NULL_VALUE)


def none_of(member: filter_pb2.Filter) -> filter_pb2.Filter:
    fields: dict[str, Any] = {"not": member}
    return filter_pb2.Filter(**fields)


async def test_pages_cover_everything_once_newest_first(me: Caller, them: Caller) -> None:
    for number in range(7):
        await me.put(f"Doc {number}")
        await them.put(f"Theirs {number}")
    seen: list[str] = []
    token = ""
    for page in range(4):
        request = pb.ListDocumentsRequest(page_size=2, page_token=token)
        response = await me.unary(me.running.corpus.ListDocuments, request)
        seen += [document.title for document in response.documents]
        token = response.next_page_token
        assert bool(token) == (page < 3)
        if page == 0:
            await me.put("Late")  # what comes meanwhile is newer: it doesn't shift the pages
    assert seen == [f"Doc {number}" for number in range(6, -1, -1)]


async def test_a_list_begins_after_a_document_or_a_name(me: Caller, them: Caller) -> None:
    ids = [(await me.put(f"Doc {number}", collection="notes")).document_id for number in range(3)]
    theirs = (await them.put("Theirs")).document_id
    assert await list_titles(me, after=ids[1]) == ["Doc 0"]
    request = pb.ListDocumentsRequest(page_size=1, after=ids[2])
    first = await me.unary(me.running.corpus.ListDocuments, request)
    assert [document.title for document in first.documents] == ["Doc 1"]
    assert await list_titles(me, page_size=1, after=ids[2], page_token=first.next_page_token) == ["Doc 0"]
    for unknown in (theirs, 2**53 - 1, 2**53):
        with pytest.raises(CitewireError) as caught:
            await list_titles(me, after=unknown)
        assert caught.value.violations[0].field == "after"
    await me.put("More", collection="plans")
    for after, names in (("", ["notes", "plans"]), ("notes", ["plans"]), ("o", ["plans"]), ("plans", [])):
        response = await me.unary(me.running.corpus.ListCollections, pb.ListCollectionsRequest(after=after))
        assert [collection.name for collection in response.collections] == names
    for after in ("a\0b", "a" * 129):
        with pytest.raises(CitewireError) as caught:
            await me.unary(me.running.corpus.ListCollections, pb.ListCollectionsRequest(after=after))
        assert [violation.field for violation in caught.value.violations] == ["after"]


async def test_page_tokens_belong_to_their_query_and_their_tenant(me: Caller, them: Caller) -> None:
    for caller in (me, them):
        for number in range(3):
            await caller.put(f"Doc {number}", type="capture")
    first = await me.unary(me.running.corpus.ListDocuments, pb.ListDocumentsRequest(page_size=1, type="capture"))
    token = first.next_page_token
    assert await list_titles(me, page_size=2, type="capture", page_token=token) == ["Doc 1", "Doc 0"]
    for caller, fields in (
        (me, {"page_token": token}),
        (me, {"page_token": token, "type": "capture", "tag": "x"}),
        (them, {"page_token": token, "type": "capture"}),
        (me, {"page_token": token[:-1], "type": "capture"}),
        (me, {"page_token": "nonsense"}),
        (me, {"page_token": "ü"}),
    ):
        with pytest.raises(CitewireError) as refused:
            await list_titles(caller, **fields)
        assert (refused.value.code, refused.value.reason) == (Code.INVALID_ARGUMENT, "INVALID_PAGE_TOKEN")
    with pytest.raises(CitewireError) as too_many:
        await list_titles(me, page_size=1001)
    assert [violation.field for violation in too_many.value.violations] == ["page_size"]


async def test_a_list_is_narrowed_by_its_fields(me: Caller, owner: psycopg.Connection) -> None:
    await me.put("a", type="article", collection="One", tags=["x", "y"])
    await me.put("b", type="capture", collection="Two", tags=["y"])
    ready = (await me.put("c", type="article")).document_id
    owner.execute("UPDATE corpus.versions SET status = 'ready' WHERE document_id = %s", (ready,))
    assert await list_titles(me, collection="One") == ["a"]
    assert await list_titles(me, collection="None such") == []
    assert await list_titles(me, type="article") == ["c", "a"]
    assert await list_titles(me, tag="y") == ["b", "a"]
    assert await list_titles(me, tag="y", type="article") == ["a"]
    assert await list_titles(me, status=pb.DOCUMENT_STATUS_READY) == ["c"]
    assert await list_titles(me, status=pb.DOCUMENT_STATUS_PENDING) == ["b", "a"]
    with pytest.raises(CitewireError) as refused:
        await list_titles(me, status=99, type="book")
    assert {violation.field for violation in refused.value.violations} == {"status", "type"}


FilterCase = tuple[str, filter_pb2.Operator, object, str]
EQ, NE, IN = filter_pb2.OPERATOR_EQ, filter_pb2.OPERATOR_NE, filter_pb2.OPERATOR_IN
LT, LE, GT, GE = filter_pb2.OPERATOR_LT, filter_pb2.OPERATOR_LE, filter_pb2.OPERATOR_GT, filter_pb2.OPERATOR_GE
CONTAINS, EXISTS = filter_pb2.OPERATOR_CONTAINS, filter_pb2.OPERATOR_EXISTS
# Field, operator, value, and the titles that it finds. Documents are in `filtered`.
FILTERS: list[FilterCase] = [
    ("title", EQ, "a", "a"),
    ("title", NE, "a", "bc"),
    ("title", IN, ["a", "c", 3], "ac"),
    ("title", GT, "a", "bc"),
    ("title", LE, "b", "ab"),
    ("title", EQ, 1, ""),
    ("title", CONTAINS, "A", ""),
    ("title", CONTAINS, "%", ""),
    ("type", EQ, "article", "a"),
    ("url", CONTAINS, "example", "a"),
    ("url", EXISTS, False, "bc"),
    ("url", NE, "https://example.org", "bc"),
    ("collection", EQ, "One", "a"),
    ("collection", EXISTS, True, "a"),
    ("collection", NE, "One", "bc"),
    ("owner", EQ, "ada", "abc"),
    ("tags", CONTAINS, "x", "a"),
    ("tags", CONTAINS, 1, ""),
    ("tags", EQ, "x", ""),
    ("tags", EXISTS, True, "ab"),
    ("created_at", GE, "2024-01-01T00:00:00Z", "abc"),
    ("created_at", LT, "2024-01-01", ""),
    ("created_at", GT, 5, ""),
    ("updated_at", IN, ["2024-01-01", True], ""),
    ("metadata.year", EQ, 2024, "a"),
    ("metadata.year", EQ, "2024", "b"),
    ("metadata.year", NE, 2024, "bc"),
    ("metadata.year", GT, 2000, "a"),
    ("metadata.year", GT, "2000", "b"),
    ("metadata.year", GT, False, ""),
    ("metadata.year", IN, [2024, "2024"], "ab"),
    ("metadata.year", EXISTS, True, "ab"),
    ("metadata.null", EXISTS, True, ""),
    ("metadata.null", NE, 1, "abc"),
    ("metadata.list", CONTAINS, "one", "a"),
    ("metadata.list", CONTAINS, 2, "a"),
    ("metadata.list", CONTAINS, True, "a"),
    ("metadata.list", EQ, "one", ""),
    ("metadata.word", CONTAINS, "ell", "a"),
    ("metadata.word", CONTAINS, 1, ""),
    ("metadata.flag", EQ, True, "a"),
    ("metadata.flag", LT, True, "b"),
    ("metadata.deep.er.still", EQ, 1.5, "a"),
    ("metadata.word.deeper", EXISTS, True, ""),
    ("metadata.it's; DROP TABLE x --", EXISTS, True, "c"),
]


@pytest.fixture
async def filtered(me: Caller) -> Caller:
    await me.put(
        "a",
        url="https://example.org",
        collection="One",
        tags=["x", "y"],
        metadata=struct(
            year=2024,
            null=None,
            list=["one", 2, True, ["nested"]],
            word="Hello",
            flag=True,
            deep={"er": {"still": 1.5}},
        ),
    )
    await me.put("b", type="capture", tags=["y"], metadata=struct(year="2024", flag=False, list="text", null=None))
    await me.put("c", type="repository", metadata=struct(**{"it's; DROP TABLE x --": "it's"}))
    return me


async def test_filters_mean_what_the_grammar_says(filtered: Caller) -> None:
    for field, op, value, titles in FILTERS:
        result = await list_titles(filtered, filter=compare(field, op, value))
        assert sorted(result) == list(titles), (field, filter_pb2.Operator.Name(op), value)


async def test_filters_combine(filtered: Caller) -> None:
    a, b = compare("title", EQ, "a"), compare("title", EQ, "b")

    def all_of(members: Sequence[filter_pb2.Filter]) -> filter_pb2.Filter:
        return filter_pb2.Filter(all=filter_pb2.FilterList(filters=members))

    def any_of(members: Sequence[filter_pb2.Filter]) -> filter_pb2.Filter:
        return filter_pb2.Filter(any=filter_pb2.FilterList(filters=members))

    for condition, titles in (
        (all_of([]), "abc"),
        (any_of([]), ""),
        (any_of([a, b]), "ab"),
        (all_of([a, b]), ""),
        (none_of(any_of([a, b])), "c"),
        (all_of([any_of([a, b]), none_of(b)]), "a"),
        (none_of(compare("metadata.year", EQ, 2024)), "bc"),
    ):
        assert sorted(await list_titles(filtered, filter=condition)) == list(titles), condition


async def test_filters_that_are_not_of_the_grammar_are_refused(me: Caller) -> None:
    deep = compare("title", EQ, "a")
    for _ in range(8):
        deep = none_of(deep)
    many = filter_pb2.Filter(any=filter_pb2.FilterList(filters=[compare("title", EQ, "a")] * 100))
    for wrong, where in (
        (deep, "filter" + ".not" * 8),
        (many, "filter"),
        (filter_pb2.Filter(), "filter"),
        (compare("size", EQ, 1), "filter.field"),
        (compare("metadata.", EQ, 1), "filter.field"),
        (compare("metadata.a..b", EQ, 1), "filter.field"),
        (compare("metadata." + "x" * 129, EQ, 1), "filter.field"),
        (compare("title", filter_pb2.OPERATOR_UNSPECIFIED, 1), "filter.op"),
        (compare("title", EQ, None), "filter.value"),
        (compare("title", EQ, ["a"]), "filter.value"),
        (compare("title", IN, "a"), "filter.value"),
        (compare("title", IN, [None]), "filter.value[0]"),
        (compare("title", IN, ["a"] * 1001), "filter.value"),
        (compare("title", EXISTS, "yes"), "filter.value"),
        (compare("title", EQ, "nul \0"), "filter.value"),
        (compare("metadata.n", EQ, float("inf")), "filter.value"),
        (compare("created_at", GT, "yesterday"), "filter.value"),
        (compare("created_at", GT, "2024-02-30"), "filter.value"),
    ):
        with pytest.raises(CitewireError) as refused:
            await list_titles(me, filter=wrong)
        assert (refused.value.code, refused.value.reason) == (Code.INVALID_ARGUMENT, "INVALID_FILTER")
        assert [violation.field for violation in refused.value.violations] == [where]


async def test_collections_are_made_listed_renamed_and_deleted(me: Caller, them: Caller) -> None:
    corpus = me.running.corpus
    for name in ("b", "ä", "a"):
        created = await me.unary(corpus.CreateCollection, pb.CreateCollectionRequest(name=name))
        assert (created.collection.name, created.collection.documents) == (name, 0)
    await me.put(collection="b")
    await me.put(collection="c")
    await them.put(collection="theirs")

    names: list[tuple[str, int]] = []
    token = ""
    while True:
        request = pb.ListCollectionsRequest(page_size=2, page_token=token)
        page = await me.unary(corpus.ListCollections, request)
        names += [(collection.name, collection.documents) for collection in page.collections]
        token = page.next_page_token
        if not token:
            break
    assert names == [("a", 0), ("b", 1), ("c", 1), ("ä", 0)]

    renamed = await me.unary(corpus.UpdateCollection, pb.UpdateCollectionRequest(name="b", new_name="z"))
    assert (renamed.collection.name, renamed.collection.documents) == ("z", 1)
    for call in (
        me.unary(corpus.CreateCollection, pb.CreateCollectionRequest(name="z")),
        me.unary(corpus.UpdateCollection, pb.UpdateCollectionRequest(name="a", new_name="z")),
    ):
        with pytest.raises(CitewireError) as taken:
            await call
        assert (taken.value.code, taken.value.reason) == (Code.ALREADY_EXISTS, "COLLECTION_EXISTS")
    for call in (
        me.unary(corpus.UpdateCollection, pb.UpdateCollectionRequest(name="theirs", new_name="mine")),
        me.unary(corpus.DeleteCollection, pb.DeleteCollectionRequest(name="theirs", force=True)),
    ):
        with pytest.raises(CitewireError) as unknown:
            await call
        assert (unknown.value.code, unknown.value.reason) == (Code.NOT_FOUND, "COLLECTION_NOT_FOUND")

    with pytest.raises(CitewireError) as in_use:
        await me.unary(corpus.DeleteCollection, pb.DeleteCollectionRequest(name="z"))
    assert (in_use.value.code, in_use.value.reason) == (Code.FAILED_PRECONDITION, "WRONG_STATE")
    deleted = await me.unary(corpus.DeleteCollection, pb.DeleteCollectionRequest(name="z", force=True))
    assert deleted.documents_deleted == 1
    empty = await me.unary(corpus.DeleteCollection, pb.DeleteCollectionRequest(name="a"))
    assert empty.documents_deleted == 0
    assert await list_titles(me) == ["Title"]
    with pytest.raises(CitewireError) as nameless:
        await me.unary(corpus.CreateCollection, pb.CreateCollectionRequest(name=" "))
    assert [violation.field for violation in nameless.value.violations] == ["name"]


async def test_a_part_of_title_or_file_name_is_enough_in_any_case(me: Caller) -> None:
    for title in ("Annual Report", "Minutes of the board", "100% wool"):
        await me.put(title)
    upload = await me.upload(pb.UploadHeader(file_name="REPORT-2025.md", title="Figures"), b"text")
    assert upload.title == "Figures"
    assert await list_titles(me, q="report") == ["Figures", "Annual Report"]
    assert await list_titles(me, q="OF THE") == ["Minutes of the board"]
    assert await list_titles(me, q="100%") == ["100% wool"]
    assert await list_titles(me, q="_") == []
    with pytest.raises(CitewireError) as raised:
        await list_titles(me, q="x" * 201)
    assert [violation.field for violation in raised.value.violations] == ["q"]


async def test_collections_are_looked_up_by_a_part_of_their_name(me: Caller) -> None:
    for name in ("Reports 2024", "reports 2025", "recipes"):
        await me.unary(me.running.corpus.CreateCollection, pb.CreateCollectionRequest(name=name))
    first = await me.unary(me.running.corpus.ListCollections, pb.ListCollectionsRequest(q="REPORT", page_size=1))
    rest = pb.ListCollectionsRequest(q="REPORT", page_size=1, page_token=first.next_page_token)
    second = await me.unary(me.running.corpus.ListCollections, rest)
    names = [collection.name for page in (first, second) for collection in page.collections]
    assert sorted(names) == ["Reports 2024", "reports 2025"]
    assert second.next_page_token == ""
    other = pb.ListCollectionsRequest(q="recipe", page_token=first.next_page_token)
    with pytest.raises(CitewireError) as raised:
        await me.unary(me.running.corpus.ListCollections, other)
    assert raised.value.reason == "INVALID_PAGE_TOKEN"
