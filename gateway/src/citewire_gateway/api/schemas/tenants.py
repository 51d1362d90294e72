"""What an organisation and its users bring and spend: profiles, providers, usage, budgets."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NotRequired, Self

from citewire.common.v1 import common_pb2
from citewire.retriever.v1 import retriever_pb2
from citewire.retriever.v1.corpus_pb2 import GetStorageResponse
from pydantic import (
    MISSING,
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)
from typing_extensions import TypedDict

from citewire_accounts.tenants.accounts import MAX_LIMIT_USD, Budget, Group, Period, UsageSource, to_usd
from citewire_accounts.tenants.providers import PROVIDER_TYPES, ProviderEntry, ProviderType
from citewire_gateway.api.schemas import Count, JsonObject, RequestModel, ResponseModel, Time
from citewire_gateway.api.schemas.reading import Names, time_text
from citewire_gateway.profiles.model import EventType, Profile
from citewire_gateway.profiles.options import ProfileOptions
from citewire_gateway.profiles.store import StoredProfile
from citewire_kit.enums import enum_text
from citewire_kit.limiter import LimitState
from citewire_kit.plan_limits import WINDOW_SECONDS, LimitScope, Measure
from citewire_kit.tenant import Plan

Usd = Annotated[float, BeforeValidator(to_usd)]
"""An amount, made from nano-USD."""
Second = Annotated[Time, AfterValidator(lambda moment: re.sub(r"\.\d+", "", moment))]
ScopeName = Literal["org", "user"]
BudgetScope = Literal["org", "key"]


class ProfileBody(RequestModel):
    """A tenant's own profile: one of the server's, changed."""

    base: StrictStr = Field(description="A profile of the server's, such as `grounded`.")
    description: Annotated[StrictStr, Field(max_length=500)] = ""
    changes: ProfileOptions = Field(default_factory=ProfileOptions)


class Bounds(ResponseModel):
    """Default and range of a number that a request may choose."""

    default: int = Field(examples=[10])
    minimum: int = Field(examples=[1])
    maximum: int = Field(examples=[50])


class ProfileHistory(ResponseModel):
    """What of a conversation the model gets."""

    tokens: int | None = Field(description="Most tokens; null is all of it.", examples=[4000])
    condense: bool = Field(description="Whether follow-ups are rewritten before searching.", examples=[True])


class ProfileInfo(ResponseModel):
    """A profile: how questions are answered. One of an organisation's own has `version`, `base` and `changes`."""

    parts = ("answer", "search")
    names: ClassVar[Names] = {
        "input_tokens": "budget.input_tokens",
        "rerank_candidates": "rerank.candidates",
        "rerank_keep": "rerank.keep",
        "rerank_seconds": "rerank.seconds",
        "conversations": "persist",
    }

    name: str = Field(examples=["grounded"])
    description: str = Field(examples=["Strictly from the documents, each sentence verified."])
    scope: ScopeName = Field(examples=["org"])
    strategy: str = Field(examples=["semantic"])
    mode: str = Field(examples=["hybrid"])
    top_k: Bounds
    min_score: float | None = Field(examples=[None])
    min_score_calibrated: bool = Field(
        description="Whether the embedding space's own threshold counts instead.", examples=[False]
    )
    types: list[str] = Field(description="Types of documents; empty is all.", examples=[[]])
    empty_selection: str = Field(description="What `document_ids: []` means.", examples=["nothing"])
    on_empty: Literal["model", "sentence"] = Field(
        description="Who answers where nothing was found.", examples=["sentence"]
    )
    context_format: str = Field(examples=["numbered"])
    max_context_chars: int | None = Field(
        description="Most characters of the context, labels and line ends included.", examples=[None]
    )
    marker_style: str = Field(examples=["ref"])
    remove_invalid_markers: bool = Field(
        description="Whether markers whose number isn't a source's are removed.", examples=[False]
    )
    grounding: str = Field(examples=["strict"])
    answer_language: str | None = Field(description="null is the question's.", examples=[None])
    not_found_sentence: str | None = Field(examples=["I could not find this in the documents."])
    ask_back: bool = Field(description="Whether the model asks back what is unclear.", examples=[True])
    instructions: str | None = Field(description="What the model is told beyond our own prompt.", examples=[None])
    history: ProfileHistory | None
    by_document: bool = Field(examples=[False])
    max_per_document: int | None = Field(description="Most chunks of one document.", examples=[None])
    fuse_by_rank: bool = Field(description="Whether `hybrid` fuses by reciprocal rank alone.", examples=[False])
    recent: int = Field(description="How many of the latest documents are added.", examples=[0])
    input_tokens: dict[str, int] | None = Field(description="By tenant plan.", examples=[None])
    rerank_candidates: int | None = Field(examples=[40])
    rerank_keep: int | None = Field(description="Most results after it; null is `top_k`.", examples=[None])
    rerank_seconds: float | None = Field(description="null is what the operator set.", examples=[None])
    hyde: bool = Field(examples=[False])
    derive_filter: bool = Field(examples=[False])
    decide: bool = Field(examples=[False])
    assess: bool = Field(examples=[False])
    judge_relevance: bool = Field(
        description="Whether the model leaves out what has nothing to do with the question.", examples=[False]
    )
    speculate: bool = Field(examples=[False])
    max_completion_tokens: int | None = Field(examples=[None])
    events: list[str] = Field(examples=[["citations", "token", "usage", "done"]])
    optional_events: list[str] = Field(examples=[["assessment"]])
    conversations: str = Field(examples=["always"])
    version: int | MISSING = MISSING
    base: str | MISSING = MISSING
    changes: JsonObject | MISSING = Field(default=MISSING, description="See `ProfileOptions`.")
    created_at: Time | MISSING = MISSING

    @classmethod
    def of(cls, profile: Profile, stored: StoredProfile | None = None) -> Self:
        """Describes a profile; `stored` is what it was made from, if it is an organisation's own."""
        return cls.read(
            profile,
            scope="user" if profile.level == retriever_pb2.SCOPE_LEVEL_USER else "org",
            strategy=enum_text(retriever_pb2.Strategy, profile.strategy),
            on_empty="model" if profile.no_match is None else "sentence",
            by_document=profile.search.group_by == retriever_pb2.GROUP_BY_DOCUMENT,
            events=[event.value for event in EventType if event in profile.events],
            optional_events=[event.value for event in EventType if event in profile.optional_events],
            **({} if stored is None else _origin(stored)),
        )


