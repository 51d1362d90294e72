"""Filters from the words of a question: what it says about saved documents, by the library's labels, and no more."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from citewire.retriever.v1 import filter_pb2
from citewire.retriever.v1.filter_pb2 import OPERATOR_CONTAINS, OPERATOR_EQ, OPERATOR_GE, OPERATOR_LT, Filter
from google.protobuf.struct_pb2 import Value

from citewire_retriever.service.query_filters import derive, read_question

if TYPE_CHECKING:
    from datetime import tzinfo

    from citewire.retriever.v1.retriever_pb2 import ItemListing, QueryFilter

NOW = datetime(2026, 11, 21, 15, 30, tzinfo=UTC)  # a Saturday
LIBRARY = (
    *(("type", name) for name in ("article", "repository", "capture", "file")),
    *(("entity_type", name) for name in ("restaurant", "Recipe", "book", "person", "universe")),
    *(("category", name) for name in ("Food", "travel", "Technology", "旅行")),
    *(("tags", name) for name in ("AI", "rust", "vegan", "to read", "machine learning", "money", "history", "work")),
    ("collection", "Japan Trip"),
)
THIS_WEEK = "saved 2026-11-16 to 2026-11-22"
LAST_WEEK = "saved 2026-11-09 to 2026-11-15"
LAST_MONTH = "saved 2026-10-01 to 2026-10-31"


def read(
    question: str, library: tuple[tuple[str, str], ...] = LIBRARY, *, now: datetime = NOW, zone: tzinfo = UTC
) -> tuple[QueryFilter | None, ItemListing | None]:
    """Reads a question's filter, with the labels that the database would find for it."""
    reading = read_question(question, now, zone)
    begin = set(reading.initials)
    return derive(reading, [label for label in library if initials(label[1]) in begin])


def initials(value: str) -> str:
    """The same as the database's function of this name."""
    return re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", value))[:2]


def phrases(question: str, library: tuple[tuple[str, str], ...] = LIBRARY) -> list[str]:
    query_filter, _ = read(question, library)
    return [] if query_filter is None else list(query_filter.phrases)


def compare(field: str, op: filter_pb2.Operator, value: str) -> Filter:
    return Filter(comparison=filter_pb2.Comparison(field=field, op=op, value=Value(string_value=value)))


def every(*conditions: Filter) -> Filter:
    return Filter(all=filter_pb2.FilterList(filters=conditions))


def tag(value: str) -> Filter:
    return compare("tags", OPERATOR_CONTAINS, value)


def since(text: str) -> Filter:
    return compare("created_at", OPERATOR_GE, f"{text}T00:00:00Z")


def until(text: str) -> Filter:
    return compare("created_at", OPERATOR_LT, f"{text}T00:00:00Z")


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is new in #rust?", tag("rust")),
        ("What is new in #python?", tag("python")),
        ('Which recipes are tagged "to cook"?', tag("to cook")),
        ("Notes tagged with work.", tag("work")),
        ("Anything in the category recipes?", compare("metadata.category", OPERATOR_EQ, "recipes")),
        ("Anything in the category food?", compare("metadata.category", OPERATOR_EQ, "Food")),
        ("Show entity type person", compare("metadata.entity_type", OPERATOR_EQ, "person")),
        ("What is in my Japan Trip collection?", compare("collection", OPERATOR_EQ, "Japan Trip")),
        ("What did I save? I saved it today", every(since("2026-11-21"), until("2026-11-22"))),
        ("Things I saved yesterday about vectors", every(since("2026-11-20"), until("2026-11-21"))),
        ("Which things were saved last week?", every(since("2026-11-09"), until("2026-11-16"))),
        ("saved this week", every(since("2026-11-16"), until("2026-11-23"))),
        ("added last month", every(since("2026-10-01"), until("2026-11-01"))),
        ("bookmarked last year", every(since("2025-01-01"), until("2026-01-01"))),
        ("added in the last 3 days", since("2026-11-18")),
        ("saved in the past week", since("2026-11-14")),
        ("saved in the last week", since("2026-11-14")),
        ("saved within the last two weeks", since("2026-11-07")),
        ("captured in March 2025", every(since("2025-03-01"), until("2025-04-01"))),
        ("captured in December", every(since("2025-12-01"), until("2026-01-01"))),
        ("saved since May", since("2026-05-01")),
        ("saved before 2024", until("2024-01-01")),
        ("saved after 2025-03-01", since("2025-03-02")),
        ("uploaded in 2025", every(since("2025-01-01"), until("2026-01-01"))),
        ("What did I save between March and May 2025?", every(since("2025-03-01"), until("2025-06-01"))),
        ("What did I save three weeks ago?", every(since("2026-10-26"), until("2026-11-02"))),
        ("What did I save on Monday?", every(since("2026-11-16"), until("2026-11-17"))),
        ("What did I save on March 3rd, 2025?", every(since("2025-03-03"), until("2025-03-04"))),
        ("#rust things saved this year", every(tag("rust"), since("2026-01-01"), until("2027-01-01"))),
    ],
)
def test_filters_in_a_question(question: str, expected: Filter) -> None:
    query_filter, _ = read(question)
    assert query_filter is not None
    assert query_filter.filter == expected
    assert query_filter.phrases


