"""Typical questions to a library of 250 saved items of mixed kinds, in many languages.

The whole stack answers them, by the extractive provider and by a language model that follows its prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import numpy as np
import psycopg
import pytest

from corpus_rows import CorpusRows, NewDocument
from echo_model import MODEL
from listing_model import ListingModel
from local_stack import LocalStack, local_stack, prepared

COUNT = 250
KINDS = ("restaurant", "Recipe", "book", "film", "")
"""The captures' places; the last captures have none."""


@dataclass(frozen=True, slots=True)
class Library:
    """The items that were stored."""

    http: str
    items: dict[str, NewDocument]
    """By title."""
    model: ListingModel

    def titles(self, kind: str = "", tag: str = "", since: datetime | None = None) -> set[str]:
        """Returns the titles of the items that a question is about."""
        return {
            title
            for title, item in self.items.items()
            if (not kind or item.metadata.get("entity_type") == kind or item.type == kind)
            and (not tag or tag in item.tags)
            and (since is None or (item.created_at is not None and item.created_at >= since))
        }


def week_start(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=now.weekday())


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    model = ListingModel(pause=0.0)
    model.start()
    environ = {
        "CITEWIRE_GENERATOR_PROVIDER": "openai-compatible",
        "CITEWIRE_GENERATOR_MODEL": MODEL,
        "CITEWIRE_GENERATOR_API_BASE": model.url,
    }
    try:
        with local_stack(prepared(tmp_path_factory.mktemp("library")), environ=environ) as stack:
            yield Library(stack.base_url, _fill(stack), model)
    finally:
        model.stop()


def _fill(stack: LocalStack) -> dict[str, NewDocument]:
    """Stores a first item by the API, which creates the space; the others directly, as they have other dates."""
    with httpx.Client(base_url=stack.base_url, trust_env=False, timeout=60) as http:
        body = {"type": "article", "title": "First", "content": "The first one.", "tags": ["AI"]}
        document_id = http.post("/v1/documents", json=body).json()["id"]
        stack.wait(
            lambda: http.get(f"/v1/documents/{document_id}").json()["status"] == "ready" or None, "it isn't ready"
        )
    random = np.random.default_rng(7)
    now = datetime.now(UTC)
    items: dict[str, NewDocument] = {}
    with psycopg.connect(stack.dsn()) as connection:
        space = connection.execute(
            "SELECT model, revision, dimensions FROM corpus.spaces JOIN corpus.org_spaces ON space_id = live_space_id"
        ).fetchone()
    assert space is not None
    model, revision, dimensions = space
    with CorpusRows(stack.dsn(), dimensions=dimensions, model=model, revision=revision) as rows:
        # The counting triggers write as the schema's owner, to whom row-level security applies.
        rows.run("SELECT set_config('citewire.org_id', 'local', false)")
        rows.run("DELETE FROM corpus.documents WHERE org_id = 'local'")
        for number in range(COUNT):
            item = _item(number, now, random.normal(size=(1, dimensions)).astype(np.float32))
            rows.add(item)
            items[item.title] = item
    return items