def _origin(stored: StoredProfile) -> dict[str, Any]:
    return {
        "version": stored.version,
        "base": stored.base,
        "changes": stored.changes.given(),
        "created_at": time_text(stored.created_at),
    }


class ProfileList(ResponseModel):
    """The profiles that a chat may name: the server's, then the organisation's own."""

    profiles: list[ProfileInfo]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


ProviderName = Annotated[StrictStr, Field(min_length=1, max_length=64)]
ModelName = Annotated[StrictStr, Field(max_length=200)]
ApiBase = Annotated[StrictStr, Field(max_length=2048)]
ApiKey = Annotated[SecretStr, Field(max_length=4096)]

_MODEL = Field(default=None, description="The model; absent means the provider's default, where it has one.")
_API_BASE = Field(default=None, description="Base URL; it is normalised to end in `/v1`. Write-only.")
_API_KEY = Field(default=None, description="Write-only: it is sealed at once and never comes back.")


class ProviderFields(RequestModel):
    """What a provider needs beside its name."""

    model: ModelName | None = _MODEL
    api_base: ApiBase | None = _API_BASE
    api_key: ApiKey | None = _API_KEY

    def spec(self, type_: ProviderType, owner: str, *, test: bool) -> common_pb2.ProviderSpec:
        """As the services take it; `owner` is whose it is."""
        return self.to_message(
            common_pb2.ProviderSpec,
            type=PROVIDER_TYPES.to_proto(type_),
            user_id=owner,
            api_key=self.api_key.get_secret_value() if self.api_key else "",
            skip_test=not test,
        )


class FallbackBody(ProviderFields):
    """Who takes over before the first token: a tenant provider, or with `model` alone a model of this server's."""

    provider: ProviderName | None = None


