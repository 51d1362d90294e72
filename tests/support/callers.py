"""Callers in tests: a gateway's keys for the whole run, and channels that sign with them.

A server gets `KEYED`, a process `keyed_environment()`; their callers open `signed_channel` or use the key themselves.
Child processes that import this module too, such as a benchmark's clients, find the same keys.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

import grpc

from citewire_kit.callers.__main__ import make_keys
from citewire_kit.callers.signer import Signer
from citewire_kit.channel import open_channel
from citewire_kit.tenant import LOCAL_TENANT, Tenant, find_tenant, use_tenant


def _folder_of_keys() -> Path:
    inherited = os.environ.get("KEYS_OF_TEST_CALLERS")
    if inherited is not None:
        return Path(inherited)
    folder = Path(tempfile.mkdtemp(prefix="citewire-test-callers-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    make_keys(folder, {"gateway": (), "worker": ()})
    os.environ["KEYS_OF_TEST_CALLERS"] = str(folder)
    return folder


_FOLDER: Final = _folder_of_keys()

ISSUERS: Final = _FOLDER / "issuers.json"
KEY: Final = _FOLDER / "gateway.pem"
WORKER_KEY: Final = _FOLDER / "worker.pem"
SIGNER: Final = Signer("citewire-gateway", KEY)

KEYED: Final[dict[str, Any]] = {"caller_issuers": ISSUERS}
"""Settings of a service that accepts calls from `signed_channel`."""


def keyed_environment(process: str = "gateway") -> dict[str, str]:
    """Variables of a process that accepts signed calls and signs its own."""
    return {"CITEWIRE_CALLER_ISSUERS": str(ISSUERS), "CITEWIRE_CALLER_KEY": str(_FOLDER / f"{process}.pem")}


class _LocalSigner(Signer):
    """Signs for the local tenant unless the test sets another, like a gateway without auth."""

    def metadata(self, path: str, certificate: bytes = b"") -> tuple[tuple[str, str], ...]:
        """See `Signer`."""
        if find_tenant() is not None:
            return super().metadata(path, certificate)
        with use_tenant(LOCAL_TENANT):
            return super().metadata(path, certificate)


def signed_channel(target: str, *, local: bool = False, **options: Any) -> grpc.aio.Channel:  # noqa: ANN401 # those of `open_channel`
    """Opens a channel whose calls are signed for their tenant; with `local`, for the local tenant if none is set."""
    return open_channel(target, signer=_LocalSigner("citewire-gateway", KEY) if local else SIGNER, **options)


def caller_metadata(tenant: Tenant, path: str) -> tuple[tuple[str, str], ...]:
    """Returns the metadata for one manual call of the method at `path`."""
    with use_tenant(tenant):
        return SIGNER.metadata(path)
