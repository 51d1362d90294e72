"""Runs the gateway's commands like an operator, without the second that a process start takes."""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from databases import Database

_SERVER: Final = Path(__file__).with_name("command_server.py")
_SECONDS = 60.0


def command(database: Database, *arguments: str, owner: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs a command on a database, as the schema's owner or as the application."""
    name, dsn = ("MIGRATE_DSN", database.owner_dsn) if owner else ("DSN", database.dsn("citewire_chat"))
    return run_command(arguments, {**os.environ, f"CITEWIRE_GATEWAY_{name}": dsn})


def run_command(arguments: tuple[str, ...], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a command with exactly this environment in a separate process (see `command_server`)."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory(prefix="cw-command-") as folder:
        output, errors = Path(folder) / "output", Path(folder) / "errors"
        order = (arguments, dict(environ), str(output), str(errors))
        server.stdin.write(json.dumps(order).encode() + b"\n")
        if not select.select([server.stdout], [], [], _SECONDS)[0]:
            server.kill()
            raise subprocess.TimeoutExpired(arguments, _SECONDS)
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess(arguments, code, output.read_text(), errors.read_text())


@cache
def _server() -> subprocess.Popen[bytes]:
    """The process that all commands of this test run are forked from."""
    server = subprocess.Popen([sys.executable, str(_SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    atexit.register(_end, server)
    return server


def _end(server: subprocess.Popen[bytes]) -> None:
    for pipe in (server.stdin, server.stdout):
        if pipe is not None:
            pipe.close()
    server.wait(_SECONDS)
