"""A profile's own models: who decides which model answers, and in which space is searched."""

from __future__ import annotations

import pytest

from citewire_gateway.chat.pipeline import with_models
from citewire_gateway.chat.run import Ask
from citewire_gateway.clients.domain import Scope, ScopeLevel
from citewire_gateway.profiles.builtin import SIMPLE
from citewire_gateway.profiles.model import ProfileModels
from citewire_gateway.settings import GatewaySettings
from citewire_gateway.tenants.providers import OPERATORS, Chosen, ProviderRef, ProviderType
from citewire_kit.tenant import LOCAL_TENANT

OLLAMA = ProfileModels("ollama/llama3.2", "nomic-embed-text")
OWN = ProviderRef(ProviderType.CHAT, "openai", "gpt-4.1-mini", user_id="")


def ask(model: str = "", own: Chosen = OPERATORS) -> Ask:
    return Ask(
        tenant=LOCAL_TENANT,
        profile=SIMPLE,
        question="Who?",
        scope=Scope(ScopeLevel.ORG),
        top_k=5,
        min_score=None,
        dialect="simple",
        request_id="r",
        model=model,
        own=own,
    )


@pytest.mark.parametrize(
    ("asked", "models", "expected"),
    [
        (ask(), OLLAMA, ("ollama/llama3.2", "nomic-embed-text")),
        (ask(), None, ("", "")),
        (ask(), ProfileModels(), ("", "")),
        (ask("gpt-4.1"), OLLAMA, ("gpt-4.1", "nomic-embed-text")),
        (ask(own=Chosen(chat=OWN)), OLLAMA, ("", "nomic-embed-text")),
        (ask(own=Chosen(chat=OWN, only_own=True)), OLLAMA, ("", "")),
    ],
    ids=["profile", "none", "empty", "request", "own-chat", "only-own"],
)
def test_who_decides(asked: Ask, models: ProfileModels | None, expected: tuple[str, str]) -> None:
    found = with_models(asked, models)
    assert (found.model, found.embedding_model) == expected


def test_settings_name_the_models_of_the_simple_profile() -> None:
    settings = GatewaySettings(
        dsn="postgresql://x", simple_model="ollama/llama3.2", simple_embedding_model="nomic-embed-text"
    )
    assert settings.profile_models() == {"simple": OLLAMA}
