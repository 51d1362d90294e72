"""Usage, budgets and limits of an organisation and its users."""

from typing import Annotated, ClassVar, Literal, NotRequired, Self

from citewire.retriever.v1.corpus_pb2 import GetStorageResponse
from pydantic import (
    MISSING,
    BeforeValidator,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
)
from typing_extensions import TypedDict

from citewire_accounts.api.schemas import ScopeName
from citewire_accounts.tenants.accounts import MAX_LIMIT_USD, Budget, Group, Period, UsageSource, to_usd
from citewire_http.api.reading import Names
from citewire_http.api.schemas import Count, RequestModel, ResponseModel, Second, Time
from citewire_kit.limiter import LimitState
from citewire_kit.plan_limits import WINDOW_SECONDS, LimitScope, Measure
from citewire_kit.tenant import Plan

Usd = Annotated[float, BeforeValidator(to_usd)]
"""An amount, converted from nano-USD."""
BudgetScope = Literal["org", "user", "key"]


class LimitInfo(ResponseModel):
    """A limit of the caller's plan with its current usage."""

    name: str = Field(description="Measure and scope, as in errors and headers.", examples=["requests-user"])
    measure: Measure
    scope: LimitScope = Field(description="The scope: API key, user or organisation.")
    limit: int = Field(examples=[600])
    used: int = Field(examples=[12])
    window_seconds: int | MISSING = Field(
        default=MISSING, description="The period; absent: the limit applies at any time."
    )
    resets_in_seconds: int | MISSING = Field(default=MISSING, description="Seconds until the window ends.")

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
        """Describes the limits on stored data."""
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
    """The caller's limits; none if authentication is off."""

    plan: Plan
    limits: list[LimitInfo]
    unknown: list[Measure] = Field(description="Values that are currently unavailable.", examples=[[]])


class BudgetBody(RequestModel):
    """A spending limit for a period, in UTC."""

    scope: BudgetScope = Field(default="org", description="The scope: organisation, user or API key.")
    user: Annotated[StrictStr, Field(max_length=128)] | None = Field(default=None, description="Whose, for `user`.")
    key_id: Annotated[StrictStr, Field(max_length=128)] | None = Field(
        default=None, description="The API key's id, for `key`."
    )
    period: Period
    limit_usd: Annotated[StrictInt | StrictFloat, Field(ge=0, le=MAX_LIMIT_USD)] = Field(
        description="In USD; 0 blocks every call that costs anything."
    )


class BudgetInfo(ResponseModel):
    """A budget with its current state."""

    names: ClassVar[Names] = {
        "user": "user_id",
        "limit_usd": "limit_nano",
        "spent_usd": "spent_nano",
        "reserved_usd": "reserved_nano",
    }

    scope: BudgetScope = Field(examples=["org"])
    key_id: str | MISSING = Field(default=MISSING, description="The API key's id, for scope `key`.")
    user: str | MISSING = Field(default=MISSING, description="The user, for scope `user`.")
    period: Period = Field(examples=["month"])
    limit_usd: Usd = Field(examples=[50.0])
    spent_usd: Usd = Field(description="The amount settled in this period.", examples=[12.4])
    reserved_usd: Usd = Field(description="Maximum cost of open calls.", examples=[0.03])
    left_usd: Usd = Field(examples=[37.57])
    period_start: Second = Field(examples=["2026-11-01T00:00:00Z"])
    resets_at: Second = Field(examples=["2026-12-01T00:00:00Z"])
    updated_by: str = Field(examples=["ada"])
    updated_at: Second = Field(examples=["2026-11-21T08:00:00Z"])

    @classmethod
    def of(cls, budget: Budget) -> Self:
        """Amounts in USD."""
        scope = "key" if budget.key_id else "user" if budget.user_id else "org"
        return cls.read(budget, scope=scope, left_usd=max(0, budget.left_nano))


class BudgetList(ResponseModel):
    """The budgets, starting with the organisation's."""

    budgets: list[BudgetInfo]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


class UsageFigures(TypedDict):
    """Usage of calls or chats: a dictionary with the figures of the requested source."""

    calls: NotRequired[Count]
    open_calls: NotRequired[Count]
    estimated_calls: NotRequired[Count]
    unpriced_calls: NotRequired[Count]
    input_tokens: NotRequired[Count]
    cached_input_tokens: NotRequired[Count]
    cache_write_tokens: NotRequired[Count]
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
    """One group: its keys in the requested order, then its figures."""

    org: NotRequired[str | None]
    user: NotRequired[str | None]
    key: NotRequired[Annotated[str | None, Field(examples=["key_5f0c2a6b7e119d3e"])]]
    day: NotRequired[Annotated[str | None, Field(examples=["2026-11-21"])]]
    provider: NotRequired[Annotated[str | None, Field(examples=["anthropic"])]]
    model: NotRequired[Annotated[str | None, Field(examples=["claude-sonnet-5"])]]
    profile: NotRequired[str | None]
    purpose: NotRequired[str | None]


class UsageReport(ResponseModel):
    """Usage by group, and its total."""

    from_: Time = Field(alias="from", examples=["2026-11-01T00:00:00Z"])
    to: Time = Field(examples=["2026-12-01T00:00:00Z"])
    scope: ScopeName = Field(description="Members other than owners and admins see only their own.", examples=["org"])
    source: UsageSource = Field(examples=["calls"])
    group_by: list[Group] = Field(examples=[["day", "model"]])
    rows: list[UsageRow]
    total: UsageFigures
