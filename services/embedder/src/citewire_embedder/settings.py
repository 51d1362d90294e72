"""Settings of the embedder, as environment variables `CITEWIRE_EMBEDDER_*`."""

from enum import StrEnum
from pathlib import Path
from typing import Literal, Self

from pydantic import AliasChoices, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings

from citewire_embedder.providers.base import Precision
from citewire_embedder.providers.remote_calls import CallLimits, ModelSpec
from citewire_embedder.scheduler import BatchLimits
from citewire_embedder.service import ServiceLimits
from citewire_kit.caller_limits import CallerLimitSettings
from citewire_kit.settings import settings_config
from citewire_ledger import LedgerSettings
from citewire_remote.breaker import BreakerPolicy
from citewire_remote.kinds import KINDS, ProviderType
from citewire_remote.retry import RetryPolicy
from citewire_remote.settings import ApiBase, TenantProviderSettings, require, text_of

_MIB = 1024 * 1024

_MODELS = {name: kind.model for name, kind in KINDS[ProviderType.EMBEDDING].items()}


class RerankProvider(StrEnum):
    """The rerank provider."""

    LOCAL = "local"
    NONE = "none"
    COHERE = "cohere"
    JINA = "jina"
    COMPATIBLE = "openai-compatible"


class RerankSettings(BaseSettings):
    """Mixed into the process's settings."""

    model_config = settings_config("CITEWIRE_EMBEDDER_")

    rerank_provider: RerankProvider = RerankProvider.LOCAL
    """The rerank model for requests without a tenant provider: `local` is late interaction over the embedding model's
    token vectors (docs/adr/0009-rerank.md); `none` rejects them."""

    rerank_api_base: ApiBase = ""
    """Its address; required for `openai-compatible` (TEI, Infinity, vLLM)."""

    rerank_api_key: SecretStr | None = None
    """Its key; required for `cohere` and `jina`."""

    rerank_model: str = Field(default="", max_length=200)
    """The provider's name for the model; required for `openai-compatible`."""

    rerank_seconds: float = Field(default=10.0, gt=0)
    """Maximum wait for one response of a rerank provider; a request's budget, if it has one, may be shorter."""

    rerank_attempts: int = Field(default=2, ge=1, le=10)
    """Maximum calls for one request to a rerank provider: few, because a person is waiting."""

    rerank_precision: Precision | None = None
    """Precision of the local model. Unset: bf16 if the embedding model uses fp32 and the CPU has bf16 instructions,
    because that doesn't change rankings; otherwise the embedding model's."""

    rerank_tokens: int = Field(default=65_536, ge=1)
    """Maximum waiting and running tokens of the local model for requests without a budget, estimated from the texts'
    length; further requests are rejected at once. A request with a budget ends by itself."""

    rerank_cache_bytes: int = Field(default=256 * _MIB, ge=0)
    """Bytes of token vectors cached by the local model, about 0.4 kB per token with 384 dimensions: enough for about
    5,000 chunks. 0 disables the cache."""

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


