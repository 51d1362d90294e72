"""Settings of the generator, as environment variables `CITEWIRE_GENERATOR_*`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

from pydantic import AliasChoices, Field, SecretStr, model_validator

from citewire_generator.engine import CallLimits
from citewire_kit.caller_limits import CallerLimitSettings
from citewire_kit.settings import settings_config
from citewire_ledger import LedgerSettings
from citewire_remote.breaker import BreakerPolicy
from citewire_remote.kinds import KINDS, ProviderType
from citewire_remote.retry import RetryPolicy
from citewire_remote.settings import ApiBase, TenantProviderSettings, require, text_of
from citewire_remote.stall_timeout import TimeLimits

ProviderKind = Literal["extractive", "anthropic", "openai", "openai-responses", "ollama", "openai-compatible"]
_MODELS = {name: kind.model for name, kind in KINDS[ProviderType.CHAT].items()}


@dataclass(frozen=True, slots=True)
class ConfiguredProvider:
    """One of the operator's providers."""

    kind: str
    """Its adapter."""
    api_base: str
    """Its address; "" is the kind's own."""
    api_key: str = field(repr=False)
    """Its key; "" if it needs none."""
    models: tuple[str, ...]
    """Its models, the default first."""
    context_window: int | None = None
    """Window of all its models in tokens; None for the catalogue's values."""


