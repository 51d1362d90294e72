"""The cached share and the costs of a conversation's prompts, by the rules of the providers' caches."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, median

import pytest

from benchmarks.prompt_cache import LEAST as LEAST_TOKENS
from benchmarks.prompt_cache import MODELS, QUESTIONS, SQUAD, Cache, Talks, WordSearch, compare, read_talks
from proof_scale import ProofScale

MOSTLY_CACHED = {"gpt-5", "claude-sonnet-5", "claude-sonnet-5-5"}
"""Models whose cached tokens cost a tenth or less."""
KINDS = ("one subject", "two subjects", "many subjects")


@pytest.fixture(scope="module")
def talks(shared_data: Path) -> Talks:
    return read_talks(shared_data / SQUAD)


@pytest.fixture(scope="module")
def library(talks: Talks) -> WordSearch:
    return WordSearch(talks.passages)


@pytest.mark.parametrize(("kind", "model"), MODELS)
@pytest.mark.parametrize("talk", KINDS)
async def test_ten_turns_do_not_cost_more_and_are_mostly_cached_if_that_is_cheap(
    kind: str, model: str, talk: str, talks: Talks, library: WordSearch, proof: ProofScale
) -> None:
    conversations = talks.questions[talk][: proof.pick(scaled_down=1, full=18)]
    compared = await compare(kind, model, conversations, library)
    assert max(spent.share for spent in compared.alone) < 0.2  # otherwise the measurement would prove nothing
    assert max(compared.ratios) <= (1.05 if kind == "anthropic" else 1.01)
    if talk == "one subject" and model in MOSTLY_CACHED:
        assert min(compared.shares) >= 0.45, compared.shares
        if proof.full:
            assert median(compared.shares) >= 0.7, compared.shares
            assert mean(compared.ratios) <= 0.92, compared.ratios


@pytest.mark.parametrize(("kind", "model"), MODELS)
async def test_short_conversations_cost_little_more(
    kind: str, model: str, talks: Talks, library: WordSearch, proof: ProofScale
) -> None:
    """If writing to the cache is billed, only later questions repay it, and there may be none."""
    conversations = talks.questions["one subject"][: proof.pick(scaled_down=1, full=18)]
    for questions, most in ((1, 1.0), (2, 1.13), (3, 1.11)):
        compared = await compare(kind, model, [asked[:questions] for asked in conversations], library)
        assert max(compared.ratios) <= (most if kind == "anthropic" else 1.02), compared.ratios


def test_the_conversations_match_their_names(talks: Talks) -> None:
    titles = {passage.document_id: passage.title for passage in talks.passages}
    assert {kind: len(several) for kind, several in talks.questions.items()} == dict.fromkeys(KINDS, len(titles))
    for same, two, many in zip(*(talks.questions[kind] for kind in KINDS), strict=True):
        assert [len(set(questions)) for questions in (same, two, many)] == [QUESTIONS] * 3
        assert two[:5] == same[:5]
        assert len(set(two) & set(same)) == 5
        assert len(set(many) & set(same)) == 1


def test_the_scripted_caches_follow_the_providers_rules() -> None:
    def request_of(*texts: str) -> dict[str, object]:
        return {"messages": [{"role": "user", "content": text} for text in texts]}

    cache, long = Cache(), "word " * LEAST_TOKENS
    assert cache.openai(request_of(long)) == (len(long) // 4 + 1, 0, 0)
    assert cache.openai(request_of(long, "more"))[1] == 1_280  # of 1,281 tokens in common, in steps of 128
    assert cache.openai(request_of("x" + long))[1] == 0
    assert Cache().openai(request_of("short"))[1] == 0

    def marked_request(*texts: tuple[str, bool]) -> dict[str, object]:
        mark = {"cache_control": {"type": "ephemeral"}}
        return {
            "messages": [{"role": "user", "content": [{"text": text} | (mark if on else {}) for text, on in texts]}]
        }

    cache = Cache()
    _, read, written = cache.anthropic(marked_request((long, True)))
    assert (read, written > LEAST_TOKENS) == (0, True)
    assert cache.anthropic(marked_request((long, False), ("more", True)))[1] == written
    assert cache.anthropic(marked_request((long, False), *[("a", False)] * 20, ("b", True)))[1] == 0  # too far back
    assert cache.anthropic(marked_request((long, False), ("more", False)))[1] == 0
    with pytest.raises(ValueError, match="four marks"):
        cache.anthropic(marked_request(*[(long, True)] * 5))
