"""`/v1/usage`: spending, as JSON or CSV; `/v1/budgets`: spending limits per day or month; `/v1/limits`."""

import csv
import io
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse, Response

from citewire_accounts.api.dependencies import (
    AccountsDep,
    AccountServices,
    TenantDep,
    authenticate,
    is_admin,
    require_admin,
)
from citewire_accounts.api.owners import check_owner
from citewire_accounts.api.schemas.accounting import (
    BudgetBody,
    BudgetInfo,
    BudgetList,
    BudgetScope,
    LimitInfo,
    LimitReport,
    UsageReport,
)
from citewire_accounts.tenants.accounts import (
    BudgetOwner,
    Group,
    Period,
    Usage,
    UsageQuery,
    UsageSource,
    group_columns,
    to_nano,
    to_usd,
)
from citewire_http.api.openapi import deleted, problems
from citewire_http.api.pages import PagesDep
from citewire_http.api.parameters import Clean
from citewire_http.api.reading import time_text
from citewire_http.api.times import read_moment
from citewire_http.bodies import JsonBody
from citewire_http.departures import CancellingRoute
from citewire_kit.audit import touch
from citewire_kit.errors import DeadlineExceeded, Unavailable, Violations, invalid_field
from citewire_kit.plan_limits import Measure
from citewire_kit.tenant import Tenant

router = APIRouter(route_class=CancellingRoute, tags=["accounting"], dependencies=[Depends(authenticate)])

DEFAULT_DAYS = 30
MAX_DAYS = 732

_DAY = timedelta(days=1)
_CSV = "text/csv"

From = Annotated[
    str | None,
    Query(alias="from", max_length=40, description="A day (UTC) or a time (RFC 3339); absent: 29 days before today."),
]
To = Annotated[
    str | None,
    Query(max_length=40, description="A day (inclusive) or a time (exclusive); absent: the end of today."),
]
GroupBy = Annotated[
    str,
    Query(
        max_length=100,
        description="The columns to group by: any of `org`, `user`, `key`, `day`, `model`, `profile`, `purpose`, "
        "separated by commas; empty gives one row.",
    ),
]
SourceName = Annotated[
    UsageSource,
    Query(
        description="`calls`: calls to providers, for every purpose. `exchanges`: chats, including the tokens of "
        "models that run in the services' processes; they have no purpose and no key."
    ),
]
Format = Annotated[
    Literal["json", "csv"] | None,
    Query(description="Absent: the format that `Accept` prefers, or JSON if it has no preference."),
]

OfUser = Annotated[
    str | None,
    Query(min_length=1, max_length=128, description="Only the usage or limits of this user. For owners and admins."),
    Clean,
]
OfKey = Annotated[
    str | None, Query(min_length=1, max_length=128, description="Only the calls of this API key, by its id."), Clean
]
OfAnyKey = Annotated[
    str | None,
    Query(
        alias="key_id",
        min_length=1,
        max_length=128,
        description="The limits of this API key, by its id. For owners and admins.",
    ),
    Clean,
]
OfScope = Annotated[
    BudgetScope, Query(description="`org`: the organisation's budget. `user`: a user's. `key`: an API key's.")
]
KeyId = Annotated[str | None, Query(max_length=128, description="The API key's id, for `key`."), Clean]
UserId = Annotated[str | None, Query(alias="user", max_length=128, description="The user, for `user`."), Clean]
OfPeriod = Annotated[Period, Query(description="The budget's period, day or month, in UTC.")]