class GeneratorSettings(TenantProviderSettings, LedgerSettings, CallerLimitSettings):
    """Settings of the generator process."""

    model_config = settings_config("CITEWIRE_GENERATOR_")

    port: int = Field(default=50053, ge=0, le=65535)
    """gRPC port."""

    metrics_port: int = Field(default=9103, ge=0, le=65535)
    """Port of the metrics server."""

    provider: ProviderKind = "extractive"
    """The default provider. `extractive` quotes, without a language model, and no text leaves the machine; it is always
    offered in addition to the others. Each of the others is offered if it is configured below."""

    fallbacks: str = Field(default="", max_length=1000)
    """Models that take over, in this order, if a provider fails before its first token: `provider/model` or a model's
    name, separated by commas. Empty by default, so that no provider gets text without the operator's choice."""

    anthropic_api_key: SecretStr | None = None
    """Anthropic's key; with it, its models are offered."""

    anthropic_api_base: ApiBase = ""
    """Alternative address for Anthropic's API, such as a proxy's."""

    anthropic_model: str = Field(default=_MODELS["anthropic"], max_length=200)
    """Its default model."""

    anthropic_more_models: str = ""
    """Its further models, separated by commas; requests may select any of them."""

    openai_api_key: SecretStr | None = None
    """OpenAI's key; with it, its models are offered."""

    openai_api_base: ApiBase = ""
    """Alternative address for OpenAI's API."""

    openai_model: str = Field(default=_MODELS["openai"], max_length=200)
    """Its default model."""

    openai_more_models: str = ""
    """Its further models."""

    ollama_api_base: ApiBase = ""
    """Address of an Ollama server, for example http://localhost:11434; with it, its models are offered."""

    ollama_model: str = Field(default=_MODELS["ollama"], max_length=200)
    """Its default model."""

    ollama_more_models: str = ""
    """Its further models."""

    ollama_context_window: int | None = Field(default=None, ge=1024)
    """Window in tokens of the Ollama server's models (its OLLAMA_CONTEXT_LENGTH). Unset means 4096, Ollama's default.
    Ollama cuts off the beginning of a longer prompt without an error."""

    api_base: ApiBase = ""
    """Base URL of the `openai-compatible` provider; normalised to end in `/v1`. With a model, it is offered."""

    api_key: SecretStr | None = None
    """Its key, sent as a bearer token; unset sends none (vLLM)."""

    model: str = Field(default="", max_length=200)
    """Its default model, by the provider's name."""

    more_models: str = ""
    """Its further models."""

    context_window: int | None = Field(default=None, ge=1024)
    """Window of its models in tokens, which limits prompts. Unset means the catalogue's value, or else 32,768, because
    most current models have at least this much."""

    catalogue: Path | None = Field(default=None, validation_alias=AliasChoices("CITEWIRE_CATALOGUE"))
    """File with windows, limits and prices of models that override the catalogue; see docs/explanation/generator.md."""

    max_completion_tokens: int = Field(default=2048, ge=1, le=32_768)
    """Default limit of completion tokens: enough for a long answer, but not for an endless one."""

    max_answer_chars: int = Field(default=131_072, ge=1_000, le=1_048_576)
    """Maximum characters of an answer, at which it is cut, whatever its provider sends."""

    connect_seconds: float = Field(default=10, gt=0)
    """Time limit for connecting to a provider."""

    first_token_seconds: float = Field(default=30, gt=0)
    """Time limit for a provider's first token, including retries; a model that has to be loaded first takes long."""

    between_tokens_seconds: float = Field(default=20, gt=0)
    """Maximum time between tokens."""

    total_seconds: float = Field(default=300, gt=0)
    """Time limit of a whole answer."""

    judge_seconds: float = Field(default=10, gt=0)
    """Time limit of a decision, assessment or rewriting, including retries; then the documented default is used."""

    enrich_seconds: float = Field(default=60, gt=0)
    """Time limit for describing a document at ingest, including retries: nobody is waiting for it."""

    enrich_tokens: int = Field(default=4000, ge=200)
    """Estimated tokens of a document's text that a model reads to describe it."""

    attempts: int = Field(default=3, ge=1, le=10)
    """Maximum calls to one provider before its first token, including the first."""

    retry_seconds: float = Field(default=0.5, ge=0)
    """Maximum wait before the second call; it doubles with each further one. The actual wait is random below that."""

    retry_after_seconds: float = Field(default=15, ge=0)
    """Longest `retry-after` that is honoured; a provider that asks for more counts as failed."""

    breaker_failures: int = Field(default=5, ge=1)
    """Consecutive failures after which a provider (with its key) isn't called for a while."""

    breaker_seconds: float = Field(default=10, gt=0)
    """Length of that pause in seconds, the first time; then a test call checks whether it works again."""

    max_concurrent: int = Field(default=512, ge=1)
    """Maximum concurrent calls; further ones are rejected at once. A core relays about 200 streams at 50 tokens/s."""

    stream_window: bool = False
    """Whether the server's receive window is tiny too, which delays large requests: docs/explanation/generator.md."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needed = {
            "anthropic": ("anthropic_api_key",),
            "openai": ("openai_api_key",),
            "openai-responses": ("openai_api_key",),
            "ollama": ("ollama_api_base",),
            "openai-compatible": ("api_base", "model"),
        }
        require(self, self.provider, needed)
        return self

    def configured(self) -> list[ConfiguredProvider]:
        """Returns the remote providers that are configured, the default first."""
        anthropic, openai = text_of(self.anthropic_api_key), text_of(self.openai_api_key)
        providers: list[ConfiguredProvider] = []
        if anthropic:
            models = _names(self.anthropic_model, self.anthropic_more_models)
            providers.append(ConfiguredProvider("anthropic", self.anthropic_api_base, anthropic, models))
        if openai:
            models = _names(self.openai_model, self.openai_more_models)
            kind = "openai-responses" if self.provider == "openai-responses" else "openai"
            providers.append(ConfiguredProvider(kind, self.openai_api_base, openai, models))
        if self.ollama_api_base:
            models = _names(self.ollama_model, self.ollama_more_models)
            providers.append(ConfiguredProvider("ollama", self.ollama_api_base, "", models, self.ollama_context_window))
        if self.api_base and self.model:
            models = _names(self.model, self.more_models)
            key, window = text_of(self.api_key), self.context_window
            providers.append(ConfiguredProvider("openai-compatible", self.api_base, key, models, window))
        return sorted(providers, key=lambda provider: provider.kind != self.provider)

    def fallback_names(self) -> tuple[str, ...]:
        """Returns the names of the models that take over."""
        return _names(self.fallbacks)

    def time_limits(self) -> TimeLimits:
        """Returns the time limits of a call to a provider."""
        return TimeLimits(
            connect=self.connect_seconds,
            first_token=self.first_token_seconds,
            between_tokens=self.between_tokens_seconds,
            whole=self.total_seconds,
        )

    def call_limits(self) -> CallLimits:
        """Returns how often a provider is called."""
        retry = RetryPolicy(
            attempts=self.attempts, first_seconds=self.retry_seconds, most_retry_after=self.retry_after_seconds
        )
        return CallLimits(retry, self.first_token_seconds, self.max_answer_chars)

    def breaker_policy(self) -> BreakerPolicy:
        """Returns when a provider isn't called for a while."""
        return BreakerPolicy(failures=self.breaker_failures, open_seconds=self.breaker_seconds)


def _names(*lists: str) -> tuple[str, ...]:
    names = [name.strip() for text in lists for name in text.split(",")]
    return tuple(dict.fromkeys(name for name in names if name))
