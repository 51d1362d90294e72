"""`citewire operator`: manages a server's organisations over HTTP, with an operator's key."""

from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import quote

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.limits import MeasureArgument
from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.commands.usage import EndOption, StartOption, print_rows
from citewire_cli.errors import ExitCode
from citewire_cli.gateway_command import run_gateway
from citewire_cli.jsonio import JsonObject, get_int, get_objects, get_str, get_texts
from citewire_cli.settings import load_operator_settings

operator_app = typer.Typer(
    help="Manage all organisations of a server, with an operator's key in CITEWIRE_OPERATOR_KEY.", no_args_is_help=True
)
keys_app = typer.Typer(
    help="Create, list and revoke operator keys. Runs as the owner of the gateway's database: "
    "CITEWIRE_GATEWAY_MIGRATE_DSN, or that of the local stack.",
    no_args_is_help=True,
)
organisations_app = typer.Typer(help="List, create, suspend and erase organisations.", no_args_is_help=True)
limits_app = typer.Typer(help="Manage limits that override an organisation's plan.", no_args_is_help=True)
operator_app.add_typer(keys_app, name="keys")
operator_app.add_typer(organisations_app, name="organisations")
operator_app.add_typer(limits_app, name="limits")

_PATH = "/v1/operator/organisations"

PlanName = Literal["free", "basic", "pro"]
OrgArgument = Annotated[str, typer.Argument(help="The organisation.", show_default=False)]


