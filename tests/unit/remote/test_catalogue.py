"""The catalogue of models, and an operator's changes to it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from citewire_kit.errors import StartupError
from citewire_ledger import Price
from citewire_remote.catalogue import load_catalogue
from citewire_remote.kinds import KINDS, ProviderType


def usd(*texts: str) -> Price:
    return Price(*(Decimal(text) for text in texts))


@pytest.mark.parametrize(
    ("provider", "name", "kind", "prices"),
    [
        ("anthropic", "claude-sonnet-4-6", ProviderType.CHAT, usd("3", "0.30", "3.75", "15")),
        ("openai", "gpt-4.1-mini", ProviderType.CHAT, usd("0.40", "0.10", "0.40", "1.60")),
        ("openai", "text-embedding-3-small", ProviderType.EMBEDDING, usd("0.02", "0.02", "0.02", "0")),
        ("ollama", "whatever:7b", ProviderType.CHAT, usd("0", "0", "0", "0")),
    ],
)
def test_prices_are_exact(provider: str, name: str, kind: ProviderType, prices: Price) -> None:
    model = load_catalogue().find(provider, name, kind)
    assert model is not None
    assert model.price == prices


def test_every_default_model_of_a_kind_is_known() -> None:
    catalogue = load_catalogue()
    for type_ in (ProviderType.CHAT, ProviderType.EMBEDDING):
        for provider, kind in KINDS[type_].items():
            assert not kind.model or catalogue.find(provider, kind.model, type_) is not None, (provider, kind.model)


def test_snapshots_and_tags_belong_to_their_family() -> None:
    catalogue = load_catalogue()
    family = catalogue.find("openai", "gpt-4.1-mini")
    assert family is not None
    assert family.context_window == 1_047_576
    assert family.max_completion_tokens == 32_768
    assert catalogue.find("openai", "gpt-4.1-mini-2025-04-14") is family
    assert catalogue.find("anthropic", "claude-haiku-4-5-20251001") is catalogue.find("anthropic", "claude-haiku-4-5")
    tagged = catalogue.find("ollama", "nomic-embed-text:v1.5", ProviderType.EMBEDDING)
    assert tagged is not None
    assert tagged.dimensions == 768
    assert catalogue.find("openai", "gpt-9") is None
    assert catalogue.find("openai", "gpt-4.1-mini", ProviderType.EMBEDDING) is None
    assert catalogue.find("openai-compatible", "gpt-4.1-mini") is None


def test_the_operators_file_adds_and_replaces(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        """
        [[models]]
        provider = "openai"
        name = "gpt-4.1-mini"
        context_window = 100_000
        input = 0.35
        output = 1.5
        [[models]]
        provider = "openai-compatible"
        name = "our-llama"
        context_window = 8192
        """
    )
    catalogue = load_catalogue(file)
    mini, ours = catalogue.find("openai", "gpt-4.1-mini"), catalogue.find("openai-compatible", "our-llama")
    assert mini is not None
    assert ours is not None
    assert (mini.context_window, mini.price) == (100_000, usd("0.35", "0.35", "0.35", "1.5"))
    assert (ours.context_window, ours.price) == (8192, None)
    assert len(catalogue) == len(load_catalogue()) + 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[models]]\nname = 'x'", "models.0.provider: Field required"),
        ("[[models]]\nprovider = 'p'\nname = 'x'\noutlay = 1", "models.0.outlay: Extra inputs are not permitted"),
        ("[[models]]\nprovider = 'p'\nname = 'x'\noutput = 1", "needs the price of its input"),
        ("[[models]]\nprovider = 'p'\nname = 'x'\ninput = -1", "models.0.input: Input should be greater"),
        ("[[models]]\nprovider = 'p'\nname = 'x'\ninput = nan", "models.0.input: Input should be a finite number"),
        (
            "[[models]]\nprovider = 'p'\nname = 'x'\ncontext_window = 1.5",
            "models.0.context_window: Input should be a valid integer",
        ),
        (
            "[[models]]\nprovider = 'p'\nname = 'x'\ntype = 'image'",
            "models.0.type: Input should be 'chat', 'embedding' or 'rerank'",
        ),
        ("models = 3", "models: Input should be a valid tuple"),
        ("[[models", "malformed"),
    ],
)
def test_a_malformed_file_says_where(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(StartupError) as caught:
        load_catalogue(file)
    assert says in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="can't be read"):
        load_catalogue(tmp_path / "none.toml")


@pytest.mark.parametrize(("prompt", "estimate"), [(30_000, "0.013"), (15_000, "0.007")])
def test_the_librarys_estimates(prompt: int, estimate: str) -> None:
    # System D's estimates: 30,000 tokens in long context, 15,000 after a search, and an answer of a few hundred.
    model = load_catalogue().find("openai", "gpt-4.1-mini")
    assert model is not None
    assert model.price is not None
    cost = (prompt * model.price.input + 500 * model.price.output) / 1_000_000
    assert cost.quantize(Decimal("0.001")) == Decimal(estimate)
