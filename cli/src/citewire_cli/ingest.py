"""Uploads files and waits until they are ready: safe to repeat, safe to interrupt."""

import asyncio
import hashlib
import json
import mimetypes
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import FileIO, UnsupportedOperation
from pathlib import Path
from typing import Protocol, cast
from uuid import uuid4

from citewire_cli.api import BROKEN, Api
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.files import Address, Source, sha256_of
from citewire_cli.jsonio import JsonObject, get_int, get_str
from citewire_cli.library import read_library
from citewire_cli.outcomes import Observer, Outcome, wait_for_all

UPLOADS_AT_ONCE = 4
TRIES = 5
KEY_LEASE_SECONDS = 150.0
"""Seconds that an earlier try may still hold its key: the gateway's lease is 120 s for a killed one."""


@dataclass(frozen=True, slots=True)
class Target:
    """How documents are filed.

    `update`: a changed file becomes a new version of the document of its name, instead of another document.
    """

    collection: str | None = None
    tags: tuple[str, ...] = ()
    update: bool = False
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further fields by their names in the API, such as `valid_until`; documents that exist already get them, too."""


class KnownDocuments(Protocol):
    """The library's documents that may match a file."""

    def find(self, source: Source, sha256: str) -> JsonObject | None:
        """The existing document of a file with these bytes."""
        ...

    def named(self, source: Source) -> int | None:
        """The document that a changed file is a new version of."""
        ...

    def form(self, source: Source) -> dict[str, str]:
        """Fields of the upload that identify the file later; `path` is one of them."""
        ...


async def ingest(
    api: Api,
    sources: Sequence[Source | Address],
    target: Target,
    observer: Observer,
    *,
    wait: bool = True,
    patience: float = 600.0,
) -> list[Outcome]:
    """Uploads `sources`, a few at a time, and waits until each is ready or failed.

    Nothing is stored twice: a file that is already in the library (the same bytes under the same name in the same
    collection) isn't sent, and the `Idempotency-Key` is derived from the content, so that an upload with a lost answer
    is found again. A web address that has a document is fetched again only with `update`.

    Args:
        api: the gateway.
        sources: the files.
        target: where they are filed.
        observer: told about progress.
        wait: whether to wait after the upload.
        patience: seconds without any progress after which waiting ends.

    Raises:
        CliError: the gateway cannot be reached or refuses access; errors of single files are in their outcomes.
    """
    library = await read_library(api, target.collection)
    outcomes = [
        Outcome(library.place(source) if isinstance(source, Source) else Address(source.url, library.at(source.url)))
        for source in sources
    ]
    await send_all(api, outcomes, target, library, observer, patience=patience if wait else None)
    return outcomes


async def send_all(
    api: Api,
    outcomes: Sequence[Outcome],
    target: Target,
    library: KnownDocuments,
    observer: Observer,
    *,
    patience: float | None,
) -> None:
    """Uploads missing files, a few at a time, and waits as `ingest` does unless `patience` is None.

    Raises:
        CliError: as `ingest`.
    """
    todo = deque(outcomes)
    waiting: asyncio.Queue[Outcome | None] = asyncio.Queue()

    async def uploader() -> None:
        while todo:
            outcome = todo.popleft()
            await _upload(api, outcome, target, library)
            observer.uploaded(outcome)
            if outcome.error is None and patience is not None:
                waiting.put_nowait(outcome)

    async def uploaders() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(UPLOADS_AT_ONCE):
                group.create_task(uploader())
        waiting.put_nowait(None)

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(uploaders())
            group.create_task(wait_for_all(api, waiting, observer, patience or 0.0))
    except BaseExceptionGroup as failures:
        raise _first(failures) from None


def idempotency_key(
    content_sha256: str,
    name: str,
    target: Target,
    replaces: int | None = None,
    described: Mapping[str, str] | None = None,
) -> str:
    """The key of an upload: the same for the same bytes under the same name, described alike, in the same place."""
    parts: list[object] = [content_sha256, name, target.collection, sorted(target.tags), replaces]
    if described:  # two sources may have the same file, and the gateway compares requests
        parts.append(sorted(described.items()))
    if target.fields:
        parts.append(sorted(target.fields.items()))
    text = json.dumps(parts, ensure_ascii=True)
    return f"citewire-ingest-{hashlib.sha256(text.encode()).hexdigest()}"


async def _upload(api: Api, outcome: Outcome, target: Target, library: KnownDocuments) -> None:
    """Uploads one file; its refusal is the outcome's error, an unreachable or denying gateway raises."""
    source = outcome.source
    try:
        if isinstance(source, Address):
            document = await _fetch(api, source, target)
        else:
            document = await _bring(api, outcome, source, target, library)
        if get_str(document, "status") == "failed":
            document = await _retry(api, document)
    except OSError as error:
        outcome.status, outcome.error = "failed", CliError("The file cannot be read", error.strerror or str(error))
        return
    except CliError as error:
        if error.code is ExitCode.UNAUTHORISED:
            raise
        if error.code is ExitCode.UNREACHABLE:
            if error.title != BROKEN or not await _answers(api):
                raise
            # A server that refuses a long body may close before its response is read.
            why = "The gateway answers, but not to this file: it may be larger than the gateway or a proxy accepts."
            error = CliError("The upload broke off each time", why)
        outcome.status, outcome.error = "failed", error
        return
    outcome.document = document
    outcome.document_id = get_int(document, "id")
    outcome.status = get_str(document, "status") or "pending"


async def _answers(api: Api) -> bool:
    try:
        await api.health()
    except CliError:
        return False
    return True


