"""Replaces the parser in the fork server's processes with a test's function."""

from __future__ import annotations

from pathlib import Path

import pytest

from citewire_retriever.ingest import fork_server

_MAIN = """
from citewire_retriever.ingest.confined import server
from citewire_retriever.ingest.document import Block, BlockKind, Format, ParsedDocument


def say(text):
    block = Block(BlockKind.PARAGRAPH, 0, len(text))
    return ParsedDocument(Format.TEXT, "text/plain", text, (block,))


{functions}


if __name__ == "__main__":
    server.parse = planted
    server.main()
"""


def plant(monkeypatch: pytest.MonkeyPatch, folder: Path, functions: str) -> None:
    """Plants `planted(data, file_name, media_type, limits)`, which may `say` a text; processes started now run it.

    The product has no option for this: the test starts a different program than the worker would, which does
    everything that the fork server does.
    """
    script = folder / "planted.py"
    script.write_text(_MAIN.format(functions=functions), encoding="utf-8")
    monkeypatch.setattr(fork_server, "ARGUMENTS", ("-I", "-X", "utf8", str(script)))
