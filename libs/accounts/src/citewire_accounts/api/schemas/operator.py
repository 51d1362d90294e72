"""The JSON of what operators see and change."""

from typing import Annotated, Self

from pydantic import Field, StrictInt, StrictStr

from citewire_accounts.api.schemas.accounting import UsageRow
from citewire_accounts.api.schemas.admin import OrganisationInfo, PlanName
from citewire_accounts.api.schemas.limits import OwnLimitInfo
from citewire_accounts.tenants.accounts import Group
from citewire_accounts.tenants.members import Organisation
from citewire_http.api.reading import time_text
from citewire_http.api.schemas import RequestModel, ResponseModel, Time
from citewire_kit.plan_limits import LimitScope, Measure, PlanLimits

Name = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_.:@-]{1,128}$")]


class OrganisationBody(RequestModel):
    """An organisation to be made."""

    id: Name = Field(description="1-128 characters of A-Z a-z 0-9 _ . : @ -; it stays.", examples=["acme"])
    plan: PlanName = Field(default="pro", description="What it pays for.")
    owner: Name | None = Field(
        default=None,
        description="A user who owns it, as the identity provider will name the user; absent: the first that is made.",
        examples=["ada"],
    )


class OperatedOrganisation(OrganisationInfo):
    """An organisation, as operators see it: nothing of its members or of what it stores."""

    suspended_at: Time | None = Field(description="null: its members may call.", examples=[None])
    audit_days: int | None = Field(
        description="For how long its audit trail is kept; null: for as long as the server keeps any.", examples=[None]
    )

    @classmethod
    def of(cls, org: Organisation) -> Self:
        """Returns an organisation as it is shown."""
        since = None if org.suspended_at is None else time_text(org.suspended_at)
        shown = OrganisationInfo.of(org).model_dump()
        return cls.model_validate({**shown, "suspended_at": since, "audit_days": org.audit_days})


class OperatedOrganisationList(ResponseModel):
    """A page of organisations, by their ids."""

    organisations: list[OperatedOrganisation]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


class PlanBody(RequestModel):
    """An organisation's new plan."""

    plan: PlanName = Field(examples=["basic"])


class AuditDaysBody(RequestModel):
    """For how long an organisation's audit trail is kept."""

    days: Annotated[StrictInt, Field(ge=30, le=36_500)] = Field(examples=[400])


class OrganisationLimitBody(RequestModel):
    """A limit of an organisation's, in place of its plan's."""

    limit: Annotated[StrictInt, Field(ge=0, lt=2**53)] = Field(
        description="The limit; may exceed the plan's. 0 lets nothing through.", examples=[100_000]
    )


class OrganisationLimits(ResponseModel):
    """An organisation's limits in place of its plan's, by measure."""

    limits: list[OwnLimitInfo]


class PlanLimit(ResponseModel):
    """What a plan allows of something."""

    measure: Measure = Field(examples=["requests"])
    scope: LimitScope = Field(description="Of an API key, a user or the organisation.", examples=["org"])
    limit: int = Field(examples=[60_000])


class PlanInfo(ResponseModel):
    """A plan with its limits; what isn't among them has none."""

    plan: PlanName = Field(examples=["pro"])
    limits: list[PlanLimit]


class Plans(ResponseModel):
    """All plans."""

    plans: list[PlanInfo]

    @classmethod
    def of(cls, plans: PlanLimits) -> Self:
        """Returns plans as they are shown."""
        return cls(
            plans=[
                PlanInfo(
                    plan=plan,
                    limits=[
                        PlanLimit(measure=measure, scope=scope, limit=most)
                        for measure, scopes in measures.items()
                        for scope, most in scopes.items()
                    ],
                )
                for plan, measures in plans.items()
            ]
        )


class OperatorUsage(ResponseModel):
    """What organisations spent on calls to providers: a page, by their ids."""

    from_: Time = Field(alias="from", examples=["2026-11-01T00:00:00Z"])
    to: Time = Field(examples=["2026-12-01T00:00:00Z"])
    group_by: list[Group] = Field(examples=[["org", "day"]])
    rows: list[UsageRow] = Field(description="None of an organisation that used nothing.")
    next_page_token: str = Field(description='"" on the last page.', examples=[""])