def _item(number: int, now: datetime, vector: Any) -> NewDocument:  # noqa: ANN401 # a numpy array
    """Half are captures of several kinds, the others articles and repositories; thirty for each week, newest first."""
    kind = KINDS[number % len(KINDS)] if number % 2 else ""
    type_ = "capture" if number % 2 else ("article" if number % 4 else "repository")
    title = f"{(kind or type_).title()} number {number}"
    return NewDocument(
        "local",
        vector / np.linalg.norm(vector),
        title=title,
        owner="local",
        type=type_,
        tags=["AI"] if number % 3 == 0 else ["garden"],
        metadata={"entity_type": kind, "category": "Food"} if kind else {},
        texts=[f"What is known of the one that has the number {number}. It has a second sentence."],
        # A few hours at most, so that no item crosses the start of a week.
        created_at=week_start(now) - timedelta(days=7 * (number // 30)) + timedelta(minutes=number % 30),
    )


QUESTIONS = {
    "restaurants": (
        "What restaurants did I save?", "Welche Restaurants habe ich gespeichert?",
        "Quels restaurants ai-je enregistrés ?", "¿Qué restaurantes guardé?", "我收藏了哪些餐厅？",
        "どのレストランを保存しましたか？", "Какие рестораны я сохранил?", "Quali ristoranti ho salvato?",
        "Welke restaurants heb ik opgeslagen?", "Quais restaurantes eu salvei?", "ما المطاعم التي حفظتها؟",
        "Hangi restoranları kaydettim?", "Mitä ravintoloita tallensin?",
    ),
    "articles": (
        "Summarize the AI articles from this week", "Fasse die KI-Artikel dieser Woche zusammen",
        "Résume les articles sur l'IA de cette semaine", "Resume los artículos sobre IA de esta semana",
        "总结本周的AI文章", "今週のAI記事を要約して", "Обобщи статьи об ИИ за эту неделю",
        "Riassumi gli articoli sull'IA di questa settimana", "Vat de AI-artikelen van deze week samen",
    ),
    "week": (
        "What did I save this week?", "Was habe ich diese Woche gespeichert?",
        "Qu'est-ce que j'ai enregistré cette semaine ?", "¿Qué guardé esta semana?", "这周我保存了什么？",
        "今週は何を保存しましたか？",
        "Что я сохранил на этой неделе?", "Cosa ho salvato questa settimana?",
        "O que salvei esta semana?", "ماذا حفظت هذا الأسبوع؟",
        "Bu hafta ne kaydettim?", "Mitä tallensin tällä viikolla?",
    ),
}  # fmt: skip
NEW = ("Was ist neu?", "最近保存了什么？", "What's new?", "Quoi de neuf ?", "最近何を保存した？", "Что нового?")


async def ask(library: Library, question: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 # fields of the request
    body = {"question": question, "profile": "library", "stream": False, **more}
    async with httpx.AsyncClient(base_url=library.http, trust_env=False, timeout=120) as http:
        response = await http.post("/v1/chat", json=body)
        assert response.status_code == 200, response.text
        return response.json()


def cited(answer: dict[str, Any]) -> set[str]:
    """Returns the titles that the answer's markers refer to."""
    numbers = {int(number) for number in re.findall(r"\[ref:(\d+)\]", answer["answer"])}
    return {citation["title"] for citation in answer["citations"] if citation["index"] in numbers}


@pytest.mark.parametrize(
    ("name", "question"), [(name, question) for name, questions in QUESTIONS.items() for question in questions]
)
async def test_answers_use_the_right_items(library: Library, name: str, question: str) -> None:
    week = week_start(datetime.now(UTC))
    titles, labels = {
        "restaurants": (library.titles("restaurant"), ["kind: restaurant"]),
        "articles": (library.titles("article", "AI", week), ["kind: article", "AI"]),
        "week": (library.titles(since=week), []),
    }[name]
    library.model.required = labels
    library.model.since = "" if name == "restaurants" else f"{week:%Y-%m-%d}"
    assert titles
    for model in ("extractive", MODEL):
        answer = await ask(library, question, model=model)
        steps = {step["name"]: step["text"] for step in answer["steps"]}
        assert "filter_derived" in steps, steps
        assert {citation["title"] for citation in answer["citations"]} == titles
        assert cited(answer) == titles, answer["answer"]
        assert not answer["not_found"]
    assert library.model.today == f"{datetime.now(UTC):%Y-%m-%d}"


@pytest.mark.parametrize(
    ("question", "rerank"), [*((question, False) for question in NEW), *((question, True) for question in NEW[:2])]
)
async def test_the_latest_ten_remain(library: Library, question: str, rerank: bool) -> None:
    latest = sorted(library.items.values(), key=lambda item: str(item.created_at), reverse=True)
    answer = await ask(library, question, model="extractive", options={"rerank": rerank})
    assert cited(answer) >= {item.title for item in latest[:5]}
    assert len(cited(answer)) == 10
    assert len(answer["citations"]) >= 10
    assert not answer["not_found"]


async def test_a_citation_has_its_items_kind_and_date(library: Library) -> None:
    answer = await ask(library, "What restaurants did I save?", model="extractive")
    for citation in answer["citations"]:
        assert (citation["entity_type"], citation["category"], citation["type"]) == ("restaurant", "Food", "capture")
        assert citation["saved_at"]
        assert citation["tags"]


async def test_an_unknown_time_zone_is_refused(library: Library) -> None:
    async with httpx.AsyncClient(base_url=library.http, trust_env=False, timeout=60) as http:
        body = {"question": "What did I save today?", "profile": "library", "time_zone": "Europe/Nowhere"}
        refused = await http.post("/v1/chat", json=body)
    assert refused.status_code == 422
    assert [error["field"] for error in refused.json()["errors"]] == ["time_zone"]
