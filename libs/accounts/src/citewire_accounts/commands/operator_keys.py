"""The commands `operator keys …`: keys of operators, made with the password of the schema's owner."""

import argparse
import json
import sys
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from citewire_accounts.commands.keys import expiry_in
from citewire_accounts.commands.operator import EXIT_USAGE, print_line, run_on_database, second_text
from citewire_accounts.settings import DatabaseSettings
from citewire_accounts.tenants.operators import OPERATOR_SCOPES, OperatorKey, OperatorStore, make_operator_key
from citewire_kit.audit import AuditTrail
from citewire_kit.audit_events import OPERATOR, OPERATORS, Action, own_event
from citewire_kit.audit_store import AuditStore
from citewire_kit.errors import Violations
from citewire_kit.postgres import Pool

if TYPE_CHECKING:
    from citewire_accounts.commands.operator import Commands


def add_operator_keys(commands: "Commands") -> None:
    """Adds the command `operator` to a process's commands."""
    operator = commands.add_parser("operator", help="manage operators, as the schema's owner")
    keys = operator.add_subparsers(dest="what", metavar="WHAT", required=True).add_parser("keys", help="their API keys")
    actions = keys.add_subparsers(dest="action", metavar="ACTION", required=True)
    creating = actions.add_parser("create", help="create a key for /v1/operator and print it once")
    creating.add_argument("--name", default="operator", help="what the key is for")
    creating.add_argument(
        "--read-only", action="store_true", help="the key can read organisations and usage, and change nothing"
    )
    creating.add_argument("--expires", help="when it stops working: 90d from now, or 2027-06-30 (default: never)")
    listing = actions.add_parser("list", help="list keys, without the secrets")
    revoking = actions.add_parser("revoke", help="revoke a key; it stops working at once")
    revoking.add_argument("key", metavar="ID", help="the key's id or prefix")
    for action in (creating, listing, revoking):
        action.add_argument("--json", action="store_true", help="print JSON")


async def run_operator_keys(options: argparse.Namespace) -> int:
    """Runs an `operator keys` command, and returns its exit code."""

    async def act(pool: Pool, owner: bool) -> int:
        if not owner:
            name = DatabaseSettings.env_name("migrate_dsn")
            sys.stderr.write(f"only the schema's owner can create, list and revoke operators' keys: set {name}\n")
            return EXIT_USAGE
        trail = AuditTrail(AuditStore(pool).write, process=OPERATOR)
        await _act(options, OperatorStore(pool), trail)
        await trail.flush()
        return 0

    return await run_on_database("citewire-operator", act)


async def _act(options: argparse.Namespace, store: OperatorStore, trail: AuditTrail) -> None:
    match options.action:
        case "create":
            violations = Violations()
            violations.require(1 <= len(options.name) <= 100, "--name", "must be 1-100 characters long")
            expires_at = expiry_in(options.expires, violations)
            violations.raise_if_any()
            new = make_operator_key()
            scopes = OPERATOR_SCOPES[:1] if options.read_only else OPERATOR_SCOPES
            key = await store.add_key(options.name, new, scopes, expires_at)
            trail.add(own_event(OPERATORS, Action.OPERATOR_KEY_CREATE, (f"key:{key.key_id}",), by=OPERATOR))
            if options.json:
                print_line(json.dumps({"key": new.text, **_key_json(key)}))
            else:
                print_line(new.text)
                sys.stderr.write(f"{key.key_id}, for {', '.join(scopes)}. The key is shown only now: keep it.\n")
        case "list":
            keys = await store.keys()
            _print({"keys": [_key_json(key) for key in keys]}, keys, as_json=options.json)
        case _:
            key = await store.revoke_key(options.key)
            trail.add(own_event(OPERATORS, Action.OPERATOR_KEY_REVOKE, (f"key:{key.key_id}",), by=OPERATOR))
            _print(_key_json(key), [key], as_json=options.json)


def _print(value: object, keys: list[OperatorKey], *, as_json: bool) -> None:
    if as_json:
        print_line(json.dumps(value))
        return
    for key in keys:
        used = "never" if key.last_used_at is None else second_text(key.last_used_at)
        state = f"last used {used}" if key.revoked_at is None else f"revoked {second_text(key.revoked_at)}"
        expiry = "" if key.expires_at is None else f"  expires {second_text(key.expires_at)}"
        print_line(f"{key.key_id}  {key.prefix}…  {key.name}  {','.join(key.scopes)}  {state}{expiry}")


def _key_json(key: OperatorKey) -> dict[str, Any]:
    values = asdict(key)
    return {
        "id": values.pop("key_id"),
        **{name: second_text(value) if isinstance(value, datetime) else value for name, value in values.items()},
    }
