"""Bytes to text: encodings, and what isn't text at all."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_retriever.ingest.decode import clean, decode
from citewire_retriever.ingest.errors import IngestCode, IngestError

GERMAN = "Größe aus Köln – naïve façade"
RUSSIAN = "Привет, мир! Это обычный русский текст, записанный в старой кодировке. " * 5
POLISH = "Zażółć gęślą jaźń, wszyscy ludzie rodzą się wolni i równi pod względem swej godności. " * 5


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
def test_western_text_is_read_in_every_usual_encoding(encoding: str) -> None:
    assert decode(GERMAN.encode(encoding)) == GERMAN


def test_cyrillic_and_polish_are_not_mistaken_for_western() -> None:
    assert decode(RUSSIAN.encode("cp1251")) == RUSSIAN
    assert decode(POLISH.encode("cp1250")) == POLISH


TEXTS = {
    "これは普通の日本語の文章です。東京は日本の首都です。\n": "shift_jis euc_jp iso2022_jp utf-16-le utf-16-be",
    "这是一段普通的中文文字。北京是中国的首都，住着很多人。\n": "gb18030 gbk utf-16-le utf-16-be",
    "這是一段普通的中文文字。臺北是一座大城市，住著很多人。\n": "big5 utf-16-le",
    "이것은 평범한 한국어 문장입니다. 서울은 대한민국의 수도입니다.\n": "euc_kr cp949 utf-16-le",
    "Это обычный русский текст. Цена за ночь тридцать евро.\n": "koi8-r cp1251 cp866 iso8859-5 utf-16-le utf-16-be",
    "Це звичайний український текст. Київ є столицею України.\n": "koi8-u cp1251",
    "Αυτό είναι ένα συνηθισμένο ελληνικό κείμενο.\n": "cp1253 iso8859-7 utf-16-be",
    "זהו טקסט עברי רגיל. ירושלים היא עיר הבירה.\n": "cp1255 utf-16-le",
    "هذا نص عربي عادي. القاهرة هي عاصمة مصر.\n": "cp1256 utf-16-le",
    "นี่คือข้อความภาษาไทยทั่วไป กรุงเทพเป็นเมืองหลวง\n": "cp874 utf-16-le",
    "Sıradan bir Türkçe metindir. Ankara Türkiye'nin başkentidir.\n": "cp1254 iso8859-9",
    "Zażółć gęślą jaźń, wszyscy ludzie rodzą się wolni i równi.\n": "cp1250 iso8859-2",
    "Toto je běžný český text, který říká, že pokoj stojí třicet eur.\n": "cp1250 iso8859-2",
    "Što je bilo juče, a život ide dalje.\n": "cp1250 iso8859-2",
    "Größe": "cp1252 utf-16-le",
    "Le café était fermé, à côté de l’hôtel.\n": "cp1252",
    "Það er ekki hægt að lesa þetta.\n": "cp1252",
}


@pytest.mark.parametrize(("text", "encoding"), [(text, encoding) for text in TEXTS for encoding in TEXTS[text].split()])
@pytest.mark.parametrize("times", [1, 40])
def test_short_and_long_texts_of_many_scripts(text: str, encoding: str, times: int) -> None:
    assert decode((text * times).encode(encoding)) == text * times


@pytest.mark.parametrize(
    ("encoding", "titles"),
    [
        ("iso8859-7", ["Η ναυτική εφημερίδα της Αθήνας", "Είναι προικισμένοι με λογική και συνείδηση"]),
        ("cp1255", ["ירושלים היא עיר הבירה", "המגזין למחשבים ואינטרנט", "העיתון הזה מפרסם חדשות בכל יום"]),
        ("cp1256", ["القاهرة هي عاصمة مصر", "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق"]),
        ("cp1252", ["Œuvre d’été à Noël, où l’élève dîne", "Þó áði hún öðru hverju"]),
    ],
)
def test_a_script_is_found_among_much_markup(encoding: str, titles: list[str]) -> None:
    link = "<link>http://www.example.org/articles/of/2026/index.html</link><category>letters to us</category>"
    markup = "".join(f"<item><title>{title}</title>{link}</item>\n" for title in titles)
    assert decode(markup.encode(encoding)) == markup


SIGNS = [
    "It costs £825, or £ 2.50 a day.",
    "costs ¥500",
    "within ±5 %",
    "¾ cup, or 1½",
    "at most 10 µg",
    "only 9¢",
    "about 3 × 4",
    "12 m³, 3 €/m²",
    "It´s",
]


@pytest.mark.parametrize("text", SIGNS)
def test_signs_of_prices_and_measures_are_no_letters(text: str) -> None:
    assert decode(text.encode("cp1252")) == text


@pytest.mark.parametrize("text", ["Łukasz ma 3 koty, cena 5 zł", "mł. asp. Łoś był tu, oni są 2 razy", "Tu jest Łódź"])
def test_letters_in_place_of_such_signs_are_kept(text: str) -> None:
    assert decode(text.encode("cp1250")) == text


def test_a_declared_encoding_counts_if_the_text_is_not_utf8() -> None:
    assert decode('<?xml version="1.0" encoding="mac_cyrillic"?><a>Это</a>'.encode("mac_cyrillic")).endswith(
        "<a>Это</a>"
    )
    assert decode("# -*- coding: latin-1 -*-\nx = 'Größe'".encode("latin-1")).endswith("'Größe'")
    assert decode("charset=koi8-r, say some of größe".encode()) == "charset=koi8-r, say some of größe"


def test_lines_in_another_encoding_do_not_spoil_others() -> None:
    lines = ["Größe und Maß, überall gültig.".encode()] * 10 + ["Später hinzugefügt".encode("cp1252")]
    assert decode(b"\n".join(lines)).split("\n")[-2:] == ["Größe und Maß, überall gültig.", "Später hinzugefügt"]


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)) * 16,
        random.Random(3).randbytes(5000),
        b"\x89PNG\r\n\x1a\n" + bytes(200),
        b"# Title\n" + bytes(1000),
        b"\x01\x02\x03\x04" * 20,
    ],
)
def test_binary_data_is_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(IngestError) as caught:
        decode(data)
    assert caught.value.code is IngestCode.UNSUPPORTED_FORMAT
    assert "binary" in caught.value.message


def test_a_stray_control_character_is_dropped() -> None:
    assert decode(b"a\x00b " + b"words " * 100) == "ab " + "words " * 100


@given(st.text(alphabet=st.characters(codec="utf-16-be", exclude_categories=["Cs"]), max_size=300))
def test_cleaned_text_can_be_stored(text: str) -> None:
    cleaned = clean(text)
    assert "\0" not in cleaned
    assert "\r" not in cleaned
    cleaned.encode("utf-8")


def test_lone_surrogates_become_replacement_characters() -> None:
    assert clean("a\ud800b\udfffc") == "a\ufffdb\ufffdc"


def test_line_ends_become_one_kind() -> None:
    assert decode(b"a\r\nb\rc\nd") == "a\nb\nc\nd"
