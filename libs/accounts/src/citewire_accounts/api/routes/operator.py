"""`/v1/operator`: operators of the installation manage organisations without access to their content."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import JSONResponse

from citewire_accounts.api.dependencies import AccountsDep
from citewire_accounts.api.operators import OperatorDep, authenticate_operator
from citewire_accounts.api.routes.accounting import From, To, read_groups, read_span, shown
from citewire_accounts.api.routes.admin import ActionName, ObjectName, read_events
from citewire_accounts.api.routes.admin import From as AuditFrom
from citewire_accounts.api.routes.admin import To as AuditTo
from citewire_accounts.api.routes.erasures import Erasure, erasure_json
from citewire_accounts.api.schemas.admin import AuditPage
from citewire_accounts.api.schemas.limits import MeasureName, OwnLimitInfo
from citewire_accounts.api.schemas.operator import (
    AuditDaysBody,
    OperatedOrganisation,
    OperatedOrganisationList,
    OperatorUsage,
    OrganisationBody,
    OrganisationLimitBody,
    OrganisationLimits,
    PlanBody,
    Plans,
)
from citewire_accounts.tenants.accounts import Group, UsageQuery, UsageSource
from citewire_accounts.tenants.members import Organisation
from citewire_http.api.openapi import deleted, problems
from citewire_http.api.pages import PagesDep, read_token, write_token
from citewire_http.api.parameters import Clean, PageSize, PageToken
from citewire_http.api.reading import time_text
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.audit import concern, touch
from citewire_kit.audit_events import OPERATOR, OPERATORS
from citewire_kit.errors import NotFound, invalid_field
from citewire_kit.plan_limits import LimitScope, Measure
from citewire_kit.tenant import Tenant, is_token

router = APIRouter(route_class=CancellingRoute, tags=["operator"], dependencies=[Depends(authenticate_operator)])

_ORGANISATION = "/v1/operator/organisations/{organisation}"
_EVENTS = 1000
_USAGE_PAGE = 100  # organisations; the ledger adds up each separately
_OPEN_GROUPS = {Group.DAY, Group.MODEL, Group.PURPOSE}

Divided = Annotated[
    str,
    Query(
        alias="group_by",
        max_length=100,
        description="The columns to group an organisation's rows by: any of `day`, `model`, `purpose`, separated by "
        "commas; empty gives one row. Users, keys and profiles are visible only to the organisation.",
    ),
]
OfOrganisation = Annotated[str | None, Query(max_length=128, description="Only this organisation."), Clean]


async def _find(organisation: str, services: AccountsDep) -> Organisation:
    """Finds the organisation in the path.

    Raises:
        NotFound: Reason `ORGANISATION_NOT_FOUND`.
    """
    return await services.members.organisation(organisation)


OrganisationDep = Annotated[Organisation, Depends(_find)]


@router.get("/v1/operator/organisations", summary="List organisations")
async def list_organisations(operator: OperatorDep, services: AccountsDep, pages: PagesDep) -> OperatedOrganisationList:
    """Returns organisations by their ids; `q` searches those."""
    after = read_token(pages.token, pages.q)
    organisations = await services.operators.organisations(operator, _first(after), pages.q, pages.size + 1)
    page = organisations[: pages.size]
    token = write_token(pages.q, (page[-1].org_id,)) if len(organisations) > len(page) else ""
    return OperatedOrganisationList(organisations=[OperatedOrganisation.of(org) for org in page], next_page_token=token)


@router.post("/v1/operator/organisations", summary="Create an organisation", status_code=201, responses=problems(409))
async def create_organisation(
    services: AccountsDep, response: Response, body: Annotated[OrganisationBody, Depends(JsonBody(OrganisationBody))]
) -> OperatedOrganisation:
    """Creates an organisation, optionally with its owner.

    The owner signs in at the identity provider. Without one, create the first API key with
    `citewire keys create`, which needs the database: an operator can't create members' keys.
    """
    touch(f"organisation:{body.id}", f"plan:{body.plan}", *([f"user:{body.owner}"] if body.owner else ()))
    organisation = await services.members.create_organisation(body.id, body.plan, body.owner)
    concern(body.id)
    response.headers["Location"] = f"/v1/operator/organisations/{body.id}"
    return OperatedOrganisation.of(organisation)


@router.get(_ORGANISATION, summary="Show an organisation", responses=problems(404))
async def get_any_organisation(organisation: OrganisationDep) -> OperatedOrganisation:
    """Returns an organisation with its plan and its number of users and keys."""
    return OperatedOrganisation.of(organisation)


@router.put(f"{_ORGANISATION}/plan", summary="Change an organisation's plan", responses=problems(404))
async def put_plan(
    organisation: OrganisationDep, services: AccountsDep, body: Annotated[PlanBody, Depends(JsonBody(PlanBody))]
) -> OperatedOrganisation:
    """Changes an organisation's plan, effective from its next request."""
    touch(f"plan:{body.plan}")
    concern(organisation.org_id)
    return OperatedOrganisation.of(await services.members.set_plan(organisation.org_id, body.plan))


