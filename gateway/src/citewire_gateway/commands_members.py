"""The commands `orgs` and `users`: what an operator administrates on the gateway's database."""

import argparse
import json
import sys
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from citewire_gateway.settings import DatabaseSettings
from citewire_gateway.tenants.members import Member, MemberStore, Organisation
from citewire_kit.audit import AuditTrail
from citewire_kit.audit_events import Action, own_event
from citewire_kit.audit_store import AuditStore
from citewire_kit.errors import CitewireError, NotFound, StartupError
from citewire_kit.postgres import open_pool
from citewire_kit.settings import load_settings
from citewire_kit.telemetry import configure_logging
from citewire_kit.tenant import ROLES

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]  # it has no public name

EXIT_FAILED = 1
EXIT_NOT_FOUND = 5
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
    configure_logging("gateway", level="ERROR", log_format="console")
    settings = load_settings(DatabaseSettings)
    dsn = settings.migrate_dsn or settings.dsn
    if dsn is None:
        raise StartupError(
            f"set {DatabaseSettings.env_name('migrate_dsn')} or {DatabaseSettings.env_name('dsn')} to the database"
        )
    async with AsyncExitStack() as stack:
        pool = await open_pool(dsn, max_size=1, name="citewire-admin")
        stack.push_async_callback(pool.close)
        trail = AuditTrail(AuditStore(pool).write, process="operator")
        try:
            rows = await _act(options, MemberStore(pool), trail)
            await trail.flush()
        except CitewireError as exc:
            sys.stderr.write(f"{exc.message}\n")
            return EXIT_NOT_FOUND if isinstance(exc, NotFound) else EXIT_FAILED
    for row in rows:
        sys.stdout.write(json.dumps(row) + "\n" if options.json else "  ".join(map(str, row.values())) + "\n")
    return 0


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
        "created_at": _time(org.created_at),
    }


def _member(member: Member) -> dict[str, Any]:
    return {
        "user": member.user_id,
        "role": member.role,
        "keys": member.keys,
        "created_at": _time(member.created_at),
    }


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
