"""What providers' caches have of a conversation's prompts, by their rules: what is promised."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from benchmarks.prompt_cache import LEAST as LEAST_TOKENS
from benchmarks.prompt_cache import MODELS, QUESTIONS, Cache, Talks, WordSearch, compare, read_talks
from proof_scale import ProofScale

CHEAP = {"gpt-5", "claude-sonnet-5-5"}
"""Models whose cached tokens are so cheap that keeping passages saves a tenth; claude-sonnet-5's save little."""
MOST_OF_ALONE = {"openai": 1.01, "anthropic": 1.15}
"""What is lost at most where it was paid for and then the subject changed: Anthropic bills writing."""
KINDS = ("one subject", "two subjects", "many subjects")


@pytest.fixture(scope="module")
def talks(shared_data: Path) -> Talks:
    return read_talks(shared_data)


@pytest.fixture(scope="module")
def library(talks: Talks) -> WordSearch:
    return WordSearch(talks.passages)


@pytest.mark.parametrize(("kind", "model"), MODELS)
@pytest.mark.parametrize("talk", KINDS)
async def test_ten_turns_hardly_cost_more_and_are_mostly_cached_where_that_is_cheap(
    kind: str, model: str, talk: str, talks: Talks, library: WordSearch, proof: ProofScale
) -> None:
    conversations = talks.questions[talk][: proof.pick(scaled_down=1, full=18)]
    compared = await compare(kind, model, conversations, library)
    assert max(spent.share for spent in compared.alone) < 0.2  # or the measurement would prove nothing
    assert max(compared.ratios) <= MOST_OF_ALONE[kind]
    if talk == "one subject" and model == "gpt-5":
        assert min(compared.shares) >= 0.6, compared.shares
        assert max(compared.ratios) <= 0.95, compared.ratios
    if talk == "one subject" and model in CHEAP and proof.full:
        assert median(compared.shares) >= 0.7, compared.shares
        assert median(compared.ratios) <= 0.92, compared.ratios


def test_the_conversations_are_those_that_they_are_called(talks: Talks) -> None:
    titles = {passage.document_id: passage.title for passage in talks.passages}
    assert {kind: len(several) for kind, several in talks.questions.items()} == dict.fromkeys(KINDS, len(titles))
    for same, two, many in zip(*(talks.questions[kind] for kind in KINDS), strict=True):
        assert [len(set(questions)) for questions in (same, two, many)] == [QUESTIONS] * 3
        assert two[:5] == same[:5]
        assert len(set(two) & set(same)) == 5
        assert len(set(many) & set(same)) == 1


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
