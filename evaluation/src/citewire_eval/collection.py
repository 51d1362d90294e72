"""The corpus as a collection of the library: uploaded once, and recognised later by its fingerprint."""

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from citewire_cli.errors import CliError
from citewire_cli.jsonio import JsonObject, get_int, get_object, get_objects, get_str
from citewire_eval.client import EvaluationError, Progress, RetryingClient
from citewire_eval.datasets.model import Dataset, Document

GROUP_FIELD = "metadata.group"
_PAGE_SIZE = 1000
_POLL_SECONDS = 0.5
_PATIENCE_SECONDS = 600.0
"""How long to wait for the ingest without any progress."""


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection that holds the corpus; `doc_ids` maps the library's document numbers to the data set's ids."""

    name: str
    """"" for the whole library."""
    doc_ids: dict[int, str]

    @property
    def scope(self) -> JsonObject:
        """The part of a request that restricts it to this collection."""
        return {"collection": self.name} if self.name else {}


def collection_name(dataset: Dataset) -> str:
    """The name of the collection for exactly this corpus."""
    label = re.sub(r"[^\w.-]+", "-", dataset.name).strip("-") or dataset.form
    return f"eval-{label[:100]}-{dataset.fingerprint}"


async def load_corpus(client: RetryingClient, dataset: Dataset, progress: Progress) -> Collection:
    """Uploads the missing documents of the corpus and waits until all documents can be searched.

    Raises:
        EvaluationError: Documents failed to ingest, or the ingest makes no progress.
        CliError: The gateway refused, or is gone.
    """
    name = collection_name(dataset)
    doc_ids = await _read_doc_ids(client, name)
    # A remembered Idempotency-Key returns a document that may have been deleted since: in that case upload again
    # with new keys.
    for key_suffix in ("", f"/{time.time_ns():x}"):
        if missing := _missing(dataset, doc_ids):
            await _upload(client, name, missing, len(dataset.documents), key_suffix, progress)
            doc_ids = await _read_doc_ids(client, name)
    if missing := _missing(dataset, doc_ids):
        raise EvaluationError(f"{len(missing)} documents were accepted but aren't listed, such as {missing[0].doc_id}")
    await _wait_until_ready(client, name, len(doc_ids), progress)
    return Collection(name, doc_ids)


async def find_collection(client: RetryingClient, dataset: Dataset, name: str) -> Collection:
    """Finds the judged documents in a collection ("" for the library) by id, file name or title.

    Raises:
        EvaluationError: A judged document doesn't exist or isn't ready, or two documents have its name.
        CliError: The gateway refused, or is gone.
    """
    documents = {
        number: document
        async for document in _documents(client, name)
        if (number := get_int(document, "id")) is not None
    }
    doc_ids = {number: f"#{number}" for number in documents}
    for doc_id in sorted({doc_id for question in dataset.questions for doc_id in question.judged}):
        number = _find(doc_id, documents, name)
        if doc_ids[number] != f"#{number}":
            raise EvaluationError(f"{doc_ids[number]!r} and {doc_id!r} both refer to document {number}")
        doc_ids[number] = doc_id
    return Collection(name, doc_ids)


def _missing(dataset: Dataset, doc_ids: dict[int, str]) -> list[Document]:
    present = set(doc_ids.values())
    return [document for document in dataset.documents if document.doc_id not in present]


def _find(doc_id: str, documents: dict[int, JsonObject], collection: str) -> int:
    for key in ("id", "file_name", "title"):
        numbers = [number for number, document in documents.items() if get_str(document, key) == doc_id]
        if len(numbers) > 1:
            raise EvaluationError(f"{len(numbers)} documents of {collection} have the {key} {doc_id!r}; judge by id")
        if numbers:
            if get_int(documents[numbers[0]], "live_version") is None:
                raise EvaluationError(f"the document {doc_id!r} of {collection} isn't ready")
            return numbers[0]
    raise EvaluationError(f"no document of {collection} has the id, file name or title {doc_id!r}")


async def _upload(
    client: RetryingClient,
    collection: str,
    documents: Sequence[Document],
    total: int,
    key_suffix: str,
    progress: Progress,
) -> None:
    done = total - len(documents)

    async def put(document: Document) -> None:
        nonlocal done
        key = hashlib.sha256(f"{collection}/{document.doc_id}{key_suffix}".encode()).hexdigest()
        metadata: JsonObject = {"eval_id": document.doc_id}
        if document.group:
            metadata["group"] = document.group
        body: JsonObject = {
            "type": "article",
            "title": (document.title.strip() or document.doc_id)[:500],
            "content": document.text if document.text.strip() else document.title,
            "collection": collection,
            "metadata": metadata,
        }
        try:
            await client.call("POST", "/v1/documents", body=body, headers={"Idempotency-Key": key})
        except CliError as error:
            error.detail = f"{error.detail} (document {document.doc_id})".strip()
            raise
        done += 1
        progress("upload", done, total)

    await client.for_each(documents, put)


async def _wait_until_ready(client: RetryingClient, collection: str, total: int, progress: Progress) -> None:
    least, progress_at = total + 1, time.monotonic()
    while True:
        waiting = 0
        for status in ("pending", "processing"):
            waiting += len([document async for document in _documents(client, collection, status)])
        progress("ingest", max(0, total - waiting), total)
        if not waiting:
            break
        if waiting < least:
            least, progress_at = waiting, time.monotonic()
        elif time.monotonic() - progress_at > _PATIENCE_SECONDS:
            raise EvaluationError(f"{waiting} of {total} documents have been waiting for {_PATIENCE_SECONDS:.0f} s")
        await asyncio.sleep(_POLL_SECONDS)
    failures = [_doc_id(document) async for document in _documents(client, collection, "failed")]
    if failures:
        examples = ", ".join(failures[:3])
        raise EvaluationError(
            f"{len(failures)} of {total} documents failed to ingest ({examples}); the figures would be too low"
        )


async def _read_doc_ids(client: RetryingClient, collection: str) -> dict[int, str]:
    return {
        number: doc_id
        async for document in _documents(client, collection)
        if (number := get_int(document, "id")) is not None and (doc_id := _doc_id(document))
    }


def _doc_id(document: JsonObject) -> str:
    return get_str(get_object(document, "metadata"), "eval_id")


async def _documents(client: RetryingClient, collection: str, status: str = "") -> AsyncGenerator[JsonObject]:
    """Lists the documents of a collection page by page, only those with `status` if it is given."""
    filters = {name: value for name, value in (("collection", collection), ("status", status)) if value}
    token = ""
    while True:
        params: dict[str, str | int] = {**filters, "page_size": _PAGE_SIZE, "page_token": token}
        page = await client.call("GET", "/v1/documents", params=params)
        for document in get_objects(page, "documents"):
            yield document
        token = get_str(page, "next_page_token")
        if not token:
            return
