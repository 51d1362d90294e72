"""Descriptions without a language model: real texts in six languages and more, the library's labels, hostile texts."""

from __future__ import annotations

import pytest

from citewire_retriever.ingest.enrichment.model import (
    Description,
    DocumentToEnrich,
    EnrichmentSource,
    Field,
    KnownLabels,
)
from citewire_retriever.ingest.enrichment.rules import MAX_SUMMARY, MAX_TAG, MAX_TAGS, describe, statistics_of
from citewire_retriever.lexical import term_number, terms

RESTAURANTS = {
    "en": (
        "Da Enzo al 29",
        "Da Enzo is a small restaurant in Trastevere, Rome. The restaurant serves cacio e pepe and carbonara, made "
        "with guanciale from Amatrice.\n\nReservations aren't taken, so come early. The carbonara is the best in Rome, "
        "say the people of Trastevere.",
        {"Trastevere", "carbonara"},
    ),
    "de": (
        "Gasthaus Adler",
        "Das Gasthaus Adler ist ein Restaurant in Freiburg mit badischer Küche. Das Restaurant liegt am Münsterplatz "
        "in Freiburg.\n\nEmpfohlen werden die Maultaschen. Die Maultaschen kosten 12 Euro. Montags ist geschlossen.",
        {"Freiburg", "Maultaschen"},
    ),
    "fr": (
        "Le Petit Zinc",
        "Le Petit Zinc est un restaurant de Saint-Germain-des-Prés, à Paris. Ce restaurant propose des huîtres et un "
        "plateau de fruits de mer.\n\nLes huîtres viennent de Cancale. Les huîtres coûtent 18 euros la douzaine.",
        {"Petit Zinc", "huîtres"},
    ),
    "es": (
        "Casa Lucio",
        "Casa Lucio es un restaurante de la Cava Baja, en Madrid. El restaurante es famoso por sus huevos rotos.\n\n"
        "Los huevos rotos cuestan 13 euros. La Cava Baja está llena de tabernas.",
        {"huevos rotos", "Cava Baja"},
    ),
    "zh": (
        "老王川菜馆",
        "老王川菜馆是成都的一家餐厅，以麻婆豆腐闻名。这家餐厅位于锦里古街，麻婆豆腐每份三十元。\n\n"
        "很多游客来成都锦里就是为了吃麻婆豆腐和回锅肉。老王的回锅肉也很受欢迎。餐厅周一休息，需要提前预订。",
        {"麻婆豆腐", "回锅肉"},
    ),
    "ja": (
        "銀座寿司青木",
        "銀座寿司青木は東京のレストランです。江戸前の寿司を提供しています。このレストランは銀座駅から歩いて五分です。\n\n"
        "ランチの握りは三千円です。予約が必要です。銀座の寿司としては手頃で、ランチが人気です。",
        {"寿司", "ランチ"},
    ),
}
OTHER_SCRIPTS = {
    "ru": ("Кафе", "Пельмени стоят 900 рублей. Здесь пельмени подают всю ночь, и пельмени хороши.", "ельмени"),
    "th": ("ร้าน", "ร้านมีไข่เจียวปู ไข่เจียวปูราคา 1000 บาท คนชอบไข่เจียวปูมาก", "ไข่เจียวปู"),
    "ko": ("시장", "광장시장에서 빈대떡을 먹는다. 빈대떡은 오천 원이다. 서울의 빈대떡이 유명하다.", "빈대떡"),
    "ar": ("مطعم", "يقدم المطعم الكباب. الكباب لذيذ والكباب رخيص في هذه المدينة.", "كباب"),
}


def document(
    title: str, text: str, *, labels: KnownLabels | None = None, fields: frozenset[Field] = frozenset(Field)
) -> DocumentToEnrich:
    return DocumentToEnrich(
        "capture", title, "", text, fields, labels or KnownLabels(), (), only_own=False, metadata_bytes=2
    )


def description_of(source: DocumentToEnrich, chunks: dict[int, int] | None = None) -> Description:
    return describe(source, statistics_of(source), chunks or {0: 1})