@router.put(f"{_ORGANISATION}/audit-days", summary="Change the retention of an audit trail", responses=problems(404))
async def put_audit_days(
    organisation: OrganisationDep,
    services: AccountsDep,
    body: Annotated[AuditDaysBody, Depends(JsonBody(AuditDaysBody))],
) -> OperatedOrganisation:
    """Sets how many days an organisation's audit trail is kept."""
    touch(f"days:{body.days}")
    concern(organisation.org_id)
    return OperatedOrganisation.of(await services.members.set_audit_days(organisation.org_id, body.days))


@router.post(f"{_ORGANISATION}:suspend", summary="Suspend an organisation", responses=problems(404))
async def suspend_organisation(organisation: OrganisationDep, services: AccountsDep) -> OperatedOrganisation:
    """Suspends an organisation. Keys and sessions fail from the next request, tokens within 30 seconds.

    Its data stays, and running ingest continues. Its members get `ORGANISATION_SUSPENDED`.
    """
    concern(organisation.org_id)
    return OperatedOrganisation.of(await services.members.set_suspended(organisation.org_id, suspended=True))


@router.post(f"{_ORGANISATION}:resume", summary="Resume an organisation", responses=problems(404))
async def resume_organisation(organisation: OrganisationDep, services: AccountsDep) -> OperatedOrganisation:
    """Resumes a suspended organisation."""
    concern(organisation.org_id)
    return OperatedOrganisation.of(await services.members.set_suspended(organisation.org_id, suspended=False))


@router.delete(_ORGANISATION, summary="Erase an organisation", status_code=202, responses=problems(404))
async def erase_organisation(organisation: OrganisationDep, services: AccountsDep) -> Erasure:
    """Starts the permanent erasure of an organisation with all its data, in the background."""
    concern(organisation.org_id)
    return erasure_json(await services.erasures.ask(_owner_of(organisation.org_id), "", "delete"))


@router.get(
    f"{_ORGANISATION}/erasure", summary="Show the progress of an organisation's erasure", responses=problems(404)
)
async def get_organisation_erasure(organisation: str, services: AccountsDep) -> Erasure:
    """Returns a running erasure of an organisation; afterwards nothing is left of it."""
    running = await services.erasures.page(_owner_of(organisation)) if is_token(organisation) else []
    for erasure in running:
        if erasure.subject_kind == "organisation":
            return erasure_json(erasure)
    raise NotFound("no erasure of this organisation is running", reason="ERASURE_NOT_FOUND")


@router.get(f"{_ORGANISATION}/limits", summary="List an organisation's limits", responses=problems(404))
async def list_organisation_limits(organisation: OrganisationDep, services: AccountsDep) -> OrganisationLimits:
    """Returns the limits that override an organisation's plan, without those of its users and keys."""
    limits = await services.own_limits.limits(organisation.org_id)
    return OrganisationLimits(limits=[OwnLimitInfo.of(limit) for limit in limits if limit.scope is LimitScope.ORG])


