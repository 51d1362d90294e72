"""Bodies for the limits that an organisation sets for its users and keys."""

from typing import Annotated, Literal, Self

from pydantic import MISSING, Field, StrictInt, StrictStr

from citewire_accounts.tenants.limits import Limit
from citewire_http.api.reading import time_text
from citewire_http.api.schemas import RequestModel, ResponseModel, Time
from citewire_kit.plan_limits import LimitScope

MeasureName = Literal["requests", "tokens", "streams", "uploads", "upload-bytes"]
OwnScope = Literal["user", "key"]


class LimitBody(RequestModel):
    """A limit of a user or an API key."""

    scope: OwnScope
    user: Annotated[StrictStr, Field(max_length=128)] | None = Field(default=None, description="Whose, for `user`.")
    key_id: Annotated[StrictStr, Field(max_length=128)] | None = Field(
        default=None, description="The API key's id, for `key`."
    )
    measure: MeasureName
    limit: Annotated[StrictInt, Field(ge=0, lt=2**53)] = Field(
        description="The limit; a lower limit of the plan takes precedence. 0 blocks everything.", examples=[100]
    )


class OwnLimitInfo(ResponseModel):
    """A limit that overrides the plan's."""

    scope: LimitScope = Field(description="The scope; `org` is set by the operator.", examples=["user"])
    user: str | MISSING = Field(default=MISSING, description="The user, for scope `user`.")
    key_id: str | MISSING = Field(default=MISSING, description="The API key's id, for scope `key`.")
    measure: MeasureName
    limit: int = Field(examples=[100])
    updated_by: str = Field(examples=["ada"])
    updated_at: Time = Field(examples=["2026-01-15T09:31:02Z"])

    @classmethod
    def of(cls, limit: Limit) -> Self:
        """Describes a limit."""
        subject = {LimitScope.USER: "user", LimitScope.KEY: "key_id"}.get(limit.scope)
        return cls.model_validate(
            {
                "scope": limit.scope,
                **({subject: limit.subject} if subject else {}),
                "measure": limit.measure.value,
                "limit": limit.most,
                "updated_by": limit.updated_by,
                "updated_at": time_text(limit.updated_at),
            }
        )


class OwnLimitList(ResponseModel):
    """A page of limits, ending with the organisation's."""

    limits: list[OwnLimitInfo]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])
