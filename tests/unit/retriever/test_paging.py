"""Page tokens: positions survive the round trip, and other tokens are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_kit.errors import InvalidArgument
from citewire_retriever import paging
from citewire_retriever.model import DocumentQuery

QUERY = paging.fingerprint("documents", "acme", DocumentQuery(tag="a"))
positions = st.lists(st.text(st.characters(codec="utf-8"), max_size=50) | st.integers(0, 2**53), max_size=3)


@given(position=positions)
def test_a_token_gives_its_position_back(position: list[str | int]) -> None:
    token = paging.encode(QUERY, position)
    assert paging.decode(token, QUERY) == position
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize(
    "other",
    [
        ("documents", "other", DocumentQuery(tag="a")),
        ("documents", "acme", DocumentQuery(tag="b")),
        ("collections", "acme", DocumentQuery(tag="a")),
    ],
)
def test_a_token_belongs_to_its_query(other: tuple[object, ...]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        paging.decode(paging.encode(QUERY, ["x"]), paging.fingerprint(*other))
    assert refused.value.reason == "INVALID_PAGE_TOKEN"
    assert refused.value.violations[0].field == "page_token"


@given(token=st.text(max_size=80))
def test_an_invalid_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        paging.decode(token, QUERY)
    assert refused.value.reason == "INVALID_PAGE_TOKEN"


@given(position=positions, data=st.data())
def test_a_changed_token_is_refused(position: list[str | int], data: st.DataObject) -> None:
    token = paging.encode(QUERY, position)
    index = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.sampled_from("Aa0-_").filter(lambda letter: letter != token[index]))
    changed = token[:index] + letter + token[index + 1 :]
    if index == len(token) - 1 and len(token) % 4:
        return  # base64's last letter can carry bits that mean nothing: the token may be the same
    with pytest.raises(InvalidArgument) as refused:
        paging.decode(changed, QUERY)
    assert refused.value.reason == "INVALID_PAGE_TOKEN"
