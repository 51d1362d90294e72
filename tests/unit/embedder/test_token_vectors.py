"""Token vectors in int8, and their cache: its keys, eviction and size."""

from __future__ import annotations

import numpy as np
import pytest

from citewire_embedder.providers.token_vectors import PackedVectors, TokenVectorCache, TokenVectors, cosines_of


def vectors(tokens: int, seed: int = 1) -> TokenVectors:
    rows = np.random.default_rng(seed).standard_normal((tokens, 384)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_cosines_hardly_change_at_a_quarter_of_the_size() -> None:
    exact = vectors(100)
    packed = PackedVectors.pack(exact, 7)
    assert packed.heading == 7
    assert packed.size < exact.nbytes * 0.27
    query, other = vectors(9, seed=2), PackedVectors.pack(vectors(30, seed=3), 0)
    of_exact, of_other = cosines_of(query, [packed, other])
    assert (of_exact.shape, of_other.shape) == ((9, 100), (9, 30))
    assert np.abs(of_exact - query @ exact.T).max() < 0.01
    assert np.abs(of_other - query @ vectors(30, seed=3).T).max() < 0.01
    assert cosines_of(query, []) == []


def test_an_empty_text_can_be_packed() -> None:
    query = np.ones((1, 4), np.float32)
    zeros, none = (PackedVectors.pack(np.zeros((rows, 4), np.float32), 0) for rows in (2, 0))
    assert [cosines.tolist() for cosines in cosines_of(query, [zeros, none])] == [[[0.0, 0.0]], [[]]]


def test_the_least_recently_used_is_evicted_when_the_cache_is_full() -> None:
    entry = PackedVectors.pack(vectors(10), 0)
    cache = TokenVectorCache(3 * entry.size)
    keys = [TokenVectorCache.key("acme", "", text) for text in "abcd"]
    for key in keys[:3]:
        cache.put(key, entry)
    assert cache.get(keys[0]) is entry
    cache.put(keys[3], entry)
    assert [cache.get(key) is not None for key in keys] == [True, False, True, True]
    cache.put(keys[3], entry)
    assert (len(cache), cache.size) == (3, 3 * entry.size), "replaced, not added"
    cache.put(keys[1], PackedVectors.pack(vectors(25), 0))
    assert cache.size <= 3 * entry.size
    assert cache.get(keys[1]) is not None


@pytest.mark.parametrize("limit", [0, 1000])
def test_an_entry_larger_than_the_cache_is_not_stored(limit: int) -> None:
    cache = TokenVectorCache(limit)
    key = cache.key("acme", "", "a")
    cache.put(key, PackedVectors.pack(vectors(10), 0))
    assert (cache.get(key), len(cache), cache.size) == (None, 0, 0)


def test_a_key_depends_on_organisation_heading_and_text() -> None:
    parts = [("acme", "Cats", "sleep"), ("evil", "Cats", "sleep"), ("acme", "Cat", "ssleep"), ("acme", "", "Catssleep")]
    assert len({TokenVectorCache.key(*part) for part in parts}) == len(parts)
    assert TokenVectorCache.key(*parts[0]) == TokenVectorCache.key(*parts[0])
    assert TokenVectorCache.key("acme", "", "\ud800")
