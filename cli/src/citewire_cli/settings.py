"""Settings of the command from the environment; command-line options take precedence."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import get_str

DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_DATA_DIR = ".citewire"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The gateway's address and the caller's key."""

    url: str
    """`CITEWIRE_URL`: the gateway's address without a path; by default that of the stack which runs on `data_dir`,
    else DEFAULT_URL."""

    api_key: str | None
    """`CITEWIRE_API_KEY`: sent as a Bearer token; none for a local stack."""

    data_dir: Path
    """`CITEWIRE_DATA_DIR`: the folder of a local stack, relative to the current folder; default `.citewire`."""

    @property
    def loopback(self) -> bool:
        """Whether the gateway is on this machine, so that no proxy is needed."""
        host = urlsplit(self.url).hostname or ""
        return host == "localhost" or host == "::1" or host.startswith("127.")


def load_client_settings(environ: Mapping[str, str] | None = None, *, url: str | None = None) -> ClientSettings:
    """The client's settings; raises CliError (usage) if the address is not one.

    Args:
        environ: the environment, the process's own by default.
        url: the `--url` option, which takes precedence.
    """
    env = os.environ if environ is None else environ
    data_dir = data_dir_from(env)
    address = (url or env.get("CITEWIRE_URL") or _running_url(data_dir) or DEFAULT_URL).strip().rstrip("/")
    try:
        parts = urlsplit(address)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid:
        raise CliError(
            "The gateway's address is not valid",
            f"CITEWIRE_URL (or --url) is {address!r}; it should look like {DEFAULT_URL}.",
            ExitCode.USAGE,
        )
    return ClientSettings(address, _key_in(env, "CITEWIRE_API_KEY"), data_dir)


def load_operator_settings(environ: Mapping[str, str] | None = None, *, url: str | None = None) -> ClientSettings:
    """The same with an operator's key, of `CITEWIRE_OPERATOR_KEY`; raises CliError (usage) also where there is none."""
    env = os.environ if environ is None else environ
    key = _key_in(env, "CITEWIRE_OPERATOR_KEY")
    if key is None:
        raise CliError(
            "Whose key?",
            "Set CITEWIRE_OPERATOR_KEY to an operator's key; `citewire operator keys create` creates one.",
            ExitCode.USAGE,
        )
    return replace(load_client_settings(env, url=url), api_key=key)


def _key_in(env: Mapping[str, str], variable: str) -> str | None:
    key = (env.get(variable) or "").strip()
    if not key.isprintable() or not key.isascii():
        raise CliError(f"{variable} is not a valid key", "It contains characters that no key has.", ExitCode.USAGE)
    return key or None


def data_dir_from(environ: Mapping[str, str]) -> Path:
    """The folder of the local stack, absolute."""
    return Path(environ.get("CITEWIRE_DATA_DIR") or DEFAULT_DATA_DIR).expanduser().absolute()


def _running_url(data_dir: Path) -> str:
    """The address of the stack that runs on this folder; empty if none does."""
    if not (data_dir / "run.json").exists():
        return ""
    try:
        from citewire_cli.stack.layout import Layout
    except ImportError:  # not a POSIX system: there is no local stack
        return ""
    return get_str(Layout(data_dir).read_run() or {}, "url")