async def _bring(api: Api, outcome: Outcome, source: Source, target: Target, library: KnownDocuments) -> JsonObject:
    """The file's document in the library; uploads the file if there is none."""
    digest = await asyncio.to_thread(sha256_of, source.path)
    document = library.find(source, digest)
    if document is not None:
        return await _changed(api, document, target)
    earlier = library.named(source)
    outcome.beside = earlier is not None and not target.update
    replaces = earlier if target.update else None
    return await _send(api, source, target, library.form(source), digest, replaces)


async def _fetch(api: Api, address: Address, target: Target) -> JsonObject:
    """The document of a web address; the gateway fetches it if there is none or it must be updated."""
    known = address.known
    if known is not None and not target.update:
        return await _changed(api, known, target)
    body: JsonObject = {"url": address.url, **target.fields}
    if target.collection is not None:
        body["collection"] = target.collection
    if target.tags:
        body["tags"] = list(target.tags)
    headers = {"Idempotency-Key": f"citewire-fetch-{uuid4().hex}"}
    if known is None:
        return await persistently(lambda: api.call("POST", "/v1/documents", body=body, headers=headers))
    path = f"/v1/documents/{get_int(known, 'id')}"
    return await persistently(lambda: api.call("PUT", path, body=body, headers=headers))


async def _changed(api: Api, document: JsonObject, target: Target) -> JsonObject:
    """An existing document, with the fields that are requested now."""
    if not target.fields:
        return document
    return await api.call("PATCH", f"/v1/documents/{get_int(document, 'id')}", body=dict(target.fields))


async def _send(
    api: Api, source: Source, target: Target, described: Mapping[str, str], digest: str, replaces: int | None
) -> JsonObject:
    """Sends a file; returns the document's current state."""
    path = "/v1/documents" if replaces is None else f"/v1/documents/{replaces}"
    key = idempotency_key(digest, source.name, target, replaces, described)
    form = _form(target, described)
    try:
        answer = await _request(api, path, source, form, key)
        document = await api.call("GET", f"/v1/documents/{get_int(answer, 'id')}")
        if get_str(document, "sha256") == digest and get_str(document, "file_name") == source.name:
            return document
    except CliError as error:
        if error.code is not ExitCode.NOT_FOUND:
            raise
        path = "/v1/documents"
    # The key is remembered, but its document was deleted, moved or changed since: the user wants it as it is now.
    return await _request(api, path, source, form, f"{key}-{time.time_ns():x}")


def _form(target: Target, described: Mapping[str, str]) -> dict[str, str]:
    form = {**described, **target.fields}
    if target.collection is not None:
        form["collection"] = target.collection
    if target.tags:
        form["tags"] = json.dumps(list(target.tags))
    return form


async def _request(api: Api, path: str, source: Source, form: Mapping[str, str], key: str) -> JsonObject:
    # The same boundary for the same key, so that a repetition is the same request byte for byte.
    boundary = hashlib.sha256(key.encode()).hexdigest()
    headers = {"Idempotency-Key": key, "Content-Type": f"multipart/form-data; boundary={boundary}"}
    method = "POST" if path == "/v1/documents" else "PUT"
    media_type = mimetypes.guess_type(source.name)[0] or "application/octet-stream"

    async def send() -> JsonObject:
        with _SentFile(source.path) as content:
            files = {"file": (source.path.name, content, media_type)}
            return await api.call(method, path, files=files, form=form, headers=headers)

    return await persistently(send)


class _SentFile(FileIO):
    """A file that is sent with the length that it had when it was opened; reading more or less is an error."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._size = os.fstat(super().fileno()).st_size
        self._read = 0

    def fileno(self) -> int:
        """None, so that its length is that of `seek`."""
        raise UnsupportedOperation("fileno")

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._read = super().seek(self._size if whence == os.SEEK_END else offset)
        return self._read

    def read(self, size: int | None = -1, /) -> bytes:
        part = super().read(-1 if size is None else size) or b""
        self._read += len(part)
        if self._read > self._size or (not part and self._read < self._size):
            raise OSError("it changed while it was being sent; the next run sends it")
        return part


async def persistently(send: Callable[[], Awaitable[JsonObject]]) -> JsonObject:
    """Sends an idempotent request until the gateway answers.

    Raises:
        CliError: it refuses, or has been away or overloaded for several tries.
    """
    began, delay, failures = time.monotonic(), 0.5, 0
    while True:
        try:
            return await send()
        except CliError as error:
            if error.reason == "IDEMPOTENCY_IN_PROGRESS":
                if time.monotonic() - began > KEY_LEASE_SECONDS:
                    raise
            else:
                failures += 1
                if error.code is not ExitCode.UNREACHABLE or failures == TRIES:
                    raise
            delay = max(delay, min(error.retry_after or 0.0, 30.0))
        await asyncio.sleep(delay)
        delay = min(delay * 2, 8.0)


async def _retry(api: Api, document: JsonObject) -> JsonObject:
    """Retries a document that failed, in an earlier run or just now; returns it unchanged if that is refused."""
    try:
        return await api.call("POST", f"/v1/documents/{get_int(document, 'id')}:retry")
    except CliError as error:
        if error.code in {ExitCode.UNREACHABLE, ExitCode.UNAUTHORISED}:
            raise
        return document


def _first(failure: BaseException) -> BaseException:
    while isinstance(failure, BaseExceptionGroup):
        failure = cast("BaseExceptionGroup[BaseException]", failure).exceptions[0]
    return failure
