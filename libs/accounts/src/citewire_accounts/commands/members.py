"""The commands `orgs`, `users` and `groups`: what an operator administrates on the gateway's database."""

import argparse
import json
from typing import TYPE_CHECKING, Any

from citewire_accounts.commands.operator import print_line, run_on_database, second_text
from citewire_accounts.tenants.groups import Group, GroupStore
from citewire_accounts.tenants.limits import MEASURES, LimitSettingStore
from citewire_accounts.tenants.members import Member, MemberStore, Organisation
from citewire_kit.audit import AuditTrail
from citewire_kit.audit_events import OPERATOR, Action, own_event
from citewire_kit.audit_store import AuditStore
from citewire_kit.errors import invalid_field
from citewire_kit.plan_limits import LimitScope, Measure
from citewire_kit.postgres import Pool
from citewire_kit.tenant import ROLES, is_token

if TYPE_CHECKING:
    from citewire_accounts.commands.operator import Commands


def add_members(commands: "Commands") -> None:
    """Adds the commands to a parser's commands."""
    orgs = commands.add_parser("orgs", help="list organisations, change their plans and limits")
    actions = orgs.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list organisations, as the schema's owner")
    planning = actions.add_parser("plan", help="change an organisation's plan, effective from its next request")
    planning.add_argument("org", metavar="ORG")
    planning.add_argument("plan", choices=("free", "basic", "pro"))
    limiting = actions.add_parser("limit", help="override a plan's limit for an organisation")
    limiting.add_argument("org", metavar="ORG")
    limiting.add_argument("measure", choices=[measure.value for measure in MEASURES])
    limiting.add_argument("most", metavar="MOST", help="a whole number from 0, or `plan`: what the plan allows")
    retaining = actions.add_parser("audit-days", help="set how long an organisation's audit trail is kept")
    retaining.add_argument("org", metavar="ORG")
    retaining.add_argument("days", metavar="DAYS", type=int, choices=range(30, 36_501))
    users = commands.add_parser("users", help="list, create and disable an organisation's users, change their roles")
    actions = users.add_subparsers(dest="action", metavar="ACTION", required=True)
    members = actions.add_parser("list", help="list users with their roles")
    giving = actions.add_parser("role", help="change a user's role, effective from the next request")
    giving.add_argument("user", metavar="USER")
    giving.add_argument("role", choices=ROLES)
    adding = actions.add_parser("create", help="create a user before the first sign-in or key")
    adding.add_argument("user", metavar="USER")
    adding.add_argument("--role", choices=ROLES, default="reader", help="the role (default: reader)")
    disabling = actions.add_parser("disable", help="disable a user: sessions end, keys stop working")
    enabling = actions.add_parser("enable", help="enable a disabled user")
    for action in (disabling, enabling):
        action.add_argument("user", metavar="USER")
    groups = _add_groups(commands)
    for action in (members, giving, adding, disabling, enabling, *groups):
        action.add_argument("--org", required=True, help="the organisation")
    for action in (listing, planning, limiting, retaining, members, giving, adding, disabling, enabling, *groups):
        action.add_argument("--json", action="store_true", help="print JSON")


def _add_groups(commands: "Commands") -> list[argparse.ArgumentParser]:
    groups = commands.add_parser("groups", help="manage an organisation's own groups")
    actions = groups.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list groups")
    making = actions.add_parser("create", help="create an empty group")
    deleting = actions.add_parser("delete", help="delete a group, effective from the next request")
    showing = actions.add_parser("members", help="list a group's users")
    adding = actions.add_parser("add", help="add a user to a group")
    removing = actions.add_parser("remove", help="remove a user from a group")
    for action in (making, deleting, showing, adding, removing):
        action.add_argument("group", metavar="GROUP")
    for action in (adding, removing):
        action.add_argument("user", metavar="USER")
    return [listing, making, deleting, showing, adding, removing]


async def run_members(options: argparse.Namespace) -> int:
    """Runs a command; returns its exit code."""

    async def act(pool: Pool, _owner: bool) -> int:  # as `run_on_database` calls it
        trail = AuditTrail(AuditStore(pool).write, process="operator")
        if options.command == "groups":
            rows = await _act_on_groups(options, GroupStore(pool), trail)
        elif (options.command, options.action) == ("orgs", "limit"):
            rows = await _limit(options, LimitSettingStore(pool), trail)
        else:
            rows = await _act(options, MemberStore(pool), trail)
        await trail.flush()
        for row in rows:
            print_line(json.dumps(row) if options.json else "  ".join(_shown(row)))
        return 0

    return await run_on_database("citewire-admin", act)


