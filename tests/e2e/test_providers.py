"""`citewire up` with the usual variables of model providers: which one answers or takes over, and who has the keys."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import psutil
import pytest

from local_stack import prepared
from paced_model_stack import MODEL, PacedModelServer, PacedModelStack, paced_model_stack

QUESTION = "What does the upstream say, and at which pace?"
CANARY = "sk-canary-of-a-key-that-only-callers-learn"


@pytest.fixture(scope="module")
def unreachable_url() -> Iterator[str]:
    """A URL at which nothing listens while the tests run."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


@pytest.fixture(scope="module")
def provider_stack(tmp_path_factory: pytest.TempPathFactory, unreachable_url: str) -> Iterator[PacedModelStack]:
    """OpenAI is the default, at a URL where nothing listens; Ollama takes over."""

    def settings(upstream: PacedModelServer) -> Mapping[str, str]:
        return {
            "OPENAI_API_KEY": CANARY,
            "OPENAI_BASE_URL": unreachable_url,
            "OLLAMA_BASE_URL": upstream.url,
            "LLM_MODEL": MODEL,
            "CITEWIRE_GENERATOR_FALLBACKS": f"ollama/{MODEL}",
            "CITEWIRE_GENERATOR_RETRY_SECONDS": "0.01",
            "CITEWIRE_EMBEDDER_PROVIDER": "local",
        }

    with paced_model_stack(prepared(tmp_path_factory.mktemp("chosen")), settings) as stack:
        stack.upstream.pace(rate=500, tokens=20)
        yield stack


def ask(stack: PacedModelStack, **fields: str) -> dict[str, Any]:
    body = {"question": QUESTION, "stream": False, **fields}
    response = httpx.post(f"{stack.stack.base_url}/v1/chat", json=body, trust_env=False, timeout=30)
    assert response.status_code == 200, response.text
    return response.json()


def test_startup_names_the_providers_that_see_text(provider_stack: PacedModelStack, unreachable_url: str) -> None:
    (welcome,) = provider_stack.stack.events("welcome")
    here = "no text leaves this machine"
    assert welcome["provider"] == f"gpt-4.1-mini at {unreachable_url}: {here}; if it fails: ollama/{MODEL}"
    assert str(welcome["simple"]).startswith(f"{MODEL} and nomic-embed-text at {provider_stack.upstream.url} ")
    assert CANARY not in provider_stack.stack.output.read_text()


def test_the_next_one_takes_over_and_is_recorded(provider_stack: PacedModelStack) -> None:
    answer = ask(provider_stack)
    assert (answer["provider"], answer["model"]) == ("ollama", MODEL)
    (step,) = [step for step in answer["steps"] if step["name"] == "failover"]
    assert step["text"] == (
        f"openai/gpt-4.1-mini can't be reached or answered with an error; ollama/{MODEL} answers instead."
    )
    assert answer["answer"]
    assert answer["citations"]


def test_a_request_can_name_its_model(provider_stack: PacedModelStack) -> None:
    answer = ask(provider_stack, model=f"ollama/{MODEL}")
    assert (answer["provider"], answer["steps"]) == ("ollama", [])


def test_the_error_for_an_unknown_model_lists_the_configured_ones(provider_stack: PacedModelStack) -> None:
    body = {"question": QUESTION, "model": "gpt-99"}
    response = httpx.post(f"{provider_stack.stack.base_url}/v1/chat", json=body, trust_env=False, timeout=30)
    assert response.status_code == 404, response.text
    problem = response.json()
    assert problem["reason"] == "MODEL_NOT_FOUND"
    assert f"openai/gpt-4.1-mini, ollama/{MODEL}, extractive/extractive" in problem["detail"]


def test_only_services_that_call_providers_have_the_keys(provider_stack: PacedModelStack) -> None:
    known = {
        name
        for name, pid in provider_stack.stack.pids().items()
        if any(CANARY in value for value in psutil.Process(pid).environ().values())
    }
    assert known == {"embedder", "generator"}


def test_the_metrics_count_the_failover(provider_stack: PacedModelStack) -> None:
    ask(provider_stack)
    metrics = provider_stack.stack.metrics("generator")
    taken = 'citewire_generator_failovers_total{next_provider="ollama",provider="openai",reason="PROVIDER_UNAVAILABLE"}'
    for series in (
        taken,
        'citewire_generator_retries_total{provider="openai",reason="PROVIDER_UNAVAILABLE"}',
        'citewire_provider_breakers{provider="openai",state="',
        f'citewire_generator_token_gap_seconds_count{{model="{MODEL}",provider="ollama"}}',
        f'gen_ai_server_time_to_first_token_seconds_count{{gen_ai_provider_name="ollama",gen_ai_request_model="{MODEL}"}}',
    ):
        assert series in metrics, series
