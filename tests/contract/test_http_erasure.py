"""Answers' text about deleted documents is erased, whoever deleted them and whichever process dies meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

from gateway_fake_servers import Fakes, running_fakes
from gateway_fakes import result
from gateway_process import Gateway, rows, running_gateway, until_rows, write
from waiting import wait_until

if TYPE_CHECKING:
    from databases import Database

SECRET = "The figure is 4711."
MESSAGES = "SELECT ordinal, content, details::text FROM chat.messages WHERE role = 'assistant' ORDER BY ordinal"


@pytest.fixture
async def fakes() -> AsyncIterator[Fakes]:
    async with running_fakes() as fakes:
        fakes.retriever.results = [result(1, text=SECRET)]
        yield fakes


async def ask(gateway: Gateway, question: str = "How much?", key: str = "", **fields: object) -> dict[str, Any]:
    headers = {"Idempotency-Key": key} if key else {}
    body = {"question": question, "stream": False, "profile": "grounded", **fields}
    response = await gateway.http.post("/v1/chat", json=body, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_deletion_made_elsewhere_is_discovered_and_completed(database: Database, fakes: Fakes) -> None:
    """If documents were deleted over gRPC or by a gateway that died, the next gateway's sweeper erases."""
    async with running_gateway(database, fakes) as gateway:
        conversation = (await ask(gateway, key="k"))["conversation_id"]
        fakes.retriever.results = [result(2, text="Nothing of it.", document_id=8)]
        await ask(gateway, "And?", conversation_id=conversation)  # its model read the first answer
        other = (await ask(gateway, "Else?"))["conversation_id"]
    assert SECRET in str(rows(database, MESSAGES))
    fakes.corpus.erased = {("local", number): 10_000 for number in (3, 5, 7)}  # more than a page
    fakes.corpus.erased["other", 8] = 10_000
    with_erasures = rows(database, "SELECT count(*) FROM chat.erasure_checks WHERE org_id = 'local'")
    assert with_erasures == [(1,)]
    owner = "UPDATE chat.erasure_checks SET next_at = now() RETURNING 1"
    assert rows(database, owner)
    async with running_gateway(database, fakes, sweeper_seconds=0.1) as gateway:
        await wait_until(lambda: set(fakes.corpus.erased) == {("other", 8)})
        read = (await gateway.http.get(f"/v1/conversations/{conversation}")).json()["messages"]
        assert [message.get("withheld") for message in read] == [None, True, None, True]
        assert "erased" in read[1]["content"]
        assert read[1]["usage"]["completion_tokens"] == 20
        answer = (await gateway.http.get(f"/v1/conversations/{other}")).json()["messages"][1]
        assert "withheld" not in answer
    assert SECRET not in str(rows(database, "SELECT * FROM chat.messages"))
    assert rows(database, "SELECT count(*) FROM chat.idempotency_keys") == [(0,)]
    assert rows(database, "SELECT count(*) FROM chat.exchanges WHERE state = 'done'") == [(3,)]
    # An inactive organisation isn't checked each time.
    assert rows(database, "SELECT next_at > now() + interval '50 minutes' FROM chat.erasure_checks") == [(True,)]


async def test_a_deletion_is_remembered_until_no_chat_can_still_write_what_it_read(
    database: Database, fakes: Fakes
) -> None:
    fakes.corpus.erased = {("local", 7): 5}
    async with running_gateway(database, fakes, sweeper_seconds=0.1, chat_seconds=20) as gateway:
        await wait_until(lambda: rows(database, "SELECT FROM chat.erasure_checks WHERE next_at > now()") != [])
        await ask(gateway)  # its search ran before the deletion, say
        assert rows(database, "SELECT next_at < now() + interval '2 minutes' FROM chat.erasure_checks") == [(True,)]
        assert fakes.corpus.erased  # not yet
        fakes.corpus.erased = {("local", 7): 60}
        await write(database, "UPDATE chat.erasure_checks SET next_at = now() RETURNING 1")
        await wait_until(lambda: not fakes.corpus.erased)
    assert SECRET not in str(rows(database, "SELECT * FROM chat.messages"))


async def test_an_organisation_whose_node_is_down_delays_no_others_erasures(database: Database, fakes: Fakes) -> None:
    fakes.corpus.away = {"a", "z"}
    fakes.corpus.erased = {("local", 7): 10_000}
    orgs = "INSERT INTO chat.orgs (org_id) VALUES ('a'), ('local'), ('z') ON CONFLICT DO NOTHING RETURNING 1"
    assert rows(database, orgs)
    soon = "SELECT org_id FROM chat.erasure_checks WHERE next_at < now() + interval '2 minutes' ORDER BY 1"
    async with running_gateway(database, fakes, sweeper_seconds=0.1):
        await wait_until(lambda: not fakes.corpus.erased)
        await until_rows(database, soon, [("a",), ("z",)])  # they are asked again


async def test_a_document_deleted_here_is_erased_before_the_response(database: Database, fakes: Fakes) -> None:
    async with running_gateway(database, fakes) as gateway:
        article = {"type": "article", "title": SECRET, "content": SECRET}
        key = {"Idempotency-Key": "upload"}
        document = (await gateway.http.post("/v1/documents", json=article, headers=key)).json()["id"]
        fakes.retriever.results = [result(1, text=SECRET, document_id=document)]
        await ask(gateway, key="chat")
        assert len(rows(database, "SELECT 1 FROM chat.idempotency_keys")) == 2
        assert SECRET in str(rows(database, "SELECT * FROM chat.run_events"))
        assert (await gateway.http.delete(f"/v1/documents/{document}")).status_code == 204
        for table in ("messages", "idempotency_keys", "run_events"):
            assert SECRET not in str(rows(database, f"SELECT * FROM chat.{table}"))  # noqa: S608 # our own tables
        again = await gateway.http.post("/v1/documents", json=article, headers=key)
        assert (again.status_code, again.json()["reason"]) == (404, "DOCUMENT_NOT_FOUND")