def _shown(row: dict[str, Any]) -> list[str]:
    """Texts of a line; what is true stands there by its name."""
    return [name if value is True else str(value) for name, value in row.items() if value is not False]


async def _act(options: argparse.Namespace, store: MemberStore, trail: AuditTrail) -> list[dict[str, Any]]:
    match options.command, options.action:
        case "orgs", "list":
            return [_organisation(org) for org in await store.organisations()]
        case "orgs", "audit-days":
            org = await store.set_audit_days(options.org, options.days)
            trail.add(own_event(options.org, Action.ORGANISATION_AUDIT_DAYS, (f"days:{options.days}",), by=OPERATOR))
            return [_organisation(org)]
        case "orgs", _:
            org = await store.set_plan(options.org, options.plan)
            trail.add(own_event(options.org, Action.ORGANISATION_PLAN, (f"plan:{org.plan}",), by=OPERATOR))
            return [_organisation(org)]
        case _, "list":
            return [_member(member) for member in await store.members(options.org)]
        case _, "create":
            if not is_token(options.user):
                raise invalid_field("USER", "must be 1-128 characters of A-Z a-z 0-9 _ . : @ -")
            member = await store.add(options.org, options.user, options.role, by=None)
            objects = (f"user:{options.user}", f"role:{options.role}")
            trail.add(own_event(options.org, Action.USER_CREATE, objects, by=OPERATOR))
            return [_member(member)]
        case _, "disable" | "enable":
            disabled = options.action == "disable"
            member = await store.set_disabled(options.org, options.user, disabled=disabled, by=None)
            action = Action.USER_DISABLE if disabled else Action.USER_ENABLE
            trail.add(own_event(options.org, action, (f"user:{options.user}",), by=OPERATOR))
            return [_member(member)]
        case _:
            member = await store.set_role(options.org, options.user, options.role, by=None)
            objects = (f"user:{options.user}", f"role:{options.role}")
            trail.add(own_event(options.org, Action.USER_ROLE, objects, by=OPERATOR))
            return [_member(member)]


async def _limit(options: argparse.Namespace, store: LimitSettingStore, trail: AuditTrail) -> list[dict[str, Any]]:
    org: str = options.org
    measure, most = Measure(options.measure), options.most
    if most == "plan":
        await store.delete(org, LimitScope.ORG, "", measure)
        action, rows = Action.LIMIT_DELETE, list[dict[str, Any]]()
    elif most.isascii() and most.isdecimal() and int(most) < 2**53:
        limit = await store.put(org, LimitScope.ORG, "", measure, int(most), by=OPERATOR)
        action, rows = Action.LIMIT_SET, [{"org": org, "measure": measure.value, "limit": limit.most}]
    else:
        raise invalid_field("MOST", "must be a whole number from 0, or `plan`")
    trail.add(own_event(org, action, (f"limit:{measure}-org",), by=OPERATOR))
    return rows


async def _act_on_groups(options: argparse.Namespace, store: GroupStore, trail: AuditTrail) -> list[dict[str, Any]]:
    org: str = options.org
    if options.action == "list":
        return [_group(group) for group in await store.groups(org)]
    name: str = options.group
    if options.action == "members":
        return [{"user": user} for user in await store.members(org, name)]
    objects, rows = (f"group:{name}",), list[dict[str, Any]]()
    match options.action:
        case "create":
            action = Action.GROUP_CREATE
            rows = [_group(await store.add(org, name, by=OPERATOR))]
        case "delete":
            action = Action.GROUP_DELETE
            await store.delete(org, name)
        case _:
            adds = options.action == "add"
            action = Action.GROUP_ADD if adds else Action.GROUP_REMOVE
            objects = (f"group:{name}/{options.user}", f"user:{options.user}")
            change = store.add_member if adds else store.remove_member
            rows = [_group(await change(org, name, options.user))]
    trail.add(own_event(org, action, objects, by=OPERATOR))
    return rows


def _group(group: Group) -> dict[str, Any]:
    return {"group": group.name, "users": group.users, "created_at": second_text(group.created_at)}


def _organisation(org: Organisation) -> dict[str, Any]:
    return {
        "org": org.org_id,
        "plan": org.plan,
        "users": org.users,
        "keys": org.keys,
        "created_at": second_text(org.created_at),
    }


def _member(member: Member) -> dict[str, Any]:
    return {
        "user": member.user_id,
        "role": member.role,
        "disabled": member.disabled_at is not None,
        "keys": member.keys,
        "created_at": second_text(member.created_at),
    }