@pytest.mark.parametrize(
    "question",
    [
        "How much did revenue grow in 2024?",
        "What happened last week?",
        "Who is number #1?",
        "Is C# better than F#?",
        "What does the page https://example.org/#intro say?",
        "Which money was saved by the new plan?",
        "How can I save money?",
        "How do I save a file?",
        "What is a category?",
        "Explain category theory",
        "Files added in the wrong place",
        "added on 2025-13-45",
        "How does AI work?",
        "Explain machine learning",
        "Summarize the history of Rome",
        "Is my work insured?",
        "What's the best restaurant?",
        "What did the articles say about last week's election?",
        "What is new in Python 3.13?",
        "What did I save about AI?",
        "The march of the penguins",
        "Wie funktioniert KI?",
        "Wie werden Passwörter gespeichert?",
        "Was ist letzte Woche passiert?",
        "What new restaurants opened last week?",
        "Comment fonctionne l'IA ?",
        "Comment enregistrer un fichier ?",
        "¿Cómo funciona la IA?",
        "¿Qué pasó la semana pasada?",
        "Come funziona l'IA?",
        "Как работает ИИ?",
        "人工智能是如何工作的？",
        "密码保存在哪里？",
        "上周发生了什么？",
        "AIはどのように機能しますか？",
        "先週何が起きましたか？",
        "",
        "   ",
        "?!",
    ],
)
def test_questions_without_a_filter(question: str) -> None:
    assert phrases(question) == []


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What restaurants did I save?", ["entity type restaurant"]),
        ("My saved RECIPES", ["entity type Recipe"]),
        ("List my recipes", ["entity type Recipe"]),
        ("What foods did I save?", ["category Food"]),
        ("Summarize the AI articles from this week", ["tags AI", "type article", THIS_WEEK]),
        ("Summarize the articles about AI from this week", ["tags AI", "type article", THIS_WEEK]),
        ("Give me an overview of this week's machine learning articles", [
            "tags machine learning", "type article", THIS_WEEK,
        ]),
        ("Which repositories did I save last month?", ["type repository", LAST_MONTH]),
        ("Who wrote the articles I saved last week?", ["type article", LAST_WEEK]),
        ("What universal recipes did I save?", ["entity type Recipe"]),
        ("What did I recently save?", []),
        ("Welche Restaurants habe ich gespeichert?", ["entity type restaurant"]),
        ("Zeig mir alle Rezepte", ["entity type Recipe"]),
        ("Fasse die KI-Artikel dieser Woche zusammen", ["tags AI", "type article", THIS_WEEK]),
        ("Was habe ich letzte Woche gespeichert?", [LAST_WEEK]),
        ("Was habe ich in den letzten drei Tagen gespeichert?", ["saved since 2026-11-18"]),
        ("Was habe ich seit März gespeichert?", ["saved since 2026-03-01"]),
        ("Quels restaurants ai-je enregistrés ?", ["entity type restaurant"]),
        ("Résume les articles sur l'IA de cette semaine", ["tags AI", "type article", THIS_WEEK]),
        ("Qu'est-ce que j'ai enregistré la semaine dernière ?", [LAST_WEEK]),
        ("Qu'ai-je enregistré il y a deux semaines ?", ["saved 2026-11-02 to 2026-11-08"]),
        ("¿Qué restaurantes guardé?", ["entity type restaurant"]),
        ("Resume los artículos sobre IA de esta semana", ["tags AI", "type article", THIS_WEEK]),
        ("¿Qué guardé el 3 de marzo de 2025?", ["saved on 2025-03-03"]),
        ("Quali ristoranti ho salvato?", ["entity type restaurant"]),
        ("Riassumi gli articoli sull'IA di questa settimana", ["tags AI", "type article", THIS_WEEK]),
        ("Quais restaurantes eu salvei?", ["entity type restaurant"]),
        ("O que salvei no mês passado?", [LAST_MONTH]),
        ("Welke restaurants heb ik opgeslagen?", ["entity type restaurant"]),
        ("Vat de AI-artikelen van deze week samen", ["tags AI", "type article", THIS_WEEK]),
        ("Какие рестораны я сохранил?", ["entity type restaurant"]),
        ("Обобщи статьи об ИИ за эту неделю", ["tags AI", "type article", THIS_WEEK]),
        ("Что я сохранила в марте 2025 года?", ["saved 2025-03-01 to 2025-03-31"]),
        ("ما المطاعم التي حفظتها؟", ["entity type restaurant"]),
        ("ماذا حفظت هذا الأسبوع؟", [THIS_WEEK]),
        ("Hangi restoranları kaydettim?", ["entity type restaurant"]),
        ("Geçen ay ne kaydettim?", [LAST_MONTH]),
        ("Mitä ravintoloita tallensin?", ["entity type restaurant"]),
        ("Mitä tallensin tällä viikolla?", [THIS_WEEK]),
        ("Vilka restauranger har jag sparat?", ["entity type restaurant"]),
        ("Hvad har jeg gemt i denne uge?", [THIS_WEEK]),
        ("Hva lagret jeg forrige måned?", [LAST_MONTH]),
        ("Jakie restauracje zapisałem?", ["entity type restaurant"]),
        ("Co jsem uložil tento týden?", [THIS_WEEK]),
        ("Ce am salvat săptămâna aceasta?", [THIS_WEEK]),
        ("Mit mentettem ezen a héten?", [THIS_WEEK]),
        ("Ποια εστιατόρια αποθήκευσα;", ["entity type restaurant"]),
        ("मैंने कौन से रेस्तरां सहेजे?", ["entity type restaurant"]),
        ("இந்த வாரம் நான் என்ன சேமித்தேன்?", [THIS_WEEK]),
        ("Ի՞նչ պահպանեցի այս շաբաթ", [THIS_WEEK]),
        ("我收藏了哪些餐厅？", ["entity type restaurant"]),
        ("我儲存了哪些餐廳？", ["entity type restaurant"]),
        ("总结本周的AI文章", ["tags AI", "type article", THIS_WEEK]),
        ("总结一下这周关于人工智能的文章", ["tags AI", "type article", THIS_WEEK]),
        ("2025年3月我保存了什么？", ["saved 2025-03-01 to 2025-03-31"]),
        ("自从2025年3月以来我保存了什么？", ["saved since 2025-03-01"]),
        ("最近三天我收藏了什么？", ["saved since 2026-11-18"]),
        ("どのレストランを保存しましたか？", ["entity type restaurant"]),
        ("今週のAI記事を要約して", ["tags AI", "type article", THIS_WEEK]),
        ("先週は何を保存しましたか？", [LAST_WEEK]),
        ("3月以降に保存したもの", ["saved since 2026-03-01"]),
    ],
)  # fmt: skip
def test_labels_and_dates_in_many_languages(question: str, expected: list[str]) -> None:
    assert phrases(question) == expected


