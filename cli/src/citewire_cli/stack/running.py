"""Finds the local stack at an address."""

from contextlib import suppress
from pathlib import Path

import psutil

from citewire_cli.jsonio import JsonObject, get_str
from citewire_cli.settings import DEFAULT_DATA_DIR, ClientSettings
from citewire_cli.stack.layout import Layout

_GATEWAY = "citewire_gateway"


def running_stack(settings: ClientSettings) -> JsonObject | None:
    """The run file of the stack whose gateway is at `settings.url`, wherever its data is; None if none of ours is.

    It checks the folder in `CITEWIRE_DATA_DIR` first, then those of the gateways that this user runs here.
    """
    if not settings.loopback:
        return None
    state = _at(settings.data_dir, settings.url)
    if state is not None:
        return state
    for process in psutil.process_iter(["cmdline"]):
        if _GATEWAY not in (process.info["cmdline"] or ()):
            continue
        with suppress(psutil.Error, OSError):
            folder = Path(process.cwd()) / _data_dir(process)
            if (state := _at(folder, settings.url)) is not None:
                return state
    return None


def _data_dir(process: psutil.Process) -> Path:
    """The value as the process reads it, relative to its own folder."""
    return Path(process.environ().get("CITEWIRE_DATA_DIR") or DEFAULT_DATA_DIR).expanduser()


def _at(folder: Path, url: str) -> JsonObject | None:
    state = Layout(folder).read_run()
    return state if state is not None and get_str(state, "url") == url else None
