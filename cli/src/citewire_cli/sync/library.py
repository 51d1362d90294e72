"""The documents that came from a source: what a folder is compared with."""

import json
from collections.abc import Callable
from contextlib import aclosing

from citewire_cli.api import Api
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.files import Source
from citewire_cli.ingest import persistently
from citewire_cli.jsonio import JsonObject, get_object, get_str, get_texts
from citewire_cli.library import EVER, every_document
from citewire_cli.sync.plan import Plan, SyncFile, compare, document_id

SOURCE_FIELD = "sync_source"
"""Where a document's metadata names the source that it came from."""


class SyncedDocuments:
    """The documents of one source in one collection; `KnownDocuments` for what is uploaded after a comparison."""

    def __init__(self, api: Api, name: str, collection: str) -> None:
        """Knows nothing yet.

        Args:
            api: the gateway.
            name: the source's name, which its documents bear in their metadata.
            collection: the collection; documents of the same source in another are left alone.
        """
        self._api = api
        self._name = name
        self._collection = collection
        self._documents: list[JsonObject] = []
        self._files: dict[str, SyncFile] = {}
        self._by_path: dict[str, JsonObject] = {}

    def __len__(self) -> int:
        """Number of documents when they were read."""
        return len(self._documents)

    async def read(self) -> None:
        """Reads them anew.

        Raises:
            CliError: as `Api.call`.
        """
        condition = {"field": f"metadata.{SOURCE_FIELD}", "op": "eq", "value": self._name}
        filters = EVER | {"collection": self._collection, "filter": json.dumps(condition)}
        by_id: dict[int, JsonObject] = {}
        async with aclosing(every_document(self._api, filters)) as documents:
            async for document in documents:
                if get_str(get_object(document, "metadata"), SOURCE_FIELD) == self._name:
                    by_id[document_id(document)] = document
        self._documents = sorted(by_id.values(), key=_age, reverse=True)

    def compare(self, files: dict[str, SyncFile], unseen: Callable[[str], bool]) -> Plan:
        """The steps after which the library contains these files; `find` and `named` use them from now on."""
        self._files = files
        self._by_path = {get_str(document, "file_name"): document for document in reversed(self._documents)}
        return compare(files, self._documents, unseen)

    async def change(self, file: SyncFile, document: JsonObject) -> None:
        """Sets a document's path, URL and readers to those of a file.

        Raises:
            CliError: as `Api.call`.
        """
        body: JsonObject = {}
        if get_str(document, "file_name") != file.source.name:
            body["file_name"] = file.source.name
        if get_str(document, "url") != file.url:
            body["url"] = file.url or None
        if get_texts(document, "readers") != list(file.readers):
            body["readers"] = list(file.readers)
        path = f"/v1/documents/{document_id(document)}"
        await persistently(lambda: self._api.call("PATCH", path, body=body))

    async def delete(self, document: JsonObject) -> None:
        """Deletes a document, which may be gone already.

        Raises:
            CliError: as `Api.call`.
        """
        try:
            await persistently(lambda: self._api.call("DELETE", f"/v1/documents/{document_id(document)}"))
        except CliError as error:
            if error.code is not ExitCode.NOT_FOUND:
                raise

    def find(self, source: Source, sha256: str) -> JsonObject | None:
        """See `KnownDocuments`."""
        document = self._by_path.get(source.name)
        return document if document is not None and get_str(document, "sha256") == sha256 else None

    def named(self, source: Source) -> int | None:
        """See `KnownDocuments`."""
        document = self._by_path.get(source.name)
        return None if document is None else document_id(document)

    def form(self, source: Source) -> dict[str, str]:
        """See `KnownDocuments`."""
        file = self._files[source.name]
        form = {"path": source.name, "metadata": json.dumps({SOURCE_FIELD: self._name})}
        if file.url:
            form["url"] = file.url
        if file.readers:
            form["readers"] = json.dumps(list(file.readers))
        return form


def _age(document: JsonObject) -> tuple[str, int]:
    return get_str(document, "created_at"), document_id(document)
