"""The gateway's commands, run as an operator would."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from databases import Database


def command(database: Database, *arguments: str, owner: bool = True) -> subprocess.CompletedProcess[str]:
    name, dsn = ("MIGRATE_DSN", database.owner_dsn) if owner else ("DSN", database.dsn("citewire_chat"))
    return subprocess.run(
        [sys.executable, "-m", "citewire_gateway", *arguments],
        env={**os.environ, f"CITEWIRE_GATEWAY_{name}": dsn},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
