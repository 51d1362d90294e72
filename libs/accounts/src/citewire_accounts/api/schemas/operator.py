"""The bodies of the operators' routes."""

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
    """A new organisation."""

    id: Name = Field(description="1-128 characters of A-Z a-z 0-9 _ . : @ -; it can't be changed.", examples=["acme"])
    plan: PlanName = Field(default="pro", description="The organisation's plan.")
    owner: Name | None = Field(
        default=None,
        description="The first owner, by the name at the identity provider; absent: the first user created.",
        examples=["ada"],
    )


class OperatedOrganisation(OrganisationInfo):
    """An organisation, as operators see it: without its members or content."""

    suspended_at: Time | None = Field(description="null: it isn't suspended.", examples=[None])
    audit_days: int | None = Field(
        description="Retention of its audit trail; null: the server's default.", examples=[None]
    )

    @classmethod
    def of(cls, org: Organisation) -> Self:
        """Converts an organisation to JSON."""
        since = None if org.suspended_at is None else time_text(org.suspended_at)
        shown = OrganisationInfo.of(org).model_dump()
        return cls.model_validate({**shown, "suspended_at": since, "audit_days": org.audit_days})


class OperatedOrganisationList(ResponseModel):
    """A page of organisations, sorted by id."""

    organisations: list[OperatedOrganisation]
    next_page_token: str = Field(description='"" on the last page.', examples=[""])


class PlanBody(RequestModel):
    """An organisation's new plan."""

    plan: PlanName = Field(examples=["basic"])


class AuditDaysBody(RequestModel):
    """Retention of an organisation's audit trail."""

    days: Annotated[StrictInt, Field(ge=30, le=36_500)] = Field(examples=[400])


class OrganisationLimitBody(RequestModel):
    """An organisation's limit that overrides its plan's."""

    limit: Annotated[StrictInt, Field(ge=0, lt=2**53)] = Field(
        description="The limit; may exceed the plan's. 0 blocks everything.", examples=[100_000]
    )


class OrganisationLimits(ResponseModel):
    """An organisation's limits in place of its plan's, by measure."""

    limits: list[OwnLimitInfo]


class PlanLimit(ResponseModel):
    """A plan's limit."""

    measure: Measure = Field(examples=["requests"])
    scope: LimitScope = Field(description="The scope: API key, user or organisation.", examples=["org"])
    limit: int = Field(examples=[60_000])


class PlanInfo(ResponseModel):
    """A plan with its limits; anything not listed is unlimited."""

    plan: PlanName = Field(examples=["pro"])
    limits: list[PlanLimit]


class Plans(ResponseModel):
    """All plans."""

    plans: list[PlanInfo]

    @classmethod
    def of(cls, plans: PlanLimits) -> Self:
        """Converts plans to JSON."""
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
    """A page of organisations' spending on provider calls, by id."""

    from_: Time = Field(alias="from", examples=["2026-11-01T00:00:00Z"])
    to: Time = Field(examples=["2026-12-01T00:00:00Z"])
    group_by: list[Group] = Field(examples=[["org", "day"]])
    rows: list[UsageRow] = Field(description="Organisations without usage have none.")
    next_page_token: str = Field(description='"" on the last page.', examples=[""])
