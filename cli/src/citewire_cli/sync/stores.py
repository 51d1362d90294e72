"""S3, WebDAV and SFTP as sources: how each is opened, listed, and what its errors mean.

Credentials come from the environment and the machine's own files, never from an address, which others could read.
"""

import errno
import importlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast
from urllib.parse import SplitResult, unquote, urlsplit

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.sync.store import Explain, FileSystem, Opened, Store

SCHEMES: Final = {
    "s3": "s3://BUCKET/FOLDER",
    "sftp": "sftp://USER@HOST:PORT/FOLDER",
    "webdav+https": "webdav+https://HOST/FOLDER",
    "webdav+http": "webdav+http://HOST/FOLDER",
}
"""Each with its form."""
USER: Final = "CITEWIRE_SYNC_USER"
PASSWORD: Final = "CITEWIRE_SYNC_PASSWORD"  # noqa: S105 # the variable's name
_CONNECT_SECONDS: Final = 20
_READ_SECONDS: Final = 60
_TRIES: Final = 4
_OF_OUR_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_AWS_HELP: Final = (
    "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile; AWS_ENDPOINT_URL for another service."
)
_LOGIN_HELP: Final = f"Set {USER} and {PASSWORD}."


def open_store(source: str, cache: Path, *, url_prefix: str = "") -> Store:
    """A store that is followed; connects to nothing yet.

    Raises:
        CliError: the address isn't of its scheme's form, holds a password, or its extra isn't installed (usage).
    """
    parts = _split(source)
    kind, extra, module, opener, explain = _KINDS[parts.scheme.partition("+")[0]]
    try:
        library = importlib.import_module(module)
    except ImportError as error:
        install = f"Install it: pip install 'citewire-cli[{extra}]'."
        raise CliError(f"The extra `{extra}` isn't installed", install, ExitCode.USAGE) from error
    return Store(kind, source, partial(opener, library, parts), explain, cache, url_prefix=url_prefix)


def _split(source: str) -> SplitResult:
    form = SCHEMES[source.partition("://")[0]]
    try:
        parts = urlsplit(source)
        complete = bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError as error:
        raise CliError("This is not a source URL", f"Write it as {form}.", ExitCode.USAGE) from error
    if parts.password is not None or (parts.username is not None and parts.scheme != "sftp"):
        where = (
            f"Set {USER} and {PASSWORD}" if parts.scheme != "s3" else "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
        raise CliError("A URL must not contain credentials", f"Others could read it. {where}.", ExitCode.USAGE)
    if not complete or parts.query or parts.fragment:
        raise CliError("This is not a source URL", f"Write it as {form}.", ExitCode.USAGE)
    return parts


def _open_s3(library: ModuleType, parts: SplitResult) -> Opened:
    files = library.S3FileSystem(
        anon=os.environ.get("AWS_NO_SIGN_REQUEST", "").lower() in ("1", "true", "yes"),
        config_kwargs={
            "connect_timeout": _CONNECT_SECONDS,
            "read_timeout": _READ_SECONDS,
            "retries": {"max_attempts": _TRIES, "mode": "standard"},
        },
        use_listings_cache=False,
        skip_instance_cache=True,
    )
    root = f"{parts.netloc}/{unquote(parts.path).strip('/')}".rstrip("/")

    def listing() -> Iterator[dict[str, Any]]:
        # With a slash, so that `docs` doesn't list `docs-old`.
        yield from files.find(f"{root}/", detail=True).values()

    return Opened(cast("FileSystem", files), root, listing)


def _open_webdav(library: ModuleType, parts: SplitResult) -> Opened:
    user, password = os.environ.get(USER, ""), os.environ.get(PASSWORD, "")
    scheme = parts.scheme.partition("+")[2]
    if scheme == "http" and user and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise CliError("A password would be sent unencrypted", "Use webdav+https://.", ExitCode.USAGE)
    files = library.WebdavFileSystem(
        f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}/",
        auth=(user, password) if user else None,
        timeout=_READ_SECONDS,
        skip_instance_cache=True,
    )
    return Opened(cast("FileSystem", files), "", partial(walk, files, ""))


