"""Which providers the user's environment selects, which processes get their keys, and the messages about them."""

from __future__ import annotations

import pytest

from citewire_cli.stack.provider import (
    EXTRACTIVE,
    describe_provider,
    describe_simple,
    keep_secrets,
    provider_environ,
)
from citewire_generator.settings import GeneratorSettings
from citewire_remote.kinds import KINDS, ProviderType

GENERATOR = "CITEWIRE_GENERATOR_"
ANTHROPIC = {"ANTHROPIC_API_KEY": "a-canary"}
OPENAI = {"OPENAI_API_KEY": "o-canary"}
OLLAMA = {"OLLAMA_BASE_URL": "http://localhost:11434"}


def settings(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> GeneratorSettings:
    """The generator's settings in this environment."""
    for name, value in keep_secrets("generator", {**environ, **provider_environ(environ)}).items():
        monkeypatch.setenv(name, value)
    return GeneratorSettings()  # pyright: ignore[reportCallIssue] # from the environment


@pytest.mark.parametrize(
    ("environ", "default", "offered"),
    [
        ({}, "extractive", []),
        ({"ANTHROPIC_API_KEY": " "}, "extractive", []),
        (ANTHROPIC, "anthropic", ["anthropic/claude-sonnet-4-6"]),
        (OPENAI, "openai", ["openai/gpt-4.1-mini"]),
        (OLLAMA, "ollama", ["ollama/llama3.2"]),
        (
            {**OLLAMA, **OPENAI, **ANTHROPIC, "LLM_MODEL": "qwen3"},
            "anthropic",
            ["anthropic/claude-sonnet-4-6", "openai/gpt-4.1-mini", "ollama/qwen3"],
        ),
        ({**OLLAMA, **OPENAI}, "openai", ["openai/gpt-4.1-mini", "ollama/llama3.2"]),
        ({"LLM_MODEL": "qwen3"}, "extractive", ["ollama/qwen3"]),
        ({"EMBEDDING_MODEL": "bge-m3"}, "extractive", ["ollama/llama3.2"]),
        ({**ANTHROPIC, f"{GENERATOR}PROVIDER": "extractive"}, "extractive", ["anthropic/claude-sonnet-4-6"]),
        ({**ANTHROPIC, f"{GENERATOR}ANTHROPIC_MODEL": "claude-haiku-4-5"}, "anthropic", ["anthropic/claude-haiku-4-5"]),
    ],
)
def test_precedence(environ: dict[str, str], default: str, offered: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    result = settings(environ, monkeypatch)
    assert result.provider == default
    assert [f"{entry.kind}/{name}" for entry in result.configured() for name in entry.models] == offered
    assert result.fallback_names() == ()


def test_the_rest_of_the_usual_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {**OPENAI, "OPENAI_BASE_URL": "https://proxy.example/openai", **OLLAMA, "OLLAMA_CONTEXT_LENGTH": "16384"}
    openai, ollama = settings(environ, monkeypatch).configured()
    assert openai.api_base == "https://proxy.example/openai/v1"
    assert (ollama.api_base, ollama.context_window) == ("http://localhost:11434/v1", 16384)


@pytest.mark.parametrize("variable", ["OLLAMA_BASE_URL", "LLM_MODEL", "EMBEDDING_MODEL"])
def test_any_of_three_variables_selects_ollama_for_simple(variable: str) -> None:
    given = {"OLLAMA_BASE_URL": "http://gpu:11434", "LLM_MODEL": "qwen3", "EMBEDDING_MODEL": "bge-m3"}
    base, model, embedding = (
        given[name] if name == variable else default
        for name, default in (
            ("OLLAMA_BASE_URL", "http://localhost:11434"),
            ("LLM_MODEL", "llama3.2"),
            ("EMBEDDING_MODEL", "nomic-embed-text"),
        )
    )
    result = provider_environ({variable: given[variable]})
    assert result[f"{GENERATOR}OLLAMA_API_BASE"] == result["CITEWIRE_EMBEDDER_OLLAMA_API_BASE"] == base
    assert result["CITEWIRE_EMBEDDER_OLLAMA_MODEL"] == result["CITEWIRE_GATEWAY_SIMPLE_EMBEDDING_MODEL"] == embedding
    assert result["CITEWIRE_GATEWAY_SIMPLE_MODEL"] == f"ollama/{model}"
    assert provider_environ({}) == {}


def test_only_processes_that_call_providers_get_their_keys() -> None:
    environ = {**ANTHROPIC, **OPENAI, "CITEWIRE_API_KEY": "client", "PATH": "/bin"}
    environ |= provider_environ(environ)
    seen = {
        name: {key for key, value in keep_secrets(name, environ).items() if "canary" in value}
        for name in ("gateway", "retriever", "worker", "migrate", "embedder", "generator")
    }
    assert seen == {
        "gateway": set(),
        "retriever": set(),
        "worker": set(),
        "migrate": set(),
        "embedder": {"CITEWIRE_EMBEDDER_OPENAI_API_KEY"},
        "generator": {f"{GENERATOR}ANTHROPIC_API_KEY", f"{GENERATOR}OPENAI_API_KEY"},
    }
    assert keep_secrets("gateway", environ)["CITEWIRE_API_KEY"] == "client"


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({}, EXTRACTIVE),
        (
            ANTHROPIC,
            "claude-sonnet-4-6 at https://api.anthropic.com: "
            "questions and the passages found are sent to api.anthropic.com",
        ),
        (OLLAMA, "llama3.2 at http://localhost:11434: no text leaves this machine"),
        (
            {**OPENAI, "CITEWIRE_EMBEDDER_PROVIDER": "local"},
            "gpt-4.1-mini at https://api.openai.com: questions and the passages found are sent to api.openai.com",
        ),
        (
            {"CITEWIRE_EMBEDDER_OPENAI_API_KEY": "o-canary"},
            "extractive: quotes the best sentences of your documents; "
            "documents of a new library are sent to api.openai.com to be embedded",
        ),
        (
            {**OLLAMA, **OPENAI, f"{GENERATOR}FALLBACKS": "ollama/llama3.2, anthropic/claude-haiku-4-5"},
            "gpt-4.1-mini at https://api.openai.com: questions and the passages found are sent to api.openai.com; "
            "documents of a new library are sent to api.openai.com to be embedded; "
            "if it fails: ollama/llama3.2, anthropic/claude-haiku-4-5 (sent to api.anthropic.com)",
        ),
    ],
)
def test_the_recipients_of_text_are_named(environ: dict[str, str], text: str) -> None:
    assert describe_provider(environ) == text


def test_the_models_of_simple_are_named() -> None:
    assert describe_simple(ANTHROPIC) is None
    local = describe_simple({"LLM_MODEL": "qwen3"})
    assert (
        local == "qwen3 and nomic-embed-text at http://localhost:11434 (POST /api/chat/): no text leaves this machine"
    )
    remote = describe_simple({"OLLAMA_BASE_URL": "http://gpu.example:11434"})
    assert remote is not None
    assert remote.endswith("questions and documents are sent to gpu.example")


def test_the_commands_defaults_are_the_services() -> None:
    """The command imports none of our packages, so it has its own copy of the names."""
    chat, embedding = KINDS[ProviderType.CHAT], KINDS[ProviderType.EMBEDDING]
    for environ, kind in ((ANTHROPIC, "anthropic"), (OPENAI, "openai"), (OLLAMA, "ollama")):
        assert describe_provider(environ).startswith(f"{chat[kind].model} at ")
    simple = describe_simple(OLLAMA)
    assert simple is not None
    assert simple.startswith(f"{chat['ollama'].model} and {embedding['ollama'].model} at ")
