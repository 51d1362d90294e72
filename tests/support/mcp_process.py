"""`citewire mcp --http` as a process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import httpx

CITEWIRE = Path(sys.executable).with_name("citewire")


def start(url: str, port: int, *arguments: str) -> subprocess.Popen[bytes]:
    """Starts a server that calls the gateway at `url`, with a key whose rights no call may have."""
    # Calls over HTTP never have the process's own rights.
    environment = {"PATH": os.environ["PATH"], "CITEWIRE_URL": url, "CITEWIRE_API_KEY": "the-process"}
    return subprocess.Popen([CITEWIRE, "mcp", "--http", "--port", str(port), *arguments], env=environment)


async def listening(port: int) -> None:
    """Waits until the server answers."""
    async with asyncio.timeout(60), httpx.AsyncClient(trust_env=False) as http:
        while True:
            try:
                await http.get(f"http://127.0.0.1:{port}/")
            except httpx.ConnectError:
                await asyncio.sleep(0.1)
            else:
                return