@pytest.mark.parametrize("language", RESTAURANTS)
def test_a_restaurant_in_six_languages(language: str) -> None:
    title, text, expected = RESTAURANTS[language]
    result = description_of(document(title, text))
    assert result.source is EnrichmentSource.RULES
    assert result.entity_type == "restaurant"
    assert expected <= set(result.tags)
    assert len(result.tags) <= MAX_TAGS
    assert 0 < len(result.summary) <= MAX_SUMMARY
    # Its sentences are the document's own.
    flat = " ".join(text.split())
    assert all(part.strip() in flat for part in result.summary.replace("。", "。\n").replace(". ", ".\n").split("\n"))
    assert description_of(document(title, text)) == result


@pytest.mark.parametrize("language", OTHER_SCRIPTS)
def test_recurring_words_are_key_words_in_any_script(language: str) -> None:
    title, text, expected = OTHER_SCRIPTS[language]
    assert any(expected in tag for tag in description_of(document(title, text)).tags)


def test_the_librarys_own_labels_are_used_in_its_spelling() -> None:
    labels = KnownLabels(
        entity_types=["Bücher", "Restaurants"], categories=["Essen & Trinken", "Food"], tags=["Rom", "fisch"]
    )
    result = description_of(
        document(
            "Da Enzo", "Ein Restaurant in Rom mit gutem Essen und viel Fisch. Fisch gibt es täglich.", labels=labels
        )
    )
    assert result.entity_type == "Restaurants"
    assert result.category == "Food"
    assert {"Rom", "fisch"} <= set(result.tags)


def test_a_passing_mention_makes_no_type_and_no_category() -> None:
    result = description_of(
        document("Minutes of the meeting", "We met at ten. Ann spoke. " * 8 + "Lunch was in a restaurant.")
    )
    assert (result.entity_type, result.category) == ("", "")


def test_a_subject_in_the_title_is_the_category() -> None:
    assert description_of(document("Travel in Japan", "Trains are fast, and trains are on time.")).category == "travel"


def test_common_words_of_the_library_are_no_key_words() -> None:
    source = document("Notes", "The invoice and the comet. An invoice, a comet; one invoice, one comet.")
    for common, rare in (("invoice", "comet"), ("comet", "invoice")):
        (number,) = map(term_number, terms(common))
        tags = description_of(source, {0: 1000, number: 900}).tags
        assert rare in tags
        assert common not in tags


def test_only_requested_fields_are_filled() -> None:
    title, text, _ = RESTAURANTS["en"]
    result = description_of(document(title, text, fields=frozenset({Field.TAGS})))
    assert (result.summary, result.entity_type, result.category) == ("", "", "")
    assert result.tags


def test_headings_tables_and_code_are_no_summary() -> None:
    text = (
        "# A long heading about the transformer model\n\n| transformer | model |\n|---|---|\n| a | b |\n\n```\n"
        "transformer = model\n```\n\nThe **transformer** is a [model](https://x.org) of attention. "
        "The transformer is fast.\n"
    )
    assert (
        description_of(document("T", text)).summary
        == "The transformer is a model of attention. The transformer is fast."
    )


def test_a_program_has_key_words_and_no_summary() -> None:
    text = (
        "def load(path):\n    return open(path).read()\n\n\nclass Loader:\n    def run(self):\n        return load(1)\n"
        * 3
    )
    result = description_of(document("loader.py", text))
    assert result.summary == ""
    assert result.tags


@pytest.mark.parametrize("size", [1_000, 100_000])
@pytest.mark.parametrize(
    "unit",
    [
        "餐厅好",
        "a",
        "Word Other ",
        "[[",
        "*",
        "ก",
        "\n",
        "a\n",
        "A b. ",
        "[a](",
        "- ",
        "\u202e",
        "!",
        "restaurant ",
        "😀",
        "ب ",
    ],
)
def test_hostile_texts_give_bounded_descriptions(unit: str, size: int) -> None:
    labels = KnownLabels(tags=[f"tag {number}" for number in range(100)])
    result = description_of(document(unit * 20, unit * size, labels=labels))
    assert len(result.summary) <= MAX_SUMMARY
    assert len(result.tags) <= MAX_TAGS
    assert all(0 < len(tag) <= MAX_TAG for tag in result.tags)