@router.get(
    "/v1/usage",
    summary="Show usage",
    response_model=UsageReport,
    responses={200: {"content": {_CSV: {"schema": {"type": "string"}}}}, **problems(403, 409)},
)
async def get_usage(
    request: Request,
    tenant: TenantDep,
    services: AccountsDep,
    from_: From = None,
    to: To = None,
    group_by: GroupBy = "day,model",
    user: OfUser = None,
    key_id: OfKey = None,
    source: SourceName = UsageSource.CALLS,
    format_: Annotated[Format, Query(alias="format")] = None,
) -> Response:
    """Adds up the usage of the organisation, a user or an API key. Users who aren't owners or admins see their own."""
    start, end = read_span(from_, to, datetime.now(UTC))
    groups = read_groups(group_by, source)
    everyone = is_admin(tenant)
    if not everyone and user not in (None, tenant.user_id):
        require_admin(tenant)
    if source is UsageSource.EXCHANGES and key_id is not None:
        raise invalid_field("key_id", "can't be given for exchanges: only calls have keys")
    query = UsageQuery(start, end, groups, source, user if everyone else tenant.user_id, key_id)
    usage = await services.accounts.usage(tenant, query)
    if (format_ or _preferred(request)) == "csv":
        name = f"usage-{start.date()}-{(end - timedelta(microseconds=1)).date()}.csv"
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Vary": "Accept"}
        return Response(_csv(usage, query), media_type=_CSV, headers=headers)
    report = UsageReport.model_construct(  # the ledger's own figures, in the order of the requested groups
        from_=time_text(start),
        to=time_text(end),
        scope="org" if everyone else "user",
        source=source,
        group_by=list(groups),
        rows=[shown(row) for row in usage.rows],
        total=shown(usage.total),
    )
    return JSONResponse(report.members(), headers={"Vary": "Accept"})


@router.get("/v1/budgets", summary="List budgets", responses=problems(403, 409))
async def list_budgets(tenant: TenantDep, services: AccountsDep, pages: PagesDep) -> BudgetList:
    """Returns the current budgets of the organisation and of its users and keys. For owners and admins.

    `q` searches users, ids of keys and periods.
    """
    require_admin(tenant)
    budgets, token = pages.page(
        await services.accounts.budgets(tenant),
        key=lambda budget: (budget.key_id, budget.user_id, budget.period),
        text=lambda budget: f"{budget.key_id}\n{budget.user_id}\n{budget.period}",
    )
    return BudgetList(budgets=[BudgetInfo.of(budget) for budget in budgets], next_page_token=token)


@router.put("/v1/budgets", summary="Set a budget", responses=problems(403, 409))
async def put_budget(
    tenant: TenantDep, services: AccountsDep, body: Annotated[BudgetBody, Depends(JsonBody(BudgetBody))]
) -> BudgetInfo:
    """Sets a budget's limit, effective from the next call; the current period's spending counts.

    For owners and admins.
    """
    require_admin(tenant)
    owner = _owner(body.scope, body.key_id, body.user)
    touch(_named(owner, body.period))
    limit = to_nano(body.limit_usd)
    return BudgetInfo.of(await services.accounts.put_budget(tenant, owner, body.period, limit))


@router.delete("/v1/budgets", summary="Delete a budget", **deleted(403, 404))
async def delete_budget(
    tenant: TenantDep,
    services: AccountsDep,
    period: OfPeriod,
    scope: OfScope = "org",
    key_id: KeyId = None,
    user: UserId = None,
) -> None:
    """Deletes a budget; its limit no longer applies from the next call on. For owners and admins."""
    require_admin(tenant)
    owner = _owner(scope, key_id, user)
    touch(_named(owner, period))
    await services.accounts.delete_budget(tenant, owner, period)


@router.get("/v1/limits", summary="Show limits", responses=problems(403))
async def list_limits(
    tenant: TenantDep, services: AccountsDep, user: OfUser = None, key_id: OfAnyKey = None
) -> LimitReport:
    """Returns the limits of the caller's key, the caller and the organisation, with the current usage.

    Owners and admins may ask for another user, or for an API key with its user. Stored bytes are left out then.

    While the retriever, which counts stored bytes, doesn't answer, `unknown` lists them.
    """
    whose = await _whose(services, tenant, user, key_id)
    report = LimitReport(
        plan=tenant.plan, limits=[*map(LimitInfo.of, await services.limiter.states(whose))], unknown=[]
    )
    if whose is not tenant:
        return report
    try:
        report.limits.extend(LimitInfo.of_storage(await services.stored_bytes()))
    except (Unavailable, DeadlineExceeded):
        report.unknown.append(Measure.STORED_BYTES)
    return report


