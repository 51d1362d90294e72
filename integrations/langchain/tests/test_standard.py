"""LangChain's own standard tests, against a running gateway."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import (
    ChatModelIntegrationTests,
    EmbeddingsIntegrationTests,
    RetrieversIntegrationTests,
)
from langchain_tests.unit_tests import ChatModelUnitTests, EmbeddingsUnitTests

from langchain_citewire import ChatCitewire, CitewireEmbeddings, CitewireRetriever

ENVIRONMENT = {"CITEWIRE_URL": "https://citewire.example", "CITEWIRE_API_KEY": "cw_key"}
ATTRIBUTES = {"base_url": "https://citewire.example", "api_key": "cw_key"}
WITHOUT_TEMPERATURE: dict[str, Any] = {"max_tokens": 100, "timeout": 60, "stop": [], "max_retries": 2}
"""The suite's parameters except the temperature, which is rejected because a profile has none."""


class TestChatModelUnit(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatCitewire

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "grounded"}

    @property
    def standard_chat_model_params(self) -> dict[str, Any]:
        return WITHOUT_TEMPERATURE

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        return ENVIRONMENT, self.chat_model_params, ATTRIBUTES


class TestChatModel(ChatModelIntegrationTests):
    @pytest.fixture(autouse=True)
    def _with_documents(self, collection: str) -> None:
        self._collection = collection

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatCitewire

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "grounded", "collection": self._collection}

    @property
    def model_override_value(self) -> str:
        return "sources"

    @property
    def has_tool_calling(self) -> bool:
        return False  # the extractive provider gives none; `model_tests` uses a model

    @property
    def has_structured_output(self) -> bool:
        return False


class TestEmbeddingsUnit(EmbeddingsUnitTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return CitewireEmbeddings

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        return ENVIRONMENT, {}, ATTRIBUTES


class TestEmbeddings(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return CitewireEmbeddings


class TestRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _with_documents(self, collection: str) -> None:
        self._collection = collection

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return CitewireRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"collection": self._collection}

    @property
    def retriever_query_example(self) -> str:
        return "At how many degrees does water boil?"
