"""The commands `keys …`: API keys, on the gateway's database."""

import argparse
import json
import re
import sys
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from citewire_accounts.commands.operator import EXIT_USAGE, print_line, run_on_database, second_text
from citewire_accounts.settings import DatabaseSettings
from citewire_accounts.tenants.identity import SCOPES, IdentityStore, KeyInfo, Scope, make_key
from citewire_kit.errors import Violations
from citewire_kit.tenant import MAX_GROUP_CHARS, MAX_GROUPS, is_token

if TYPE_CHECKING:
    from citewire_accounts.commands.operator import Commands

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d{1,6})([smhd]?)")
_DURATIONS = "a time such as 90d, 12h, 30m or 45s"


def add_keys(commands: "Commands") -> None:
    """Adds the command `keys` to a process's commands."""
    keys = commands.add_parser("keys", help="create, list, rotate and revoke API keys")
    actions = keys.add_subparsers(dest="action", metavar="ACTION", required=True)
    creating = actions.add_parser("create", help="create a key and print it once; creates org and user if needed")
    creating.add_argument("--user", help="the user (default: local)")
    creating.add_argument("--plan", choices=("free", "basic", "pro"), help="the organisation's plan (new ones: pro)")
    creating.add_argument("--name", default="key", help="what the key is for")
    creating.add_argument("--scopes", help=f"comma-separated scopes, of {','.join(SCOPES)} (default: all)")
    creating.add_argument(
        "--group", action="append", dest="groups", help="a group of the key; may be repeated (default: its user's)"
    )
    listing = actions.add_parser("list", help="list keys, without the secrets")
    rotating = actions.add_parser("rotate", help="replace a key's secret and print it once")
    rotating.add_argument("--overlap", default="24h", help="how long the previous secret still works (default: 24h)")
    revoking = actions.add_parser("revoke", help="revoke a key; it stops working at once")
    for action in (creating, rotating):
        action.add_argument("--expires", help="when it stops working: 90d from now, or 2027-06-30 (default: never)")
    for action in (rotating, revoking):
        action.add_argument("key", metavar="ID", help="the key's id or prefix")
    for action in (creating, listing, rotating, revoking):
        action.add_argument("--org", help="the organisation")
        action.add_argument("--json", action="store_true", help="print JSON")


async def run_keys(options: argparse.Namespace) -> int:
    """Runs a `keys` command, and returns its exit code."""
    return await run_on_database("citewire-keys", lambda pool, owner: _act(options, IdentityStore(pool), owner=owner))


async def _act(options: argparse.Namespace, store: IdentityStore, *, owner: bool) -> int:
    org: str | None = options.org
    if org is None and not owner and options.action != "create":
        sys.stderr.write(
            "name the organisation with --org: only the schema's owner can see all of them "
            f"({DatabaseSettings.env_name('migrate_dsn')})\n"
        )
        return EXIT_USAGE
    match options.action:
        case "create":
            await _create(options, store)
        case "list":
            keys = [_key_json(key) for key in await store.list_keys(org)]
            _print(keys, keys, as_json=options.json)
        case "rotate":
            await _rotate(options, store)
        case _:
            key = _key_json(await store.revoke_key(org, options.key))
            _print(key, [key], as_json=options.json)
    return 0


