"""The client's synchronous modules, generated from the asynchronous ones."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from scripts.python_client.tools import PACKAGE, formatted, generator

BLOCKING: Final = {
    "AsyncCitewire": "Citewire",
    "AsyncChatStream": "ChatStream",
    "AsyncOperations": "Operations",
    "AsyncTransport": "Transport",
    "AsyncExitStack": "ExitStack",
    "AsyncClient": "Client",
    "_async": "_sync",
    "aclose": "close",
    "aclosing": "closing",
    "aiter_bytes": "iter_bytes",
    "aread": "read",
    "async_sleep": "sleep",
    "enter_async_context": "enter_context",
}
"""Asynchronous names and their synchronous counterparts."""
UNASYNC: Final = """
import json, sys, unasync
files, names = json.load(sys.stdin)
unasync.unasync_files(files, [unasync.Rule("/_async/", "/_sync/", names)])
"""


def blocking(newer: dict[Path, str]) -> dict[Path, str]:
    """Returns the synchronous modules, generated from the asynchronous ones; `newer`: texts that aren't written yet."""
    sources = {path: path.read_text(encoding="utf-8") for path in sorted((PACKAGE / "_async").glob("*.py"))} | newer
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "_async")
        home.mkdir()
        for path, text in sources.items():
            (home / path.name).write_text(text, encoding="utf-8")
        order = json.dumps([[str(home / path.name) for path in sources], BLOCKING])
        subprocess.run([str(generator().with_name("python")), "-c", UNASYNC], input=order, check=True, text=True)
        made = {path.name: Path(folder, "_sync", path.name).read_text(encoding="utf-8") for path in sources}
    return {PACKAGE / "_sync" / name: formatted(text, name) for name, text in made.items()}
