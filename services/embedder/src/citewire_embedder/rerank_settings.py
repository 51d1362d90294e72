"""Which rerank model the operator offers, as environment variables `CITEWIRE_EMBEDDER_RERANK_*`."""

from enum import StrEnum
from typing import Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings

from citewire_embedder.providers.base import Precision
from citewire_embedder.providers.remote_calls import CallLimits, ModelSpec
from citewire_kit.settings import settings_config
from citewire_remote.kinds import KINDS, ProviderType
from citewire_remote.retry import RetryPolicy
from citewire_remote.settings import ApiBase, text_of


class RerankProvider(StrEnum):
    """Who reranks."""

    LOCAL = "local"
    NONE = "none"
    COHERE = "cohere"
    JINA = "jina"
    COMPATIBLE = "openai-compatible"


class RerankSettings(BaseSettings):
    """Mixed into the process's settings."""

    model_config = settings_config("CITEWIRE_EMBEDDER_")

    rerank_provider: RerankProvider = RerankProvider.LOCAL
    """Whose rerank model serves requests that bring no provider of their own: `local` is late interaction over the
    embedding model's token vectors, whose worth is in docs/adr/0009-rerank.md; `none` refuses them."""

    rerank_api_base: ApiBase = ""
    """Its address; required for `openai-compatible` (TEI, Infinity, vLLM)."""

    rerank_api_key: SecretStr | None = None
    """Its key; required for `cohere` and `jina`."""

    rerank_model: str = Field(default="", max_length=200)
    """The provider's name for the model; required for `openai-compatible`."""

    rerank_seconds: float = Field(default=10.0, gt=0)
    """Longest wait for one answer of a rerank provider."""

    rerank_attempts: int = Field(default=2, ge=1, le=10)
    """Calls for one request to a rerank provider, the first included: who waits for an order waits for seconds."""

    rerank_precision: Precision | None = None
    """Of the local model. Unset: bf16 where the embedding model computes in fp32 and the CPU has bf16 instructions, as
    an order doesn't suffer by it; else the embedding model's."""

    rerank_tokens: int = Field(default=65_536, ge=1)
    """Tokens that may wait for the local model or be computed at once. More are refused at once."""

    @model_validator(mode="after")
    def _rerank_is_complete(self) -> Self:
        kind = KINDS[ProviderType.RERANK].get(self.rerank_provider)
        if kind is not None:
            prefix, provider = "CITEWIRE_EMBEDDER_RERANK", self.rerank_provider
            if kind.needs_key and not text_of(self.rerank_api_key):
                raise ValueError(f"{prefix}_API_KEY is required when {prefix}_PROVIDER is {provider}")
            if kind.needs_base and not self.rerank_api_base:
                raise ValueError(f"{prefix}_API_BASE is required when {prefix}_PROVIDER is {provider}")
            if not (self.rerank_model.strip() or kind.model):
                raise ValueError(f"{prefix}_MODEL is required when {prefix}_PROVIDER is {provider}")
        return self

    def rerank_spec(self) -> ModelSpec | None:
        """Returns the operator's remote rerank model; None if there is none."""
        kind = KINDS[ProviderType.RERANK].get(self.rerank_provider)
        if kind is None:
            return None
        name = self.rerank_model.strip() or kind.model
        return ModelSpec(self.rerank_provider, name, self.rerank_api_base, text_of(self.rerank_api_key))

    def rerank_limits(self) -> CallLimits:
        """Returns how rerank providers are called."""
        return CallLimits(RetryPolicy(attempts=self.rerank_attempts, first_seconds=0.2), self.rerank_seconds)
