"""A profile's own models: which model answers, and in which space the search takes place."""

from __future__ import annotations

import pytest
from citewire.common.v1 import common_pb2
from citewire.retriever.v1 import retriever_pb2

from citewire_accounts.tenants.providers import OPERATOR_ROUTE, ModelRoute
from citewire_dialects.profile import ProfileModels
from citewire_gateway.chat.pipeline import with_models
from citewire_gateway.chat.run import ChatInput
from citewire_gateway.profiles.builtin import SIMPLE
from citewire_gateway.settings import GatewaySettings
from citewire_kit.tenant import LOCAL_TENANT

OLLAMA = ProfileModels("ollama/llama3.2", "nomic-embed-text")
OWN = common_pb2.ProviderRef(type=common_pb2.PROVIDER_TYPE_CHAT, provider="openai", model="gpt-4.1-mini")


def chat_input(model: str = "", route: ModelRoute = OPERATOR_ROUTE) -> ChatInput:
    return ChatInput(
        tenant=LOCAL_TENANT,
        profile=SIMPLE,
        question="Who?",
        scope=retriever_pb2.Scope(),
        top_k=5,
        min_score=None,
        dialect="simple",
        request_id="r",
        model=model,
        route=route,
    )


@pytest.mark.parametrize(
    ("chat", "models", "expected"),
    [
        (chat_input(), OLLAMA, ("ollama/llama3.2", "nomic-embed-text")),
        (chat_input(), None, ("", "")),
        (chat_input(), ProfileModels(), ("", "")),
        (chat_input("gpt-4.1"), OLLAMA, ("gpt-4.1", "nomic-embed-text")),
        (chat_input(route=ModelRoute(chat=OWN)), OLLAMA, ("", "nomic-embed-text")),
        (chat_input(route=ModelRoute(chat=OWN, require_own=True)), OLLAMA, ("", "")),
    ],
    ids=["profile", "none", "empty", "request", "own-chat", "only-own"],
)
def test_the_model_of_an_answer(chat: ChatInput, models: ProfileModels | None, expected: tuple[str, str]) -> None:
    chat = with_models(chat, models)
    assert (chat.model, chat.embedding_model) == expected


def test_settings_name_the_models_of_the_simple_profile() -> None:
    settings = GatewaySettings(
        dsn="postgresql://x", simple_model="ollama/llama3.2", simple_embedding_model="nomic-embed-text"
    )
    assert settings.profile_models() == {"simple": OLLAMA}
