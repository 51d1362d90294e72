"""API keys for tests, made as an operator would."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from databases import Database


async def key_for(database: Database, org: str, user: str, plan: str = "pro") -> dict[str, Any]:
    done = await asyncio.to_thread(keys, database, "create", "--org", org, "--user", user, "--plan", plan, "--json")
    return json.loads(done.stdout)


def keys(database: Database, *arguments: str, owner: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs a keys command as an operator would."""
    name, dsn = ("MIGRATE_DSN", database.owner_dsn) if owner else ("DSN", database.dsn("citewire_chat"))
    return subprocess.run(
        [sys.executable, "-m", "citewire_gateway", "keys", *arguments],
        env={f"CITEWIRE_GATEWAY_{name}": dsn},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}
