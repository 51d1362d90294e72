from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from citewire_embedder.providers.base import Prompts, Purpose
from citewire_embedder.providers.model_directory import BUILT_IN, find_model
from citewire_embedder.providers.tokeniser import Tokeniser
from citewire_kit.errors import StartupError
from tiny_models import SPECIAL, WORDS, write_tokeniser

QUERY, DOCUMENT = Purpose.QUERY, Purpose.DOCUMENT
IDS = {word: index for index, word in enumerate((*SPECIAL, *WORDS))}
CLS, SEP = IDS["[CLS]"], IDS["[SEP]"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_tokeniser(tmp_path)
    return tmp_path / "tokenizer.json"


def test_a_text_gets_its_special_tokens_and_no_padding(file: Path) -> None:
    tokeniser = Tokeniser(file, max_tokens=12)
    short, long = tokeniser.tokenise(["the cat", "the cat sat on a mat ."], DOCUMENT)
    assert short.ids == (CLS, IDS["the"], IDS["cat"], SEP)
    assert short.total == 4
    assert (len(long.ids), long.total) == (9, 9), "the file's own limit of 5 is ignored"


def test_a_text_over_the_window_is_cut_with_its_end_token_and_full_length(file: Path) -> None:
    tokeniser = Tokeniser(file, max_tokens=5)
    (text,) = tokeniser.tokenise(["the cat sat on a mat"], DOCUMENT)
    assert text.ids == (CLS, IDS["the"], IDS["cat"], IDS["sat"], SEP)
    assert (text.total, len(text.ids)) == (8, 5)
    (fits,) = tokeniser.tokenise(["the cat sat"], DOCUMENT)
    assert len(fits.ids) == fits.total == 5


def test_counts_leave_special_tokens_out(file: Path) -> None:
    tokeniser = Tokeniser(file, max_tokens=5)
    assert tokeniser.count(["", "cats", "the cat sat on a mat"]) == [0, 2, 6]
    assert tokeniser.extra_tokens == 2


def test_prompts_go_before_the_text_by_purpose_and_are_counted(file: Path) -> None:
    tokeniser = Tokeniser(file, max_tokens=12, prompts=Prompts("query : ", "passage "))
    (query,), (passage,) = tokeniser.tokenise(["cat"], QUERY), tokeniser.tokenise(["cat"], DOCUMENT)
    assert query.ids == (CLS, IDS["query"], IDS[":"], IDS["cat"], SEP)
    assert passage.ids == (CLS, IDS["passage"], IDS["cat"], SEP)
    assert tokeniser.extra_tokens == 4
    assert tokeniser.count(["cat"]) == [1]


def test_texts_are_lower_cased_if_the_model_says_so(file: Path) -> None:
    (as_it_is,) = Tokeniser(file, max_tokens=12).tokenise(["Cat"], DOCUMENT)
    (lowered,) = Tokeniser(file, max_tokens=12, lower_case=True).tokenise(["Cat"], DOCUMENT)
    assert as_it_is.ids[1] == IDS["[UNK]"]
    assert lowered.ids[1] == IDS["cat"]


def test_a_window_without_room_for_text_is_refused(file: Path) -> None:
    with pytest.raises(StartupError, match="no room for text"):
        Tokeniser(file, max_tokens=2)


def test_an_invalid_tokeniser_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(StartupError, match="can't be read as a tokeniser"):
        Tokeniser(tmp_path / "tokenizer.json", max_tokens=12)


@settings(deadline=None)
@given(st.text(max_size=400))
def test_our_truncation_equals_the_librarys(text: str) -> None:
    ours, library = _tokenisers()
    (tokenised,) = ours.tokenise([text], DOCUMENT)
    assert list(tokenised.ids) == library.encode(text).ids
    assert tokenised.total == ours.count([text])[0] + ours.extra_tokens


def _tokenisers(cache: list[tuple[Tokeniser, Tokenizer]] = []) -> tuple[Tokeniser, Tokenizer]:  # noqa: B006 # a cache, shared on purpose
    if not cache:
        file = find_model(BUILT_IN).path / "tokenizer.json"
        library = Tokenizer.from_file(str(file))
        library.no_padding()
        library.enable_truncation(32)  # pyright: ignore[reportUnknownMemberType] # options lack types
        cache.append((Tokeniser(file, max_tokens=32), library))
    return cache[0]