class EmbedderSettings(RerankSettings, TenantProviderSettings, LedgerSettings, CallerLimitSettings):
    """Settings of the embedder process."""

    model_config = settings_config("CITEWIRE_EMBEDDER_")

    port: int = Field(default=50051, ge=0, le=65535)
    """gRPC port."""

    metrics_port: int = Field(default=9101, ge=0, le=65535)
    """Port of the metrics server."""

    model: str = Field(default="all-MiniLM-L6-v2", min_length=1)
    """`all-MiniLM-L6-v2` (built in), a model directory's path, or a name on the Hugging Face hub, `owner/name`, with
    `@revision` to pin one. A path's model is named after its last part."""

    provider: Literal["", "local", "openai", "ollama", "openai-compatible"] = ""
    """The provider of the default model, which embeds the first document of an organisation; a later change leaves
    existing libraries in their space. Empty means OpenAI if its key is set, else the local model. The other models can
    be requested by name."""

    openai_api_key: SecretStr | None = None
    """OpenAI's key; with it, its model is offered."""

    openai_api_base: ApiBase = ""
    """Alternative address for OpenAI's API."""

    openai_model: str = Field(default=_MODELS["openai"], max_length=200)
    """Its embedding model."""

    openai_dimensions: int = Field(default=0, ge=0, le=4096)
    """Length of its vectors; 0 is the model's own."""

    ollama_api_base: ApiBase = ""
    """Ollama's address; with it, its model is offered."""

    ollama_model: str = Field(default=_MODELS["ollama"], max_length=200)
    """Its embedding model. It must have been pulled."""

    api_base: ApiBase = ""
    """Address of another server with OpenAI's embeddings API (vLLM, TEI, LM Studio, LiteLLM)."""

    api_key: SecretStr | None = None
    """Its key, if it needs one."""

    remote_model: str = Field(default="", max_length=200)
    """Its embedding model; required with `api_base`."""

    remote_dimensions: int = Field(default=0, ge=0, le=4096)
    """Length of its vectors; 0 is the model's own."""

    remote_window: int = Field(default=0, ge=0)
    """Its window in tokens; 0 means the catalogue's value, or 512 if the model isn't in it."""

    remote_seconds: float = Field(default=30.0, gt=0)
    """Maximum wait for one response of a remote provider. Ollama loads a model at its first request."""

    remote_connect_seconds: float = Field(default=5.0, gt=0)
    """Maximum wait for a connection to a remote provider."""

    remote_texts: int = Field(default=32, ge=1, le=256)
    """Texts per request to a remote provider: TEI's default limit is 32."""

    attempts: int = Field(default=3, ge=1, le=10)
    """Maximum calls for one request to a remote provider, including the first."""

    breaker_failures: int = Field(default=5, ge=1)
    """Consecutive failures after which a provider (with its key) isn't called for a while."""

    breaker_seconds: float = Field(default=10, gt=0)
    """Length of that pause in seconds, the first time; then a test call checks whether it works again."""

    catalogue: Path | None = Field(default=None, validation_alias=AliasChoices("CITEWIRE_CATALOGUE"))
    """File of models, prices and windows that adds to the packaged catalogue; the generator reads it too."""

    model_cache: Path | None = None
    """Folder for models from the hub; unset means the hub library's own cache."""

    precision: Precision = Precision.FP32
    """`fp32` (the reference), `bf16` (only on CPUs with bf16 instructions), `int8`. Their speed and their cost in
    quality are in docs/adr/0007-embedding-runtime.md."""

    threads: int = Field(default=0, ge=0, le=512)
    """CPU threads of one computation; 0 means all CPUs that the process may use, within its container's quota."""

    batch_tokens: int = Field(default=384, ge=1)
    """Padded tokens in one batch of the model: two chunks of 190. On few cores larger batches aren't faster, and a
    query waits for the running one's end; a machine with many cores needs more."""

    batch_texts: int = Field(default=16, ge=1)
    """Texts in one batch of the model."""

    query_tokens: int = Field(default=8_192, ge=1)
    """Most tokens of queries that wait or are being computed: about one second of work for two cores, as the deadline
    of a query is 2 s. More are refused at once."""

    document_tokens: int = Field(default=131_072, ge=1)
    """The same for documents: two requests of the largest size. Streams wait instead of being refused."""

    cache_entries: int = Field(default=10_000, ge=0)
    """Query vectors kept: 1.5 kB each with 384 dimensions, and the text. 0 switches the cache off."""

    stream_ahead: int = Field(default=2, ge=1, le=64)
    """Batches of one EmbedStream in progress: two, so that the model never waits for the next one."""

    max_concurrent_rpcs: int = Field(default=512, ge=1)
    """Most calls at the same time, waiting ones included; more are refused at once."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needed = {
            "openai": ("openai_api_key",),
            "ollama": ("ollama_api_base",),
            "openai-compatible": ("api_base", "remote_model"),
        }
        require(self, self.provider, needed)
        if self.api_base and not self.remote_model.strip():
            raise ValueError(f"{self.env_name('remote_model')} is required with {self.env_name('api_base')}")
        return self

    def remote(self) -> list[ModelSpec]:
        """Returns the operator's remote models, the default first."""
        specs: list[ModelSpec] = []
        if key := text_of(self.openai_api_key):
            spec = ModelSpec("openai", self.openai_model, self.openai_api_base, key, dimensions=self.openai_dimensions)
            specs.append(spec)
        if self.ollama_api_base:
            specs.append(ModelSpec("ollama", self.ollama_model, self.ollama_api_base))
        if self.api_base:
            key, size, window = text_of(self.api_key), self.remote_dimensions, self.remote_window
            name = self.remote_model.strip()
            specs.append(ModelSpec("openai-compatible", name, self.api_base, key, dimensions=size, window=window))
        return sorted(specs, key=lambda spec: spec.kind != self.provider)

    def default_model(self) -> str:
        """Returns the name of the model that is used where a request names none; "" is the local one."""
        default = self.provider or ("openai" if text_of(self.openai_api_key) else "local")
        return next((spec.model for spec in self.remote() if spec.kind == default), "")

    def remote_limits(self) -> CallLimits:
        """Returns how remote providers are called."""
        return CallLimits(
            retry=RetryPolicy(attempts=self.attempts),
            seconds=self.remote_seconds,
            connect_seconds=self.remote_connect_seconds,
            texts=self.remote_texts,
        )

    def breaker_policy(self) -> BreakerPolicy:
        """Returns when a provider is left alone."""
        return BreakerPolicy(failures=self.breaker_failures, open_seconds=self.breaker_seconds)

    def limits(self) -> ServiceLimits:
        """Returns the limits as the domain wants them."""
        return ServiceLimits(
            query_tokens=self.query_tokens,
            document_tokens=self.document_tokens,
            cache_entries=self.cache_entries,
            batch=BatchLimits(tokens=self.batch_tokens, texts=self.batch_texts),
            stream_ahead=self.stream_ahead,
        )