@router.put(f"{_ORGANISATION}/limits/{{measure}}", summary="Limit an organisation", responses=problems(404))
async def put_organisation_limit(
    organisation: OrganisationDep,
    measure: MeasureName,
    services: AccountsDep,
    body: Annotated[OrganisationLimitBody, Depends(JsonBody(OrganisationLimitBody))],
) -> OwnLimitInfo:
    """Overrides a plan's limit for an organisation, within 30 seconds on every gateway."""
    concern(organisation.org_id)
    limit = await services.own_limits.put(
        organisation.org_id, LimitScope.ORG, "", Measure(measure), body.limit, by=OPERATOR
    )
    return OwnLimitInfo.of(limit)


@router.delete(f"{_ORGANISATION}/limits/{{measure}}", summary="Delete a limit of an organisation", **deleted(404))
async def delete_organisation_limit(organisation: OrganisationDep, measure: MeasureName, services: AccountsDep) -> None:
    """Deletes a limit; the plan's applies again within 30 seconds on every gateway."""
    concern(organisation.org_id)
    await services.own_limits.delete(organisation.org_id, LimitScope.ORG, "", Measure(measure))


@router.get("/v1/operator/plans", summary="List plans")
async def list_plans(services: AccountsDep) -> Plans:
    """Returns the plans with their limits, from the server's settings (`CITEWIRE_PLAN_LIMITS`)."""
    return Plans.of(services.plan_limits)


@router.get(
    "/v1/operator/usage",
    summary="Show usage of organisations",
    response_model=OperatorUsage,
    responses=problems(404, 409),
)
async def get_organisations_usage(
    operator: OperatorDep,
    services: AccountsDep,
    from_: From = None,
    to: To = None,
    group_by: Divided = "",
    organisation: OfOrganisation = None,
    page_size: PageSize = None,
    page_token: PageToken = None,
) -> JSONResponse:
    """Adds up the spending of organisations on provider calls, in pages of at most 100 organisations."""
    start, end = read_span(from_, to, datetime.now(UTC))
    groups = read_groups(group_by, UsageSource.CALLS)
    if not _OPEN_GROUPS.issuperset(groups):
        raise invalid_field("group_by", "must contain only day, model and purpose")
    size, token = min(page_size or _USAGE_PAGE, _USAGE_PAGE), ""
    if organisation is not None:
        names = [(await services.members.organisation(organisation)).org_id]
    else:
        after = _first(read_token(page_token or "", ""))
        names = [org.org_id for org in await services.operators.organisations(operator, after, "", size + 1)]
        token = write_token("", (names[size - 1],)) if len(names) > size else ""
    query, rows = UsageQuery(start, end, (Group.ORG, *groups)), list[dict[str, Any]]()
    for name in names[:size]:
        rows += [shown(row) for row in (await services.accounts.usage(_owner_of(name), query)).rows]
    report = OperatorUsage.model_construct(  # the ledger's own figures, in the order of the requested groups
        from_=time_text(start), to=time_text(end), group_by=list(query.group_by), rows=rows, next_page_token=token
    )
    return JSONResponse(report.members())


@router.get("/v1/operator/audit", summary="Read the operators' audit trail")
async def list_operator_events(
    services: AccountsDep,
    from_: AuditFrom = None,
    to: AuditTo = None,
    action: ActionName = None,
    object_name: ObjectName = None,
    page_size: PageSize = None,
    page_token: PageToken = None,
) -> AuditPage:
    """Returns the operators' actions and attempts, oldest first, about a second after they ended.

    Actions on an organisation are in its own trail too.
    """
    filters = (from_, to, None, action, object_name)
    return await read_events(services.audit, _owner_of(OPERATORS), filters, page_size or _EVENTS, page_token or "")


def _first(key: tuple[str, ...]) -> str:
    return key[0] if key else ""


def _owner_of(organisation: str) -> Tenant:
    """The tenant whose accounts are meant; it is only for stores and never leaves this process."""
    return Tenant(organisation, OPERATOR, "free", ("owner",))
