from __future__ import annotations

import numpy as np
from prometheus_client import REGISTRY

from citewire_embedder.cache import CachedVector, VectorCache


def entry(value: float) -> CachedVector:
    return CachedVector(np.array([value], np.float32), tokens=3)


def lookups(result: str) -> float:
    return REGISTRY.get_sample_value("citewire_embedder_cache_total", {"result": result}) or 0.0


def test_hits_and_misses_are_counted() -> None:
    cache = VectorCache(2)
    matches, misses = lookups("hit"), lookups("miss")
    assert cache.get("org", "a") is None
    cache.put("org", "a", entry(1))
    assert cache.get("org", "a") == entry(1)
    assert (lookups("hit"), lookups("miss")) == (matches + 1, misses + 1)


def test_the_least_recently_used_entry_is_evicted_first() -> None:
    cache = VectorCache(2)
    cache.put("org", "a", entry(1))
    cache.put("org", "b", entry(2))
    cache.get("org", "a")
    cache.put("org", "c", entry(3))
    assert [text for text in "abc" if cache.get("org", text)] == ["a", "c"]
    assert len(cache) == 2


def test_an_entry_that_is_put_again_is_replaced_and_counts_as_recent() -> None:
    cache = VectorCache(2)
    cache.put("org", "a", entry(1))
    cache.put("org", "b", entry(2))
    cache.put("org", "a", entry(9))
    cache.put("org", "c", entry(3))
    assert cache.get("org", "a") == entry(9)
    assert cache.get("org", "b") is None


def test_organisations_do_not_see_each_others_entries() -> None:
    cache = VectorCache(2)
    cache.put("one", "a", entry(1))
    assert cache.get("two", "a") is None


def test_size_zero_switches_the_cache_off() -> None:
    cache = VectorCache(0)
    cache.put("org", "a", entry(1))
    assert len(cache) == 0


def test_very_long_texts_are_not_cached() -> None:
    cache = VectorCache(2)
    cache.put("org", "x" * 4096, entry(1))
    cache.put("org", "x" * 4097, entry(1))
    assert len(cache) == 1