def _open_sftp(library: ModuleType, parts: SplitResult) -> Opened:
    options: dict[str, Any] = {
        "known_hosts": (),  # those of the machine's user; sshfs would ask nobody
        "connect_timeout": _CONNECT_SECONDS,
        "login_timeout": _CONNECT_SECONDS,
        "keepalive_interval": 15,
        "keepalive_count_max": 4,
        "sftp_client_kwargs": {"path_errors": "surrogateescape"},  # a name that isn't UTF-8 must not hide the others
        "skip_instance_cache": True,
    }
    if parts.port is not None:
        options["port"] = parts.port
    if user := unquote(parts.username or "") or os.environ.get(USER, ""):
        options["username"] = user
    if password := os.environ.get(PASSWORD, ""):
        options["password"] = password
    files = library.SSHFileSystem(parts.hostname, **options)
    root = unquote(parts.path).rstrip("/") or "/"
    return Opened(cast("FileSystem", files), root, partial(walk, files, root))


def walk(files: FileSystem, folder: str) -> Iterator[dict[str, Any]]:
    """Everything below a folder; unlike fsspec's own walk it raises where a folder can't be listed."""
    todo, seen = [folder], {folder.strip("/")}
    while todo:
        for info in files.ls(todo.pop(), detail=True):
            if info["type"] == "directory":
                # A WebDAV server that spells a folder otherwise than we do lists it in itself.
                name = str(info["name"])
                if name.strip("/") not in seen:
                    seen.add(name.strip("/"))
                    todo.append(name)
            else:
                yield info


def _explain_s3(error: Exception) -> tuple[str, str] | None:
    name = type(error).__name__
    if "Credentials" in name or "Token" in name:
        return "There are no credentials for S3", _AWS_HELP
    if isinstance(error, PermissionError):
        return "S3 refuses access", _AWS_HELP
    if isinstance(error, FileNotFoundError):
        return "There is no such bucket or object", "It has another name or region, or was deleted meanwhile."
    if type(error).__module__.partition(".")[0] in ("botocore", "aiobotocore", "aiohttp"):
        return "S3 cannot be reached", f"{name}. AWS_ENDPOINT_URL names the service's address."
    return None


def _explain_webdav(error: Exception) -> tuple[str, str] | None:
    status = getattr(error, "status_code", None)
    if status in (401, 403):
        return "The WebDAV server refuses access", _LOGIN_HELP
    if isinstance(error, FileNotFoundError) or status in (404, 410) or type(error).__name__ == "ResourceNotFound":
        return "There is no such folder or file", "It has another name, or was deleted meanwhile."
    if status is not None:
        return "The WebDAV server answered with an error", f"HTTP {status}."
    module = type(error).__module__.partition(".")[0]
    if module in ("httpx", "httpcore"):
        return "The WebDAV server cannot be reached", type(error).__name__
    if module in ("webdav4", "xml"):
        return "The server that answers is not a WebDAV server", type(error).__name__
    return None


def _explain_sftp(error: Exception) -> tuple[str, str] | None:
    name = type(error).__name__
    if name == "HostKeyNotVerifiable":
        return "The server's key isn't known", "Compare it and add it to ~/.ssh/known_hosts: ssh-keyscan HOST."
    if isinstance(error, PermissionError):
        return "The SFTP server refuses access", f"Use a key of ~/.ssh or an agent, or: {_LOGIN_HELP}"
    if isinstance(error, FileNotFoundError):
        return "There is no such folder or file", "It has another name, or was deleted meanwhile."
    if isinstance(error, OSError) and error.errno in _OF_OUR_DISK:
        return None
    if type(error).__module__.partition(".")[0] == "asyncssh" or isinstance(error, OSError):
        return "The SFTP server cannot be reached, or broke off", name
    return None


_Opener = Callable[[ModuleType, SplitResult], Opened]
_KINDS: Final[dict[str, tuple[str, str, str, _Opener, Explain]]] = {
    "s3": ("s3", "s3", "s3fs", _open_s3, _explain_s3),
    "webdav": ("webdav", "webdav", "webdav4.fsspec", _open_webdav, _explain_webdav),
    "sftp": ("sftp", "sftp", "sshfs", _open_sftp, _explain_sftp),
}
"""By the scheme's first part: the mirror's kind, the extra, its module, and what knows it."""