async def _create(options: argparse.Namespace, store: IdentityStore) -> None:
    violations = Violations()
    for name in ("org", "user"):
        violations.require(
            is_token(getattr(options, name) or "local"),
            f"--{name}",
            "must be 1-128 characters of A-Z a-z 0-9 _ . : @ -",
        )
    violations.require(1 <= len(options.name) <= 100, "--name", "must be 1-100 characters long")
    scopes = _scopes_in(options.scopes, violations)
    groups: list[str] | None = options.groups
    violations.require(
        len(groups or ()) <= MAX_GROUPS
        and all(0 < len(group) <= MAX_GROUP_CHARS and group.isprintable() for group in groups or ()),
        "--group",
        f"must be 1-{MAX_GROUP_CHARS} printable characters, at most {MAX_GROUPS} times",
    )
    expires_at = expiry_in(options.expires, violations)
    violations.raise_if_any()
    org, user = options.org or "local", options.user or "local"
    plan = await store.ensure_user(org, user, options.plan)
    key = make_key()
    info = await store.add_key(org, user, options.name, key, scopes=scopes, expires_at=expires_at, groups=groups)
    if options.json:
        print_line(json.dumps({"key": key.text, "plan": plan, **_key_json(info)}))
    else:
        print_line(key.text)
        until = "" if expires_at is None else f", until {second_text(expires_at)}"
        sys.stderr.write(
            f"{info.key_id} of {user} in {org} (plan {plan}), for {', '.join(scopes)}{until}. "
            "The key is shown only now: keep it.\n"
        )


async def _rotate(options: argparse.Namespace, store: IdentityStore) -> None:
    violations = Violations()
    overlap = _duration_in(options.overlap)
    violations.require(overlap is not None, "--overlap", f"must be {_DURATIONS}, or 0")
    expires_at = expiry_in(options.expires, violations)
    violations.raise_if_any()
    new = make_key()
    key = await store.find_key(options.org, options.key)
    info = await store.rotate_key(key, new, overlap or timedelta(), expires_at)
    if options.json:
        print_line(json.dumps({"key": new.text, **_key_json(info)}))
    else:
        print_line(new.text)
        until = "" if info.previous_until is None else second_text(info.previous_until)
        sys.stderr.write(
            f"{info.key_id} has this key now, which is shown only once; the previous one works until {until}.\n"
        )


def _scopes_in(text: str | None, violations: Violations) -> tuple[Scope, ...]:
    names = [name.strip() for name in text.split(",")] if text is not None else SCOPES
    violations.require(
        set(names) <= set(SCOPES), "--scopes", f"must be any of {', '.join(SCOPES)}, separated by commas"
    )
    return tuple(scope for scope in SCOPES if scope in names)


def expiry_in(text: str | None, violations: Violations) -> datetime | None:
    """Reads when a key expires: a time from now, or a moment; what is wrong with it becomes a violation."""
    if text is None:
        return None
    now, duration, moment = datetime.now(UTC), _duration_in(text), None
    if duration is not None:
        moment = now + duration
    else:
        with suppress(ValueError):
            moment = datetime.fromisoformat(text)
    if moment is not None and moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    violations.require(
        moment is not None and moment > now, "--expires", f"must be {_DURATIONS}, or a future day such as 2027-06-30"
    )
    return moment


def _duration_in(text: str) -> timedelta | None:
    parts = _DURATION.fullmatch(text)
    return None if parts is None else timedelta(seconds=int(parts[1]) * _UNITS[parts[2] or "s"])


def _print(value: object, rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_line(json.dumps({"keys": value} if isinstance(value, list) else value))
        return
    for row in rows:
        state = f"revoked {row['revoked_at']}" if row["revoked_at"] else f"last used {row['last_used_at'] or 'never'}"
        expiry = f"  expires {row['expires_at']}" if row["expires_at"] else ""
        scopes = ",".join(row["scopes"])
        groups = "" if row["groups"] is None else f"  groups {', '.join(row['groups']) or 'none'}"
        owner = f"{row['org']}/{row['user']}"
        print_line(f"{row['id']}  {row['prefix']}…  {owner}  {row['name']}  {scopes}  {state}{expiry}{groups}")


def _key_json(key: KeyInfo) -> dict[str, Any]:
    values = asdict(key)
    return {
        "id": values.pop("key_id"),
        "org": values.pop("org_id"),
        "user": values.pop("user_id"),
        **{name: second_text(value) if isinstance(value, datetime) else value for name, value in values.items()},
    }
