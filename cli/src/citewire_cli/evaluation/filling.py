"""The corpus in the library: a collection of its own, filled once and found again by the corpus's fingerprint."""

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from citewire_cli.errors import CliError
from citewire_cli.evaluation.datasets import Dataset, Document
from citewire_cli.evaluation.gateway import EvaluationError, Gateway, Progress
from citewire_cli.jsonio import JsonObject, get_int, get_object, get_objects, get_str

_EVAL_ID = "eval_id"
GROUP_FIELD = "metadata.group"
_PAGE = 1000
_POLL_SECONDS = 0.5
_PATIENCE = 600.0
"""Seconds without any progress after which waiting for the ingest ends."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A collection that holds the corpus.

    Attributes:
        collection: Its name.
        ids: The data set's id of each document, by the library's.
        reused: Whether nothing had to be uploaded.
    """

    collection: str
    ids: dict[int, str]
    reused: bool


def collection_of(dataset: Dataset) -> str:
    """The name of the collection that holds this very corpus."""
    name = re.sub(r"[^\w.-]+", "-", dataset.name).strip("-") or dataset.form
    return f"eval-{name[:100]}-{dataset.fingerprint}"


async def fill(gateway: Gateway, dataset: Dataset, progress: Progress) -> Filled:
    """Uploads what is missing of the corpus and waits until all of it can be found.

    Raises:
        EvaluationError: Documents failed to ingest, or ingesting stands still.
        CliError: The gateway refused, or is gone.
    """
    collection = collection_of(dataset)
    known = await _listed(gateway, collection)
    present = set(known.values())
    missing = [document for document in dataset.documents if document.eval_id not in present]
    reused = not missing
    for again in ("", f"/{time.time_ns():x}"):
        if not missing:
            break
        await _upload(gateway, collection, missing, len(dataset.documents), again, progress)
        known = await _listed(gateway, collection)
        present = set(known.values())
        # An Idempotency-Key that is remembered answers with a document that may have been deleted since.
        missing = [document for document in dataset.documents if document.eval_id not in present]
    if missing:
        raise EvaluationError(f"{len(missing)} documents were accepted and aren't listed, such as {missing[0].eval_id}")
    await _wait_until_ready(gateway, collection, known, progress)
    return Filled(collection, known, reused)


async def find_existing(gateway: Gateway, dataset: Dataset, collection: str) -> Filled:
    """The documents of a collection that judgements name: by id, by file name or by title.

    Raises:
        EvaluationError: A judged document isn't there, isn't ready, or two have its name.
        CliError: The gateway refused, or is gone.
    """
    listed: dict[int, JsonObject] = {}

    def note(document: JsonObject) -> None:
        number = get_int(document, "id")
        if number is not None:
            listed[number] = document

    await _list(gateway, {"collection": collection}, note)
    ids = {number: f"#{number}" for number in listed}
    for eval_id in sorted({one for question in dataset.questions for one in question.judged}):
        number = _named(eval_id, listed, collection)
        if ids[number] != f"#{number}":
            raise EvaluationError(f"{ids[number]!r} and {eval_id!r} are the same document, {number}")
        ids[number] = eval_id
    return Filled(collection, ids, reused=True)


def _named(eval_id: str, listed: dict[int, JsonObject], collection: str) -> int:
    for key in ("id", "file_name", "title"):
        found = [number for number, document in listed.items() if get_str(document, key) == eval_id]
        if len(found) > 1:
            raise EvaluationError(f"{len(found)} documents of {collection} have the {key} {eval_id!r}; judge by id")
        if found:
            if get_int(listed[found[0]], "live_version") is None:
                raise EvaluationError(f"the document {eval_id!r} of {collection} isn't ready")
            return found[0]
    raise EvaluationError(f"no document of {collection} has the id, file name or title {eval_id!r}")


async def _upload(
    gateway: Gateway, collection: str, documents: Sequence[Document], total: int, again: str, progress: Progress
) -> None:
    done = total - len(documents)

    async def put(document: Document) -> None:
        nonlocal done
        key = hashlib.sha256(f"{collection}/{document.eval_id}{again}".encode()).hexdigest()
        metadata: JsonObject = {_EVAL_ID: document.eval_id}
        if document.group:
            metadata["group"] = document.group
        body: JsonObject = {
            "type": "article",
            "title": (document.title.strip() or document.eval_id)[:500],
            "content": document.text if document.text.strip() else document.title,
            "collection": collection,
            "metadata": metadata,
        }
        try:
            await gateway.call("POST", "/v1/documents", body=body, headers={"Idempotency-Key": key})
        except CliError as error:
            error.detail = f"{error.detail} (document {document.eval_id})".strip()
            raise
        done += 1
        progress("upload", done, total)

    await gateway.for_each(documents, put)


async def _listed(gateway: Gateway, collection: str) -> dict[int, str]:
    known: dict[int, str] = {}

    def note(document: JsonObject) -> None:
        number, eval_id = get_int(document, "id"), get_str(get_object(document, "metadata"), _EVAL_ID)
        if number is not None and eval_id:
            known[number] = eval_id

    await _list(gateway, {"collection": collection}, note)
    return known


async def _wait_until_ready(gateway: Gateway, collection: str, known: dict[int, str], progress: Progress) -> None:
    total, least, since = len(known), len(known) + 1, time.monotonic()
    while True:
        waiting = 0
        for status in ("pending", "processing"):
            waiting += await _count(gateway, collection, status)
        progress("ingest", max(0, total - waiting), total)
        if not waiting:
            break
        if waiting < least:
            least, since = waiting, time.monotonic()
        elif time.monotonic() - since > _PATIENCE:
            raise EvaluationError(f"{waiting} of {total} documents have been waiting for {_PATIENCE:.0f} s")
        await asyncio.sleep(_POLL_SECONDS)
    failed: list[str] = []

    def note(document: JsonObject) -> None:
        failed.append(get_str(get_object(document, "metadata"), _EVAL_ID))

    await _list(gateway, {"collection": collection, "status": "failed"}, note)
    if failed:
        named = ", ".join(failed[:3])
        raise EvaluationError(
            f"{len(failed)} of {total} documents failed to ingest ({named}); the figures would be too low"
        )


async def _count(gateway: Gateway, collection: str, status: str) -> int:
    seen = 0

    def note(_document: JsonObject) -> None:
        nonlocal seen
        seen += 1

    await _list(gateway, {"collection": collection, "status": status}, note)
    return seen


async def _list(gateway: Gateway, wanted: dict[str, str], note: Callable[[JsonObject], None]) -> None:
    token = ""
    while True:
        page = await gateway.call("GET", "/v1/documents", params={**wanted, "page_size": _PAGE, "page_token": token})
        for document in get_objects(page, "documents"):
            note(document)
        token = get_str(page, "next_page_token")
        if not token:
            return
