"""What the generator can be told, as environment variables `CITEWIRE_GENERATOR_*`."""

from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from citewire_generator.providers.openai_compatible import normalise_api_base
from citewire_generator.providers.silence import TimeLimits
from citewire_generator.service import ServiceLimits
from citewire_kit.settings import ProcessSettings, settings_config


class GeneratorSettings(ProcessSettings):
    """Settings of the generator process."""

    model_config = settings_config("CITEWIRE_GENERATOR_")

    port: int = Field(default=50053, ge=0, le=65535)
    """gRPC port."""

    metrics_port: int = Field(default=9103, ge=0, le=65535)
    """Port of the metrics server."""

    provider: Literal["extractive", "openai-compatible"] = "extractive"
    """Who answers where a request names no model. `extractive` quotes, without a language model, and no text leaves
    the machine; it is always offered beside the other."""

    api_base: str = ""
    """Base URL of the `openai-compatible` provider; normalised to end in `/v1`. For example http://localhost:11434."""

    api_key: SecretStr | None = None
    """Its key, sent as a bearer token; unset sends none (Ollama, vLLM)."""

    model: str = Field(default="", max_length=200)
    """Its default model, as the provider names it."""

    more_models: str = ""
    """Its further models, divided by commas; a request may name any of them."""

    context_window: int = Field(default=32_768, ge=1024)
    """Window of its models in tokens: what is packed stays below it. Most models of today have this much or more; a
    server may be set to less (Ollama's own default is 4096)."""

    max_completion_tokens: int = Field(default=2048, ge=1, le=32_768)
    """Completion tokens of an answer whose request doesn't say: a long answer, and no endless one."""

    connect_seconds: float = Field(default=10, gt=0)
    """Time to connect to the provider."""

    first_token_seconds: float = Field(default=30, gt=0)
    """Time to the first token; a model that has to be loaded first takes long."""

    between_tokens_seconds: float = Field(default=20, gt=0)
    """Time between tokens."""

    total_seconds: float = Field(default=300, gt=0)
    """Time of a whole answer."""

    max_concurrent: int = Field(default=512, ge=1)
    """Calls handled at once; one more is refused at once. A core relays about 200 streams of 50 tokens a second."""

    stream_window: bool = False
    """Whether the server's receive window is tiny too. It only delays large requests: see docs/generator.md."""

    @field_validator("api_base")
    @classmethod
    def _normalised(cls, value: str) -> str:
        return normalise_api_base(value) if value.strip() else ""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.provider == "openai-compatible":
            for field in ("api_base", "model"):
                if not getattr(self, field):
                    raise ValueError(
                        f"{self.env_name(field)} is required when {self.env_name('provider')} is openai-compatible"
                    )
        return self

    def time_limits(self) -> TimeLimits:
        """Returns the time limits of a call to the provider."""
        return TimeLimits(
            connect=self.connect_seconds,
            first_token=self.first_token_seconds,
            between_tokens=self.between_tokens_seconds,
            whole=self.total_seconds,
        )

    def model_names(self) -> list[str]:
        """Returns the names of the provider's models, the default first."""
        names = [self.model, *(name.strip() for name in self.more_models.split(","))]
        return list(dict.fromkeys(name for name in names if name))

    def limits(self) -> ServiceLimits:
        """Returns the limits as the domain wants them."""
        return ServiceLimits(max_completion_tokens=self.max_completion_tokens)
