"""Settings: defaults, required values, and errors that name the variable."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from citewire_generator.settings import ConfiguredProvider, GeneratorSettings
from citewire_kit.settings import load_settings
from citewire_remote.stall_timeout import TimeLimits

PREFIX = "CITEWIRE_GENERATOR_"


def test_defaults_quote_on_loopback() -> None:
    settings = GeneratorSettings()
    assert (settings.provider, settings.host, settings.port, settings.metrics_port) == (
        "extractive",
        "127.0.0.1",
        50053,
        9103,
    )
    assert settings.time_limits() == TimeLimits(10, 30, 20, 300)
    assert settings.max_completion_tokens == 2048
    assert settings.configured() == []
    assert settings.fallback_names() == ()


def test_the_environment_configures_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PROVIDER": "openai-compatible",
        "API_BASE": "http://localhost:11434/",
        "API_KEY": "sk-canary",
        "MODEL": "llama3.2",
        "MORE_MODELS": "qwen3, llama3.2,, mistral",
    }.items():
        monkeypatch.setenv(f"{PREFIX}{name}", value)
    settings = load_settings(GeneratorSettings)
    assert settings.api_base == "http://localhost:11434/v1"
    assert settings.configured() == [
        ConfiguredProvider("openai-compatible", settings.api_base, "sk-canary", ("llama3.2", "qwen3", "mistral"))
    ]
    assert "sk-canary" not in repr(settings)
    assert "sk-canary" not in repr(settings.configured())


def test_several_providers_with_the_default_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PROVIDER": "openai",
        "ANTHROPIC_API_KEY": "a-key",
        "OPENAI_API_KEY": "o-key",
        "OPENAI_MORE_MODELS": "gpt-4.1",
        "OLLAMA_API_BASE": "http://localhost:11434",
        "OLLAMA_CONTEXT_WINDOW": "8192",
        "FALLBACKS": "anthropic/claude-sonnet-4-6, llama3.2",
    }.items():
        monkeypatch.setenv(f"{PREFIX}{name}", value)
    settings = load_settings(GeneratorSettings)
    assert settings.configured() == [
        ConfiguredProvider("openai", "", "o-key", ("gpt-4.1-mini", "gpt-4.1")),
        ConfiguredProvider("anthropic", "", "a-key", ("claude-sonnet-4-6",)),
        ConfiguredProvider("ollama", "http://localhost:11434/v1", "", ("llama3.2",), 8192),
    ]
    assert settings.fallback_names() == ("anthropic/claude-sonnet-4-6", "llama3.2")


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"PROVIDER": "openai-compatible", "MODEL": "m"}, "API_BASE"),
        ({"PROVIDER": "openai-compatible", "API_BASE": "http://x"}, "MODEL"),
        ({"PROVIDER": "mistral"}, "PROVIDER"),
        ({"PROVIDER": "anthropic"}, "ANTHROPIC_API_KEY"),
        ({"PROVIDER": "openai", "OPENAI_API_KEY": " "}, "OPENAI_API_KEY"),
        ({"PROVIDER": "ollama"}, "OLLAMA_API_BASE"),
        ({"API_BASE": "localhost:11434"}, "API_BASE"),
        ({"API_BASE": "https://user:secret@host/v1"}, "API_BASE"),
        ({"FIRST_TOKEN_SECONDS": "0"}, "FIRST_TOKEN_SECONDS"),
        ({"CONTEXT_WINDOW": "12"}, "CONTEXT_WINDOW"),
    ],
)
def test_wrong_settings_are_named(
    environment: dict[str, str], named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(f"{PREFIX}{name}", value)
    with pytest.raises(SystemExit) as caught:
        load_settings(GeneratorSettings)
    assert caught.value.code == 2
    assert f"{PREFIX}{named}" in capsys.readouterr().err


def test_without_auth_only_loopback_is_allowed() -> None:
    with pytest.raises(ValidationError, match="loopback"):
        GeneratorSettings(auth="off", host="0.0.0.0")  # noqa: S104 - the refused value
