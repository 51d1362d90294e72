"""All five systems at once on one stack: fifty streams, ten for each, all complete and in their wire formats."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from echo_model import MODEL, EchoModel, echo_model
from http_api import wait_until_ended
from local_stack import LocalStack, local_stack, prepared

EACH = 10
ARTICLES = {
    "Tides at the pier": "High water at the pier comes six hours after low water.",
    "Ropes of the ferry": "The ferry is made fast with six ropes of forty metres each.",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """The content of a stream: its events in order, and its text."""

    events: list[str]
    text: str
    sources: int
    verified: int = 0
    """How many citation events there were; they may come between any two tokens."""


@dataclass(frozen=True, slots=True)
class System:
    """A system: its endpoint, its request body, and a reader for its stream."""

    name: str
    path: str
    body: Callable[[str], dict[str, Any]]
    read: Callable[[str], Reply]
    markers: str
    """The markers that its text may contain."""


def native(text: str) -> Reply:
    events: list[str] = []
    words: list[str] = []
    sources = verified = 0
    for number, raw in enumerate(text.strip().split("\n\n"), 1):
        lines = raw.split("\n")
        assert lines[1] == f"id: {number}", raw
        event, data = lines[0].removeprefix("event: "), json.loads(lines[2].removeprefix("data: "))
        if event == "citation":
            verified += 1
        elif event != "token" or not events or events[-1] != "token":
            events.append(event)
        if event == "token":
            words.append(data["text"])
        elif event == "citations":
            sources = len(data["citations"])
    return Reply(events, "".join(words), sources, verified)


def simple(text: str) -> Reply:
    frames = [json.loads(raw.removeprefix("data: ")) for raw in text.strip().split("\n\n")]
    assert all(list(frame) == ["token"] for frame in frames[:-1])
    assert list(frames[-1]) == ["done", "sources"]
    return Reply(["token", "done"], "".join(frame["token"] for frame in frames[:-1]), len(frames[-1]["sources"]))


def self_rag(text: str) -> Reply:
    events: list[str] = []
    words: list[str] = []
    sources = 0
    for raw in text.strip().split("\n\n"):
        first, second = raw.split("\n")
        event, data = first.removeprefix("event: "), json.loads(second.removeprefix("data: "))
        if event != "content" or events[-1] != "content":
            events.append(event)
        if event == "content":
            words.append(data["delta"])
        elif event == "retrieval":
            sources = data["total"]
            assert sources == len(data["sources"])
    return Reply(events, "".join(words), sources)


def profile(name: str) -> Callable[[str], dict[str, Any]]:
    return lambda question: {"question": question, "profile": name}


SYSTEMS = (
    System("documents", "/v1/chat", profile("documents"), native, ""),
    System("sources", "/v1/chat", profile("sources"), native, "[SOURCE 1]"),
    System(
        "self-rag",
        "/api/rag-chat/stream",
        lambda question: {"messages": [{"role": "user", "content": question}], "min_score": 0},
        self_rag,
        "[ref:1]",
    ),
    System("library", "/v1/chat", profile("library"), native, "[ref:1]"),
    System("simple", "/api/chat/", lambda question: {"question": question}, simple, "[ref:1]"),
)
EVENTS = {
    "documents": ["conversation", "citations", "token", "usage", "done"],
    "sources": ["conversation", "citations", "token", "sources", "usage", "done"],
    "self-rag": ["decision", "retrieval", "content", "assessment", "done"],
    "library": ["conversation", "step", "citations", "token", "usage", "done"],
    "simple": ["token", "done"],
}


TOO_MANY = "too many requests of this organisation at once"
VERIFIED = {"sources": 4, "library": 4}
"""How many citations an answer has, for the systems whose streams report the verified ones."""


@pytest.fixture(scope="module")
def model() -> Iterator[EchoModel]:
    with echo_model() as running:
        yield running


@pytest.fixture(scope="module")
def stack(model: EchoModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    environ = {
        "CITEWIRE_GENERATOR_PROVIDER": "openai-compatible",
        "CITEWIRE_GENERATOR_MODEL": MODEL,
        "CITEWIRE_GENERATOR_API_BASE": model.url,
    }
    with local_stack(prepared(tmp_path_factory.mktemp("all")), environ=environ) as running:
        yield running


async def test_fifty_streams_of_five_systems_at_once(stack: LocalStack) -> None:
    async with httpx.AsyncClient(base_url=stack.base_url, trust_env=False, timeout=120) as http:
        for title, content in ARTICLES.items():
            body = {"type": "article", "title": title, "content": content, "url": "https://example.org/a"}
            stored = await http.post("/v1/documents", json=body)
            assert stored.status_code == 202, stored.text
            assert (await wait_until_ended(http, stored.json()["id"]))["status"] == "ready"

        async def ask(system: System, number: int) -> None:
            asker = f"Q-{system.name}-{number}"
            question = f"{asker}: how are the tides at the pier and the ropes of the ferry?"
            response = await http.post(system.path, json=system.body(question))
            for _ in range(5):
                # A busy machine may refuse so many at once: before the stream starts, or later, at the search.
                if response.status_code == 503 or TOO_MANY in response.text:
                    await asyncio.sleep(int(response.headers.get("Retry-After", "1")))
                    response = await http.post(system.path, json=system.body(question))
            assert response.status_code == 200, response.text
            answer = system.read(response.text)
            assert answer.events == EVENTS[system.name], response.text
            expected = f"{asker} says{system.markers}. " * 4
            assert answer.text.strip() == expected.strip(), response.text
            assert answer.sources > 0, response.text
            assert answer.verified == VERIFIED.get(system.name, 0), response.text

        await asyncio.gather(*(ask(system, number) for number in range(EACH) for system in SYSTEMS))
