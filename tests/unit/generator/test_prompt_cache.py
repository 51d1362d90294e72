"""What providers' caches have of a conversation's prompts, by their rules: what is promised."""

from __future__ import annotations

import pytest

from benchmarks.prompt_cache import LEAST as LEAST_TOKENS
from benchmarks.prompt_cache import MODELS, TALKS, Cache, WordSearch, converse, passages_of_docs

LEAST_SHARE = 0.7
CHEAP = {"gpt-5", "claude-sonnet-5-5"}
"""Models whose cached tokens are so cheap that keeping passages saves a tenth; claude-sonnet-5's save little."""
MOST_OF_ALONE = {"openai": 1.01, "anthropic": 1.15}
"""What is lost at most where it was paid for and then the subject changed: Anthropic bills writing."""


@pytest.fixture(scope="module")
def library() -> WordSearch:
    return WordSearch(passages_of_docs())


@pytest.mark.parametrize(("kind", "model"), MODELS)
@pytest.mark.parametrize("talk", TALKS)
async def test_ten_turns_hardly_cost_more_and_are_mostly_cached_where_that_is_cheap(
    kind: str, model: str, talk: str, library: WordSearch
) -> None:
    spent = await converse(kind, model, TALKS[talk], library, passages=True)
    alone = await converse(kind, model, TALKS[talk], library, passages=False)
    assert alone.share < 0.2  # or the measurement would prove nothing
    assert spent.usd <= MOST_OF_ALONE[kind] * alone.usd
    if talk == "one subject" and model in CHEAP:
        assert spent.share >= LEAST_SHARE, spent
        assert spent.usd <= 0.9 * alone.usd


def test_the_scripted_caches_follow_the_providers_rules() -> None:
    def asked(*texts: str) -> dict[str, object]:
        return {"messages": [{"role": "user", "content": text} for text in texts]}

    cache, long = Cache(), "word " * LEAST_TOKENS
    assert cache.openai(asked(long)) == (len(long) // 4 + 1, 0, 0)
    assert cache.openai(asked(long, "more"))[1] == 1_280  # of 1,281 tokens in common, in steps of 128
    assert cache.openai(asked("x" + long))[1] == 0
    assert Cache().openai(asked("short"))[1] == 0

    def marked(*texts: tuple[str, bool]) -> dict[str, object]:
        mark = {"cache_control": {"type": "ephemeral"}}
        return {
            "messages": [{"role": "user", "content": [{"text": text} | (mark if on else {}) for text, on in texts]}]
        }

    cache = Cache()
    _, read, written = cache.anthropic(marked((long, True)))
    assert (read, written > LEAST_TOKENS) == (0, True)
    assert cache.anthropic(marked((long, False), ("more", True)))[1] == written
    assert cache.anthropic(marked((long, False), *[("a", False)] * 20, ("b", True)))[1] == 0  # too far back
    assert cache.anthropic(marked((long, False), ("more", False)))[1] == 0
    with pytest.raises(ValueError, match="four marks"):
        cache.anthropic(marked(*[(long, True)] * 5))
