"""The command line: settings, signals and exit codes of each sub-command."""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from citewire_gateway.app import build_app, build_services
from citewire_gateway.clients.embedder import ProviderSealer
from citewire_gateway.commands_audit import add_audit, run_audit
from citewire_gateway.http.server import Drain, GatewayServer, check_address
from citewire_gateway.settings import PREFIX, DatabaseSettings, GatewaySettings, RotateSettings
from citewire_gateway.tenants.identity import IdentityStore, KeyInfo, make_key
from citewire_gateway.tenants.provider_service import rotate
from citewire_gateway.tenants.providers import ProviderStore
from citewire_kit.channel import open_channel
from citewire_kit.errors import CitewireError, NotFound, StartupError, Violations
from citewire_kit.migrate import add_migrate, run_migrate
from citewire_kit.postgres import open_pool
from citewire_kit.server import run, settle
from citewire_kit.settings import load_settings
from citewire_kit.telemetry import configure_logging, setup, start_metrics_server
from citewire_kit.tenant import is_token

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 5
_REWRAP_SECONDS = 10.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a sub-command."""
    options = _parser().parse_args(arguments)
    match options.command:
        case "migrate":
            run_migrate(options.phase, PREFIX, schema="chat", package="citewire_gateway")
        case "keys":
            raise SystemExit(run(_keys(options)))
        case "rotate":
            raise SystemExit(run(_rotate()))
        case "audit":
            raise SystemExit(run(run_audit(options)))
        case _:
            settings = load_settings(GatewaySettings)
            telemetry = setup("gateway", settings)
            try:
                run(serve(settings))
            finally:
                telemetry.shutdown()


async def serve(settings: GatewaySettings) -> None:
    """Serves until a signal, then drains and closes everything in reverse."""
    async with AsyncExitStack() as stack:
        metrics = start_metrics_server(settings)
        stack.callback(metrics.close)
        await check_address(settings)
        drain = Drain()
        services = await build_services(settings, stack, drain)
        app = build_app(services)
        settle()
        await GatewayServer(app, settings, drain).serve()


async def _rotate() -> int:
    """Wraps all tenants' sealed providers again under the newest master key."""
    configure_logging("gateway", level="INFO", log_format="console")
    settings = load_settings(RotateSettings)
    async with AsyncExitStack() as stack:
        pool = await open_pool(settings.dsn, max_size=1, name="citewire-rotate")
        stack.push_async_callback(pool.close)
        tls = settings.tls()
        embedder = open_channel(settings.embedder_target, tls=tls)
        generator = open_channel(settings.generator_target, tls=tls)
        for channel in (embedder, generator):
            stack.push_async_callback(channel.close, None)
        try:
            rotation = await rotate(ProviderStore(pool), ProviderSealer(embedder, generator, seconds=_REWRAP_SECONDS))
        except CitewireError as exc:
            sys.stderr.write(f"{exc.message}\n")
            return EXIT_FAILED
    _print_line(
        f"{rotation.wrapped} wrapped again, {rotation.current} already under the newest master key, "
        f"{rotation.gone} deleted meanwhile, {rotation.failed} failed"
    )
    if rotation.failed:
        sys.stderr.write("Keep the older master keys until this has run without a failure.\n")
    return EXIT_FAILED if rotation.failed else 0


async def _keys(options: argparse.Namespace) -> int:
    configure_logging("gateway", level="ERROR", log_format="console")
    settings = load_settings(DatabaseSettings)
    dsn = settings.migrate_dsn or settings.dsn
    if dsn is None:
        raise StartupError(
            f"set {DatabaseSettings.env_name('migrate_dsn')} or {DatabaseSettings.env_name('dsn')} to the database"
        )
    async with AsyncExitStack() as stack:
        pool = await open_pool(dsn, max_size=1, name="citewire-keys")
        stack.push_async_callback(pool.close)
        try:
            return await _act(options, IdentityStore(pool), owner=settings.migrate_dsn is not None)
        except CitewireError as exc:
            sys.stderr.write(f"{exc.message}\n")
            return EXIT_NOT_FOUND if isinstance(exc, NotFound) else EXIT_FAILED


async def _act(options: argparse.Namespace, store: IdentityStore, *, owner: bool) -> int:
    org: str | None = options.org
    if org is None and not owner and options.action != "create":
        sys.stderr.write(
            "name the organisation with --org: all of them can be seen only by the schema's owner "
            f"({DatabaseSettings.env_name('migrate_dsn')})\n"
        )
        return EXIT_USAGE
    match options.action:
        case "create":
            await _create(options, store)
        case "list":
            keys = [_key_json(key) for key in await store.list_keys(org)]
            _print(keys, keys, as_json=options.json)
        case _:
            key = _key_json(await store.revoke_key(org, options.key))
            _print(key, [key], as_json=options.json)
    return 0


async def _create(options: argparse.Namespace, store: IdentityStore) -> None:
    violations = Violations()
    for name in ("org", "user"):
        violations.require(
            is_token(getattr(options, name) or "local"), f"--{name}", "must be 1-128 of A-Z a-z 0-9 _ . : @ -"
        )
    violations.require(1 <= len(options.name) <= 100, "--name", "must be 1-100 characters long")
    violations.raise_if_any()
    org, user = options.org or "local", options.user or "local"
    plan = await store.ensure_user(org, user, options.plan)
    key = make_key()
    info = await store.add_key(org, user, options.name, key)
    if options.json:
        _print_line(json.dumps({"key": key.text, "plan": plan, **_key_json(info)}))
    else:
        _print_line(key.text)
        sys.stderr.write(f"{info.key_id} of {user} in {org} (plan {plan}). The key is shown only now: keep it.\n")


def _print(value: object, rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        _print_line(json.dumps({"keys": value} if isinstance(value, list) else value))
        return
    for row in rows:
        state = f"revoked {row['revoked_at']}" if row["revoked_at"] else f"last used {row['last_used_at'] or 'never'}"
        _print_line(f"{row['id']}  {row['prefix']}…  {row['org']}/{row['user']}  {row['name']}  {state}")


def _key_json(key: KeyInfo) -> dict[str, Any]:
    values = asdict(key)
    return {
        "id": values.pop("key_id"),
        "org": values.pop("org_id"),
        "user": values.pop("user_id"),
        **{name: _time(value) if isinstance(value, datetime) else value for name, value in values.items()},
    }


def _time(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m citewire_gateway", description="Citewire's HTTP gateway.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("serve", help="serve HTTP until a signal (the default)")
    add_migrate(commands, "chat")
    commands.add_parser("rotate", help="wrap tenants' sealed providers again under the newest master key")
    add_audit(commands)
    keys = commands.add_parser("keys", help="create, list and revoke API keys")
    actions = keys.add_subparsers(dest="action", metavar="ACTION", required=True)
    creating = actions.add_parser("create", help="make a key and print it, this once; org and user are made if new")
    creating.add_argument("--user", help="the user (default: local)")
    creating.add_argument("--plan", choices=("free", "basic", "pro"), help="the organisation's plan (new ones: pro)")
    creating.add_argument("--name", default="key", help="what the key is for")
    listing = actions.add_parser("list", help="list keys, without the secrets")
    revoking = actions.add_parser("revoke", help="revoke a key; it stops working at once")
    revoking.add_argument("key", metavar="ID", help="the key's id or prefix")
    for action in (creating, listing, revoking):
        action.add_argument("--org", help="the organisation")
        action.add_argument("--json", action="store_true", help="print JSON")
    return parser
