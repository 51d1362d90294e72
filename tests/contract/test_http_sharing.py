"""Conversations belong to their user: what others can do with them, and what sharing shows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from citewire_gateway.chat.reading import WITHHELD, withheld_answers
from citewire_gateway.chat.records import AnswerSources, Readers
from citewire_gateway.chat.store import ChatStore
from citewire_kit.errors import NotFound
from citewire_kit.postgres import open_pool
from citewire_kit.tenant import Tenant
from gateway_fake_servers import running_fakes
from gateway_fakes import result
from gateway_process import rows, running_gateway
from people_calls import People

if TYPE_CHECKING:
    from databases import Database

ANSWER = 'Revenue grew by "12" %.'
SECRET = "The figure is 4711."


@pytest.fixture
async def people(database: Database) -> AsyncIterator[People]:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as gateway:
        fakes.retriever.results = [result(1, text=SECRET)]
        people = People(gateway, database)
        for user in ("ada", "bob", "eve"):  # ada is the organisation's owner
            await people.add("acme", user)
        await people.add("other", "mallory")
        yield people


async def test_nobody_else_reads_or_changes_a_conversation_not_even_an_owner(people: People) -> None:
    conversation = (await people.ask("bob"))["conversation_id"]
    path = f"/v1/conversations/{conversation}"
    for user in ("ada", "eve", "mallory"):
        for method, where, body in (
            ("GET", path, None),
            ("GET", f"{path}/export", None),
            ("PATCH", path, {"title": "Mine"}),
            ("DELETE", path, None),
            ("GET", f"{path}/sharing", None),
            ("PUT", f"{path}/sharing", {"users": [user]}),
            ("POST", "/v1/chat", {"question": "And?", "conversation_id": conversation}),
        ):
            response = await people.call(user, method, where, **({} if body is None else {"json": body}))
            assert (response.status_code, response.json()["reason"]) == (404, "CONVERSATION_NOT_FOUND"), (method, where)
        for query in ("", "?shared=true", "?q=Revenue"):
            listed = (await people.call(user, "GET", f"/v1/conversations{query}")).json()
            assert listed["conversations"] == []
    assert (await people.call("bob", "GET", path)).json()["title"] == "How much?"


async def test_a_shared_conversation_can_only_be_read_until_it_is_unshared(people: People) -> None:
    conversation = (await people.ask("bob"))["conversation_id"]
    path = f"/v1/conversations/{conversation}"
    shared = await people.call("bob", "PUT", f"{path}/sharing", json={"users": ["eve", "eve"]})
    assert (shared.status_code, shared.json()) == (200, {"users": ["eve"], "groups": [], "organisation": False})
    read = (await people.call("eve", "GET", path)).json()
    assert [message["content"] for message in read["messages"]] == ["How much?", ANSWER]
    assert read["user"] == "bob"
    assert ANSWER in (await people.call("eve", "GET", f"{path}/export?format=markdown")).text
    listed = (await people.call("eve", "GET", "/v1/conversations?shared=true")).json()["conversations"]
    assert [entry["id"] for entry in listed] == [conversation]
    assert (await people.call("ada", "GET", path)).status_code == 404
    assert (await people.call("mallory", "GET", path)).status_code == 404
    for method, where, body in (
        ("PATCH", path, {"title": "Mine"}),
        ("DELETE", path, None),
        ("PUT", f"{path}/sharing", {"organisation": True}),
        ("POST", "/v1/chat", {"question": "And?", "conversation_id": conversation}),
    ):
        response = await people.call("eve", method, where, **({} if body is None else {"json": body}))
        assert response.status_code == 404, (method, where)
    assert (await people.call("bob", "PUT", f"{path}/sharing", json={"organisation": True})).status_code == 200
    assert (await people.call("ada", "GET", path)).status_code == 200
    assert (await people.call("mallory", "GET", path)).status_code == 404
    await people.call("bob", "PUT", f"{path}/sharing", json={})
    for user in ("ada", "eve"):
        assert (await people.call(user, "GET", path)).status_code == 404
    assert (await people.call("bob", "DELETE", path)).status_code == 204


async def test_invalid_sharing_names_its_field(people: People) -> None:
    path = f"/v1/conversations/{(await people.ask('bob'))['conversation_id']}/sharing"
    for body, field in (
        ({"users": ["a b"]}, "users[0]"),
        ({"groups": ["fin", "a\nb"]}, "groups[1]"),
        ({"users": ["x"] * 201}, "users"),
        ({"organisation": "yes"}, "organisation"),
        ({"everybody": True}, "everybody"),
    ):
        response = await people.call("bob", "PUT", path, json=body)
        assert response.status_code == 422
        assert [error["field"] for error in response.json()["errors"]] == [field]


async def test_a_reader_sees_no_answer_from_documents_hidden_from_them(people: People) -> None:
    """The citation's snippet, its quote and the answer's text are withheld; the owner still sees them."""
    answer = await people.ask("bob", include=["citation"])
    path = f"/v1/conversations/{answer['conversation_id']}"
    await people.call("bob", "PUT", f"{path}/sharing", json={"organisation": True})
    people.gateway.fakes.retriever.hidden["eve"] = {7}
    for where in (path, f"{path}/export", f"{path}/export?format=markdown"):
        seen = (await people.call("eve", "GET", where)).text
        assert SECRET not in seen, where
        assert "Revenue" not in seen, where
        assert WITHHELD in seen
        assert "Revenue" in (await people.call("bob", "GET", where)).text
    message = (await people.call("eve", "GET", path)).json()["messages"][1]
    assert (message["withheld"], message["citations"], message["cited"]) == (True, [], [])
    # Users who lose access to a document lose it in their own conversations too.
    people.gateway.fakes.retriever.hidden["bob"] = {7}
    assert SECRET not in (await people.call("bob", "GET", path)).text


async def test_words_of_hidden_answers_find_no_conversation(people: People) -> None:
    """Otherwise an answer could be guessed from what is found, word by word."""
    retriever = people.gateway.fakes.retriever
    asked: list[str] = []
    for document_id in (8, 7, 8, 7, 7):
        retriever.results = [result(document_id, document_id=document_id, text=SECRET)]
        asked.append((await people.ask("bob"))["conversation_id"])

    async def search(q: str) -> list[str]:
        ids, token = list[str](), ""
        while True:
            params = {"q": q, "page_size": 1, "page_token": token}
            page = (await people.call("bob", "GET", "/v1/conversations", params=params)).json()
            ids += [entry["id"] for entry in page["conversations"]]
            token = page["next_page_token"]
            if not token:
                return ids
            assert page["conversations"], "an empty page tells that something is hidden"

    assert await search("REVENUE") == asked[::-1]
    retriever.hidden["bob"] = {7}
    assert await search("REVENUE") == [asked[2], asked[0]]
    assert await search("how much") == asked[::-1]
    retriever.hidden["bob"] = {7, 8}
    assert await search("REVENUE") == []


async def test_the_history_sent_to_a_model_omits_hidden_answers(people: People) -> None:
    conversation = (await people.ask("bob", profile="grounded"))["conversation_id"]
    people.gateway.fakes.retriever.hidden["bob"] = {7}
    await people.ask("bob", "And?", profile="grounded", conversation_id=conversation)
    given = [message.content for message in people.gateway.fakes.generator.requests[-1].history]
    assert given == ["How much?", WITHHELD]


async def test_a_stored_answer_is_not_replayed_to_a_user_who_lost_access(people: People) -> None:
    key = {"Idempotency-Key": "k1"}
    body = {"question": "How much?", "stream": False}
    first = (await people.call("bob", "POST", "/v1/chat", json=body, headers=key)).json()
    assert (await people.call("bob", "POST", "/v1/chat", json=body, headers=key)).json() == first
    people.gateway.fakes.retriever.hidden["bob"] = {7}
    people.gateway.fakes.retriever.results = []
    again = await people.call("bob", "POST", "/v1/chat", json=body, headers=key)
    assert again.status_code == 200
    assert SECRET not in again.text
    assert again.json()["exchange_id"] != first["exchange_id"]


async def test_an_answer_that_may_repeat_a_hidden_one_is_not_sent_again(people: People) -> None:
    """A follow-up names only the documents of its own passages, but its model had read the earlier answer."""
    retriever = people.gateway.fakes.retriever
    conversation = (await people.ask("bob", profile="grounded"))["conversation_id"]
    retriever.results = [result(2, document_id=8)]
    key = {"Idempotency-Key": "k1"}
    body = {"question": "And?", "stream": False, "profile": "grounded", "conversation_id": conversation}
    first = await people.call("bob", "POST", "/v1/chat", json=body, headers=key)
    events = f"/v1/chat/{first.json()['exchange_id']}/events"
    assert "Revenue" in (await people.call("bob", "GET", events)).text
    retriever.hidden["bob"] = {7}
    read = (await people.call("bob", "GET", f"/v1/conversations/{conversation}")).json()["messages"]
    assert [message.get("withheld") for message in read] == [None, True, None, True]
    assert "Revenue" not in (await people.call("bob", "GET", events)).text
    again = await people.call("bob", "POST", "/v1/chat", json=body, headers=key)
    assert again.status_code == 200
    assert again.json()["exchange_id"] != first.json()["exchange_id"]


def test_later_answers_that_read_a_withheld_one_are_withheld() -> None:
    answers = [
        AnswerSources(2, 0, [1]),
        AnswerSources(4, 0, [2]),  # the first answer to withhold
        AnswerSources(6, 0, [1]),  # its model hadn't read that answer
        AnswerSources(8, 4, [1]),
        AnswerSources(10, None, []),  # from a version that didn't record what its model had read
    ]
    assert withheld_answers(answers, {1}) == {4, 8, 10}
    assert withheld_answers(answers, {1, 2}) == set()
    assert withheld_answers(answers[2:], {1}) == set()


async def test_a_group_may_read_and_the_database_refuses_other_writers(people: People, database: Database) -> None:
    number = UUID((await people.ask("bob"))["conversation_id"])
    pool = await open_pool(database.dsn("citewire_chat"), max_size=1, name="test")
    try:
        store = ChatStore(pool)
        await store.share(Tenant("acme", "bob", "pro"), number, Readers(groups=["Größe", "fin"]))
        member, other = Tenant("acme", "eve", "pro", groups=("x", "Größe")), Tenant("acme", "eve", "pro", groups=("y",))
        conversation, messages, _ = await store.get_conversation(member, number, page_size=10, after=0)
        assert (conversation.user_id, len(messages)) == ("bob", 2)
        with pytest.raises(NotFound):
            await store.get_conversation(other, number, page_size=10, after=0)
        with pytest.raises(NotFound):
            await store.get_conversation(Tenant("other", "eve", "pro", groups=("fin",)), number, page_size=10, after=0)
        async with pool.connection() as connection:
            await connection.execute("SELECT set_config('citewire.org_id', 'acme', false)")
            await connection.execute("SELECT set_config('citewire.user_id', 'eve', false)")
            for statement in (
                b"UPDATE chat.conversations SET title = 'Mine'",
                b"DELETE FROM chat.conversations",
                b"DELETE FROM chat.conversation_shares",
            ):
                assert (await connection.execute(statement)).rowcount == 0, statement
    finally:
        await pool.close()
    assert rows(database, "SELECT count(*) FROM chat.conversation_shares") == [(2,)]
