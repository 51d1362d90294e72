"""API keys for tests, created as by the command, or by the command itself."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

from citewire_accounts.tenants.identity import IdentityStore, make_key
from citewire_kit.postgres import open_pool
from citewire_kit.tenant import Plan
from operator_commands import run_command

if TYPE_CHECKING:
    from databases import Database


async def key_for(database: Database, org: str, user: str, plan: Plan = "pro") -> dict[str, Any]:
    """The output of `keys create --json`, without the two CPU seconds that each process start takes."""
    key = make_key()
    async with await open_pool(database.owner_dsn, max_size=1, name="test-keys") as pool:
        store = IdentityStore(pool)
        current = await store.ensure_user(org, user, plan)
        info = await store.add_key(org, user, "key", key)
    return {"key": key.text, "plan": current, "id": info.key_id, "prefix": info.prefix}


def keys(database: Database, *arguments: str, owner: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs a keys command as an operator would."""
    name, dsn = ("MIGRATE_DSN", database.owner_dsn) if owner else ("DSN", database.dsn("citewire_chat"))
    return run_command(("keys", *arguments), {f"CITEWIRE_GATEWAY_{name}": dsn})


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}