class ProviderBody(ProviderFields):
    """A tenant provider; what was saved before is replaced, its key included."""

    provider: ProviderName = Field(
        description="chat: `anthropic`, `openai`, `ollama`, `openai-compatible`; embedding: `openai`, `ollama`, "
        "`openai-compatible`; rerank: `cohere`, `jina`, `openai-compatible`."
    )
    dimensions: Annotated[StrictInt, Field(ge=1, le=4096)] | None = Field(
        default=None, description="Length of an embedding model's vectors, where it can be chosen."
    )
    fallbacks: Annotated[list[FallbackBody], Field(max_length=4)] = Field(
        default_factory=list[FallbackBody], description="Who takes over, in this order; of chat providers only."
    )
    test: StrictBool = Field(default=True, description="Makes one small call to the provider and reports how it went.")


class ProviderRulesBody(RequestModel):
    """What an organisation demands of providers."""

    require_own: StrictBool = Field(description="Whether the operator's providers may not be used.", examples=[True])


class ProviderTestInfo(ResponseModel):
    """How the test call went when the provider was saved."""

    tried: bool = Field(examples=[True])
    ok: bool | MISSING = Field(default=MISSING, examples=[True])
    text: str | MISSING = Field(default=MISSING, examples=["The provider answered."])
    reason: str | MISSING = MISSING
    status: int | MISSING = Field(default=MISSING, description="The provider's HTTP status.", examples=[200])
    dimensions: int | MISSING = MISSING

    @classmethod
    def of(cls, test: common_pb2.ProviderTest | None) -> Self:
        """What isn't known is left out."""
        if test is None or not test.tried:
            return cls(tried=False)
        return cls.read(test, ok=test.ok, text=test.text)


class FallbackInfo(ResponseModel):
    """Who takes over: a tenant provider, or with `model` alone a model of this server's."""

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
    name: str = Field(description="What it is saved as.", examples=["default"])
    active: bool = Field(description="Whether it counts, of all that are saved for the type.", examples=[True])
    provider: str | MISSING = Field(default=MISSING, examples=["openai"])
    model: str = Field(examples=["gpt-4.1-mini"])
    has_key: bool | MISSING = Field(default=MISSING, examples=[True])
    has_api_base: bool | MISSING = Field(default=MISSING, examples=[False])
    dimensions: int | MISSING = MISSING
    test: ProviderTestInfo | MISSING = MISSING
    fallbacks: list[FallbackInfo] | MISSING = Field(default=MISSING, description="Of chat providers only.")
    updated_at: Second | None = Field(examples=["2026-01-01T12:00:00Z"])

    @classmethod
    def of(cls, chain: Sequence[ProviderEntry]) -> Self:
        """Describes a provider and who takes over from it."""
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

    require_own: bool = Field(description="Whether the operator's providers may not be used.", examples=[False])
    providers: list[ProviderInfo]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


class LimitInfo(ResponseModel):
    """A limit of the caller's plan as it stands."""

    name: str = Field(description="Measure and scope, as errors and headers name it.", examples=["requests-user"])
    measure: Measure
    scope: LimitScope = Field(description="Whose: the API key's, the user's or the organisation's.")
    limit: int = Field(examples=[600])
    used: int = Field(examples=[12])
    window_seconds: int | MISSING = Field(default=MISSING, description="In which time; absent: at every moment.")
    resets_in_seconds: int | MISSING = Field(default=MISSING, description="Until the window ends.")

    @classmethod
    def of(cls, state: LimitState) -> Self:
        """Describes a limit."""
        seconds = WINDOW_SECONDS.get(state.measure)
        windowed = {"window_seconds": seconds, "resets_in_seconds": state.seconds_left} if seconds else {}
        return cls(
            name=state.name, measure=state.measure, scope=state.scope, limit=state.limit, used=state.used, **windowed
        )

    @classmethod
    def of_storage(cls, storage: GetStorageResponse) -> list[Self]:
        """Describes the limits on what is stored."""
        scopes = {
            LimitScope.USER: ("user_limit_bytes", storage.user_bytes),
            LimitScope.ORG: ("org_limit_bytes", storage.org_bytes),
        }
        measure = Measure.STORED_BYTES
        return [
            cls(name=f"{measure}-{scope}", measure=measure, scope=scope, limit=getattr(storage, limit), used=used)
            for scope, (limit, used) in scopes.items()
            if storage.HasField(limit)
        ]