@keys_app.command("create")
def create_key(
    name: Annotated[str | None, typer.Option("--name", help="What the key is for.")] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="The key can read organisations and usage, and change nothing.")
    ] = False,
    expires: Annotated[
        str | None, typer.Option("--expires", help="When it stops working: 90d from now, or 2027-06-30.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Create a key and print it; it is shown only once."""
    arguments = ["--name", name] if name else []
    arguments += ["--read-only"] if read_only else []
    arguments += ["--expires", expires] if expires else []
    run_gateway("operator", "keys", "create", *arguments, json=json)


@keys_app.command("list")
def list_keys(json: JsonOption = False) -> None:
    """List keys, without the secrets."""
    run_gateway("operator", "keys", "list", json=json)


@keys_app.command("revoke")
def revoke_key(
    key: Annotated[str, typer.Argument(help="The key's id or prefix.", show_default=False)], json: JsonOption = False
) -> None:
    """Revoke a key; it stops working at once. Exits with 5 if there is none."""
    run_gateway("operator", "keys", "revoke", key, json=json)


@organisations_app.command("list")
@output.async_command
async def list_organisations(
    query: Annotated[str | None, typer.Option("--q", help="Part of an organisation's id.", show_default=False)] = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """List organisations with their plans, users and keys."""
    pages = await _pages(_PATH, {"q": query}, url=url)
    organisations = [organisation for page in pages for organisation in get_objects(page, "organisations")]
    if json:
        output.print_json({"organisations": organisations})
    else:
        _print_organisations(organisations)
    return ExitCode.OK


@organisations_app.command("show")
def show_organisation(org: OrgArgument, url: UrlOption = None, json: JsonOption = False) -> None:
    """Show an organisation. Exits with 5 if there is none of that id."""
    _call("GET", org, "", url=url, json=json)


@organisations_app.command("create")
def create_organisation(
    org: OrgArgument,
    plan: Annotated[PlanName, typer.Option("--plan", help="The plan.")] = "pro",
    owner: Annotated[
        str | None, typer.Option("--owner", help="The first owner, who signs in.", show_default=False)
    ] = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Create an organisation."""
    body: JsonObject = {"id": org, "plan": plan, **({"owner": owner} if owner else {})}
    _call("POST", "", "", body, url=url, json=json)


@organisations_app.command("plan")
def put_plan(
    org: OrgArgument,
    plan: Annotated[PlanName, typer.Argument(help="Its new plan.", show_default=False)],
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Change an organisation's plan, effective from its next request."""
    _call("PUT", org, "/plan", {"plan": plan}, url=url, json=json)


@organisations_app.command("audit-days")
def put_audit_days(
    org: OrgArgument,
    days: Annotated[int, typer.Argument(min=30, max=36_500, help="Number of days.", show_default=False)],
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Set how many days an organisation's audit trail is kept."""
    _call("PUT", org, "/audit-days", {"days": days}, url=url, json=json)


@organisations_app.command("suspend")
def suspend_organisation(org: OrgArgument, url: UrlOption = None, json: JsonOption = False) -> None:
    """Suspend an organisation: its members can't call; its data stays."""
    _call("POST", org, ":suspend", url=url, json=json)


@organisations_app.command("resume")
def resume_organisation(org: OrgArgument, url: UrlOption = None, json: JsonOption = False) -> None:
    """Resume a suspended organisation."""
    _call("POST", org, ":resume", url=url, json=json)


@organisations_app.command("erase")
@output.async_command
async def erase_organisation(
    org: OrgArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask for confirmation. Erasure can't be undone.")] = False,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Erase an organisation with all its data, in the background."""
    if not yes:
        typer.confirm(f"Erase everything of {org}, for good?", abort=True, err=True)
    return await _print_erasure("DELETE", f"{_PATH}/{_quoted(org)}", url=url, json=json)


@organisations_app.command("erasure")
@output.async_command
async def show_erasure(org: OrgArgument, url: UrlOption = None, json: JsonOption = False) -> ExitCode:
    """Show the progress of an organisation's erasure. Exits with 5 once nothing is left."""
    return await _print_erasure("GET", f"{_PATH}/{_quoted(org)}/erasure", url=url, json=json)


@limits_app.command("list")
@output.async_command
async def list_limits(org: OrgArgument, url: UrlOption = None, json: JsonOption = False) -> ExitCode:
    """List the limits that override an organisation's plan."""
    async with Api(load_operator_settings(url=url)) as api:
        listing = await api.call("GET", f"{_PATH}/{_quoted(org)}/limits")
    if json:
        output.print_json(listing)
    else:
        _print_limits(get_objects(listing, "limits"))
    return ExitCode.OK


@limits_app.command("set")
@output.async_command
async def set_limit(
    org: OrgArgument,
    measure: MeasureArgument,
    most: Annotated[int, typer.Argument(min=0, help="The limit; may exceed the plan's.")],
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Override a plan's limit for an organisation, within 30 seconds."""
    async with Api(load_operator_settings(url=url)) as api:
        limit = await api.call("PUT", f"{_PATH}/{_quoted(org)}/limits/{measure}", body={"limit": most})
    if json:
        output.print_json(limit)
    else:
        _print_limits([limit])
    return ExitCode.OK


@limits_app.command("delete")
@output.async_command
async def delete_limit(
    org: OrgArgument, measure: MeasureArgument, url: UrlOption = None, json: JsonOption = False
) -> ExitCode:
    """Delete a limit; the plan's applies again. Exits with 5 if there is none."""
    async with Api(load_operator_settings(url=url)) as api:
        await api.call("DELETE", f"{_PATH}/{_quoted(org)}/limits/{measure}")
    if json:
        output.print_json({"deleted": measure})
    else:
        output.stdout().print("Deleted.")
    return ExitCode.OK


@operator_app.command("plans")
@output.async_command
async def list_plans(url: UrlOption = None, json: JsonOption = False) -> ExitCode:
    """List the plans with their limits."""
    async with Api(load_operator_settings(url=url)) as api:
        listing = await api.call("GET", "/v1/operator/plans")
    if json:
        output.print_json(listing)
        return ExitCode.OK
    rows = [
        (get_str(plan, "plan"), get_str(limit, "measure"), get_str(limit, "scope"), f"{get_int(limit, 'limit') or 0:,}")
        for plan in get_objects(listing, "plans")
        for limit in get_objects(plan, "limits")
    ]
    output.print_table(("plan", "what", "whose", "limit"), rows)
    return ExitCode.OK


@operator_app.command("usage")
@output.async_command
async def show_usage(
    org: Annotated[str | None, typer.Option("--org", help="Only this organisation.", show_default=False)] = None,
    start: StartOption = None,
    end: EndOption = None,
    by: Annotated[str, typer.Option("--by", help="Comma-separated groups: day, model, purpose.")] = "",
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Show tokens and cost of calls to providers, by organisation."""
    params = {"organisation": org, "from": start, "to": end, "group_by": by}
    pages = await _pages("/v1/operator/usage", params, url=url)
    rows = [row for page in pages for row in get_objects(page, "rows")]
    if json:
        output.print_json({**pages[-1], "rows": rows})
    else:
        output.stdout().print(f"Usage from {get_str(pages[0], 'from')} until {get_str(pages[0], 'to')}")
        print_rows({"rows": rows}, "Nothing was used.")
    return ExitCode.OK


@operator_app.command("audit")
@output.async_command
async def show_audit(
    start: Annotated[
        str | None, typer.Option("--from", help="First day (UTC), or a time; default: 30 days ago.", show_default=False)
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="Last day, or a time.", show_default=False)] = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Show the operators' audit trail, oldest first."""
    pages = await _pages("/v1/operator/audit", {"from": start, "to": end}, url=url)
    events = [event for page in pages for event in get_objects(page, "events")]
    if json:
        output.print_json({"events": events})
        return ExitCode.OK
    names = ("at", "key_id", "action", "outcome")
    rows = [(*(get_str(event, name) for name in names), " ".join(get_texts(event, "objects"))) for event in events]
    output.print_table((*names, "objects"), rows)
    return ExitCode.OK


@output.async_command
async def _call(
    method: str, org: str, action: str, body: JsonObject | None = None, *, url: str | None, json: bool
) -> ExitCode:
    """Performs an action on an organisation and prints its new state."""
    path = f"{_PATH}/{_quoted(org)}{action}" if org else _PATH
    async with Api(load_operator_settings(url=url)) as api:
        organisation = await api.call(method, path, body=body)
    if json:
        output.print_json(organisation)
    else:
        _print_organisations([organisation])
    return ExitCode.OK


async def _pages(path: str, params: Mapping[str, str | None], *, url: str | None) -> list[JsonObject]:
    """Returns all pages of a list."""
    given: dict[str, str | int] = {name: value for name, value in params.items() if value}
    pages: list[JsonObject] = []
    async with Api(load_operator_settings(url=url)) as api:
        while not pages or get_str(pages[-1], "next_page_token"):
            token = get_str(pages[-1], "next_page_token") if pages else ""
            pages.append(await api.call("GET", path, params=given | ({"page_token": token} if token else {})))
    return pages


async def _print_erasure(method: str, path: str, *, url: str | None, json: bool) -> ExitCode:
    async with Api(load_operator_settings(url=url)) as api:
        erasure = await api.call(method, path)
    if json:
        output.print_json(erasure)
    else:
        erased = get_int(erasure, "erased_documents") or 0
        output.stdout().print(f"{get_str(erasure, 'id')}  {get_str(erasure, 'state')}  {erased} documents erased")
    return ExitCode.OK


def _print_organisations(organisations: list[JsonObject]) -> None:
    rows = [
        (
            get_str(organisation, "id"),
            get_str(organisation, "plan"),
            str(get_int(organisation, "users") or 0),
            str(get_int(organisation, "keys") or 0),
            "suspended" if get_str(organisation, "suspended_at") else "",
        )
        for organisation in organisations
    ]
    output.print_table(("organisation", "plan", "users", "keys", ""), rows)


def _print_limits(limits: list[JsonObject]) -> None:
    rows = [(get_str(limit, "measure"), f"{get_int(limit, 'limit') or 0:,}") for limit in limits]
    output.print_table(("what", "limit"), rows)


def _quoted(org: str) -> str:
    return quote(org, safe="")