def test_labels_in_the_questions_own_language() -> None:
    library = (
        ("entity_type", "餐厅"), ("entity_type", "Rezept"), ("category", "レストラン"), ("tags", "Gartenbau"),
        ("entity_type", "ristorante"), ("category", "Кино"), ("tags", "本"), ("tags", "スト"),
    )  # fmt: skip
    assert phrases("我收藏了哪些餐厅？", library) == [
        "category レストラン or entity type ristorante or entity type 餐厅"
    ]
    assert phrases("Welche Rezepte habe ich gespeichert?", library) == ["entity type Rezept"]
    assert phrases("Welche Gartenbau-Artikel habe ich gespeichert?", library)[0] == "tags Gartenbau"
    assert phrases("保存したストレッチの本は？", library) == ["tags 本"]


def test_a_word_that_matches_several_labels_finds_any_of_them() -> None:
    library = (("entity_type", "recipe"), ("tags", "recipes"), ("category", "Recipes"), ("collection", "Recipes"))
    query_filter, _ = read("Which recipes did I save this week?", library)
    assert query_filter is not None
    labels, *dates = query_filter.filter.all.filters
    assert {comparison.comparison.field for comparison in labels.any.filters} == {
        "metadata.entity_type", "tags", "metadata.category", "collection",
    }  # fmt: skip
    assert len(dates) == 2


