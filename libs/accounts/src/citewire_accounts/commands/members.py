"""The commands `orgs` and `users`: what an operator administrates on the gateway's database."""

import argparse
import json
from typing import TYPE_CHECKING, Any

from citewire_accounts.commands.operator import print_line, run_on_database, second_text
from citewire_accounts.tenants.members import Member, MemberStore, Organisation
from citewire_kit.audit import AuditTrail
from citewire_kit.audit_events import Action, own_event
from citewire_kit.audit_store import AuditStore
from citewire_kit.postgres import Pool
from citewire_kit.tenant import ROLES

if TYPE_CHECKING:
    from citewire_accounts.commands.operator import Commands

OPERATOR = "operator"
"""Who vouches for what is done here, in the audit trail: whoever has the database's password."""


def add_members(commands: "Commands") -> None:
    """Adds the commands to a parser's commands."""
    orgs = commands.add_parser("orgs", help="list organisations and change their plans")
    actions = orgs.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list organisations, as the schema's owner")
    planning = actions.add_parser("plan", help="put an organisation on a plan, from its next request on")
    planning.add_argument("org", metavar="ORG")
    planning.add_argument("plan", choices=("free", "basic", "pro"))
    retaining = actions.add_parser("audit-days", help="say for how long an organisation's audit trail is kept")
    retaining.add_argument("org", metavar="ORG")
    retaining.add_argument("days", metavar="DAYS", type=int, choices=range(30, 36_501))
    users = commands.add_parser("users", help="list an organisation's users and change their roles")
    actions = users.add_subparsers(dest="action", metavar="ACTION", required=True)
    members = actions.add_parser("list", help="list users with their roles")
    giving = actions.add_parser("role", help="give a user a role, from the user's next request on")
    giving.add_argument("user", metavar="USER")
    giving.add_argument("role", choices=ROLES)
    for action in (members, giving):
        action.add_argument("--org", required=True, help="the organisation")
    for action in (listing, planning, retaining, members, giving):
        action.add_argument("--json", action="store_true", help="print JSON")


async def run_members(options: argparse.Namespace) -> int:
    """Runs a command; returns its exit code."""

    async def act(pool: Pool, _owner: bool) -> int:  # as `run_on_database` calls it
        trail = AuditTrail(AuditStore(pool).write, process="operator")
        rows = await _act(options, MemberStore(pool), trail)
        await trail.flush()
        for row in rows:
            print_line(json.dumps(row) if options.json else "  ".join(map(str, row.values())))
        return 0

    return await run_on_database("citewire-admin", act)


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
        case _:
            member = await store.set_role(options.org, options.user, options.role, by=None)
            objects = (f"user:{options.user}", f"role:{options.role}")
            trail.add(own_event(options.org, Action.USER_ROLE, objects, by=OPERATOR))
            return [_member(member)]


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
        "keys": member.keys,
        "created_at": second_text(member.created_at),
    }
