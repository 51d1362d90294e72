"""Bodies for a tenant's own model providers."""

from collections.abc import Sequence
from typing import Annotated, Any, Self

from citewire.common.v1 import common_pb2
from pydantic import (
    MISSING,
    Field,
    SecretStr,
    StrictBool,
    StrictInt,
    StrictStr,
)

from citewire_accounts.api.schemas import ScopeName
from citewire_accounts.tenants.providers import PROVIDER_TYPES, ProviderEntry, ProviderType
from citewire_http.api.schemas import RequestModel, ResponseModel, Second

ProviderName = Annotated[StrictStr, Field(min_length=1, max_length=64)]
ModelName = Annotated[StrictStr, Field(max_length=200)]
ApiBase = Annotated[StrictStr, Field(max_length=2048)]
ApiKey = Annotated[SecretStr, Field(max_length=4096)]

_MODEL = Field(default=None, description="The model; absent: the provider's default, if it has one.")
_API_BASE = Field(default=None, description="Base URL; it is normalised to end in `/v1`. Write-only.")
_API_KEY = Field(default=None, description="Write-only: it is sealed at once and never returned.")


class ProviderFields(RequestModel):
    """The fields of a provider besides its name."""

    model: ModelName | None = _MODEL
    api_base: ApiBase | None = _API_BASE
    api_key: ApiKey | None = _API_KEY

    def spec(self, type_: ProviderType, owner: str, *, test: bool) -> common_pb2.ProviderSpec:
        """Converts it to the services' format; `owner` is its owner."""
        return self.to_message(
            common_pb2.ProviderSpec,
            type=PROVIDER_TYPES.to_proto(type_),
            user_id=owner,
            api_key=self.api_key.get_secret_value() if self.api_key else "",
            skip_test=not test,
        )


class FallbackBody(ProviderFields):
    """A fallback before the first token: a tenant provider or, with only `model`, one of the server's models."""

    provider: ProviderName | None = None


class ProviderBody(ProviderFields):
    """A tenant provider; it replaces the saved one, including its key."""

    provider: ProviderName = Field(
        description="chat: `anthropic`, `openai`, `openai-responses`, `ollama`, `openai-compatible`; embedding: "
        "`openai`, `ollama`, `openai-compatible`; rerank: `cohere`, `jina`, `openai-compatible`."
    )
    dimensions: Annotated[StrictInt, Field(ge=1, le=4096)] | None = Field(
        default=None, description="Length of an embedding model's vectors, if the model offers a choice."
    )
    fallbacks: Annotated[list[FallbackBody], Field(max_length=4)] = Field(
        default_factory=list[FallbackBody], description="Fallbacks in order; only for chat providers."
    )
    test: StrictBool = Field(default=True, description="Tests the provider with a small call and returns the result.")


class ProviderRulesBody(RequestModel):
    """An organisation's requirements for providers."""

    require_own: StrictBool = Field(
        description="Whether only the organisation's own providers may be used.", examples=[True]
    )


class ProviderTestInfo(ResponseModel):
    """Result of the last test call."""

    tried: bool = Field(examples=[True])
    ok: bool | MISSING = Field(default=MISSING, examples=[True])
    text: str | MISSING = Field(default=MISSING, examples=["The provider answered."])
    reason: str | MISSING = MISSING
    status: int | MISSING = Field(default=MISSING, description="The provider's HTTP status.", examples=[200])
    dimensions: int | MISSING = MISSING

    @classmethod
    def of(cls, test: common_pb2.ProviderTest | None) -> Self:
        """Converts the result; unknown fields are left out."""
        if test is None or not test.tried:
            return cls(tried=False)
        return cls.read(test, ok=test.ok, text=test.text)


class FallbackInfo(ResponseModel):
    """A fallback: a tenant provider or, with only `model`, one of the server's models."""

    provider: str | MISSING = MISSING
    model: str = Field(examples=["extractive"])
    has_key: bool | MISSING = MISSING
    has_api_base: bool | MISSING = MISSING
    dimensions: int | MISSING = MISSING
    test: ProviderTestInfo | MISSING = MISSING


class ProviderInfo(ResponseModel):
    """A tenant provider, without its key and address."""

    type: ProviderType = Field(examples=["chat"])
    scope: ScopeName = Field(examples=["user"])
    name: str = Field(description="The name that it is saved under.", examples=["default"])
    active: bool = Field(description="Whether it is the active one of its type.", examples=[True])
    provider: str | MISSING = Field(default=MISSING, examples=["openai"])
    model: str = Field(examples=["gpt-4.1-mini"])
    has_key: bool | MISSING = Field(default=MISSING, examples=[True])
    has_api_base: bool | MISSING = Field(default=MISSING, examples=[False])
    dimensions: int | MISSING = MISSING
    test: ProviderTestInfo | MISSING = MISSING
    fallbacks: list[FallbackInfo] | MISSING = Field(default=MISSING, description="Only for chat providers.")
    updated_at: Second | None = Field(examples=["2026-01-01T12:00:00Z"])

    @classmethod
    def of(cls, chain: Sequence[ProviderEntry]) -> Self:
        """Describes a provider and its fallbacks."""
        first, *rest = chain
        fallbacks = [FallbackInfo(**_entry(entry)) for entry in rest]
        return cls.read(
            first,
            scope="user" if first.user_id else "org",
            fallbacks=fallbacks if first.type is ProviderType.CHAT else MISSING,
            **_entry(first),
        )


def _entry(entry: ProviderEntry) -> dict[str, Any]:
    if entry.ref is None:
        return {"model": entry.model}
    return {
        "provider": entry.ref.provider,
        "model": entry.model,
        "has_key": entry.has_key,
        "has_api_base": entry.has_api_base,
        "dimensions": entry.ref.dimensions or MISSING,
        "test": ProviderTestInfo.of(entry.test),
    }


class ProviderList(ResponseModel):
    """The caller's providers and the organisation's."""

    require_own: bool = Field(
        description="Whether only the organisation's own providers may be used.", examples=[False]
    )
    providers: list[ProviderInfo]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])
