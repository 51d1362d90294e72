"""Verdicts on a sentence by a passage, with quotes and mismatches, in several languages and scripts."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from citewire_verify import Passage, Sentence, Verdict, VerifiedCitation, Verifier
from citewire_verify.numbers import Quantity, find_numbers, rounds_to
from citewire_verify.score import load_weights
from citewire_verify.segment import SentenceKind

SUPPORTED, PARTIAL, UNSUPPORTED = Verdict.SUPPORTED, Verdict.PARTIAL, Verdict.UNSUPPORTED


def verify(claim: str, *texts: str, title: str = "", chars: int | None = None) -> list[VerifiedCitation]:
    passages = {number: Passage(text[:chars], title) for number, text in enumerate(texts, start=1)}
    result = Verifier(passages).verify(Sentence(0, len(claim), claim, SentenceKind.TEXT, tuple(passages)))
    return [citation for citation in result if isinstance(citation, VerifiedCitation)]


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        ("Sales rose 5 percent.", "Sales rose by 5% in the third quarter."),
        ("Meals cost up to €45 a day.", "Meals cost up to 45 euros or EUR 45 a day."),
        ("It supports fourteen formats.", "It supports 14 formats."),
        ("The refund takes two weeks to arrive.", "Refunds take 14 days to arrive."),
        ("The U.S. has 50 states.", "The United States consists of 50 states."),
        ("The village has 3.5 million inhabitants.", "The village had 3,512,456 inhabitants in 2020."),
        ("It is impossible to cancel the order.", "It is not possible to cancel the order."),
        ("You cannot cancel the order.", "It is not possible to cancel the order."),
        ("The U.S. Navy didn't build it.", "It was not built by the US Navy."),
        ("On 6 May 2010 the bridge opened.", "The bridge opened on 2010-05-06."),
        ("Angela Merkel wurde 2005 Bundeskanzlerin.", "Angela Merkel wurde im Jahr 2005 zur Bundeskanzlerin gewählt."),
        ("El reembolso tarda 14 días.", "Los reembolsos tardan 14 días hábiles en llegar a la cuenta."),
        ("Miguel de Cervantes nació en Alcalá.", "Cervantes, Miguel de, nació en Alcalá de Henares en 1547."),
        ("Le remboursement prend 14 jours.", "Les remboursements prennent 14 jours ouvrables."),
        ("北京是中国的首都。", "北京是中华人民共和国的首都，也是政治中心。"),
        ("東京の人口は約1400万人です。", "東京は日本の首都で、人口は約1400万人である。"),
        ("Возврат занимает 14 дней.", "Возврат средств занимает 14 рабочих дней."),
        ("يستغرق رد الأموال 14 يومًا.", "يستغرق رد الأموال 14 يومًا من تاريخ الطلب."),
        ("वापसी में 14 दिन लगते हैं।", "धन वापसी में 14 दिन लगते हैं।"),
        ("환불은 14일이 걸립니다.", "환불 처리는 14일이 걸립니다."),
    ],
)
def test_a_paraphrase_of_a_passage_is_supported(claim: str, passage: str) -> None:
    [citation] = verify(claim, passage)
    assert (citation.verdict, citation.mismatches) == (SUPPORTED, ())
    assert citation.quote == passage


@pytest.mark.parametrize(
    ("claim", "passage", "mismatch"),
    [
        ("Refunds take 30 days.", "Refunds take 14 days.", "30"),
        ("Refunds take 14 months.", "Refunds take 14 days.", "14"),
        ("Meals cost up to $45 a day.", "Meals cost up to EUR 45 a day.", "45"),
        ("Refunds take three days.", "Refunds take five days.", "three"),
        ("Sales rose 6 % in May.", "Sales rose by 5% in May.", "6 %"),
        ("Cam Newton won the prize in 2015.", "Peyton Manning won the prize in 2015.", "Cam Newton"),
        ("Newton won the prize in 2015.", "Manning won the prize in 2015.", "Newton"),
        ("Peyton Smith won the prize in 2015.", "Peyton Manning won the prize in 2015.", "Peyton Smith"),
        ("The prize was won by IBM in the end.", "The prize was won by HP in the end.", "IBM"),
        ("Shipping is not free.", "Shipping is free.", "is not free"),
        ("Shipping is free.", "Shipping isn't free.", "free"),
        ("It is possible to cancel the order.", "It is impossible to cancel the order.", "possible"),
        ("The tower was built before the bridge fell.", "The tower was built after the bridge fell.", "before"),
        ("Gerhard Schröder wurde 2005 Kanzler.", "Angela Merkel wurde 2005 Kanzler.", "Gerhard Schröder"),
        ("Der Versand ist nicht kostenlos.", "Der Versand ist kostenlos.", "ist nicht kostenlos"),
        ("El reembolso tarda 15 días.", "Los reembolsos tardan 14 días hábiles.", "15"),
        ("El envío no es gratuito.", "El envío es gratuito.", "no es gratuito"),
        ("La livraison n'est pas gratuite.", "La livraison est gratuite.", "est pas gratuite"),
        ("上海是中国的首都。", "北京是中国的首都，也是政治中心。", "上海"),
        ("北京不是中国的首都。", "北京是中国的首都，也是政治中心。", "北京不是中国的首都。"),
        ("ボーアはノーベル賞を受賞した。", "アインシュタインはノーベル賞を受賞した。", "ボーア"),
        ("東京の人口は約900万人です。", "東京は日本の首都で、人口は約1400万人である。", "900万"),
        ("Доставка не бесплатная.", "Доставка бесплатная для всех заказов.", "Доставка не бесплатная"),
        ("Иван Петров основал компанию.", "Сергей Иванов основал компанию.", "Иван Петров"),
        ("يستغرق رد الأموال 20 يومًا.", "يستغرق رد الأموال 14 يومًا.", "20"),
        ("वापसी में 14 दिन नहीं लगते हैं।", "धन वापसी में 14 दिन लगते हैं।", "दिन नहीं लगते"),
    ],
)  # fmt: skip
def test_a_changed_number_name_or_negation_is_not_supported(claim: str, passage: str, mismatch: str) -> None:
    [citation] = verify(claim, passage)
    assert citation.verdict is not SUPPORTED
    assert mismatch in citation.mismatches


BRIDGE = "The harbour bridge was opened on 3 May 2024 by Mayor Lindqvist. It cost 1,250,000 euros."
STAFF = "Peter Holm is the chief engineer. Ida Berg is his deputy. Peter Holm writes to her sister, Karin Berg."


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        ("The bridge opened on 2024-05-03.", BRIDGE),
        ("The bridge was opened on 3.5.2024.", BRIDGE),
        ("The bridge was opened on May 3rd, 2024.", BRIDGE),
        ("The bridge cost about 1.3 million euros.", BRIDGE),
        ("In May the shop closes early.", "The shop closes early in May."),
        ("Theresa May resigned in 2019.", "Theresa May resigned as prime minister in 2019."),
        ("El 3 de mayo de 2024 se abrió el puente.", "El puente se abrió el 3 de mayo de 2024."),
        ("Am 3. Mai 2024 wurde die Brücke eröffnet.", "Die Brücke wurde am 03.05.2024 eröffnet."),
        ("2024年5月3日に橋が開通した。", "橋は2024年5月3日に開通した。"),
        ("The bug is fixed by version 2.10.3.", "Version 2.10.3 fixes the bug."),
        ("Temperatures fall to minus 5 degrees Celsius.", "Temperatures fall to −5 °C."),
        ("The plot has 2 hectares.", "The plot has 20,000 m²."),
        ("Lorries pay nothing before 7:00.", "Cars pay three euros; lorries don't pay anything before 7:00."),
        ("Prices rose, then fell.", "Prices first rose and then fell."),
        ("Unemployment fell while output grew.", "Output grew and unemployment fell."),
        ("The Union, the North, finally won.", "The Union finally won. The North had more men."),
    ],
)
def test_dates_units_and_opposites_in_another_order_are_supported(claim: str, passage: str) -> None:
    [citation] = verify(claim, passage)
    assert (citation.verdict, citation.mismatches) == (SUPPORTED, ())


@pytest.mark.parametrize(
    ("claim", "passage", "mismatch"),
    [
        ("The bridge opened on 3 June 2024.", BRIDGE, "June"),
        ("The bridge opened on 2024-06-03.", BRIDGE, "06"),
        ("In June the shop closes early.", "The shop closes early in May.", "June"),
        ("El 3 de junio de 2024 se abrió el puente.", "El puente se abrió el 3 de mayo de 2024.", "junio"),
        ("The bug is fixed by version 2.10.4.", "Version 2.10.3 fixes the bug.", "2.10.4"),
        ("Water boils at 100 °F.", "Water boils at 100 °C.", "100"),
        ("The speed limit is 50 mph.", "The speed limit is 50 km/h.", "50"),
        ("Temperatures reach 5 °C.", "Temperatures reach −5 °C.", "5"),
        ("Lorries pay before 7:00.", "Cars pay three euros; lorries don't pay anything before 7:00.", "pay"),
        ("The number of crossings fell in 2023.", "The number of crossings increased in 2023.", "fell"),
        ("More than 30 people came.", "Fewer than 30 people came.", "More"),
        ("The shop opens at 9:00.", "The shop closes at 9:00.", "opens"),
        ("Die Zahl der Besucher sank 2023.", "Die Zahl der Besucher stieg 2023.", "sank"),
        ("Karin Berg is the chief engineer.", STAFF, "Karin Berg"),
        (
            "The law was applied to nearly all of Wales.",
            "The law was applied to nearly all of Scotland. Wales was spared.",
            "Wales",
        ),
        ("In 1810, Norman art was rare.", "In 1910, Norman art was rare. In 1810 all was well.", "1810"),
        ("In Arabia, Norman art survives.", "In Britain, Norman art survives. Arabia has none.", "Arabia"),
    ],
)
def test_a_statement_about_something_else_is_not_supported(claim: str, passage: str, mismatch: str) -> None:
    [citation] = verify(claim, passage)
    assert citation.verdict is not SUPPORTED
    assert any(mismatch in entry for entry in citation.mismatches)


def test_names_on_both_sides_of_a_marker_are_two() -> None:
    claim = "Paris Opera         Berlin Opera opened twice."  # the reader replaces `[ref:3]` by blanks
    [citation] = verify(claim, "The Paris Opera is old.")
    assert citation.mismatches == ("Berlin Opera",)


def test_a_name_swapped_for_another_of_the_passage_contradicts_it() -> None:
    passage = "Ada Lovelace wrote the first program. Charles Babbage designed the engine in London."
    [citation] = verify("In short, Ada Lovelace designed the engine in London.", passage)
    assert citation.verdict is UNSUPPORTED
    assert citation.mismatches == ("Ada Lovelace",)
    [right] = verify("In short, Charles Babbage designed the engine in London.", passage)
    assert right.verdict is SUPPORTED


def test_headings_count_but_are_not_quoted() -> None:
    [citation] = verify(
        "The Eiffel Tower is 330 m tall.", "It is 330 m tall. It was built in 1889.", title="Eiffel Tower"
    )
    assert citation.verdict is SUPPORTED
    assert citation.quote == "It is 330 m tall."


def test_a_quote_grows_over_neighbouring_sentences() -> None:
    passage = "Shipping is free. Returns cost 5 EUR. Refunds take 14 days. Gifts are wrapped by hand."
    [citation] = verify("Returns cost 5 EUR and refunds take 14 days.", passage)
    assert citation.quote == "Returns cost 5 EUR. Refunds take 14 days."
    assert (citation.quote_start, citation.quote_end) == (18, 59)


def test_a_table_is_quoted_by_row() -> None:
    passage = "| plan | price |\n|---|---|\n| Basic | 5 EUR |\n| Pro | 20 EUR |"
    [citation] = verify("The Pro plan costs 20 EUR.", passage)
    assert citation.quote == "| Pro | 20 EUR |"


def test_an_unrelated_sentence_has_no_quote() -> None:
    [citation] = verify("Completely unrelated claims about zebras.", "Refunds take 14 days.")
    assert (citation.quote, citation.quote_start, citation.quote_end, citation.verdict) == ("", 0, 0, UNSUPPORTED)


def test_a_passage_that_was_not_packed_supports_nothing() -> None:
    passage = "Shipping is free. Refunds take 14 days."
    [citation] = verify("Refunds take 14 days.", passage, chars=17)
    assert citation.verdict is UNSUPPORTED
    assert citation.quote_end <= 17


def test_passages_together_support_a_sentence_that_each_supports_in_part() -> None:
    result = verify(
        "The Alpha was built in 1990 and the Beta in 2005.",
        "The Alpha was built in 1990.",
        "The Beta was built in 2005.",
    )
    assert SUPPORTED not in {entry.verdict for entry in result}
    assert {element.sentence_verdict for element in result} == {SUPPORTED}


def test_one_supporting_passage_is_enough() -> None:
    result = verify("Refunds take 14 days.", "Refunds take 14 days.", "Zebras live in Africa.")
    assert [entry.verdict for entry in result] == [SUPPORTED, UNSUPPORTED]
    assert {element.sentence_verdict for element in result} == {SUPPORTED}


def test_a_contradiction_remains_if_no_other_passage_supports_it() -> None:
    result = verify("Refunds take 30 days.", "Refunds take 14 days.", "Refunds are paid to the card.")
    assert {entry.sentence_verdict for entry in result} <= {PARTIAL, UNSUPPORTED}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,200.50 or 1.200,50", [(1200.5,), (1200.5,)]),
        ("1.200", [(1200.0, 1.2)]),
        ("10 000 km", [(10000.0,)]),
        ("500.000, 0.500, .20, 1,250", [(500_000.0,), (0.5,), (0.2,), (1250.0,)]),
        ("500m, 500m euros, $5k", [(500.0,), (5e8,), (5000.0,)]),
        ("5 million, 5.2 bn", [(5e6,), (5.2e9,)]),
        ("two hundred and fifty thousand", [(250_000.0,)]),
        ("twenty-one and twenty-first", [(21.0,), (21.0,)]),
        ("10:30", [(10.5,)]),
        ("the 1990s", [(1990.0,)]),
        ("١٢ يومًا", [(12.0,)]),
        ("1400万人", [(1.4e7,)]),
    ],
)
def test_numbers_are_read_by_value(text: str, values: list[tuple[float, ...]]) -> None:
    assert [number.values for number in find_numbers(text)] == values


def test_a_number_may_be_rounded_to_fewer_digits() -> None:
    def quantity_of(text: str) -> Quantity:
        return find_numbers(text)[0]

    assert rounds_to(3_512_456, quantity_of("3.5 million"))
    assert not rounds_to(3_512_456, quantity_of("3.6 million"))
    assert not rounds_to(2015, quantity_of("2016"))
    assert not rounds_to(14, quantity_of("10"))


def test_the_weights_are_usable() -> None:
    weights = load_weights()
    assert 0 < weights.unsupported < weights.supported < 1
    assert all(math.isfinite(value) for value in weights.features)


PIECES = (
    "Refunds take 14 days", "not", "Dr. Smith", "Ada", "1,200.5", "% ", "東京は大きい", "e\u0301", "👩‍👩‍👧", ". ",
    "\r\n", "\n\n", " ", "| a | b |\n", "## Title\n", "- item\n", "```\n", "key: value\n", "\u2028", "\x00", "ß", "İ",
    "ﬁ", "①", "²", "مرحبا", "๑๒",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=25).map("".join)


@given(TEXTS, TEXTS, st.integers(0, 200))
@settings(max_examples=400, deadline=None)
def test_a_quote_is_always_at_its_span(claim: str, passage: str, chars: int) -> None:
    [citation] = verify(claim, passage, chars=chars)
    assert citation.quote == passage[citation.quote_start : citation.quote_end]
    assert 0 <= citation.quote_start <= citation.quote_end <= chars
    assert 0 <= citation.support <= 1
    assert len(citation.mismatches) <= 8


SENTENCE = "The tower at Lyon was not built by Ada Smith in 1999 but by 25 % more people, never for 3.5 million EUR"
WORDS = re.findall(r"\S+", SENTENCE)


@given(st.permutations(WORDS).map(" ".join), st.integers(5, len(WORDS)))
@settings(max_examples=200, deadline=None)
def test_a_text_never_contradicts_itself(text: str, count: int) -> None:
    claim = " ".join(text.split()[:count])
    [citation] = verify(claim, f"Before it. {claim}. After it.")
    assert citation.mismatches == ()


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        (
            "Keller filmed Imperium in Toronto, on a stage made of snow.",
            "Keller filmed the NBC show in Toronto on two December days. The weather was bad. Nobody complained. "
            "Workers made a stage of snow. Imperium is the name of his episode.",
        ),
        (
            "Lena Moss is a Canadian designer whose posters hang in museums.",
            "Lena Moss, Web developer and designer, founded Tricycle. Tea is served. Nobody pays. Her posters hang in "
            "many museums. Nobody pays. The Canadian firm is still hers.",
        ),
    ],
)
def test_another_name_in_a_less_specific_sentence_contradicts_nothing(claim: str, passage: str) -> None:
    [citation] = verify(claim, passage)
    assert (citation.verdict, citation.mismatches) == (SUPPORTED, ())