def test_days_begin_in_the_callers_time_zone() -> None:
    late = datetime(2026, 11, 22, 20, 0, tzinfo=UTC)  # Monday the 23rd in Auckland
    query_filter, _ = read("What did I save this week?", now=late, zone=ZoneInfo("Pacific/Auckland"))
    assert query_filter is not None
    assert query_filter.phrases == ["saved 2026-11-23 to 2026-11-29"]
    assert query_filter.filter.all.filters[0] == compare("created_at", OPERATOR_GE, "2026-11-22T11:00:00Z")


def test_an_hour_counts_from_now() -> None:
    query_filter, _ = read("saved in the last hour")
    assert query_filter is not None
    assert query_filter.filter == compare("created_at", OPERATOR_GE, "2026-11-21T14:30:00Z")
    assert list(query_filter.phrases) == ["saved since 2026-11-21 14:30"]


@pytest.mark.parametrize(
    ("question", "topic", "max_items"),
    [
        ("What did I save this week?", "", 50),
        ("What restaurants did I save?", "", 50),
        ("Which vegan restaurants did I save?", "vegan", 50),
        ("What did I save about AI?", "AI", 50),
        ("What's new?", "", 10),
        ("Was ist neu?", "", 10),
        ("Quoi de neuf ?", "", 10),
        ("¿Qué hay de nuevo?", "", 10),
        ("Что нового?", "", 10),
        ("最近保存了什么？", "", 10),
        ("最近何を保存した？", "", 10),
        ("What is new in #rust?", "", 50),
        ("What are my latest saves?", "", 10),
        ("How many restaurants did I save this month?", "", 50),
        ("Compare the restaurants I saved", "", 50),
        ("Show all vegan recipes from Naples", "vegan Naples", 50),
        ("What AI tools did I save?", "AI tools", 50),
        ("Покажи рецепты, которые я сохранил в прошлом месяце", "", 50),
        ("我有哪些餐厅？", "", 50),
    ],
)
def test_questions_for_a_list(question: str, topic: str, max_items: int) -> None:
    _, listing = read(question)
    assert listing is not None
    assert (listing.topic, listing.max_items) == (topic, max_items)


@pytest.mark.parametrize(
    "question",
    [
        "What is new in Python 3.13?",
        "Was ist neu in Berlin?",
        "Who wrote the articles I saved?",
        "What did the AI article from this week say about GPUs?",
        "How does AI work?",
        "",
    ],
)
def test_other_questions_are_not_for_a_list(question: str) -> None:
    assert read(question)[1] is None
