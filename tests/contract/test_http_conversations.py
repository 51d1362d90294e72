"""`/v1/conversations`: stored, listed, read back, renamed and deleted, separately for each user."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from citewire.generator.v1 import generator_pb2

from gateway_fake_servers import running_fakes
from gateway_fakes import completed, delta, started
from gateway_process import Gateway, rows, running_gateway
from waiting import wait_until

if TYPE_CHECKING:
    from databases import Database

ANSWER = 'Revenue grew by "12" %.'


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        yield running


async def ask(gateway: Gateway, question: str, **fields: object) -> dict[str, Any]:
    response = await gateway.http.post("/v1/chat", json={"question": question, "stream": False, **fields})
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_stored_address_that_is_a_script_is_no_link(gateway: Gateway, database: Database) -> None:
    asked = await ask(gateway, "How much?")
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE chat.messages SET details = jsonb_set(details, '{citations,0,url}', '\"JavaScript:alert(1)\"')"
            " WHERE role = 'assistant'"
        )
    path = f"/v1/conversations/{asked['conversation_id']}"
    for address in (path, f"{path}/export", f"{path}/export?format=markdown"):
        text = (await gateway.http.get(address)).text
        assert "alert(1)" not in text
        assert asked["citations"][0]["ref"] in text


async def test_a_conversation_is_titled_by_its_first_question_and_read_back(gateway: Gateway) -> None:
    first = await ask(gateway, "How   much did\nrevenue grow?")
    conversation_id = first["conversation_id"]
    second = await ask(gateway, "And profit?", conversation_id=conversation_id)
    assert second["conversation_id"] == conversation_id
    listed = (await gateway.http.get("/v1/conversations")).json()
    assert [(entry["id"], entry["title"], entry["profile"]) for entry in listed["conversations"]] == [
        (conversation_id, "How much did revenue grow?", "documents")
    ]
    assert listed["next_page_token"] == ""
    read = (await gateway.http.get(f"/v1/conversations/{conversation_id}")).json()
    assert [(entry["role"], entry["content"]) for entry in read["messages"]] == [
        ("user", "How   much did\nrevenue grow?"),
        ("assistant", ANSWER),
        ("user", "And profit?"),
        ("assistant", ANSWER),
    ]
    answer = read["messages"][1]
    assert answer["citations"] == first["citations"]
    assert answer["usage"] == first["usage"]
    assert answer["cited"] == [1]
    assert (answer["state"], answer["provider"], answer["model"], answer["finish_reason"]) == (
        "complete",
        "fake",
        "fake-1",
        "stop",
    )
    assert read["next_page_token"] == ""


async def test_continuing_a_conversation_sends_no_conversation_event(gateway: Gateway) -> None:
    first = await ask(gateway, "One?")
    frames = await gateway.stream("/v1/chat", {"question": "Two?", "conversation_id": first["conversation_id"]})
    assert frames[0].event == "citations"


async def test_an_unknown_conversation_is_404_before_anything_is_asked(gateway: Gateway, database: Database) -> None:
    body = {"question": "x", "conversation_id": "01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11"}
    response = await gateway.http.post("/v1/chat", json=body)
    assert (response.status_code, response.json()["reason"]) == (404, "CONVERSATION_NOT_FOUND")
    assert gateway.fakes.generator.requests == []
    assert rows(database, "SELECT count(*) FROM chat.exchanges") == [(0,)]


async def test_conversations_are_listed_in_pages_latest_first(gateway: Gateway) -> None:
    for number in range(5):
        await ask(gateway, f"Question {number}?")
    seen: list[str] = []
    token = ""
    pages = 0
    while True:
        response = await gateway.http.get("/v1/conversations", params={"page_size": 2, "page_token": token})
        page = response.json()
        seen += [conversation["title"] for conversation in page["conversations"]]
        pages += 1
        token = page["next_page_token"]
        if not token:
            break
    assert seen == [f"Question {number}?" for number in (4, 3, 2, 1, 0)]
    assert pages == 3


async def test_long_conversations_are_read_in_pages(gateway: Gateway) -> None:
    conversation_id = (await ask(gateway, "First?"))["conversation_id"]
    await ask(gateway, "Second?", conversation_id=conversation_id)
    path = f"/v1/conversations/{conversation_id}"
    first = (await gateway.http.get(path, params={"page_size": 3})).json()
    assert [message["content"] for message in first["messages"]] == ["First?", ANSWER, "Second?"]
    rest = (await gateway.http.get(path, params={"page_size": 3, "page_token": first["next_page_token"]})).json()
    assert [message["content"] for message in rest["messages"]] == [ANSWER]
    assert rest["next_page_token"] == ""


async def test_a_conversation_is_renamed_and_deleted(gateway: Gateway, database: Database) -> None:
    conversation_id = (await ask(gateway, "First?"))["conversation_id"]
    path = f"/v1/conversations/{conversation_id}"
    renamed = await gateway.http.patch(path, json={"title": "  New\n title "})
    assert (renamed.status_code, renamed.json()["title"]) == (200, "New title")
    for body in ({"title": ""}, {"title": " \n"}, {"title": "x" * 201}, {}, {"nonsense": 1}):
        assert (await gateway.http.patch(path, json=body)).status_code == 422
    deleted = await gateway.http.delete(path)
    assert (deleted.status_code, deleted.headers.get("content-type")) == (204, None)
    assert (await gateway.http.get(path)).status_code == 404
    assert rows(database, "SELECT count(*) FROM chat.messages") == [(0,)]
    # Its usage is still counted.
    assert rows(database, "SELECT state FROM chat.exchanges") == [("done",)]


async def test_a_conversation_deleted_while_it_is_answered_stays_deleted(gateway: Gateway, database: Database) -> None:
    async def deletes(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta("x")
        query = "SELECT conversation_id::text FROM chat.conversations"
        await wait_until(lambda: len(rows(database, query)) == 1)
        assert (await gateway.http.delete(f"/v1/conversations/{rows(database, query)[0][0]}")).status_code == 204
        yield completed()

    gateway.fakes.generator.script = deletes
    await gateway.stream("/v1/chat", {"question": "x"})
    assert rows(database, "SELECT count(*) FROM chat.messages") == [(0,)]
    assert rows(database, "SELECT state FROM chat.exchanges") == [("done",)]


async def test_profiles_are_listed(gateway: Gateway) -> None:
    listed = (await gateway.http.get("/v1/profiles")).json()["profiles"]
    assert [profile["name"] for profile in listed] == [
        "documents",
        "sources",
        "self-rag",
        "library",
        "simple",
        "grounded",
    ]
    assert listed[0]["top_k"] == {"default": 5, "minimum": 1, "maximum": 30}
    assert listed[0]["events"] == ["conversation", "citations", "token", "usage", "error", "done"]
    assert listed[0]["empty_selection"] == "nothing"
    assert listed[4]["empty_selection"] == "absent"


async def test_a_conversation_is_exported_whole(gateway: Gateway) -> None:
    first = await ask(gateway, "How much?\nAnd since when?")
    conversation_id = first["conversation_id"]
    await ask(gateway, "And profit?", conversation_id=conversation_id)
    address = f"/v1/conversations/{conversation_id}/export"
    exported = await gateway.http.get(address)
    assert exported.headers["content-disposition"] == f'attachment; filename="conversation-{conversation_id}.json"'
    read = (await gateway.http.get(f"/v1/conversations/{conversation_id}")).json()
    assert exported.json()["messages"] == read["messages"]
    text = await gateway.http.get(address, params={"format": "markdown"})
    assert text.headers["content-type"] == "text/markdown; charset=utf-8"
    assert text.text.startswith("# How much? And since when?\n\nProfile documents, ")
    assert f"## How much?\n\nAnd since when?\n\n{ANSWER}\n\nSources:\n\n1. report.pdf\n\n## And profit?" in text.text
    assert (await gateway.http.get(address, params={"format": "pdf"})).status_code == 422


async def test_the_history_of_a_stored_conversation_goes_to_the_model_if_the_profile_says_so(gateway: Gateway) -> None:
    first = await ask(gateway, "How much?", profile="grounded")
    await ask(gateway, "And profit?", profile="grounded", conversation_id=first["conversation_id"])
    asked = gateway.fakes.generator.requests[1]
    assert [message.content for message in asked.history] == ["How much?", ANSWER]
    # It includes the passages of the first prompt, so that the next prompt can begin with the same text.
    assert 1 in [passage.chunk_id for passage in gateway.fakes.generator.requests[0].passages]
    assert [[passage.chunk_id for passage in message.passages] for message in asked.history] == [[1], []]
    assert asked.cache_key == first["conversation_id"]
    assert gateway.fakes.generator.rewrites[0].question == "And profit?"
    await ask(gateway, "And?", conversation_id=first["conversation_id"])
    assert len(gateway.fakes.generator.requests[2].history) == 0
