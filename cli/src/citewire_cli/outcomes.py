"""The outcome for each file, and waiting until its document is ready or has failed."""

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from citewire_cli.api import Api
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.files import Address, Source
from citewire_cli.jsonio import JsonObject, get_int, get_object, get_str
from citewire_cli.library import EVER, every_document

POLL_SECONDS = 0.3
POLL_SECONDS_MAX = 2.0


@dataclass(slots=True)
class Outcome:
    """The outcome for one file.

    `status` is `ready`, `failed`, or its state when waiting ended (`pending`, `processing`, `not uploaded`).
    """

    source: Source | Address
    document_id: int | None = None
    status: str = "not uploaded"
    error: CliError | None = None
    document: JsonObject = field(default_factory=dict[str, object])
    beside: bool = False
    """Whether another version of the file stays in the library as a separate document."""

    def as_json(self) -> JsonObject:
        """The outcome as `--json` prints it."""
        body: JsonObject = {"path": str(self.source.path), "name": self.source.name, "id": self.document_id}
        body["status"] = self.status
        chunks = get_int(self.document, "chunks")
        if chunks is not None:
            body["chunks"] = chunks
        if self.error is not None:
            body |= self.error.as_json()
        return body


class Observer(Protocol):
    """Receives progress."""

    def uploaded(self, outcome: Outcome) -> None:
        """A file has been accepted or refused."""

    def settled(self, outcome: Outcome) -> None:
        """A document is ready or has failed for good."""


async def wait_for_all(api: Api, arriving: asyncio.Queue[Outcome | None], observer: Observer, patience: float) -> None:
    """Polls until nothing is left; gives up after `patience` seconds without progress."""
    waiting: list[Outcome] = []
    uploading = True
    progress_at, pause = time.monotonic(), POLL_SECONDS
    while uploading or waiting:
        while uploading and (not waiting or not arriving.empty()):
            outcome = await arriving.get()
            progress_at = time.monotonic()
            if outcome is None:
                uploading = False
            else:
                waiting.append(outcome)
        left = await _look(api, waiting, observer)
        now = time.monotonic()
        if len(left) < len(waiting):
            progress_at, pause = now, POLL_SECONDS
        elif now - progress_at > patience:
            return
        waiting = left
        if waiting:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, POLL_SECONDS_MAX)


async def _look(api: Api, waiting: list[Outcome], observer: Observer) -> list[Outcome]:
    """Finds out which are ready or failed, and returns the others.

    Pending documents are listed, so that one poll costs two requests however many wait. An unreachable gateway is
    asked again later.
    """
    if not waiting:
        return []
    left: list[Outcome] = []
    try:
        active = await _active(api)
        for outcome in waiting:
            if outcome.document_id in active:
                outcome.status = active[outcome.document_id]
                left.append(outcome)
            elif await _settled(api, outcome):
                observer.settled(outcome)
            else:
                left.append(outcome)
    except CliError as error:
        if error.code is not ExitCode.UNREACHABLE:
            raise
        return [outcome for outcome in waiting if outcome.error is None and outcome.status != "ready"]
    return left


async def _active(api: Api) -> dict[int | None, str]:
    """Documents that wait or are being processed, by id. Requested in the order in which they change."""
    active: dict[int | None, str] = {}
    for status in ("pending", "processing"):
        async with aclosing(every_document(api, EVER | {"status": status})) as documents:
            async for document in documents:
                active[get_int(document, "id")] = status
    return active


async def _settled(api: Api, outcome: Outcome) -> bool:
    """Checks one document: whether it is ready, has failed, or was deleted."""
    try:
        outcome.document = await api.call("GET", f"/v1/documents/{outcome.document_id}")
    except CliError as error:
        if error.code in {ExitCode.UNREACHABLE, ExitCode.UNAUTHORISED}:
            raise
        outcome.status, outcome.error = "failed", error
        return True
    outcome.status = get_str(outcome.document, "status")
    if outcome.status == "failed":
        error = get_object(outcome.document, "error")
        outcome.error = CliError(
            "The document cannot be read", get_str(error, "message"), reason=get_str(error, "code")
        )
    return outcome.status in {"ready", "failed"}
