"""Feedback on answers: given by the conversation's user, stored with the answer, listed for admins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from prometheus_client import REGISTRY

from citewire_gateway.chat.reading import WITHHELD
from gateway_fake_servers import running_fakes
from gateway_fakes import result
from gateway_process import rows, running_gateway
from people_calls import People

if TYPE_CHECKING:
    from databases import Database

DOWN = {"rating": "down", "reasons": ["outdated", "outdated"], "comment": "  It went up in May. 🙁  "}


@pytest.fixture
async def people(database: Database) -> AsyncIterator[People]:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as gateway:
        fakes.retriever.results = [result(1, text="The figure is 4711.")]
        people = People(gateway, database)
        for user in ("ada", "bob", "eve"):  # ada is the organisation's owner
            await people.add("acme", user)
        await people.add("other", "mallory")
        yield people


def feedback_path(answer: dict[str, Any]) -> str:
    return f"/v1/conversations/{answer['conversation_id']}/answers/{answer['exchange_id']}/feedback"


def ratings(rating: str) -> float:
    return REGISTRY.get_sample_value("citewire_feedback_total", {"rating": rating}) or 0.0


async def rate(people: People, user: str, answer: dict[str, Any], body: dict[str, Any]) -> None:
    response = await people.call(user, "PUT", feedback_path(answer), json=body)
    assert response.status_code == 200, response.text


async def test_feedback_is_stored_with_the_answer_changed_and_withdrawn(people: People, database: Database) -> None:
    answer = await people.ask("bob")
    path, before = feedback_path(answer), (ratings("up"), ratings("down"))
    given = await people.call("bob", "PUT", path, json=DOWN)
    assert given.status_code == 200
    expected = {"rating": "down", "reasons": ["outdated"], "comment": "It went up in May. 🙁"}
    assert given.json() | expected == given.json()
    conversation = f"/v1/conversations/{answer['conversation_id']}"
    for where in (conversation, f"{conversation}/export"):
        question, message = (await people.call("bob", "GET", where)).json()["messages"]
        assert message["feedback"] == given.json()
        assert message["exchange_id"] == answer["exchange_id"]
        assert "feedback" not in question
    markdown = (await people.call("bob", "GET", f"{conversation}/export?format=markdown")).text
    assert "Rated down (outdated): It went up in May. 🙁" in markdown
    await rate(people, "bob", answer, {"rating": "up"})
    await rate(people, "bob", answer, {"rating": "up", "comment": "Right after all."})
    message = (await people.call("bob", "GET", conversation)).json()["messages"][1]
    assert (message["feedback"]["rating"], message["feedback"]["comment"]) == ("up", "Right after all.")
    assert (ratings("up"), ratings("down")) == (before[0] + 1, before[1] + 1), "a comment isn't another rating"
    assert (await people.call("bob", "DELETE", path)).status_code == 204
    assert "feedback" not in (await people.call("bob", "GET", conversation)).json()["messages"][1]
    assert (await people.call("bob", "DELETE", path)).json()["reason"] == "RUN_NOT_FOUND"
    await rate(people, "bob", answer, DOWN)
    assert (await people.call("bob", "DELETE", conversation)).status_code == 204
    assert rows(database, "SELECT count(*) FROM chat.feedback") == [(0,)]


async def test_nobody_else_gives_sees_or_withdraws_feedback(people: People, database: Database) -> None:
    answer = await people.ask("bob")
    await rate(people, "bob", answer, DOWN)
    conversation = f"/v1/conversations/{answer['conversation_id']}"
    await people.call("bob", "PUT", f"{conversation}/sharing", json={"organisation": True})
    for user in ("ada", "eve", "mallory"):
        for method, options in (("PUT", {"json": {"rating": "up"}}), ("DELETE", {})):
            response = await people.call(user, method, feedback_path(answer), **options)
            assert response.status_code == 404, (user, method)
    shown = (await people.call("eve", "GET", conversation)).json()["messages"][1]
    assert "feedback" not in shown
    assert (await people.call("eve", "GET", "/v1/feedback")).json()["reason"] == "PERMISSION_DENIED"
    assert (await people.call("mallory", "GET", "/v1/feedback")).json()["feedback"] == []
    with psycopg.connect(database.dsn("citewire_chat"), autocommit=True) as connection:
        connection.execute("SELECT set_config('citewire.org_id', 'acme', false)")
        connection.execute("SELECT set_config('citewire.user_id', 'eve', false)")
        assert connection.execute("UPDATE chat.feedback SET rating = 'up'").rowcount == 0
        assert connection.execute("DELETE FROM chat.feedback").rowcount == 0
        connection.execute("SELECT set_config('citewire.org_id', 'other', false)")
        assert connection.execute("SELECT FROM chat.feedback").rowcount == 0


async def test_wrong_fields_are_named(people: People) -> None:
    answer = await people.ask("bob")
    path = feedback_path(answer)
    for body, field in (
        ({}, "rating"),
        ({"rating": "sideways"}, "rating"),
        ({"rating": "up", "reasons": ["correct", "outdated"]}, "reasons.1"),
        ({"rating": "up", "reasons": ["<script>"]}, "reasons.0"),
        ({"rating": "up", "reasons": ["correct"] * 11}, "reasons"),
        ({"rating": "up", "comment": "x" * 2001}, "comment"),
        ({"rating": "up", "comment": "a\x00b"}, "comment"),
        ({"rating": "up", "stars": 5}, "stars"),
    ):
        response = await people.call("bob", "PUT", path, json=body)
        assert (response.status_code, [error["field"] for error in response.json()["errors"]]) == (422, [field]), body
    longest = {"rating": "up", "comment": "\U0001f600" * 2000}
    assert (await people.call("bob", "PUT", path, json=longest)).status_code == 200
    conversation = answer["conversation_id"]
    for wrong in (
        f"/v1/conversations/{uuid4()}/answers/{answer['exchange_id']}/feedback",
        f"/v1/conversations/x/answers/{answer['exchange_id']}/feedback",
        f"/v1/conversations/{conversation}/answers/{uuid4()}/feedback",
        f"/v1/conversations/{conversation}/answers/x/feedback",
    ):
        response = await people.call("bob", "PUT", wrong, json={"rating": "up"})
        assert response.status_code == 404, wrong
    for query in ("rating=good", "from=soon", "to=2026-13-01", "page_token=x", "since=2026-01-01"):
        assert (await people.call("ada", "GET", f"/v1/feedback?{query}")).status_code == 422, query


async def test_admins_list_feedback_with_question_and_answer_in_pages(people: People) -> None:
    expected: list[tuple[str, str, str]] = []
    for number in range(5):
        user = ("bob", "eve")[number % 2]
        answer = await people.ask(user, f"How much in year {number}?")
        body = {"rating": "up", "reasons": ["clear"]} if number % 2 else DOWN
        await rate(people, user, answer, body)
        expected.insert(0, (user, f"How much in year {number}?", str(body["rating"])))
    seen: list[Any] = []
    token = ""
    while token or not seen:
        page = (await people.call("ada", "GET", f"/v1/feedback?page_size=2&page_token={token}")).json()
        assert 1 <= len(page["feedback"]) <= 2
        seen += page["feedback"]
        token = page["next_page_token"]
    assert [(entry["user"], entry["question"], entry["answer"]["feedback"]["rating"]) for entry in seen] == expected
    assert seen[0]["answer"]["citations"][0]["document_id"] == 7
    assert seen[0]["profile"] == "documents"
    ups = (await people.call("ada", "GET", "/v1/feedback?rating=up")).json()["feedback"]
    assert [entry["user"] for entry in ups] == ["eve", "eve"]
    middle = seen[2]["answer"]["feedback"]["updated_at"].replace("Z", "%2B00:00")
    since = (await people.call("ada", "GET", f"/v1/feedback?from={middle}")).json()["feedback"]
    until = (await people.call("ada", "GET", f"/v1/feedback?to={middle}")).json()["feedback"]
    assert ([e["question"] for e in since], [e["question"] for e in until]) == (
        [question for _, question, _ in expected[:3]], [question for _, question, _ in expected[3:]],
    )  # fmt: skip
    token = (await people.call("ada", "GET", "/v1/feedback?page_size=1")).json()["next_page_token"]
    other = await people.call("ada", "GET", f"/v1/feedback?rating=up&page_token={token}")
    assert other.json()["reason"] == "INVALID_PAGE_TOKEN"


async def test_an_admin_sees_no_answer_from_documents_hidden_from_them(people: People) -> None:
    answer = await people.ask("bob")
    await rate(people, "bob", answer, DOWN)
    people.gateway.fakes.retriever.hidden["ada"] = {7}
    listed = await people.call("ada", "GET", "/v1/feedback")
    assert "4711" not in listed.text
    (entry,) = listed.json()["feedback"]
    assert (entry["question"], entry["answer"]["content"], entry["answer"]["withheld"]) == ("How much?", WITHHELD, True)
    assert entry["answer"]["feedback"]["rating"] == "down"