class LimitReport(ResponseModel):
    """The caller's limits; none where there is no authentication."""

    plan: Plan
    limits: list[LimitInfo]
    unknown: list[Measure] = Field(description="What can't be said at the moment.", examples=[[]])


class BudgetBody(RequestModel):
    """What may be spent in a period; UTC."""

    scope: BudgetScope = Field(default="org", description="The organisation's, or an API key's.")
    key_id: Annotated[StrictStr, Field(max_length=128)] | None = Field(default=None, description="The key, for `key`.")
    period: Period
    limit_usd: Annotated[StrictInt | StrictFloat, Field(ge=0, le=MAX_LIMIT_USD)] = Field(
        description="USD; 0 lets nothing through that costs anything."
    )


class BudgetInfo(ResponseModel):
    """A budget as it is now."""

    names: ClassVar[Names] = {"limit_usd": "limit_nano", "spent_usd": "spent_nano", "reserved_usd": "reserved_nano"}

    scope: BudgetScope = Field(examples=["org"])
    key_id: str | MISSING = Field(default=MISSING, description="The API key's id, of scope `key`.")
    period: Period = Field(examples=["month"])
    limit_usd: Usd = Field(examples=[50.0])
    spent_usd: Usd = Field(description="Settled in this period.", examples=[12.4])
    reserved_usd: Usd = Field(description="What open calls may cost at most.", examples=[0.03])
    left_usd: Usd = Field(examples=[37.57])
    period_start: Second = Field(examples=["2026-11-01T00:00:00Z"])
    resets_at: Second = Field(examples=["2026-12-01T00:00:00Z"])
    updated_by: str = Field(examples=["ada"])
    updated_at: Second = Field(examples=["2026-11-21T08:00:00Z"])

    @classmethod
    def of(cls, budget: Budget) -> Self:
        """Amounts in USD."""
        return cls.read(budget, scope="key" if budget.key_id else "org", left_usd=max(0, budget.left_nano))


class BudgetList(ResponseModel):
    """The budgets, the organisation's first."""

    budgets: list[BudgetInfo]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


class UsageFigures(TypedDict):
    """What calls, or chats, have spent. A dictionary: its figures are those of the source that was asked for."""

    calls: NotRequired[Count]
    open_calls: NotRequired[Count]
    estimated_calls: NotRequired[Count]
    unpriced_calls: NotRequired[Count]
    input_tokens: NotRequired[Count]
    cached_input_tokens: NotRequired[Count]
    output_tokens: NotRequired[Count]
    exchanges: NotRequired[Count]
    running_exchanges: NotRequired[Count]
    unfinished_exchanges: NotRequired[Count]
    estimated_exchanges: NotRequired[Count]
    embedding_tokens: Annotated[Count, Field(examples=[0])]
    prompt_tokens: Annotated[Count, Field(examples=[58214])]
    completion_tokens: Annotated[Count, Field(examples=[6120])]
    cost_usd: Annotated[float, Field(examples=[0.211146])]
    own_cost_usd: Annotated[float, Field(examples=[0.0])]


class UsageRow(UsageFigures):
    """One group: what it was divided by, in the order asked for, then its figures."""

    org: NotRequired[str | None]
    user: NotRequired[str | None]
    key: NotRequired[Annotated[str | None, Field(examples=["key_5f0c2a6b7e119d3e"])]]
    day: NotRequired[Annotated[str | None, Field(examples=["2026-11-21"])]]
    provider: NotRequired[Annotated[str | None, Field(examples=["anthropic"])]]
    model: NotRequired[Annotated[str | None, Field(examples=["claude-sonnet-5"])]]
    profile: NotRequired[str | None]
    purpose: NotRequired[str | None]


class UsageReport(ResponseModel):
    """What was spent, by group, and in all."""

    from_: Time = Field(alias="from", examples=["2026-11-01T00:00:00Z"])
    to: Time = Field(examples=["2026-12-01T00:00:00Z"])
    scope: ScopeName = Field(description="Members other than owners and admins see their own.", examples=["org"])
    source: UsageSource = Field(examples=["calls"])
    group_by: list[Group] = Field(examples=[["day", "model"]])
    rows: list[UsageRow]
    total: UsageFigures