async def _whose(services: AccountServices, tenant: Tenant, user: str | None, key_id: str | None) -> Tenant:
    """The tenant whose limits are requested."""
    if key_id is not None:
        require_admin(tenant)
        owner = await services.own_limits.owner_of(tenant.org_id, key_id)
        if user not in (None, owner):
            raise invalid_field("user", f"must be absent or {owner}, the owner of the key")
        return replace(tenant, user_id=owner, key_id=key_id)
    if user is None or user == tenant.user_id:
        return tenant
    require_admin(tenant)
    await services.members.member(tenant.org_id, user)
    return replace(tenant, user_id=user, key_id="")


def read_span(start: str | None, end: str | None, now: datetime) -> tuple[datetime, datetime]:
    """Returns the start of the range and its exclusive end.

    Raises:
        InvalidArgument: They aren't times, are in the wrong order, or are too far apart.
    """
    tomorrow = datetime.combine(now.date(), time(), UTC) + _DAY
    last = tomorrow if end is None else read_moment("to", end, after=_DAY)
    first = tomorrow - DEFAULT_DAYS * _DAY if start is None else read_moment("from", start)
    if start is None and first >= last:
        first = last - DEFAULT_DAYS * _DAY
    wrong = Violations()
    wrong.require(first < last, "from", "must be before `to`")
    wrong.require(last - first <= MAX_DAYS * _DAY, "from", f"must be at most {MAX_DAYS} days before `to`")
    wrong.raise_if_any()
    return first, last


def read_groups(text: str, source: UsageSource) -> tuple[Group, ...]:
    """Returns the columns to group by.

    Raises:
        InvalidArgument: A column is unknown, named twice, or not available for the source.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in set(Group)]
    if unknown:
        raise invalid_field("group_by", f"must contain only: {', '.join(Group)}")
    if len(set(names)) < len(names):
        raise invalid_field("group_by", "must not contain a value twice")
    if source is UsageSource.EXCHANGES and not {Group.PURPOSE, Group.KEY}.isdisjoint(names):
        raise invalid_field("group_by", "can't be `purpose` or `key` for exchanges: only calls have them")
    return tuple(Group(name) for name in names)


def _preferred(request: Request) -> Literal["json", "csv"]:
    """The one of the two formats that the Accept header names first."""
    for part in request.headers.get("accept", "").split(","):
        match part.partition(";")[0].strip().lower():
            case "text/csv":
                return "csv"
            case "application/json" | "*/*" | "application/*":
                return "json"
            case _:
                pass
    return "json"


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row with days as text, and amounts in USD."""
    return {_shown_name(name): _shown_value(name, value) for name, value in row.items()}


def _shown_name(name: str) -> str:
    return name.removesuffix("_nano") + "_usd" if name.endswith("_nano") else name


def _shown_value(name: str, value: Any) -> Any:  # noqa: ANN401 # JSON values have any type
    if name.endswith("_nano"):
        return to_usd(value)
    return value.isoformat() if isinstance(value, date) else value


def _csv(usage: Usage, query: UsageQuery) -> str:
    """The rows in the CSV format of RFC 4180; amounts have no exponent."""
    columns = group_columns(query.group_by)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([_shown_name(name) for name in (*columns, *usage.total)])
    for row in usage.rows:
        cells = [_cell(row[column]) for column in columns]
        amounts = [f"{to_usd(row[name]):.9f}" if name.endswith("_nano") else row[name] for name in usage.total]
        writer.writerow([*cells, *amounts])
    return out.getvalue()


def _cell(value: object) -> str:
    """Marks a name as text: a spreadsheet would compute a name that looks like a formula."""
    text = str(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _named(owner: BudgetOwner, period: Period) -> str:
    user = f"user {owner.user_id}" if owner.user_id else ""
    return f"budget:{owner.key_id or user or 'org'}/{period.value}"


def _owner(scope: BudgetScope, key_id: str | None, user: str | None) -> BudgetOwner:
    """The owner of the budget."""
    check_owner(scope, "budget", {"key_id": ("key", key_id), "user": ("user", user)})
    return BudgetOwner(key_id or "", user or "")
